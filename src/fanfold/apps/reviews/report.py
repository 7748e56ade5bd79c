"""The report that a person reads, and the findings as records: both of what the tree came to."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from textwrap import shorten, wrap
from typing import Any

from fanfold import FanfoldError, read_items

REVIEWS = Path(__file__).parent / "data" / "reviews.csv"  # the plan's input, packed or not
LABELS = ("positive", "neutral", "negative")
NOT_JUDGED = "not judged"
FEW = 100  # reviews of a department from which its rate is compared
FIRST = 12  # complaints that the report begins with
ASPECTS = 8  # aspects
QUOTE = 260  # characters of them
QUOTED = 3  # complaints that are shown in a customer's words there
MOST = 40  # aspects of which all ids are listed
WIDE = 98  # columns of a terminal
MORE = "<!-- more -->"  # `fanfold demo` prints what stands before this line
LEAST = 5  # reviews behind an aspect that findings.json has; summary.json has all
STARS = "Stars are what the words suggest, not what the customer gave."
MEASURED = (
    Path(__file__).parent / "weights" / "measured.json"
)  # by fit.py, on what was not fitted on

Given = dict[str, Any]
Rows = dict[str, dict[str, str]]


def findings(given: Given) -> list[dict[str, Any]]:
    """Complaints, then aspects, the most frequent first, each with the reviews that it rests on.
    Aspects that hardly anybody speaks of are left out."""
    read, rows = given["steps"]["reading"], _read_rows(given)
    found = [_record("complaint", one["complaint"], one["ids"], rows) for one in read["complaints"]]
    for one in read["aspects"]:
        both = list(dict.fromkeys([*one["praised"], *one["criticised"]]))
        sides = {"praised": len(one["praised"]), "criticised": len(one["criticised"])}
        if len(both) >= min(LEAST, len(rows)):
            found.append(_record("aspect", one["aspect"], both, rows) | sides)
    return sorted(found, key=lambda one: (one["kind"] != "complaint", -one["reviews"], one["name"]))


def _record(kind: str, name: str, ids: list[str], rows: Rows) -> dict[str, Any]:
    by = Counter(rows[id]["department"] or "other" for id in ids if id in rows)
    all_of = Counter(row["department"] or "other" for row in rows.values())
    return {
        "kind": kind, "name": name, "reviews": len(ids), "share": round(len(ids) / len(rows), 4),
        "departments": dict(by.most_common()),
        "department_shares": {one: round(many / all_of[one], 4) for one, many in by.most_common()},
        "ids": ids,
    }  # fmt: skip


def _rows(given: Given) -> Rows:
    """The plan's input again: what was read has ids only."""
    found = {
        row["id"]: {name: row.get(name) or "" for name in ("department", "title", "text")}
        for row in read_items(REVIEWS, "id")
    }
    for one in given["steps"]["reading"]["reviews"]:
        if one["id"] not in found:
            what = f"{REVIEWS.name} has no review {one['id']}"
            raise FanfoldError(f"{what}: REVIEWS in report.py must name the plan's input")
    return found


def _read_rows(given: Given) -> Rows:
    """Those that rates are of: read and judged."""
    judged = [one["id"] for one in given["steps"]["reading"]["reviews"] if _judged(one)]
    every = _rows(given)
    return {id: every[id] for id in judged if id in every} or every


def _judged(review: dict[str, Any]) -> bool:
    return bool(review["sentiment"] != NOT_JUDGED)


# ── in words ─────────────────────────────────────────────────────────────────────────────────


def told(given: Given) -> str:
    """The report, as Markdown."""
    read, rows, found = given["steps"]["reading"], _rows(given), findings(given)
    complaints = [one for one in found if one["kind"] == "complaint"]
    aspects = [one for one in found if one["kind"] == "aspect"]
    stars = {review["id"]: review["stars"] or 0.0 for review in read["reviews"]}
    lines = [*_head(read, rows), "", *_departments(read, rows), ""]
    lines += ["## What they complain about", "", *_complaints(complaints, _read_rows(given)), ""]
    lines += [
        "## What they speak about",
        "",
        *_aspects(aspects[:ASPECTS]),
        "",
        "## In their words",
        "",
    ]
    lines += [*_quotes(complaints, stars, rows)]
    lines += ["", MORE, "", *_behind(complaints, aspects, rows)]
    return "\n".join(lines)


def _head(read: Given, rows: Rows) -> Iterator[str]:
    there = {review["id"] for review in read["reviews"]}
    unread = [id for id in rows if id not in there]
    yield f"# What {len(there):,} customers say"
    yield ""
    if unread:
        named = ", ".join(unread[:20]) + (f" and {len(unread) - 20:,} more" if unread[20:] else "")
        yield from wrap(f"**{len(unread):,} reviews do not stand behind this: {named}.**", WIDE)
    else:
        yield f"All {len(rows):,} reviews stand behind this; none was left out."
    silent = [one["id"] for one in read["reviews"] if not _judged(one)]
    if silent:
        named = ", ".join(silent[:8]) + (f" and {len(silent) - 8:,} more" if silent[8:] else "")
        said = f"{len(silent):,} are not judged, no words or another language: {named}. No rate counts them."
        yield from wrap(said, WIDE)
    yield from wrap(f"Read by {read['by']}. {STARS}", WIDE)
    if "weights" in read["by"]:
        yield from wrap(_how_right(), WIDE)


@cache
def _how_right() -> str:
    counts = json.loads(MEASURED.read_text(encoding="utf-8"))
    judged, aspects, signs = (
        f"{right / of:.0%}"
        for right, of in (counts[one] for one in ("sentiment", "aspects", "signs"))
    )
    return (
        f"On reviews that these were not made with, {judged} are judged as their stars say. Aspects are "
        f"less sure: people had marked {aspects} of those that were found, and praise or blame is right in "
        f"{signs} (sentences about electronics). Nobody has checked the complaints."
    )


def _departments(read: Given, rows: Rows) -> Iterator[str]:
    """How content they are, and about how many stars they would give."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    judged = [review for review in read["reviews"] if _judged(review)]
    for review in judged:
        groups[rows[review["id"]]["department"] or "other"].append(review)
    order = sorted(groups, key=lambda name: -len(groups[name]))
    if list(groups) == ["other"]:
        order = []  # the reviews state no department
    yield "| department | reviews | positive | neutral | negative | stars |"
    yield "|------------|--------:|---------:|--------:|---------:|------:|"
    for name, own in [*((name, groups[name]) for name in order), ("**all**", judged)]:
        yield _department(name, own)


def _department(name: str, own: list[dict[str, Any]]) -> str:
    counts = Counter(review["sentiment"] for review in own)
    many = max(1, len(own))
    shares = " | ".join(f"{counts[label] / many:{len(label)}.0%}" for label in LABELS)
    stars = sum(review["stars"] or 0.0 for review in own) / many
    return f"| {name:10} | {len(own):7,} | {shares} | {stars:5.2f} |"


def _complaints(found: list[dict[str, Any]], rows: Rows) -> Iterator[str]:
    """Each with the two departments in which it is most frequent; small ones say too little."""
    sizes = Counter(row["department"] or "other" for row in rows.values())
    yield "| complaint           | reviews |  rate | most frequent in            | for example           |"
    yield "|---------------------|--------:|------:|-----------------------------|-----------------------|"
    for one in found[:FIRST]:
        rates = [
            (share, name) for name, share in one["department_shares"].items() if sizes[name] >= FEW
        ]
        where = ", ".join(f"{name} {share:.1%}" for share, name in sorted(rates, reverse=True)[:2])
        where = where if len(sizes) > 1 else ""
        yield (
            f"| {one['name']:19} | {one['reviews']:7,} | {one['share']:5.1%} | {where:27} "
            f"| {', '.join(one['ids'][:3]):21} |"
        )


def _aspects(found: list[dict[str, Any]]) -> Iterator[str]:
    yield "| aspect     | reviews |  rate | praised | criticised | blame |"
    yield "|------------|--------:|------:|--------:|-----------:|------:|"
    for one in found:
        both = max(1, one["praised"] + one["criticised"])
        yield (
            f"| {one['name']:10} | {one['reviews']:7,} | {one['share']:5.1%} | {one['praised']:7,} "
            f"| {one['criticised']:10,} | {one['criticised'] / both:5.0%} |"
        )


def _quotes(complaints: list[dict[str, Any]], stars: dict[str, float], rows: Rows) -> Iterator[str]:
    """For each of the first complaints a review that is about it and little else, short enough to be
    shown whole, and not content."""
    many = Counter(id for one in complaints for id in one["ids"])
    for one in complaints[:QUOTED]:
        said = {
            id: ": ".join(filter(None, (rows[id]["title"], rows[id]["text"]))) for id in one["ids"]
        }
        order = ((len(said[id]) > QUOTE, many[id], stars.get(id, 5.0), id) for id in said)
        id = min(order)[-1]
        text = shorten(said[id], QUOTE, placeholder=" […]")
        yield from wrap(f"- **{one['name']}** [{id}] {text}", WIDE, subsequent_indent="  ")


def _behind(
    complaints: list[dict[str, Any]], aspects: list[dict[str, Any]], rows: Rows
) -> Iterator[str]:
    yield "## What it rests on"
    yield ""
    blamed = {id for one in complaints for id in one["ids"]}
    yield f"{len(rows) - len(blamed):,} of {len(rows):,} reviews stand behind no complaint."
    yield ""
    for one in complaints:
        yield f"- **{one['name']}**: {one['reviews']:,} reviews: {', '.join(one['ids'])}"
    yield ""
    yield f"The {min(MOST, len(aspects))} aspects that are spoken of most; findings.json has the ids."
    yield ""
    for one in aspects[:MOST]:
        yield f"- **{one['name']}**: {one['reviews']:,} reviews ({one['share']:.1%})"
