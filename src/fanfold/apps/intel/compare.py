"""The synthesis by rules: one matrix of all products, what stands out, and who is missing."""

from __future__ import annotations

from collections import Counter
from typing import Any

from reader import FIELDS

NOT_STATED = "not stated"


def products(given: dict[str, Any]) -> dict[str, Any]:
    """The member's function: what the members found, and those of whom nothing was found."""
    rows = [row_of(part["value"]) for part in given["parts"]]
    return {
        "matrix": rows,
        "missing": [missing(one) for one in given["missing"]],
        "summary": _summary(rows),
        "evidence": [
            {"product": part["value"]["product"], **fact}
            for part in given["parts"]
            for fact in part["value"]["facts"]
        ],
    }


def row_of(found: dict[str, Any]) -> dict[str, str]:
    """A product's facts as a row. What the material does not speak of is not stated, which is no `no`."""
    facts = {fact["field"]: fact["value"] for fact in found["facts"]}
    return {"product": found["product"], **dict.fromkeys(FIELDS, NOT_STATED), **facts}


def missing(one: dict[str, Any]) -> dict[str, str]:
    why = "; ".join(one["reasons"]) or one["state"] or "not reached"
    return {"product": one["id"], "why": why}


def _summary(rows: list[dict[str, str]]) -> list[str]:
    if not rows:
        return []
    said = [_counted("licence", rows), _counted("language", rows)]
    for field, words, note in (
        ("since", "First commit earliest", ""),
        (
            "data_end",
            "Data end earliest",
            "; that is where the snapshot ends, later work is not known",
        ),
    ):
        known = [row for row in rows if row[field] != NOT_STATED]
        if known and (first := min(known, key=lambda row: row[field])):
            alike = [row["product"] for row in known if row[field] == first[field]]
            if len(alike) < len(known):
                said.append(f"{words}: {', '.join(alike)} ({first[field]}){note}.")
    numbers = [row for row in rows if row["commits"].isdigit()]
    if numbers:
        most = max(numbers, key=lambda row: int(row["commits"]))
        said.append(f"Most commits: {most['product']} ({int(most['commits']):,}).")
    return said


def _counted(field: str, rows: list[dict[str, str]]) -> str:
    many = Counter(row[field] for row in rows)
    told = ", ".join(f"{value} ({n})" for value, n in many.most_common())
    return f"{field.capitalize()}: {told}."
