"""The synthesis by rules: one matrix of all products, what stands out, and who is missing."""

from __future__ import annotations

from collections import Counter
from typing import Any

from reader import FIELDS

YES_OR_NO = ("docker", "kubernetes", "managed_cloud")
UNKNOWN = "?"


def products(given: dict[str, Any]) -> dict[str, Any]:
    """The member's function: what the members found, and those of whom nothing was found."""
    rows = [row_of(part["value"]) for part in given["parts"]]
    return {
        "matrix": rows,
        "missing": [missing(one) for one in given["missing"]],
        "summary": _summary(rows),
    }


def row_of(found: dict[str, Any]) -> dict[str, str]:
    """A product's facts as a row. What a README does not speak of is a no; all else is unknown."""
    facts = {fact["field"]: fact["value"] for fact in found["facts"]}
    absent = {field: "no" if field in YES_OR_NO else UNKNOWN for field in FIELDS}
    return {"product": found["product"], **absent, **facts}


def missing(one: dict[str, Any]) -> dict[str, str]:
    why = "; ".join(one["reasons"]) or one["state"] or "not reached"
    return {"product": one["id"], "why": why}


def _summary(rows: list[dict[str, str]]) -> list[str]:
    if not rows:
        return []
    said = [_counted("licence", rows), _counted("language", rows)]
    for field, words in (("since", "Oldest"), ("last_active", "Not active since")):
        known = [row for row in rows if row[field] != UNKNOWN]
        if known and (first := min(known, key=lambda row: row[field])):
            alike = [row["product"] for row in known if row[field] == first[field]]
            if len(alike) < len(known):
                said.append(f"{words}: {', '.join(alike)} ({first[field]}).")
    numbers = [row for row in rows if row["commits"].isdigit()]
    if numbers:
        most = max(numbers, key=lambda row: int(row["commits"]))
        said.append(f"Most commits: {most['product']} ({int(most['commits']):,}).")
    return said


def _counted(field: str, rows: list[dict[str, str]]) -> str:
    many = Counter(row[field] for row in rows)
    told = ", ".join(f"{value} ({n})" for value, n in many.most_common())
    return f"{field.capitalize()}: {told}."
