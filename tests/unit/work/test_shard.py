"""Which items go into one ask together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from fanfold.errors import FanfoldError
from fanfold.gates.default import default
from fanfold.work.ask import Ask, Message
from fanfold.work.item import Item
from fanfold.work.reader import Misfit
from fanfold.work.shard import Filling, ShardSize
from fanfold.work.task import Place, Task, Terms

TERMS = Terms("map", default())
SIZES = st.none() | st.integers(1, 5)


def shards(given: Iterable[Any], of: int = 0, **size: Any) -> Iterator[tuple[Any, ...]]:
    """The items in their order, one shard at a time, as a run fills them."""

    def task(numbered: tuple[int, Any]) -> Task:
        position, data = numbered
        ask = Ask((Message("user", str(data)),), (Item(str(position), data),))
        return Task(str(position), ask, TERMS, Place(0, position))

    filling = Filling(ShardSize(**size), of, task)
    for one in enumerate(given):
        for full in filling.add(one):
            yield tuple(item for _, item in full)
    for rest in filling.rest():
        yield tuple(item for _, item in rest)


def test_by_items() -> None:
    assert list(shards("abcde", items=2)) == [("a", "b"), ("c", "d"), ("e",)]


def test_by_bytes_with_a_shard_of_its_own_for_a_large_one() -> None:
    found = list(shards(["aa", "a", "bbbb", "cccccc", "d", "e"], bytes=4))
    assert found == [("aa", "a"), ("bbbb",), ("cccccc",), ("d", "e")]


@pytest.mark.parametrize(("size", "more"), [({"items": 3}, 1), ({"count": 4}, 0)])
def test_lazily(size: dict[str, int], more: int) -> None:
    taken = []

    def coming() -> Iterator[int]:
        for n in range(12):
            taken.append(n)
            yield n

    assert next(shards(coming(), of=12, **size)) == (0, 1, 2)
    assert taken == [0, 1, 2, 3][: 3 + more]


@drawn(st.lists(st.text("x", max_size=12)), SIZES, st.integers(1, 20))
def test_nothing_is_lost_and_no_limit_passed(items: list[str], most: int | None, size: int) -> None:
    found = list(shards(items, items=most, bytes=size))
    assert [item for shard in found for item in shard] == items
    assert all(shard for shard in found)
    for shard in found:
        assert len(shard) <= (most or len(items))
        assert len(shard) == 1 or sum(map(len, shard)) <= size
    for shard, after in pairwise(found):
        full = len(shard) == most or sum(map(len, shard)) + len(after[0]) > size
        assert full, "a shard was closed before it had to be"


@drawn(st.integers(1, 60), st.integers(1, 12))
def test_a_count_of_shards_is_that_many_of_neighbours_as_even_as_may_be(n: int, count: int) -> None:
    found = list(shards(range(n), of=n, count=count))
    assert [item for shard in found for item in shard] == list(range(n))
    assert len(found) == min(n, count)
    assert max(map(len, found)) - min(map(len, found)) <= 1


@drawn(st.lists(st.sampled_from("abcdef"), max_size=40), st.integers(1, 4), SIZES)
def test_by_hash_equal_values_go_together_and_no_limit_is_passed(
    values: list[str], count: int, most: int | None
) -> None:
    found = list(shards([{"k": value} for value in values], hash="item.k", count=count, items=most))
    assert Counter(one["k"] for shard in found for one in shard) == Counter(values)
    assert all(len(shard) <= (most or len(values)) for shard in found)
    if most is None:
        assert len(found) <= count
        held = [{one["k"] for one in shard} for shard in found]
        assert sum(map(len, held)) == len(set(values)), "a value is in two shards"


@pytest.mark.parametrize(
    ("bounds", "values", "together"),
    [
        ((10, 20), [1, 25, 10, "15", 9.5, 20], {(1, 9.5), (25, 20), (10, "15")}),
        (("b", "m"), ["a", "z", "b", "c"], {("a",), ("z",), ("b", "c")}),
    ],
)
def test_by_range_a_bound_begins_the_next_shard(
    bounds: tuple[Any, ...], values: list[Any], together: set[tuple[Any, ...]]
) -> None:
    found = shards([{"k": value} for value in values], range="k", bounds=bounds)
    assert {tuple(one["k"] for one in shard) for shard in found} == together


@pytest.mark.parametrize("item", [{}, {"k": None}, {"k": []}, {"k": "soon"}, {"k": True}])
def test_what_lacks_a_field_to_go_by_belongs_into_no_shard(item: Any) -> None:
    with pytest.raises(FanfoldError, match="`k`"):
        list(shards([item], range="k", bounds=(1, 2)))


@pytest.mark.parametrize(
    "size", [{}, {"hash": "k"}, {"range": "k"}, {"bounds": (1,)}, {"count": 2, "bounds": (1,)},
             {"range": "k", "bounds": (1, "a")}, {"range": "k", "bounds": (2, 2)}]
)  # fmt: skip
def test_what_says_too_little_or_too_much_is_refused(size: dict[str, Any]) -> None:
    with pytest.raises(Misfit):
        ShardSize(**size)
