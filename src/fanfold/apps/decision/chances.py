"""How often a decision is right, by how many agreed; `python score.py --chances` measures it anew.

`chances.json` has the counts of both halves of the questions. A decision is given those of the half
that it does not belong to, so that no decision vouches for itself.
"""

from __future__ import annotations

import json
from math import sqrt
from typing import Any

from recordings import HERE, calibrates

FILE = HERE / "chances.json"
FEW = 10  # cases; of fewer nothing is said
OTHERWISE = "the judge picked another"


Counts = dict[str, dict[str, dict[str, int]]]


def known() -> Counts:
    found: Counts = {"fitting": {}, "reporting": {}}
    if FILE.exists():
        found |= json.loads(FILE.read_text(encoding="utf-8"))
    return found


def counted(decisions: list[dict[str, Any]], gold: dict[str, str]) -> Counts:
    """By half and agreement: in how many the vote was right, and the judge, of how many; and so of those
    where they differ. Where all agree nobody judges, and what the vote says stands for both."""
    found: Counts = {"fitting": {}, "reporting": {}}
    for one in decisions:
        for name in _cells(one):
            start = {"vote": 0, "judge": 0, "of": 0}
            own = found[half(one["id"])].setdefault(name, start)
            own["vote"] += one["decision"] == gold[one["id"]]
            own["judge"] += one["judged"] == gold[one["id"]]
            own["of"] += 1
    return {name: dict(sorted(own.items())) for name, own in found.items()}


def _cells(one: dict[str, Any]) -> list[str]:
    if not one["decision"]:
        return []
    other = one["judged"] and one["judged"] != one["decision"]
    return [agreement(one), *([OTHERWISE] if other else [])]


def half(id: str) -> str:
    return "fitting" if calibrates(id) else "reporting"


def agreement(one: dict[str, Any]) -> str:
    return f"{one['agreed']} of {one['answered']}"


def chance(one: dict[str, Any], known: Counts) -> dict[str, Any] | None:
    """Of a decision by vote, as measured on the other half: the share of those with the same agreement
    that was right, with its 95 % interval."""
    return _share(one, known, agreement(one), "vote")


def judge_chance(one: dict[str, Any], known: Counts) -> dict[str, Any] | None:
    """The same of a judge who picked another than the vote; None where it did not."""
    other = one["judged"] and one["judged"] != one["decision"]
    return _share(one, known, OTHERWISE, "judge") if other else None


def _share(one: dict[str, Any], known: Counts, cell: str, by: str) -> dict[str, Any] | None:
    other = known["reporting" if half(one["id"]) == "fitting" else "fitting"]
    counts = other.get(cell, {by: 0, "of": 0})
    right, of = counts[by], counts["of"]
    if of < FEW:
        return None
    low, high = interval(right, of)
    return {"right": right, "of": of, "share": round(right / of, 3), "from": low, "to": high}


def interval(right: int, of: int) -> tuple[float, float]:
    """Wilson's, at 95 %."""
    z, share = 1.96, right / of
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    wide = z * sqrt(share * (1 - share) / of + z * z / (4 * of * of)) / (1 + z * z / of)
    return round(middle - wide, 3), round(middle + wide, 3)
