"""How much of what is not reached is lost by choosing from few labels, and how much is not there to be had.

    python bench/hindsight.py DIR [SPLITS [SET…]]

The same splits as in bench/tuning.py. `in hindsight`: the best of the ways that were tried, chosen by the
labels of the half that reports, which nobody has. Then labels for choosing are drawn anew (the recorded
ones, drawn with replacement, around what is true on the reporting half), to count how often the way with
the most right answers among them is the best one in truth, and how often two ways are told apart whose
truth differs by half a point to two points. For two ways no rule does better than to compare their counts.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from random import Random
from statistics import mean
from typing import NamedTuple

from tuning import MOST, Set, sets

from fanfold.tune.policy import Labelled, VoteInOrder, Way, columns_of, total
from fanfold.tune.search import search

DRAWS = 100
APART = 0.005, 0.02  # shares, by which two ways differ


class WaySeen(NamedTuple):
    """`chosen_by`: what is expected of it; `right`: item by item, of the sample; `true`: on other items."""

    chosen_by: float
    right: list[int]
    true: float


class Hindsight(NamedTuple):
    tuned: float
    best: float
    found: float
    told_apart: float


def seen(one: Set, cap: float, seed: int) -> list[WaySeen]:
    """All ways under the limit that a step of a plan can state."""
    items = Random(seed).sample(one.items, len(one.items))
    middle = len(items) // 2
    sample, others = items[:middle][:MOST], items[middle:]
    columns = columns_of(others)

    def true(way: Way, others: list[Labelled]) -> float:
        found = way.total(columns) if isinstance(way, VoteInOrder) else total(way, others)
        return found.right / len(others)

    return [
        WaySeen(one.expected, [one.way.tried(item).right for item in sample], true(one.way, others))
        for one in search(sample)
        if 1000 * one.usd <= cap and one.way.step() is not None
    ]


def in_hindsight(ways: list[WaySeen], chance: Random) -> Hindsight:
    many = len(ways[0].right)
    best = max(ways, key=lambda one: one.true)
    off = [one.true - sum(one.right) / many for one in ways]
    near = [n for n, one in enumerate(ways) if APART[0] <= best.true - one.true <= APART[1]]
    found, told = [], list[float]()
    for _ in range(DRAWS):
        drawn = Counter(chance.choices(range(many), k=many)).items()
        shares = [
            sum(times * one.right[n] for n, times in drawn) / many + more
            for one, more in zip(ways, off, strict=True)
        ]
        top, own = ways[shares.index(max(shares))], shares[ways.index(best)]
        found.append(top.true == best.true)
        told += [(own > shares[n]) + (own == shares[n]) / 2 for n in near]
    chosen = max(ways, key=lambda one: one.chosen_by)
    return Hindsight(chosen.true, best.true, mean(found), mean(told) if told else 1.0)


def main() -> None:
    data, splits = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 8
    for one in sets(data):
        for cap in one.caps if one.name in (sys.argv[3:] or [one.name]) else ():
            each = [in_hindsight(seen(one, cap, n), Random(n)) for n in range(splits)]
            tuned, best, found, told = (mean(values) for values in zip(*each, strict=True))
            print(
                f"{one.name}, at most ${cap:.2f}, {splits} splits: tuned {tuned:.1%}, best in hindsight "
                f"{best:.1%}; the best is found in {found:.0%}, two ways are told apart in {told:.0%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
