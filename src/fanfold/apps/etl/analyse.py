"""The stage `analyse`: what was changed, by column and rule, and what the table is like now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from statistics import median
from typing import Any

EXAMPLES = 3


def merged(parts: Iterable[Any]) -> dict[str, Any]:
    """The reduce of the stage `clean`: one list of all changes, one of all that is suspect."""
    replies = [part.value for part in parts]
    return {
        name: [one for reply in replies for one in reply[name]] for name in ("changes", "suspect")
    }


def table(item: dict[str, Any]) -> dict[str, Any]:
    """The member's function."""
    fetched, learned, cleaned = (item["steps"][name] for name in ("fetch", "learn", "clean"))
    columns, before = fetched["columns"], fetched["rows"]
    after = apply(columns, before, cleaned["changes"])
    return {
        "rows": len(before),
        "pages": fetched["pages"],
        "requests": fetched["requests"],
        "suspicious": learned["suspicious"],
        "fixed": fixed(cleaned["changes"]),
        "suspect": _suspect(cleaned["suspect"]),
        "unjudged": learned["unjudged"],
        "ragged": fetched["ragged"],
        "columns": [_column(name, n, before, after) for n, name in enumerate(columns)],
        "dependencies": [
            _agreement(one, columns, before, after) for one in learned["dependencies"]
        ],
    }


def cleaned(item: dict[str, Any]) -> list[dict[str, str]]:
    """The cleaned table, for its file."""
    fetched, changes = item["steps"]["fetch"], item["steps"]["clean"]["changes"]
    rows = apply(fetched["columns"], fetched["rows"], changes)
    return [dict(zip(fetched["columns"], row, strict=True)) for row in rows]


def apply(
    columns: list[str], rows: list[list[str]], changes: list[dict[str, Any]]
) -> list[list[str]]:
    """The table with its changes. Only what a change found in its cell is written over."""
    place = {name: n for n, name in enumerate(columns)}
    after = [list(row) for row in rows]
    for change in changes:
        row, n = after[change["row"]], place[change["column"]]
        if row[n] == change["from"]:
            row[n] = change["to"]
    return after


def fixed(changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One record for each column and rule, the most cells first, with examples that differ."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for change in changes:
        groups.setdefault((change["column"], change["rule"]), []).append(change)
    ranked = sorted(groups.items(), key=lambda group: -len(group[1]))
    return [
        {"column": column, "rule": rule, "cells": len(found), "examples": _examples(found)}
        for (column, rule), found in ranked
    ]


def _examples(changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    different = {(one["from"], one["to"]): one for one in reversed(changes)}
    return list(reversed(different.values()))[:EXAMPLES]


def _suspect(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By column: how many, and the first of them."""
    many = Counter(cell["column"] for cell in cells)
    first = {cell["column"]: cell for cell in reversed(cells)}
    return [{"cells": n, **first[column]} for column, n in many.most_common()]


def _column(name: str, n: int, before: list[list[str]], after: list[list[str]]) -> dict[str, Any]:
    values = [row[n] for row in after if row[n]]
    numbers = [number for value in values if (number := _number(value)) is not None]
    told: dict[str, Any] = {
        "column": name,
        "different": [len({row[n] for row in rows if row[n]}) for rows in (before, after)],
        "empty": [sum(not row[n] for row in rows) for rows in (before, after)],
    }
    if numbers and len(numbers) == len(values):
        told |= {"least": min(numbers), "median": median(numbers), "most": max(numbers)}
    return told


def _number(value: str) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None


def _agreement(
    one: dict[str, Any], columns: list[str], before: list[list[str]], after: list[list[str]]
) -> dict[str, Any]:
    """The share of rows that go with the most of those that agree with them, before and after."""
    by, of = columns.index(one["by"]), columns.index(one["of"])
    return {**one, "agree": [_share(rows, by, of) for rows in (before, after)]}


def _share(rows: list[list[str]], by: int, of: int) -> float:
    groups: dict[str, Counter[str]] = {}
    for row in rows:
        groups.setdefault(row[by], Counter())[row[of]] += 1
    return round(sum(max(counts.values()) for counts in groups.values()) / max(len(rows), 1), 4)
