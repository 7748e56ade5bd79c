"""A small tree over what is known of an item before anybody is asked: who is worth asking there.

A leaf asks whoever is worth most in it: right answers at the price of an error, less what they cost. It is
split, by the values of a field or by a number, where that tells best for whom somebody else is worth more.
Few items say little, so a leaf has many, a value's own figures are mixed with those of the leaf, and a
branch must gain some right answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from fanfold.tune.policy import Labelled, RoutedByRules, Single
from fanfold.work.fields import number
from fanfold.work.routed import Between, RouteRule

DEPTH = 3
LEAF = 20  # items in a leaf at least
GAIN = 2.0  # right answers that a branch must gain
CLEAR = 4.0  # the square of standard errors by which two sides of a split must differ
SHRINK = 20.0  # items of the leaf that a value's own figures are mixed with
CUTS = 12  # places at which a number is tried
VALUES = range(2, 31)

Side = Between | tuple[str | int | float | bool, ...]
Condition = dict[str, Side]
Branch = tuple[Condition, list[int]]
Split = tuple[str, Side, Side, set[int]]


class TreeSample(msgspec.Struct, frozen=True):
    """What each member is worth on each item; `features` as texts, `numeric` those that are numbers."""

    members: tuple[str, ...]
    worth: tuple[tuple[float, ...], ...]
    right: tuple[tuple[bool, ...], ...]
    features: dict[str, tuple[str, ...]]
    numeric: dict[str, tuple[float, ...]]
    unit: float

    def sums(self, numbers: Sequence[int]) -> list[float]:
        return [sum(own[n] for n in numbers) for own in self.worth]

    def best(self, numbers: Sequence[int]) -> tuple[int, float]:
        sums = self.sums(numbers)
        top = max(range(len(sums)), key=lambda m: sums[m])
        return top, sums[top]


def tree_sample(members: Sequence[str], items: Sequence[Labelled], price: float) -> TreeSample:
    """`price`: of an error, in dollars for 1,000."""
    unit = price / 1000
    tried = [[Single(name).tried(item) for item in items] for name in members]
    names = sorted({name for item in items for name in item.features})
    texts = {name: tuple(item.features.get(name, "") for item in items) for name in names}
    numbers = {name: [number(value) for value in own] for name, own in texts.items()}
    return TreeSample(
        tuple(members),
        tuple(tuple(one.right * unit - one.usd for one in own) for own in tried),
        tuple(tuple(bool(one.right) for one in own) for own in tried),
        {name: own for name, own in texts.items() if len(set(own)) in VALUES},
        {
            name: tuple(float(one) for one in own if one is not None)
            for name, own in numbers.items()
            if None not in own and len(set(own)) > 1
        },
        unit,
    )


def learned_tree(sample: TreeSample, numbers: Sequence[int]) -> RoutedByRules:
    """Of these items, as rules: what most are asked stands at the end, as `else`."""
    leaves = _grown(sample, {}, list(numbers), DEPTH)
    made = [(when, *_leaf(sample, own)) for when, own in leaves]
    default = max(made, key=lambda one: one[2])[1]
    rules = tuple(
        RouteRule(when, sample.members[who], len_, right)
        for when, who, len_, right in made
        if who != default and when
    )
    return RoutedByRules(rules, sample.members[default])


def _leaf(sample: TreeSample, own: Sequence[int]) -> tuple[int, int, int]:
    who, _ = sample.best(own)
    return who, len(own), sum(sample.right[who][n] for n in own)


def _grown(sample: TreeSample, when: Condition, own: list[int], depth: int) -> list[Branch]:
    """Leaf by leaf; a branch that gains too little in the end is a leaf itself."""
    split = _split(sample, own) if depth and len(own) >= 2 * LEAF else None
    if split is None:
        return [(when, own)]
    name, inside, outside, taken = split
    left, right = _joined(when, name, inside), _joined(when, name, outside)
    if left is None or right is None:
        return [(when, own)]
    leaves = [
        *_grown(sample, left, [n for n in own if n in taken], depth - 1),
        *_grown(sample, right, [n for n in own if n not in taken], depth - 1),
    ]
    gain = sum(sample.best(part)[1] for _, part in leaves) - sample.best(own)[1]
    return leaves if gain > GAIN * sample.unit else [(when, own)]


def _split(sample: TreeSample, own: list[int]) -> Split | None:
    """The one that tells best where somebody else is worth more than the best of all; if it tells more
    than chance does."""
    who, _ = sample.best(own)
    best: Split | None = None
    most = 0.0
    for other in range(len(sample.members)):
        if other == who:
            continue
        more = {n: sample.worth[other][n] - sample.worth[who][n] for n in own}
        mean = sum(more.values()) / len(own)
        spread = sum((one - mean) ** 2 for one in more.values()) / len(own)
        for split in (*_by_value(sample, own, more, mean), *_by_number(sample, own)):
            taken = split[3]
            many = len(taken), len(own) - len(taken)
            if min(many) < LEAF:
                continue
            off = sum(more[n] - mean for n in taken)
            told = off * off * (1 / many[0] + 1 / many[1]) / spread if spread else 0.0
            if told > max(most, CLEAR):
                best, most = split, told
    return best


def _by_value(
    sample: TreeSample, own: list[int], more: dict[int, float], mean: float
) -> Iterator[Split]:
    """The values of a field in the order of what the other one is worth more there, cut at each place."""
    for name, values in sample.features.items():
        groups: dict[str, list[int]] = {}
        for n in own:
            groups.setdefault(values[n], []).append(n)
        worth = {
            value: (sum(more[n] for n in there) + SHRINK * mean) / (len(there) + SHRINK)
            for value, there in groups.items()
        }
        order = sorted(groups, key=lambda value: (-worth[value], value))
        for cut in range(1, len(order)):
            taken = {n for value in order[:cut] for n in groups[value]}
            yield name, tuple(sorted(order[:cut])), tuple(sorted(order[cut:])), taken


def _by_number(sample: TreeSample, own: list[int]) -> Iterator[Split]:
    for name, values in sample.numeric.items():
        order = sorted(own, key=lambda n: values[n])
        places = [len(order) * n // CUTS for n in range(1, CUTS)]
        cuts = {
            round((values[a] + values[b]) / 2, 6)
            for at in places
            for a, b in pairwise(order[max(0, at - 1) : at + 1])
            if values[a] < values[b]
        }
        for cut in sorted(cuts):
            taken = {n for n in own if values[n] <= cut}
            yield name, Between(up_to=cut), Between(above=cut), taken


def _joined(when: Condition, name: str, side: Side) -> Condition | None:
    """With what was stated of the same feature before; None where both cannot be stated together."""
    before = when.get(name)
    if before is None:
        return {**when, name: side}
    if isinstance(before, Between) and isinstance(side, Between):
        above = before.above if side.above is None else side.above
        up_to = before.up_to if side.up_to is None else side.up_to
        return {**when, name: Between(above, up_to)}
    return {**when, name: side} if isinstance(before, tuple) and isinstance(side, tuple) else None
