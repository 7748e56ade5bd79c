"""A tournament: who is compared with whom in each round, and the order that comes of the answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, islice
from math import log
from random import Random
from typing import TypeAlias

Order: TypeAlias = Sequence[int]
"""Positions of items, the best first."""

ROUNDS_MORE = 2  # than it takes to find the best one
_STEPS = 200
_CLOSE = 1e-9


def usual_rounds(items: int, window: int) -> int:
    """So many that the best could be found by knock-out, and a few more for the order below it; one,
    if all fit into one window."""
    if items <= window:
        return 1
    rounds, reach = 1, window
    while reach < items:
        rounds, reach = rounds + 1, reach * window
    return rounds + ROUNDS_MORE


class Tournament:
    """Items are compared with those that have done about as well; in the first round by lot.

    `found` takes the order of each window that was answered. What comes next follows from the items
    and the answers alone.
    """

    def __init__(self, items: int, window: int, seed: int) -> None:
        self._items, self._window, self._seed = items, window, seed
        self._round = 0
        self._wins: dict[tuple[int, int], int] = defaultdict(int)
        self._met: set[tuple[int, int]] = set()

    def windows(self) -> list[list[int]]:
        """The next round: who is compared with whom, each item at most once, in an order by lot."""
        lot = Random(f"{self._seed}/{self._round}")
        order = list(range(self._items))
        lot.shuffle(order)
        if self._round:
            scores = self.scores()
            order.sort(key=lambda n: -scores[n])
        found = self._pairs(order) if self._window == 2 else self._slices(order)
        self._round += 1
        for window in found:
            lot.shuffle(window)
            self._met.update(_each_pair(window))
        return found

    def _pairs(self, order: list[int]) -> list[list[int]]:
        """Each with the nearest it has not met; one that has met all who are left has a rest."""
        found = []
        while len(order) > 1:
            first = order.pop(0)
            other = next((n for n in order if _pair(first, n) not in self._met), None)
            if other is not None:
                order.remove(other)
                found.append([first, other])
        return found

    def _slices(self, order: list[int]) -> list[list[int]]:
        """Of neighbours; every second round begins in the middle, so that slices overlap."""
        first = self._window // 2 if self._round % 2 else self._window
        starts = [0, *range(first, len(order), self._window)]
        slices = [order[a:b] for a, b in zip(starts, [*starts[1:], len(order)], strict=True)]
        return [one for one in slices if len(one) > 1]

    def found(self, order: Order) -> None:
        for better, worse in combinations(order, 2):
            self._wins[better, worse] += 1

    @property
    def compared(self) -> list[int]:
        """With how many others each was compared, all rounds together."""
        many = [0] * self._items
        for (better, worse), times in self._wins.items():
            many[better] += times
            many[worse] += times
        return many

    def scores(self) -> list[float]:
        """Bradley-Terry: the log of the strengths that make the answers most likely. As if each had
        won and lost half a comparison with one of strength 1, so that none is infinite."""
        wins, met = [0.5] * self._items, [dict[int, int]() for _ in range(self._items)]
        for (better, worse), times in self._wins.items():
            wins[better] += times
            met[better][worse] = met[better].get(worse, 0) + times
            met[worse][better] = met[worse].get(better, 0) + times
        strengths = [1.0] * self._items
        for _ in range(_STEPS):
            before = strengths
            strengths = [
                wins[n] / (1 / (own + 1) + sum(t / (own + before[m]) for m, t in met[n].items()))
                for n, own in enumerate(before)
            ]
            if max(map(_change, strengths, before), default=0.0) < _CLOSE:
                break
        return [round(log(strength), 6) for strength in strengths]


def planned_windows(items: int, window: int, rounds: int) -> Iterator[list[int]]:
    """As many as there are at most in so many rounds, each item about equally often."""
    if window == 2:
        pairs = ([n, n + far] for far in range(1, items) for n in range(items - far))
        yield from islice(pairs, rounds * (items // 2))
        return
    contest = Tournament(items, window, 0)
    for _ in range(rounds):
        yield from contest.windows()


def agreement(scores: Sequence[float], truth: Sequence[float]) -> float:
    """Of the pairs that differ in truth, the share that the scores put in the same order; a tie in the
    scores counts half."""
    pairs = [(a, b) for a, b in combinations(range(len(truth)), 2) if truth[a] != truth[b]]
    right = sum(
        0.5 if scores[a] == scores[b] else (scores[a] > scores[b]) == (truth[a] > truth[b])
        for a, b in pairs
    )
    return right / len(pairs) if pairs else 1.0


def _each_pair(window: Iterable[int]) -> Iterable[tuple[int, int]]:
    return (_pair(a, b) for a, b in combinations(window, 2))


def _pair(a: int, b: int) -> tuple[int, int]:
    return (a, b) if a < b else (b, a)


def _change(new: float, old: float) -> float:
    return abs(new - old) / (1 + old)
