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


def known() -> dict[str, dict[str, list[int]]]:
    found: dict[str, dict[str, list[int]]] = {"fitting": {}, "reporting": {}}
    if FILE.exists():
        found |= json.loads(FILE.read_text(encoding="utf-8"))
    return found


def counted(
    decisions: list[dict[str, Any]], gold: dict[str, str]
) -> dict[str, dict[str, list[int]]]:
    """By half and agreement: how many were right, of how many."""
    found: dict[str, dict[str, list[int]]] = {"fitting": {}, "reporting": {}}
    for one in decisions:
        if one["decision"]:
            own = found[half(one["id"])].setdefault(agreement(one), [0, 0])
            own[0] += one["decision"] == gold[one["id"]]
            own[1] += 1
    return {name: dict(sorted(own.items())) for name, own in found.items()}


def half(id: str) -> str:
    return "fitting" if calibrates(id) else "reporting"


def agreement(one: dict[str, Any]) -> str:
    return f"{one['agreed']} of {one['answered']}"


def chance(one: dict[str, Any], known: dict[str, dict[str, list[int]]]) -> dict[str, Any] | None:
    """Of a decision, as measured on the other half: the share that was right with its 95 % interval."""
    other = known["reporting" if half(one["id"]) == "fitting" else "fitting"]
    right, of = other.get(agreement(one), [0, 0])
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
