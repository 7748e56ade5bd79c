"""Which ways are worth considering: single members, votes, weights, routers, by what half of a sample says.

The best of many looks better than it is. So a vote is expected to do partly what it did, partly what
votes of such members did (`tune.expected`); a router what it did on items that it was not learned from; a
single member half a standard error less than it did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from math import log, sqrt

import msgspec

from fanfold.tune.expected import expected_shares
from fanfold.tune.policy import (
    Labelled,
    Plain,
    Routed,
    Single,
    Tried,
    VoteInOrder,
    Way,
    columns_of,
    total,
)
from fanfold.tune.tree import learned_tree, tree_sample

MOST_MEMBERS = 8  # that take part in votes; those that no other beats in price and accuracy first
LONGEST = 5  # members in a vote
ALL, MOST = 1.0, 0.6  # the share of the votes that is enough
MOST_ALTERNATIVES = 10.0  # wrong answers, in weights
COVERED = 0.8  # of the items that a member must have been asked about
SHRINK = 30.0  # items of the overall share that a group's own share is mixed with
FOLDS = 5
TREE_MEMBERS = 4  # that a tree chooses from
POOL = 8  # ways that a router chooses from, of each kind
GROUPS = range(2, 31)  # values that a feature may have to route by
PRICES = (1.0, 3.0, 10.0, 30.0, 100.0)
"""What an error may cost, in dollars: a router is made for each, from saving money to saving errors."""


class Scored(msgspec.Struct, frozen=True):
    """A way, what it came to on so many items, and the share that is `expected` on others."""

    way: Way
    tried: Tried
    of: int
    expected: float

    @property
    def share(self) -> float:
        return self.tried.right / self.of

    @property
    def usd(self) -> float:
        return self.tried.usd / self.of


def frontier(scored: Iterable[Scored], step: float = 0.0) -> list[Scored]:
    """Those that nothing cheaper or equally cheap beats, the cheapest first; each better than the one
    before by more than `step`."""
    best: list[Scored] = []
    for one in sorted(scored, key=lambda one: (one.usd, -one.expected, one.way.text())):
        if not best or one.expected > best[-1].expected + step:
            best.append(one)
    return best


def search(items: Sequence[Labelled]) -> list[Scored]:
    """All ways that were tried on these items."""
    names = sorted({name for item in items for name in item.replies})
    singles = [_careful(_scored(Single.named(name), items)) for name in names]
    asked = {name: sum(name in item.replies for item in items) for name in names}
    able = [one for one in singles if asked[one.way.text()] >= COVERED * len(items)]
    able = [one for one in able if one.tried.right] or able
    several = [one for one in able if isinstance(one.way, Single) and one.way.at_once > 1]
    able = [one for one in able if one not in several]  # neither a vote nor a route has shards
    plain = [*able, *_votes(_layers(able, MOST_MEMBERS), items)]
    return [*plain, *several, *_routers(plain, items), *_trees(able, items)]


def _scored(way: Way, items: Sequence[Labelled], expected: float | None = None) -> Scored:
    tried = total(way, items)
    return Scored(
        way, tried, len(items), tried.right / len(items) if expected is None else expected
    )


def _careful(one: Scored) -> Scored:
    error = sqrt(one.expected * (1 - one.expected) / one.of)
    return msgspec.structs.replace(one, expected=one.expected - error / 2)


def _layers(scored: Sequence[Scored], most: int) -> list[Scored]:
    """Frontier after frontier, until there are enough."""
    rest, taken = list(scored), list[Scored]()
    while rest and len(taken) < most:
        layer = frontier(rest)
        taken += sorted(layer, key=lambda one: -one.expected)
        rest = [one for one in rest if one not in layer]
    return taken[:most]


# ── votes ────────────────────────────────────────────────────────────────────────────────────


def _votes(able: Sequence[Scored], items: Sequence[Labelled]) -> list[Scored]:
    known = {one.way.text(): one for one in able}
    odds = _odds([known[name] for name in sorted(known)], items)
    columns, found = columns_of(items), dict[Way, Scored]()
    for way in _vote_ways(known, odds):
        if way not in found:
            tried = way.total(columns)
            found[way] = Scored(way, tried, len(items), tried.right / len(items))
    votes = list(found.values())
    told = expected_shares(
        [_traits(one, known) for one in votes], [one.share for one in votes], len(items)
    )
    return [
        msgspec.structs.replace(one, expected=share) for one, share in zip(votes, told, strict=True)
    ]


def _vote_ways(known: dict[str, Scored], odds: dict[str, float]) -> Iterator[VoteInOrder]:
    """Every set of three to five: the cheapest or the best first, until all or most agree; and by weight,
    until nobody can change the answer."""
    orders: tuple[Callable[[str], float], ...] = (
        lambda name: known[name].usd,
        lambda name: -known[name].share,
    )
    for size in range(3, LONGEST + 1):
        for chosen in combinations(sorted(known), size):
            for order in orders:
                names = tuple(sorted(chosen, key=order))
                yield VoteInOrder(names, confidence=ALL)
                yield VoteInOrder(names, confidence=MOST)
                yield VoteInOrder(names, tuple(odds[name] for name in names), MOST)
            heavy = tuple(sorted(chosen, key=lambda name: -odds[name]))
            yield VoteInOrder(heavy, tuple(odds[name] for name in heavy))


def _odds(members: Sequence[Scored], items: Sequence[Labelled]) -> dict[str, float]:
    """What a member's answer weighs: the log odds that it is right rather than any one wrong answer.

    Two who are wrong seldom say the same where there are many wrong answers, so even a member that is
    mostly wrong says something. How many there are follows from how often two wrong ones agree."""
    wrong = same = 0
    for item in items:
        said = [
            reply.answer
            for one in members
            if (reply := item.replies.get(one.way.text())) is not None and not reply.right
        ]
        given = [answer for answer in said if answer is not None]
        wrong += len(given) * (len(given) - 1)
        same += sum(given.count(answer) - 1 for answer in given)
    others = min(MOST_ALTERNATIVES, (wrong + 1) / (same + 1))
    shares = {one.way.text(): (one.tried.right + 1) / (one.of + 2) for one in members}
    return {
        name: round(max(0.05, log(share * others / (1 - share))), 2)
        for name, share in shares.items()
    }


def _traits(one: Scored, known: dict[str, Scored]) -> list[float]:
    """What is known of a vote before it is tried: how good its members are, and its rule."""
    way = one.way
    assert isinstance(way, VoteInOrder)
    shares = sorted((known[name].share for name in way.members), reverse=True)
    size = len(shares)
    rules = [way.confidence == ALL, way.confidence is None, bool(way.weights), size == 4, size == 5]
    return [
        1.0,
        shares[0],
        shares[1],
        sum(shares) / size,
        known[way.members[0]].share,
        *map(float, rules),
    ]


# ── routers ──────────────────────────────────────────────────────────────────────────────────


class _Pool(msgspec.Struct, frozen=True):
    """Ways that a router may choose from, and what each came to on each item."""

    ways: tuple[Plain, ...]
    tried: tuple[tuple[Tried, ...], ...]

    def sums(self, numbers: Sequence[int]) -> list[tuple[int, float]]:
        return [
            (sum(own[n].right for n in numbers), sum(own[n].usd for n in numbers))
            for own in self.tried
        ]


def _routers(plain: Sequence[Scored], items: Sequence[Labelled]) -> list[Scored]:
    """Between single members, which a step of a plan can state, and between these and votes."""
    singles = [one for one in plain if isinstance(one.way, Single)]
    votes = [one for one in plain if not isinstance(one.way, Single)]
    some = _layers(singles, POOL)
    found: dict[str, Scored] = {}
    for chosen in (some, [*some, *_layers(votes, POOL)]):
        ways = tuple(one.way for one in chosen if isinstance(one.way, Single | VoteInOrder))
        found |= _routed(ways, items)
    return list(found.values())


def _routed(ways: tuple[Plain, ...], items: Sequence[Labelled]) -> dict[str, Scored]:
    """For each feature with a few values, at several prices of an error; judged on other folds."""
    pool = _Pool(ways, tuple(tuple(way.tried(item) for item in items) for way in ways))
    found: dict[str, Scored] = {}
    for feature in sorted({name for item in items for name in item.features}):
        values = [item.features.get(feature, "") for item in items]
        if len(set(values)) not in GROUPS:
            continue
        for price in PRICES:
            picked, default = _learned(pool, values, range(len(items)), price)
            named = {value: ways[n] for value, n in picked.items() if n != default}
            way = Routed(feature, named, ways[default])
            if named and way.text() not in found:
                found[way.text()] = _scored(way, items, _held_out(pool, values, price))
    return found


def _trees(able: Sequence[Scored], items: Sequence[Labelled]) -> list[Scored]:
    """A small tree between a few members, at several prices of an error; judged on other folds."""
    names = [one.way.text() for one in _layers(able, TREE_MEMBERS)]
    found: dict[str, Scored] = {}
    for price in PRICES if any(item.features for item in items) else ():
        sample = tree_sample(names, items, price)
        way = learned_tree(sample, range(len(items)))
        if way.rules and way.text() not in found:
            right = 0
            for fold in range(FOLDS):
                others = [n for n in range(len(items)) if n % FOLDS != fold]
                held = learned_tree(sample, others)
                right += sum(held.tried(item).right for item in items[fold::FOLDS])
            found[way.text()] = _scored(way, items, right / len(items))
    return list(found.values())


def _held_out(pool: _Pool, values: Sequence[str], price: float) -> float:
    """The share that is right where each item is routed by what was learned from other folds."""
    right, numbers = 0, range(len(values))
    for fold in range(FOLDS):
        others = [n for n in numbers if n % FOLDS != fold]
        picked, default = _learned(pool, values, others, price)
        for n in numbers[fold::FOLDS]:
            right += pool.tried[picked.get(values[n], default)][n].right
    return right / len(values)


def _learned(
    pool: _Pool, values: Sequence[str], numbers: Sequence[int], price: float
) -> tuple[dict[str, int], int]:
    """The best of the pool for each value, and on the whole. The share in a group is mixed with the
    share in all items: few cases say little."""
    whole, of = pool.sums(numbers), len(numbers)
    groups: dict[str, list[int]] = {}
    for n in numbers:
        groups.setdefault(values[n], []).append(n)

    def best(own: Sequence[int]) -> int:
        def worth(pair: tuple[tuple[int, float], tuple[int, float]]) -> float:
            (right, usd), (every, spent) = pair
            share = (right + SHRINK * every / of) / (len(own) + SHRINK)
            return share * price / 1000 - (usd + SHRINK * spent / of) / (len(own) + SHRINK)

        worths = [worth(pair) for pair in zip(pool.sums(own), whole, strict=True)]
        return worths.index(max(worths))

    return {value: best(own) for value, own in sorted(groups.items())}, best(numbers)
