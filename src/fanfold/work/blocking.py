"""Which pairs of records may be the same: those that share rare words and character n-grams, that have
near vectors, or that have the same key. Pure, and the same every time.

Each record is compared only with those that share one of its rarer features, so the work grows with
the number of records, not with the number of pairs.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappush, heapreplace, nlargest
from math import log, sqrt
from operator import mul
from typing import Any, NamedTuple

import msgspec

from fanfold.errors import BadInput, FanfoldError
from fanfold.work.arguments import Checked
from fanfold.work.check import one_or_many, text, whole
from fanfold.work.excerpt import as_text
from fanfold.work.fields import MISSING, Path, path_of, spread
from fanfold.work.item import Item
from fanfold.work.options import option
from fanfold.work.reader import listed

GRAM = 4
COMMON = 200  # what more records than this have in common tells none of them apart
_WORD = re.compile(r"\w+")
Weights = dict[str, float]


class Block(msgspec.Struct, frozen=True, omit_defaults=True, metaclass=Checked):
    """Which pairs are asked about: each record with its nearest `neighbours`, from either side.

    Near is what shares rare words and character n-grams: in the fields `on`, or in all but the id;
    or, with `vector`, what has a similar list of numbers in that field. Records with different
    `key`s are no pair. `at_most`: so many pairs in all, the most similar of them.
    """

    on: tuple[str, ...] = ()
    key: str | None = None
    vector: str | None = None
    neighbours: int = 3
    at_most: int | None = None

    def check(self) -> None:
        for name in ("neighbours", "at_most"):
            option(name, getattr(self, name), whole(least=1))
        option("on", self.on, one_or_many(text))
        for name in ("key", "vector"):
            option(name, getattr(self, name), text)
        for field in self.fields:
            path_of(field)

    @property
    def fields(self) -> tuple[str, ...]:
        """Those that it goes by; none are all but the id."""
        return (*listed(self.on), *listed(self.key), *listed(self.vector))

    def bound(self, records: int) -> int:
        """So many pairs at most, of so many records on both sides together."""
        most = self.neighbours * records
        return most if self.at_most is None else min(most, self.at_most)


class BlockedRecord(NamedTuple):
    """What blocking knows of a record. Without a vector it goes by the text."""

    text: str
    keys: frozenset[str] | None = None
    vector: Sequence[float] | None = None


def blocked_record(view: dict[str, Any], block: Block) -> BlockedRecord:
    """From an item as templates see it. `item.name` is the same field as `name`."""
    if block.on:
        found = [leaf for field in listed(block.on) for leaf in _at(view, field)]
    else:
        found = [value for name, value in view.items() if name not in ("id", "steps")]
    keys = None
    if block.key is not None:
        keys = frozenset(as_text(leaf).strip().casefold() for leaf in _at(view, block.key))
    vector = None if block.vector is None else _vector(list(_at(view, block.vector)))
    return BlockedRecord(" ".join(map(as_text, found)), keys, vector)


def without_vector(item: Item, block: Block) -> Item:
    """As a pair shows it: without the reply of an earlier step that was made to compare it by."""
    path = () if block.vector is None else item_path(block.vector)
    if len(path) < 2 or path[0] != "steps" or not isinstance(item.data, dict):
        return item
    steps = {name: said for name, said in item.data.get("steps", {}).items() if name != path[1]}
    data = {**item.data, "steps": steps} if steps else {**item.data}
    if not steps:
        data.pop("steps", None)
    return Item(item.id, data)


def item_path(field: str) -> Path:
    """The path of a field in an item as templates see it: `item.name`, `name`, `steps.map.name`."""
    return path_of(field.removeprefix("item."))


def item_names(*fields: str | None) -> tuple[str, ...]:
    """The items' own fields that these are, or are in; none, where one is of an earlier reply."""
    names = tuple(item_path(field)[0] for field in fields if field)
    return () if "steps" in names else names


def _at(view: dict[str, Any], field: str) -> Iterator[Any]:
    for _, leaf in spread(view, item_path(field)):
        if leaf is not MISSING and leaf is not None:
            yield leaf


def _vector(found: list[Any]) -> list[float]:
    if not all(isinstance(x, int | float) and x - x == 0 for x in found):
        raise FanfoldError("a `vector` must be a list of numbers")
    return found


class CandidatePair(NamedTuple):
    """Positions of two records, and how similar they are: from 0 to 1."""

    a: int
    b: int
    score: float


class Blocked(NamedTuple):
    """The pairs in the order of `a` and `b`; how many more were left out by `at_most`."""

    pairs: list[CandidatePair]
    left_out: int


def _check_said(records: Sequence[BlockedRecord], block: Block) -> None:
    """A field that no record has would make no pair, which must not pass for an answer."""
    if records and block.on and block.vector is None and not any(one.text for one in records):
        raise FanfoldError(f"no record has the field {' or '.join(listed(block.on))} to block on")


def pairs_within(records: Sequence[BlockedRecord], block: Block) -> Blocked:
    """Pairs of one list, `a` before `b`."""
    _check_said(records, block)
    return _chosen(_similar(records, None), len(records), 0, block)


def pairs_between(
    left: Sequence[BlockedRecord], right: Sequence[BlockedRecord], block: Block
) -> Blocked:
    """Pairs of two lists, `a` of the left and `b` of the right."""
    for side in (left, right):
        _check_said(side, block)
    return _chosen(_similar(left, right), len(left), len(right), block)


def _chosen(
    similar: Iterator[tuple[int, Mapping[int, float]]], left: int, right: int, block: Block
) -> Blocked:
    """Of each record its nearest ones, from either side. Of equals the first count."""
    of_left: list[_Nearest] = [[] for _ in range(left)]
    of_right: list[_Nearest] = [[] for _ in range(right)] if right else of_left
    least = [-1.0] * len(of_right)  # what is not more similar is not kept
    for a, own in similar:
        for b, score in own.items():
            if score > least[b]:
                least[b] = _keep(of_right[b], (score, -a), block.neighbours)
        for b in nlargest(block.neighbours, own, key=own.__getitem__):
            floor = _keep(of_left[a], (own[b], -b), block.neighbours)
            if not right:
                least[a] = floor
    found = {(a, -b): score for a, nearest in enumerate(of_left) for score, b in nearest}
    found |= {(-a, b): score for b, nearest in enumerate(of_right) for score, a in nearest}
    if not right:
        found = {(min(pair), max(pair)): score for pair, score in found.items()}
    pairs = [CandidatePair(a, b, min(1.0, round(score, 6))) for (a, b), score in found.items()]
    kept = nlargest(block.at_most or len(pairs), pairs, key=lambda p: (p.score, -p.a, -p.b))
    return Blocked(sorted(kept), len(pairs) - len(kept))


_Nearest = list[tuple[float, int]]
"""A heap of scores and positions below zero: the least similar on top."""


def _keep(nearest: _Nearest, one: tuple[float, int], many: int) -> float:
    """The score above which another one is kept too."""
    if len(nearest) < many:
        heappush(nearest, one)
    else:
        heapreplace(nearest, max(one, nearest[0]))
    return nearest[0][0] if len(nearest) == many else -1.0


def _similar(
    left: Sequence[BlockedRecord], right: Sequence[BlockedRecord] | None
) -> Iterator[tuple[int, Mapping[int, float]]]:
    """Each record of the left with those that it is similar to: of the right, or before it."""
    everyone = [*left, *(right or ())]
    scores = _by_vector if any(one.vector is not None for one in everyone) else _by_text
    similar = scores(left, right)
    if all(one.keys is None for one in everyone):
        yield from similar
        return
    of_key: dict[str, list[int]] = defaultdict(list)
    for b, record in enumerate(left if right is None else right):
        for key in record.keys or ():
            of_key[key].append(b)
    for a, own in similar:
        same = {b for key in left[a].keys or () for b in of_key[key] if right is not None or b < a}
        yield a, {b: own.get(b, 0.0) for b in same}


# ── by shared words and n-grams ──────────────────────────────────────────────────────────────────


def _by_text(
    left: Sequence[BlockedRecord], right: Sequence[BlockedRecord] | None
) -> Iterator[tuple[int, dict[int, float]]]:
    words = [_WORD.findall(one.text.casefold()) for one in (*left, *(right or ()))]
    by_words, by_grams = _weighed(map(Counter, words)), _weighed(map(_grams, words))
    whole = [{**own, **grams} for own, grams in zip(by_words, by_grams, strict=True)]
    index: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for b, weights in enumerate(whole[len(left) :]):
        _add(index, b, weights)
    for a, weights in enumerate(whole[: len(left)]):
        own: dict[int, float] = defaultdict(float)
        for feature, weight in weights.items():
            for b, other in index.get(feature, ()):
                own[b] += weight * other
        yield a, own
        if right is None:
            _add(index, a, weights)


def _add(index: dict[str, list[tuple[int, float]]], at: int, weights: Weights) -> None:
    for feature, weight in weights.items():
        index[feature].append((at, weight))


def _grams(words: Iterable[str]) -> Counter[str]:
    """Of each word, with its ends marked; none of them is equal to a word."""
    padded = (f" {word} " for word in words)
    return Counter(
        f"{word[n : n + GRAM]}\n" for word in padded for n in range(max(1, len(word) - GRAM + 1))
    )


def _weighed(records: Iterable[Counter[str]]) -> list[Weights]:
    """TF-IDF, each record of length √½, so that words and n-grams count the same; without what is in
    only one record, or in very many."""
    features = list(records)
    frequent = Counter(feature for own in features for feature in own)
    many, found = len(features), []
    for own in features:
        weights = {
            name: (1 + log(times)) * log(1 + many / frequent[name]) for name, times in own.items()
        }
        length = sqrt(2 * sum(map(mul, weights.values(), weights.values()))) or 1.0
        found.append(
            {name: w / length for name, w in weights.items() if 1 < frequent[name] <= COMMON}
        )
    return found


# ── by vectors ───────────────────────────────────────────────────────────────────────────────────


def _by_vector(
    left: Sequence[BlockedRecord], right: Sequence[BlockedRecord] | None
) -> Iterator[tuple[int, dict[int, float]]]:
    """Every pair is compared, in memory: meant for thousands of records, not for millions."""
    lefts = [_unit(one.vector) for one in left]
    rights = lefts if right is None else [_unit(one.vector) for one in right]
    width = max(map(len, (*lefts, *rights)), default=0)
    if any(own and len(own) != width for own in (*lefts, *rights)):
        raise BadInput("the vectors that records are compared by have different lengths")
    for a, own in enumerate(lefts):
        others = rights[:a] if right is None else rights
        yield a, {b: sum(map(mul, own, other)) for b, other in enumerate(others) if own and other}


def _unit(vector: Sequence[float] | None) -> list[float]:
    length = sqrt(sum(map(mul, vector, vector))) if vector else 0.0
    return [x / length for x in vector] if vector and length else []
