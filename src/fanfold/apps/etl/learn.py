"""The stage `learn`: what a table says about itself, and which of its cells do not fit that.

Nothing is decided here. Cells that do not fit get signs, with what the rest of the table says about
them; the stage `clean` decides, by rules or by a model, and both see the same.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import depend
import forms
import joined
from near import Speller

PART = 25
SHOWN = 4
COMMON_SHOWN = 8
RARE = 2
RARE_SHARE = 0.005
FEW = 20  # rows; of fewer nothing can be learned
REPEATED = 3


class Peers(NamedTuple):
    """What the rows that agree in one column say about another; `leads`: what counts of it."""

    kind: str
    by: int
    of: int
    holds: float
    groups: depend.Groups
    first_hand: dict[str, str]
    leads: dict[str, str]


class Learned(NamedTuple):
    """A table with its values in their usual form, and all that was learned of it."""

    columns: list[str]
    raw: list[list[str]]
    plain: list[list[str]]
    unread: set[tuple[int, int]]
    forms: list[forms.Form]
    splits: dict[tuple[int, int], dict[str, str]]
    peers: dict[int, list[Peers]]
    spellers: dict[int, Speller]


def table(item: dict[str, Any]) -> dict[str, Any]:
    """The member's function: the table as it was fetched, taken apart into suspicious rows."""
    fetched = item["steps"]["fetch"]
    known = learn(fetched["columns"], fetched["rows"])
    ragged = {one["row"] for one in fetched.get("ragged", [])}
    rows, columns = [row for row in signs(known) if row["row"] not in ragged], profile(known)
    return {
        "columns": columns,
        "unjudged": unjudged(known),
        "dependencies": _told(known),
        "rows": len(known.raw),
        "suspicious": len(rows),
        "parts": [_part(columns, rows[n : n + PART]) for n in range(0, len(rows), PART)],
    }


def learn(columns: list[str], rows: list[list[str]], first_hand: bool = True) -> Learned:
    """Without `first_hand` every report counts the same, to measure what that rule does."""
    width = len(columns)
    counts = [Counter(row[n] for row in rows) for n in range(width)]
    found = [forms.learn(one) for one in counts]
    plain, unread = _formed(rows, found, counts)
    splits = _split(plain, columns)
    peers: dict[int, list[Peers]] = {}
    for one in depend.dependencies(plain, width):
        peers.setdefault(one.of, []).append(_peers(plain, one, first_hand))
    words = [n for n in range(width) if found[n]["kind"] in ("text", "code")]
    spellers = {n: Speller(Counter(row[n] for row in plain if row[n])) for n in words}
    return Learned(columns, rows, plain, unread, found, splits, peers, spellers)


def _formed(
    rows: list[list[str]], found: list[forms.Form], counts: list[Counter[str]]
) -> tuple[list[list[str]], set[tuple[int, int]]]:
    """Values in the usual form; what says nothing is empty here. Those that cannot be read stay as
    they are; of them the rare ones are suspicious."""
    read = [
        {value: "" if forms.says_nothing(value) else forms.read(value, form) for value in one}
        for form, one in zip(found, counts, strict=True)
    ]
    rare = max(RARE, RARE_SHARE * len(rows))
    plain, unread = [], set()
    for at, row in enumerate(rows):
        put = []
        for n, value in enumerate(row):
            known = read[n][value]
            if known is None and counts[n][value] <= rare:
                unread.add((at, n))
            put.append(value if known is None else known)
        plain.append(put)
    return plain, unread


def _split(plain: list[list[str]], columns: list[str]) -> dict[tuple[int, int], dict[str, str]]:
    """Cells that hold two are taken apart, so that what is learned next is learned of both."""
    found = joined.joins(plain, len(columns))
    known = joined.known_values(plain, found)
    done: dict[tuple[int, int], dict[str, str]] = {}
    for at, row in enumerate(plain):
        for full, empty, end in found:
            parts = None if row[empty] else joined.apart(row[full], end, known[empty])
            if parts is not None:
                row[full], row[empty] = parts
                done[at, full] = {"with": columns[empty], "to": parts[0]}
                done[at, empty] = {"with": columns[full], "to": parts[1]}
    return done


# ── what the others say ──────────────────────────────────────────────────────────────────────


def _peers(plain: list[list[str]], one: depend.Dependency, own: bool) -> Peers:
    first_hand = {} if one.source is None or not own else _first_hand(plain, one, one.source)
    counted = depend.groups(plain, one.by, one.of)
    leads = {value: max(counts, key=counts.__getitem__) for value, counts in counted.items()}
    return Peers(one.kind, one.by, one.of, one.holds, counted, first_hand, leads | first_hand)


def _first_hand(plain: list[list[str]], one: depend.Dependency, source: int) -> dict[str, str]:
    """What a thing says about itself: the report of a source whose name stands in the thing's own
    (`aa` on AA-3859-IAH-ORD), of several the one that stands first. All others have it from there."""
    found: dict[str, tuple[int, str]] = {}
    for row in plain:
        thing, name = row[one.by], row[source].lower()
        words = re.split(r"[\W_]+", thing.lower())
        if row[one.of] and len(name) > 1 and name in words:
            report = (words.index(name), row[one.of])
            found[thing] = min(report, found.get(thing, report))
    return {thing: value for thing, (_, value) in found.items()}


def _said(peers: Peers, row: list[str], columns: list[str]) -> dict[str, Any]:
    counts = peers.groups[row[peers.by]]
    said = {"by": columns[peers.by], "kind": peers.kind, "holds": peers.holds}
    said |= {"said": dict(counts.most_common(SHOWN)), "of": counts.total()}
    own = peers.first_hand.get(row[peers.by])
    return said if own is None else {**said, "first_hand": own}


def _disagree(told: list[Peers], row: list[str], value: str) -> bool:
    """Reports that differ, or rules of which none stands by the value."""
    by_rules = [peers.leads[row[peers.by]] for peers in told if peers.kind == "rule"]
    reports = (peers for peers in told if peers.kind == "reports")
    reported = any(peers.leads[row[peers.by]] != value for peers in reports)
    return reported or (bool(by_rules) and value not in by_rules)


# ── cells with signs ─────────────────────────────────────────────────────────────────────────


def signs(known: Learned) -> Iterator[dict[str, Any]]:
    """The rows in which something does not fit, each with its cells in question."""
    for at, row in enumerate(known.raw):
        doubted = _doubted(known, known.plain[at])
        found = [sign for n in range(len(row)) if (sign := _sign(known, at, n, doubted))]
        if found:
            yield {"row": at, "cells": dict(zip(known.columns, row, strict=True)), "signs": found}


def _doubted(known: Learned, row: list[str]) -> set[int]:
    """Cells that contradict most of what depends on them: it is they that are wrong, and what they
    say of the others does not count."""
    against, asked = Counter[int](), Counter[int]()
    for told in known.peers.values():
        for peers in told:
            said = peers.leads.get(row[peers.by]) if peers.kind == "rule" else None
            if said and row[peers.of]:
                asked[peers.by] += 1
                against[peers.by] += said != row[peers.of]
    return {by for by, n in against.items() if n >= 2 and 2 * n > asked[by]}


def _sign(known: Learned, at: int, n: int, doubted: set[int]) -> dict[str, Any] | None:
    value, row = known.raw[at][n], known.plain[at]
    plain = row[n]
    sign: dict[str, Any] = {}
    if (at, n) in known.splits:
        sign["joined"] = known.splits[at, n]
    elif plain != value and (plain or known.forms[n]["placeholders"]):
        sign["plain"] = plain
    elif (at, n) in known.unread:
        sign["unread"] = known.forms[n]["kind"]
    told = known.peers.get(n, [])
    told = [one for one in told if one.by not in doubted and row[one.by] in one.leads]
    if told and _disagree(told, row, plain):
        sign["peers"] = [_said(peers, row, known.columns) for peers in told]
        sign |= {"nothing": True} if value and not plain and "plain" not in sign else {}
    elif not told and n in known.spellers and plain and (like := known.spellers[n].like(plain)):
        sign["like"] = dict([like])
    if not sign and not told and n in known.spellers and (usual := known.spellers[n].odd(plain)):
        sign["odd"] = dict([usual])
    return {"column": known.columns[n], "value": value, **sign} if sign else None


def unjudged(known: Learned) -> list[str]:
    """Columns of which an error would not show: texts that hardly repeat, and that no other column
    depends on or speaks for. Of a table with few rows that is every column."""
    if len(known.raw) < FEW:
        return list(known.columns)
    return [
        name
        for n, name in enumerate(known.columns)
        if known.forms[n]["kind"] == "text" and n not in known.peers and not _repeats(known, n)
    ]


def _repeats(known: Learned, n: int) -> bool:
    counts = Counter(row[n] for row in known.plain if row[n])
    return 2 * sum(many for many in counts.values() if many >= REPEATED) >= counts.total() > 0


# ── as it is handed on ───────────────────────────────────────────────────────────────────────


def profile(known: Learned) -> dict[str, Any]:
    """Of each column: its form, how many values, how many empty, the commonest."""
    told = {}
    for n, name in enumerate(known.columns):
        counts = Counter(row[n] for row in known.plain)
        empty = counts.pop("", 0)
        common = [value for value, many in counts.most_common(COMMON_SHOWN) if many > 1]
        told[name] = {
            "form": {k: v for k, v in known.forms[n].items() if k not in ("units", "placeholders")},
            "different": len(counts),
            "empty": empty,
            "common": [value[:80] for value in common],
        }
    return told


def _told(known: Learned) -> list[dict[str, Any]]:
    columns = known.columns
    listed = [one for told in known.peers.values() for one in told]
    return [
        {"by": columns[one.by], "of": columns[one.of], "kind": one.kind, "holds": one.holds}
        for one in sorted(listed, key=lambda one: (one.by, one.of))
    ]


def _part(columns: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Some suspicious rows, and the profile of the columns in question there."""
    asked = {sign["column"] for row in rows for sign in row["signs"]}
    told = {name: one for name, one in columns.items() if name in asked}
    first, last = rows[0]["row"] + 1, rows[-1]["row"] + 1
    return {"id": f"rows-{first}-{last}", "columns": told, "rows": rows}
