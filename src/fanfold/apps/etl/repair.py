"""The stage `clean` by rules: what the signs of a cell allow, it is changed to; else it is suspect.

A cell that is right must not be written over lightly: a change needs more evidence when the cell
holds something than when it is empty, and what any strong dependency supports is left alone.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple, TypeAlias

from near import close

Sign: TypeAlias = dict[str, Any]

FILL = 0.5
OVERWRITE = 0.6
ALONE = 0.1
FEWEST = 3


class Decision(NamedTuple):
    to: str
    rule: str
    reason: str


def rows(part: dict[str, Any]) -> dict[str, Any]:
    """The member's function: a part of a table's suspicious rows to changes and what is left."""
    changes, suspect = [], []
    for row in part["rows"]:
        for sign in row["signs"]:
            decided = decide(sign)
            cell = {"row": row["row"], "column": sign["column"], "from": sign["value"]}
            if decided is None:
                suspect.append({**cell, "why": _doubt(sign)})
            elif decided.to != sign["value"]:
                changes.append(
                    {**cell, "to": decided.to, "rule": decided.rule, "reason": decided.reason}
                )
    return {"changes": changes, "suspect": suspect}


def decide(sign: Sign) -> Decision | None:
    """None: it does not fit, but nothing says what it should be."""
    if "joined" in sign:
        split = sign["joined"]
        return Decision(split["to"], "joined", f"stood in one cell with {split['with']}")
    now: str = sign["plain"] if "plain" in sign else "" if "nothing" in sign else sign["value"]
    if told := sign.get("peers"):
        better = _by_reports(now, told) or _by_rules(now, told)
        if better is not None:
            return better
    if "plain" in sign:
        return _formed(sign, now)
    if like := sign.get("like"):
        ((value, n),) = like.items()
        return Decision(value, "spelling", f"one sign from {value}, which stands there {n} times")
    return None


def _formed(sign: Sign, now: str) -> Decision:
    if not now:
        return Decision("", "missing", f"{sign['value']} says that nothing is known")
    return Decision(now, "form", "as the column usually writes it")


def _by_reports(now: str, told: list[Sign]) -> Decision | None:
    """The thing's own report; else what more than half of them say."""
    for one in told:
        if one["kind"] != "reports":
            continue
        if own := one.get("first_hand"):
            return Decision(own, "first hand", f"{one['by']}'s own report says so")
        value, n = next(iter(one["said"].items()))
        least = FEWEST - 1 if not now else FEWEST
        share = OVERWRITE if now else FILL
        if value != now and n >= least and n >= share * one["of"]:
            reason = f"{n} of {one['of']} reports on the same {one['by']} say so"
            return Decision(value, "reports", reason)
    return None


def _by_rules(now: str, told: list[Sign]) -> Decision | None:
    """What the dependencies say together. One that stands by the cell is enough to keep it."""
    rules = [one for one in told if one["kind"] == "rule"]
    leading = [(one, *next(iter(one["said"].items()))) for one in rules]
    if not leading or (now and any(value == now for _, value, _ in leading)):
        return None
    weights: dict[str, float] = defaultdict(float)
    for one, value, n in leading:
        others = one["of"] - (1 if now else 0)
        weights[value] += one["holds"] * n / others if others else 0.0
    (value, weight), *rest = sorted(weights.items(), key=lambda pair: -pair[1])
    backing = [(one, n) for one, said, n in leading if said == value]
    if (rest and rest[0][1] > 0.5 * weight) or not _enough(now, value, backing):
        return None
    by = " and ".join(one["by"] for one, _ in backing[:2])
    n = max(n for _, n in backing)
    return Decision(value, "dependency", f"{n} rows with the same {by} say so")


def _enough(now: str, value: str, backing: list[tuple[Sign, int]]) -> bool:
    """Cases: an empty cell; a slip of the pen; another value, which must stand alone."""
    best, n = max(backing, key=lambda pair: pair[1])
    share = n / best["of"]
    if not now:
        return n >= 2 and share > 0.8
    if close(now, value):
        return n >= 2 and share >= OVERWRITE
    own = best["said"].get(now, 1)
    return (n >= FEWEST or (len(backing) > 1 and n >= 2)) and own <= max(1, ALONE * best["of"])


def _doubt(sign: Sign) -> str:
    if told := sign.get("peers"):
        one = told[0]
        said = ", ".join(f"{value} ({n})" for value, n in list(one["said"].items())[:3])
        return f"rows with the same {one['by']} say {said}"
    if usual := sign.get("odd"):
        ((value, n),) = usual.items()
        return f"one sign from {value}, which stands there {n} times"
    return f"cannot be read as a {sign['unread']}" if "unread" in sign else "does not fit"
