"""Which pairs are asked about: those that look alike, the same ones every time, and not too many."""

from __future__ import annotations

from itertools import combinations
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.operators import blocking, load
from fanfold.errors import BadInput, FanfoldError
from fanfold.work.blocking import (
    Block,
    BlockedRecord,
    CandidatePair,
    blocked_record,
    pairs_between,
    pairs_within,
)
from tests.examples import examples

NAMES = ["red", "blue", "green", "iron", "steel", "lamp", "chair", "desk"]
WORDS = st.lists(st.sampled_from(NAMES), max_size=5)
TEXTS = st.lists(WORDS.map(" ".join), max_size=12)


def records(*texts: str) -> list[BlockedRecord]:
    return [BlockedRecord(text) for text in texts]


def positions(pairs: list[CandidatePair]) -> set[tuple[int, int]]:
    return {(pair.a, pair.b) for pair in pairs}


def test_what_shares_rare_words_or_parts_of_words_is_a_pair() -> None:
    left = records("Canon FS100 camcorder", "Belkin cush top F8N044", "Sony camera")
    right = records("belkin cushtop f8n044-slv", "canon fs-100", "Apple phone")
    found = pairs_between(left, right, Block(neighbours=1))
    assert {(0, 1), (1, 0)} <= positions(found.pairs)
    assert not {b for _, b in positions(found.pairs)} & {2}, "nothing is shared with it"


@examples(25)
@given(TEXTS, st.integers(1, 4), st.integers(1, 9))
def test_each_has_its_neighbours_and_no_bound_is_exceeded(
    texts: list[str], neighbours: int, at_most: int
) -> None:
    free = pairs_within(records(*texts), Block(neighbours=neighbours))
    held = pairs_within(records(*texts), Block(neighbours=neighbours, at_most=at_most))
    assert free.pairs == sorted(set(free.pairs)) and all(one.a < one.b for one in free.pairs)
    assert len(free.pairs) <= Block(neighbours=neighbours).bound(len(texts))
    assert len(held.pairs) == min(at_most, len(free.pairs))
    assert len(held.pairs) + held.left_out == len(free.pairs)
    assert all(0 <= one.score <= 1 for one in free.pairs)
    if held.pairs and held.left_out:
        lowest = min(one.score for one in held.pairs)
        assert all(one.score <= lowest for one in set(free.pairs) - set(held.pairs))


@examples(25)
@given(TEXTS, TEXTS)
def test_two_lists_are_compared_with_each_other_only(left: list[str], right: list[str]) -> None:
    found = pairs_between(records(*left), records(*right), Block(neighbours=20))
    for a, b in positions(found.pairs):
        assert set(left[a].split()) & set(right[b].split())


def alike(texts: list[str]) -> set[frozenset[str]]:
    found = pairs_within(records(*texts), Block(neighbours=50)).pairs
    return {frozenset((texts[a], texts[b])) for a, b in positions(found)}


def test_the_order_of_the_lists_changes_nothing() -> None:
    texts = [f"{Random(n).choice('abc')}word part{n % 7} item{n}" for n in range(30)]
    there = alike(texts)
    texts.reverse()
    assert alike(texts) == there != set()


def test_only_those_with_the_same_key_are_a_pair() -> None:
    views: list[dict[str, Any]] = [
        {"id": str(n), "name": "one lamp", "brand": brand}
        for n, brand in enumerate(["Acme", "acme ", "Beta", None])
    ]
    block = Block(on=("name",), key="brand")
    found = pairs_within([blocked_record(view, block) for view in views], block)
    assert positions(found.pairs) == {(0, 1)}


def test_those_with_near_vectors_are_a_pair() -> None:
    block = Block(vector="steps.embed", neighbours=1)
    views = [
        {"id": str(n), "steps": {"embed": vector}}
        for n, vector in enumerate([[1, 0], [0.9, 0.1], [0, 1], [0.1, 0.8]])
    ]
    found = pairs_within([blocked_record(view, block) for view in views], block)
    assert positions(found.pairs) == {(0, 1), (2, 3)}


def test_all_fields_but_the_id_count_where_none_is_named() -> None:
    view = {"id": "x1", "name": "lamp", "tags": ["red", "big"], "steps": {"map": "no"}}
    assert blocked_record(view, Block()).text == 'lamp ["red","big"]'
    assert blocked_record(view, Block(on=("item.tags", "name"))).text == "red big lamp"


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"neighbours": 0}, "neighbours"), ({"at_most": 0}, "at_most"),
        ({"on": ("a..b",)}, "is not a field"), ({"neighbour": 2}, "did you mean `neighbours`?"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(how: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput, match=says.replace("?", r"\?")):
        Block(**how)


def test_a_vector_is_of_numbers_and_all_are_as_long() -> None:
    with pytest.raises(FanfoldError, match="list of numbers"):
        blocked_record({"v": ["x"]}, Block(vector="v"))
    with pytest.raises(BadInput, match="different lengths"):
        pairs_within([BlockedRecord("", None, [1.0]), BlockedRecord("", None, [1.0, 2.0])], Block())


def test_words_that_nearly_all_have_in_common_do_not_make_pairs() -> None:
    texts = [f"common thing{n:03}" for n in range(250)]
    found = pairs_within(records(*texts), Block(neighbours=2))
    assert len(found.pairs) < len(list(combinations(texts, 2)))


@pytest.mark.parametrize("name", ["abt_buy", "beer"])
def test_nearly_all_true_pairs_are_asked_about_and_few_others(name: str) -> None:
    """On records that others labelled: at least 0.98 of the matches, at most 2 % of all pairs."""
    data = load(name)
    recall, many = blocking(data, Block())
    assert recall >= 0.98
    assert many <= 0.02 * len(data.left) * len(data.right)
    assert many <= Block().bound(len(data.left) + len(data.right))
