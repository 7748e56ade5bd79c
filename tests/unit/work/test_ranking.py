"""A tournament: who meets whom, and the order that comes of it."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.work.ranking import Tournament, agreement, planned_windows, usual_rounds
from tests.examples import examples


def played(
    items: int, window: int, rounds: int, seed: int = 0
) -> tuple[Tournament, list[list[int]]]:
    """The higher number is better, always."""
    contest, asked = Tournament(items, window, seed), []
    for _ in range(rounds):
        for one in contest.windows():
            asked.append(one)
            contest.found(sorted(one, reverse=True))
    return contest, asked


@examples(25)
@given(st.integers(0, 24), st.integers(2, 6), st.integers(1, 6), st.integers(0, 3))
def test_there_are_no_more_asks_than_planned(
    items: int, window: int, rounds: int, seed: int
) -> None:
    _, asked = played(items, window, rounds, seed)
    planned = list(planned_windows(items, window, rounds))
    assert len(asked) <= len(planned)
    assert all(2 <= len(one) <= window and len(set(one)) == len(one) for one in [*asked, *planned])
    if window == 2:
        assert len({frozenset(one) for one in asked}) == len(asked), "nobody meets another twice"
    assert played(items, window, rounds, seed)[1] == asked, "the same every time"


@pytest.mark.parametrize("window", [2, 5, 10])
def test_more_rounds_bring_it_nearer_to_the_truth(window: int) -> None:
    truth = list(map(float, range(60)))
    shares = [agreement(played(60, window, rounds)[0].scores(), truth) for rounds in (1, 3, 8)]
    assert shares == sorted(shares) and shares[-1] > 0.9


def test_the_best_one_is_found_in_the_usual_rounds() -> None:
    for items in (2, 7, 31):
        scores = played(items, 2, usual_rounds(items, 2))[0].scores()
        assert scores.index(max(scores)) == items - 1


def test_an_item_that_was_never_compared_is_known_as_that() -> None:
    contest = Tournament(3, 2, 0)
    contest.found([2, 0])
    assert contest.compared == [1, 0, 1]
    assert contest.scores()[2] > contest.scores()[1] > contest.scores()[0]


def test_scores_follow_the_wins_not_the_order_in_which_they_came() -> None:
    wins = list(combinations(range(6), 2))
    scores = []
    for seed in (1, 2):
        contest = Tournament(6, 2, 0)
        for one in Random(seed).sample(wins, len(wins)):
            contest.found(one)
        scores.append(contest.scores())
    assert scores[0] == pytest.approx(scores[1]) and scores[0] == sorted(scores[0], reverse=True)
    assert agreement(scores[0], [5, 4, 3, 2, 1, 0]) == 1.0
