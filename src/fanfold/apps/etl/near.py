"""Spelling: a rare value one sign away from a common one of the same column."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

RARE = 2
COMMON = 5
TIMES = 10
SHORTEST = 4
FEW = 12  # different values that a nearly constant column has at most
USUAL = 0.95  # of its cells hold them
EDGES = " \t.,;:*-_#'`\"!?/|"


class Speller:
    """Knows the common values of a column. Digits are never mended: 12 and 13 are both right."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._found: dict[str, tuple[str, int] | None] = {}
        many = [one for one, n in counts.items() if n >= COMMON]
        near_constant = (
            len(many) <= FEW and sum(counts[one] for one in many) >= USUAL * counts.total()
        )
        self._few = sorted(many, key=lambda one: -counts[one]) if near_constant else []
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

    def odd(self, value: str) -> tuple[str, int] | None:
        """In a column of a few values: the one that a rare and short value is one sign away from, and
        how often that occurs. Too little to mend it, enough to doubt it."""
        n = self._counts[value]
        if not value or n > RARE or not self._few:
            return None
        near = [one for one in self._few if one != value and close(value, one, 1)]
        return (near[0], self._counts[near[0]]) if near and len(value) > 1 else None

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
