"""Answers about pairs into entities, and where answers contradict them."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from fanfold.work.cluster import CLOSURES, PairAnswer, entities
from tests.examples import examples


def answers(*said: tuple[int, int, bool]) -> list[PairAnswer]:
    return [PairAnswer(a, b, same, 1 - n / 100) for n, (a, b, same) in enumerate(said)]


def test_what_is_linked_is_one_and_the_rest_is_alone() -> None:
    found = entities(5, answers((0, 2, True), (2, 4, True), (1, 3, False)))
    assert found == ([[0, 2, 4], [1], [3]], [], [])


def test_two_groups_do_not_become_one_against_an_answer() -> None:
    """0-1 and 2-3 are pairs; the wrong 1-2 would make one of them, but 0-3 is said to differ."""
    said = answers((0, 1, True), (2, 3, True), (1, 2, True), (0, 3, False))
    strict = entities(4, said, "strict")
    assert strict.groups == [[0, 1], [2, 3]]
    assert strict.conflicts == [said[2]], "the answer that was not followed"
    loose = entities(4, said, "transitive")
    assert loose.groups == [[0, 1, 2, 3]]
    assert loose.conflicts == [said[3]], "the answer that the group contradicts"


def test_a_link_on_which_alone_a_merge_rests_is_named() -> None:
    said = answers((0, 1, True), (2, 3, True), (1, 2, True))
    assert entities(4, said).bridges == [said[2]]
    confirmed = answers((0, 1, True), (2, 3, True), (1, 2, True), (0, 3, True))
    assert entities(4, confirmed).bridges == []
    assert entities(3, answers((0, 1, True), (1, 2, True))).bridges == [], "one record is no part"


PAIRS = st.dictionaries(st.sampled_from(list(combinations(range(8), 2))), st.booleans())


@examples(25)
@given(PAIRS, st.sampled_from(CLOSURES))
def test_every_record_is_in_one_group_and_conflicts_are_all_there(
    said: dict[tuple[int, int], bool], closure: str
) -> None:
    given_ = [PairAnswer(a, b, same, (a * 7 + b) % 5 / 5) for (a, b), same in said.items()]
    found = entities(8, given_, closure)  # type: ignore[arg-type]
    assert sorted(n for group in found.groups for n in group) == list(range(8))
    of = {n: at for at, group in enumerate(found.groups) for n in group}
    assert set(found.conflicts) == {x for x in given_ if (of[x.a] == of[x.b]) != x.same}
    if closure == "strict":
        assert all(one.same for one in found.conflicts), "no group holds a pair said to differ"
    else:
        assert not any(one.same for one in found.conflicts), "whatever is linked is together"
    for one in found.bridges:
        without = [x for x in given_ if x != one and x.same and of[x.a] == of[x.b]]
        parts = entities(8, without, "transitive").groups
        assert all(len(part) > 1 for part in parts if {one.a, one.b} & set(part))
        assert not any({one.a, one.b} <= set(part) for part in parts)
