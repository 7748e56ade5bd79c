"""The report that a person reads, and the findings as records: both of what the tree came to."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from textwrap import shorten, wrap
from typing import Any

from tables import rows

REVIEWS = Path(__file__).parent / "data" / "reviews.csv"  # the plan's input, packed or not
LABELS = ("positive", "neutral", "negative")
FIRST = 12  # aspects that the report begins with
QUOTED = 3  # complaints that are shown in a customer's words there
MOST = 40  # aspects of which all ids are listed
WIDE = 98  # columns of a terminal
MORE = "<!-- more -->"  # `fanfold demo` prints what stands before this line
LEAST = 5  # reviews behind an aspect that findings.json has; summary.json has all
STARS = "Stars are what the words suggest, not what the customer gave."
WEIGHTS = "No language model: README.md has their score."

Given = dict[str, Any]
Rows = dict[str, dict[str, str]]


def findings(given: Given) -> list[dict[str, Any]]:
    """Complaints, then aspects, the most frequent first, each with the reviews that it rests on.
    Aspects that hardly anybody speaks of are left out."""
    read, rows = given["steps"]["reading"], _rows()
    found = [_record("complaint", one["complaint"], one["ids"], rows) for one in read["complaints"]]
    for one in read["aspects"]:
        both = list(dict.fromkeys([*one["praised"], *one["criticised"]]))
        sides = {"praised": len(one["praised"]), "criticised": len(one["criticised"])}
        if len(both) >= min(LEAST, len(rows)):
            found.append(_record("aspect", one["aspect"], both, rows) | sides)
    return sorted(found, key=lambda one: (one["kind"] != "complaint", -one["reviews"], one["name"]))


def _record(kind: str, name: str, ids: list[str], rows: Rows) -> dict[str, Any]:
    by = Counter(rows[id]["department"] or "other" for id in ids if id in rows)
    return {
        "kind": kind, "name": name, "reviews": len(ids), "share": round(len(ids) / len(rows), 4),
        "departments": dict(by.most_common()), "ids": ids,
    }  # fmt: skip


def _rows() -> Rows:
    return {row["id"]: {"department": "", "title": "", **row} for row in rows(REVIEWS, "id")}


# ── in words ─────────────────────────────────────────────────────────────────────────────────


def told(given: Given) -> str:
    """The report, as Markdown."""
    read, rows, found = given["steps"]["reading"], _rows(), findings(given)
    complaints = [one for one in found if one["kind"] == "complaint"]
    aspects = [one for one in found if one["kind"] == "aspect"]
    stars = {review["id"]: review["stars"] for review in read["reviews"]}
    lines = [*_head(read, rows), "", *_departments(read, rows), ""]
    lines += ["## What they complain about", "", *_complaints(complaints), ""]
    lines += [
        "## What they speak about",
        "",
        *_aspects(aspects[:FIRST]),
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
    by = read["by"]
    yield from wrap(f"Read by {by}. {WEIGHTS if 'weights' in by else ''} {STARS}", WIDE)


def _departments(read: Given, rows: Rows) -> Iterator[str]:
    """How content they are, and about how many stars they would give."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for review in read["reviews"]:
        groups[rows[review["id"]]["department"] or "other"].append(review)
    order = sorted(groups, key=lambda name: -len(groups[name]))
    yield "| department | reviews | positive | neutral | negative | stars |"
    yield "|------------|--------:|---------:|--------:|---------:|------:|"
    for name, own in [*((name, groups[name]) for name in order), ("**all**", read["reviews"])]:
        yield _department(name, own)


def _department(name: str, own: list[dict[str, Any]]) -> str:
    counts = Counter(review["sentiment"] for review in own)
    many = max(1, len(own))
    shares = " | ".join(f"{counts[label] / many:{len(label)}.0%}" for label in LABELS)
    stars = sum(review["stars"] for review in own) / many
    return f"| {name:10} | {len(own):7,} | {shares} | {stars:5.2f} |"


def _complaints(found: list[dict[str, Any]]) -> Iterator[str]:
    """Each with the two departments that have most of it."""
    yield "| complaint           | reviews | most of them in            | for example           |"
    yield "|---------------------|--------:|----------------------------|-----------------------|"
    for one in found[:FIRST]:
        where = ", ".join(f"{name} {many}" for name, many in list(one["departments"].items())[:2])
        yield f"| {one['name']:19} | {one['reviews']:7,} | {where:26} | {', '.join(one['ids'][:3]):21} |"


def _aspects(found: list[dict[str, Any]]) -> Iterator[str]:
    yield "| aspect     | reviews | praised | criticised |"
    yield "|------------|--------:|--------:|-----------:|"
    for one in found:
        yield f"| {one['name']:10} | {one['reviews']:7,} | {one['praised']:7,} | {one['criticised']:10,} |"


def _quotes(complaints: list[dict[str, Any]], stars: dict[str, float], rows: Rows) -> Iterator[str]:
    """For each of the first complaints a review that is about it and little else, and not content."""
    many = Counter(id for one in complaints for id in one["ids"])
    for one in complaints[:QUOTED]:
        id = min(one["ids"], key=lambda id: (many[id], stars.get(id, 5.0), id))
        text = shorten(f"{rows[id]['title']}: {rows[id]['text']}", 260, placeholder=" […]")
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
