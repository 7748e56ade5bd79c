"""Two cells in one: a value that ends (or begins) with what the empty cell beside it should hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

LEAST = 3
SHARE = 0.5
KNOWN = 2


class Join(NamedTuple):
    """Where `empty` has nothing, `full` holds both; the other's part stands at this `end`."""

    full: int
    empty: int
    end: Literal["last", "first"]


def joins(table: Sequence[Sequence[str]], width: int) -> list[Join]:
    """Between which columns it happens: in at least half of the rows where the other is empty."""
    found = []
    for empty in range(width):
        known = _known(table, empty)
        lacking = [row for row in table if not row[empty]]
        if len(lacking) < LEAST or not known:
            continue
        for full in range(width):
            for end in ("last", "first"):
                join = Join(full, empty, end)
                many = sum(apart(row[full], end, known) is not None for row in lacking)
                if full != empty and many >= max(LEAST, SHARE * len(lacking)):
                    found.append(join)
    return found


def _known(table: Sequence[Sequence[str]], column: int) -> set[str]:
    counts = Counter(row[column] for row in table if row[column])
    return {value for value, n in counts.items() if n >= KNOWN}


def known_values(table: Sequence[Sequence[str]], found: list[Join]) -> dict[int, set[str]]:
    return {join.empty: _known(table, join.empty) for join in found}


def apart(value: str, end: str, known: set[str]) -> tuple[str, str] | None:
    """What stays, and what belongs into the other cell."""
    words = value.split()
    for n in range(1, min(3, len(words))):
        rest, part = (words[:-n], words[-n:]) if end == "last" else (words[n:], words[:n])
        if " ".join(part) in known:
            return " ".join(rest).rstrip(",;/- "), " ".join(part)
    return None
