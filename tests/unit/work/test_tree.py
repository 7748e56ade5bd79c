"""The reduce tree: fixed groups, each node once, only when all of it is there."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.errors import BadInput
from fanfold.work.tree import ReduceNode, ReduceTree, widths

Ids = tuple[int, ...]


def grown(
    present: list[bool], fan_in: int, order: list[int]
) -> tuple[ReduceTree[Ids], list[ReduceNode[Ids]]]:
    """Land all in this order and reduce each node at once: a part is the positions behind it."""
    tree: ReduceTree[Ids] = ReduceTree(len(present), fan_in)
    nodes: list[ReduceNode[Ids]] = []
    for position in order:
        node = tree.land(position, (position,) if present[position] else None)
        while node is not None:
            nodes.append(node)
            node = tree.reduced(node, tuple(id for part in node.parts for id in part))
    return tree, nodes


def by_name(nodes: list[ReduceNode[Ids]]) -> dict[str, tuple[Ids, ...]]:
    named = {node.name: node.parts for node in nodes}
    assert len(named) == len(nodes), "a node came out twice"
    return named


@pytest.mark.parametrize(
    ("size", "fan_in", "shape"),
    [
        (0, 2, (0,)),
        (1, 2, (1, 1)),
        (2, 2, (2, 1)),
        (3, 2, (3, 2, 1)),
        (10, 10, (10, 1)),
        (11, 10, (11, 2, 1)),
        (1000, 10, (1000, 100, 10, 1)),
    ],
)
def test_widths(size: int, fan_in: int, shape: tuple[int, ...]) -> None:
    assert widths(size, fan_in) == shape


def test_nodes_come_out_as_soon_as_their_parts_are_there() -> None:
    tree: ReduceTree[str] = ReduceTree(5, 2)
    assert [tree.land(3, "d"), tree.land(0, "a")] == [None, None]
    first = tree.land(1, "b")
    assert first == ReduceNode(1, 0, ("a", "b"))
    second = tree.land(2, "c")
    assert second == ReduceNode(1, 1, ("c", "d"))
    assert tree.reduced(second, "cd") is None
    assert tree.reduced(first, "ab") == ReduceNode(2, 0, ("ab", "cd"))
    assert not tree.done
    last = tree.land(4, "e")
    assert last == ReduceNode(1, 2, ("e",)), "one item alone is reduced too"
    assert tree.reduced(last, "e'") is None
    assert tree.reduced(ReduceNode(2, 0, ("ab", "cd")), "abcd") == ReduceNode(3, 0, ("abcd", "e'"))
    assert tree.reduced(ReduceNode(3, 0, ("abcd", "e'")), "all") is None
    assert (tree.done, tree.result) == (True, "all")


def test_a_single_part_higher_up_is_passed_on_as_it_is() -> None:
    tree, nodes = grown([False, False, True, False, False], 2, [0, 1, 2, 3, 4])
    assert by_name(nodes) == {"1.1": ((2,),)}
    assert (tree.done, tree.result) == (True, (2,))


@pytest.mark.parametrize("size", [0, 1, 7])
def test_of_no_parts_there_is_no_result(size: int) -> None:
    tree, nodes = grown([False] * size, 3, list(range(size)))
    assert (tree.done, tree.result, nodes) == (True, None, [])


@pytest.mark.parametrize("fan_in", [1, 0, -3, True, 2.0, "2", None])
def test_a_fan_in_below_two_is_bad_input(fan_in: Any) -> None:
    with pytest.raises(BadInput, match=r"^`fan_in` is a whole number from 2 on, not "):
        ReduceTree(5, fan_in)


def test_a_position_that_is_not_planned_or_lands_twice_is_a_defect() -> None:
    tree: ReduceTree[str] = ReduceTree(3, 2)
    with pytest.raises(
        ValueError, match=r"^position 3 is not planned: <ReduceTree 3-2-1, 0 nodes open"
    ):
        tree.land(3, "d")
    tree.land(0, None)
    with pytest.raises(
        ValueError, match=r"^0\.0 has landed before: <ReduceTree 3-2-1, 1 nodes open"
    ):
        tree.land(0, "a")


PRESENT = st.lists(st.booleans(), max_size=60)
FAN_IN = st.integers(2, 7)


@given(PRESENT, FAN_IN, st.integers(0, 2**32))
def test_any_order_gives_the_same_nodes(present: list[bool], fan_in: int, seed: int) -> None:
    planned = list(range(len(present)))
    _, in_order = grown(present, fan_in, planned)
    tree, shuffled = grown(present, fan_in, Random(seed).sample(planned, len(planned)))
    assert by_name(shuffled) == by_name(in_order)
    assert (tree.done, tree.held) == (True, 0)


@given(PRESENT, FAN_IN)
def test_every_present_part_is_in_one_node_and_the_result_rests_on_all(
    present: list[bool], fan_in: int
) -> None:
    there = tuple(position for position, is_there in enumerate(present) if is_there)
    tree, nodes = grown(present, fan_in, list(range(len(present))))
    assert all(1 <= len(node.parts) <= fan_in for node in nodes)
    assert all(len(node.parts) > 1 for node in nodes if node.level > 1)
    assert tuple(id for n in nodes if n.level == 1 for part in n.parts for id in part) == there
    assert tree.result == (there or None)


@given(PRESENT, FAN_IN, st.data())
def test_a_part_more_or_less_changes_only_the_nodes_above_it(
    present: list[bool], fan_in: int, data: st.DataObject
) -> None:
    if not present:
        return
    at = data.draw(st.integers(0, len(present) - 1))
    other = [is_there != (n == at) for n, is_there in enumerate(present)]
    planned = list(range(len(present)))
    before, after = (by_name(grown(kept, fan_in, planned)[1]) for kept in (present, other))
    above = {f"{level}.{at // fan_in**level}" for level in range(1, 8)}
    changed = {n for n in before.keys() | after.keys() if before.get(n) != after.get(n)}
    assert changed - above == set()


def test_what_is_held_stays_small_when_items_land_about_in_order() -> None:
    """64 at a time in any order, 20,000 of them."""
    size, fan_in, chance = 20_000, 10, Random(3)
    tree: ReduceTree[int] = ReduceTree(size, fan_in)
    most = 0
    for start in range(0, size, 64):
        near = range(start, min(start + 64, size))
        for position in chance.sample(near, len(near)):
            node = tree.land(position, position)
            while node is not None:
                node = tree.reduced(node, sum(node.parts))
            most = max(most, tree.held)
    assert tree.result == sum(range(size))
    assert most <= 64 + fan_in * (len(tree.widths) - 1)
