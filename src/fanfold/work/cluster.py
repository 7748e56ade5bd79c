"""Answers about pairs into entities: which records are one, and where the answers contradict that."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias, get_args

Closure: TypeAlias = Literal["strict", "transitive"]
"""*transitive*: what is connected by answers `same` is one. *strict*: two groups become one only if no
pair between them was answered `different`; the most similar pairs come first."""
CLOSURES: tuple[Closure, ...] = get_args(Closure)


class PairAnswer(NamedTuple):
    """Two records are the same, or not, by an answer. `score`: how similar they looked before."""

    a: int
    b: int
    same: bool
    score: float = 0.0


class Entities(NamedTuple):
    """`groups`: the positions of the records of each entity, in order, the first record's first.

    `conflicts`: the answers that the groups contradict, `different` within one or `same` between
    two. `bridges`: answers on which alone it rests that two parts of an entity, of at least two
    records each, are one.
    """

    groups: list[list[int]]
    conflicts: list[PairAnswer]
    bridges: list[PairAnswer]


def entities(size: int, answers: Sequence[PairAnswer], closure: Closure = "strict") -> Entities:
    """All of `size` records; one that no answer is about is an entity of its own."""
    groups = _Groups(size)
    if closure == "strict":
        for one in answers:
            if not one.same:
                groups.part(one.a, one.b)
    for one in sorted(answers, key=lambda one: (-one.score, one.a, one.b)):
        if one.same:
            groups.join(one.a, one.b)
    of = groups.of
    conflicts = sorted(one for one in answers if (of[one.a] == of[one.b]) != one.same)
    within = [one for one in answers if one.same and of[one.a] == of[one.b]]
    found = [group for group in groups.members if group]
    return Entities(sorted(map(sorted, found)), conflicts, _bridges(within, of, groups.members))


class _Groups:
    """Which group each record is of, and which groups must stay apart."""

    def __init__(self, size: int) -> None:
        self.of = list(range(size))
        self.members = [[n] for n in range(size)]
        self._apart: dict[int, set[int]] = defaultdict(set)

    def part(self, a: int, b: int) -> None:
        self._apart[a].add(b)
        self._apart[b].add(a)

    def join(self, a: int, b: int) -> None:
        one, other = self.of[a], self.of[b]
        if one == other or other in self._apart.get(one, ()):
            return
        if len(self.members[one]) < len(self.members[other]):
            one, other = other, one
        for n in self.members[other]:
            self.of[n] = one
        self.members[one] += self.members[other]
        self.members[other] = []
        for apart in self._apart.pop(other, ()):
            self._apart[apart].discard(other)
            self.part(apart, one)


def _bridges(
    answers: Iterable[PairAnswer], of: Sequence[int], members: Sequence[Sequence[int]]
) -> list[PairAnswer]:
    """A walk in depth: nothing below a bridge leads back above it but the bridge itself."""
    around: dict[int, list[tuple[int, PairAnswer]]] = defaultdict(list)
    for one in answers:
        around[one.a].append((one.b, one))
        around[one.b].append((one.a, one))
    seen: dict[int, int] = {}
    lowest: dict[int, int] = {}
    below: dict[int, int] = {}
    found: list[PairAnswer] = []
    for root in sorted(around):
        if root in seen:
            continue
        seen[root] = lowest[root] = len(seen)
        below[root] = 1
        way: list[tuple[int, PairAnswer | None, int]] = [(root, None, 0)]
        while way:
            at, by, n = way.pop()
            if n < len(around[at]):
                way.append((at, by, n + 1))
                other, answer = around[at][n]
                if other not in seen:
                    seen[other] = lowest[other] = len(seen)
                    below[other] = 1
                    way.append((other, answer, 0))
                elif answer is not by:
                    lowest[at] = min(lowest[at], seen[other])
            elif by is not None:
                before = by.a if by.b == at else by.b
                lowest[before] = min(lowest[before], lowest[at])
                below[before] += below[at]
                rest = len(members[of[at]]) - below[at]
                if lowest[at] > seen[before] and min(below[at], rest) > 1:
                    found.append(by)
    return sorted(found)
