"""Spelling: a rare value one sign away from a common one of the same column."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

RARE = 2
COMMON = 5
TIMES = 10
SHORTEST = 4
EDGES = " \t.,;:*-_#'`\"!?/|"


class Speller:
    """Knows the common values of a column. Digits are never mended: 12 and 13 are both right."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._found: dict[str, tuple[str, int] | None] = {}
        self._stems: dict[str, set[str]] = defaultdict(set)
        for value, n in counts.items():
            if n >= COMMON and len(value) >= SHORTEST:
                for stem in _stems(value):
                    self._stems[stem].add(value)

    def like(self, value: str) -> tuple[str, int] | None:
        """The one common value that a rare one may be meant for, and how often it occurs."""
        if value not in self._found:
            self._found[value] = self._look(value)
        return self._found[value]

    def _look(self, value: str) -> tuple[str, int] | None:
        n = self._counts[value]
        if n > RARE or len(value) < SHORTEST:
            return None
        bare = value.strip(EDGES)
        if bare != value and self._counts[bare] >= COMMON:
            return bare, self._counts[bare]
        near = {one for stem in _stems(value) for one in self._stems.get(stem, ()) if one != value}
        near = {one for one in near if _a_slip(value, one)}
        if len(near) != 1:
            return None
        (found,) = near
        many = self._counts[found]
        return (found, many) if many >= TIMES * n else None


def _stems(value: str) -> Iterator[str]:
    """The value itself and with each of its signs left out."""
    yield value
    for n in range(len(value)):
        yield value[:n] + value[n + 1 :]


def close(value: str, other: str, most: int = 2) -> bool:
    """At most so many signs apart, place by place, or one left out or put in."""
    if len(value) == len(other):
        return sum(a != b for a, b in zip(value, other, strict=True)) <= most
    short, long = sorted((value, other), key=len)
    return len(long) - len(short) == 1 and any(stem == short for stem in _stems(long))


def _a_slip(value: str, other: str) -> bool:
    """One sign apart, and not by a digit in the place of another or at its end."""
    if not close(value, other, 1) and not _swapped(value, other):
        return False
    ours = [sign for sign in value if sign.isdigit()]
    theirs = [sign for sign in other if sign.isdigit()]
    return ours == theirs or (len(ours) < len(theirs) and len(value) == len(other))


def _swapped(value: str, other: str) -> bool:
    return sorted(value) == sorted(other) and close(value, other, 2)
