"""Rows by the longest path, in the order in which boxes are stated."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.errors import BadInput
from fanfold.work.picture import (
    Arrow,
    Box,
    Picture,
    in_order,
    layers,
    levels,
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


@pytest.mark.parametrize(
    ("pairs", "cycle"), [(["ab", "ba"], "a,b"), (["ab", "bc", "cb"], "b,c"), (["cc"], "c")]
)
def test_a_cycle_is_refused_with_its_ids(pairs: list[str], cycle: str) -> None:
    for refuse in (layers, in_order):
        with pytest.raises(BadInput, match=f"CYCLE:{cycle}$"):
            refuse(pictured("abc", *pairs))


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
