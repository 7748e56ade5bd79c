"""Rows by the longest path, an order with few crossings, and nothing lost on the way."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.errors import BadInput
from fanfold.work.picture import (
    Arrow,
    Box,
    Picture,
    Ranks,
    Slot,
    in_order,
    layers,
    levels,
    ranked,
    way,
)


def pictured(ids: str, *pairs: str, back: tuple[str, ...] = ()) -> Picture:
    """`ab` is an arrow from a to b."""
    arrows = [*(Arrow(*pair) for pair in pairs), *(Arrow(*pair, kind="back") for pair in back)]
    return Picture(tuple(Box(id, id) for id in ids), tuple(arrows))


@st.composite
def dags(draw: st.DrawFn) -> Picture:
    """Boxes whose order of statement says nothing about who leads to whom."""
    order = draw(st.permutations([f"t{n}" for n in range(draw(st.integers(0, 12)))]))
    pairs = [(a, b) for n, b in enumerate(order) for a in order[:n]]
    arrows = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    stated = draw(st.permutations(order))
    kinds = st.sampled_from(["flow", "flow", "reads"])
    return Picture(
        tuple(Box(id, id) for id in stated), tuple(Arrow(*p, kind=draw(kinds)) for p in arrows)
    )


def test_a_box_stands_below_the_longest_path_to_it() -> None:
    picture = pictured("dcba", "ab", "bc", "ac", "cd", "ad")
    assert layers(picture) == [["a"], ["b"], ["c"], ["d"]]


def test_boxes_of_one_row_keep_their_order() -> None:
    assert layers(pictured("cabz", "cz", "az", "bz")) == [["c", "a", "b"], ["z"]]


def test_arrows_that_go_back_do_not_count() -> None:
    picture = pictured("abc", "ab", "bc", back=("ca", "bb"))
    assert layers(picture) == [["a"], ["b"], ["c"]]
    assert in_order(picture) == ["a", "b", "c"]


def test_nothing_gives_nothing() -> None:
    assert (layers(Picture(())), in_order(Picture(()))) == ([], [])
    assert ranked(Picture(())) == Ranks((), ())


@pytest.mark.parametrize(
    ("pairs", "cycle"), [(["ab", "ba"], "a,b"), (["ab", "bc", "cb"], "b,c"), (["cc"], "c")]
)
def test_a_cycle_is_refused_with_its_ids(pairs: list[str], cycle: str) -> None:
    for refuse in (layers, in_order, ranked):
        with pytest.raises(BadInput, match=f"CYCLE:{cycle}$"):
            refuse(pictured("abc", *pairs))


def test_a_long_arrow_has_a_slot_in_each_row_it_passes() -> None:
    picture = pictured("abcd", "ab", "bc", "cd", "ad")
    level = levels(picture.parents())
    assert way(level, "a", "d") == [Slot(0, "a"), Slot(1, "a"), Slot(2, "a"), Slot(3, "d")]
    rows = ranked(picture).rows
    assert [sorted(slot.id for slot in row) for row in rows] == [
        ["a"],
        ["a", "b"],
        ["a", "c"],
        ["d"],
    ]


def test_long_arrows_of_one_box_share_their_slots() -> None:
    rows = ranked(pictured("abcxy", "ab", "bc", "cx", "cy", "ax", "ay")).rows
    assert [len(row) for row in rows] == [1, 2, 2, 2]


def test_crossings_are_taken_out() -> None:
    ranks = ranked(pictured("abcxyz", "az", "by", "cx"))
    assert ranks.crossings() == 0
    assert [[slot.id for slot in row] for row in ranks.rows] == [["a", "b", "c"], ["z", "y", "x"]]


def test_crossings_are_counted() -> None:
    a, b, x, y = Slot(0, "a"), Slot(0, "b"), Slot(1, "x"), Slot(1, "y")
    assert Ranks(((a, b), (x, y)), ((a, y), (b, x))).crossings() == 1
    assert Ranks(((a, b), (y, x)), ((a, y), (b, x))).crossings() == 0
    assert Ranks(((a, b), (x, y)), ((a, x), (a, y), (b, x), (b, y))).crossings() == 1


def test_those_that_lead_to_all_the_next_stay_as_they_were_stated() -> None:
    """Here no order has fewer crossings than another."""
    picture = pictured("bcaxzy", *(f"{start}{end}" for start in "bca" for end in "xzy"))
    assert [[slot.id for slot in row] for row in ranked(picture).rows] == [
        ["b", "c", "a"],
        ["x", "z", "y"],
    ]


@given(dags())
def test_rows_are_the_longest_paths(picture: Picture) -> None:
    level = levels(picture.parents())
    for id, above in picture.parents().items():
        assert level[id] == max((level[parent] + 1 for parent in above), default=0)
    assert sorted(id for row in layers(picture) for id in row) == sorted(level)


@given(dags())
def test_the_order_goes_by_arrows_and_then_as_stated(picture: Picture) -> None:
    order, parents = in_order(picture), picture.parents()
    done: list[str] = []
    for id in order:
        ready = [b.id for b in picture.boxes if b.id not in done and {*parents[b.id]} <= {*done}]
        assert id == ready[0]
        done.append(id)
    assert len(order) == len(picture.boxes)


@given(dags())
def test_slots_are_all_there_once_and_links_join_neighbouring_rows(picture: Picture) -> None:
    ranks, level = ranked(picture), levels(picture.parents())
    slots = [slot for row in ranks.rows for slot in row]
    assert len(slots) == len(set(slots))
    assert {slot for slot in slots if slot.row == level[slot.id]} == {
        Slot(n, id) for id, n in level.items()
    }
    assert all(slot.row == n for n, row in enumerate(ranks.rows) for slot in row)
    assert all(lower.row == upper.row + 1 for upper, lower in ranks.links)
    walked = {
        pair for arrow in picture.arrows for pair in pairwise(way(level, arrow.start, arrow.end))
    }
    assert set(ranks.links) == walked
