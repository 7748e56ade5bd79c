"""What counts as the same answer, who wins, and when nobody else need be asked."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.work.vote import (
    Rule,
    Vote,
    Voter,
    ballot,
    count,
    decided,
    enough,
    label,
    settled,
    wave,
    why_undecided,
)

PLURALITY = Rule(turnout=2)
MAJORITY = Rule(turnout=2, majority=True)


# ── the same answer ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "same",
    [
        (18, 18.0, "18", " 18.0\n", "18.", "$18", "$ 18.00", "+18", "**18**", '"18"', "(18)"),
        (1800, "1,800", "$1,800", "$1,800.00", "1800"),
        (-5, "-5", "-$5", "$-5", "-5.0"),
        (0.5, "0.5", ".5", "$0.50"),
        ("Yes", "yes", " YES. ", '"yes"', "'Yes!'", "`yes`", "yes;"),
        ("B", "b", "(B)", "[B]", "B.", "**B**", "( b )."),
        ("New York", "new  york", "New\nYork."),
        ("caf\u00e9", "cafe\u0301"),
        (True, "true", "True"),
        (None, "null"),
        ({"a": 1, "b": "X"}, {"b": "x", "a": 1.0}, '{"b": "x", "a": 1}', '{"a":"1","b":"X"}'),
        ([1, "Two"], ["1", "two"], '[1, "two"]'),
    ],
)
def test_different_writings_of_one_answer_are_the_same_vote(same: tuple[Any, ...]) -> None:
    assert len({ballot(value) for value in same}) == 1


@pytest.mark.parametrize(
    "different",
    [
        ("2 hours", "2 minutes", "2"),
        ("50%", "50", "0.5"),
        ("£18", "$18", "€18"),
        ("1,80", "180", "1.80"),
        ("18", "-18", "+-18"),
        ("$-18", "-$-18"),
        ("C", "C++", "C#"),
        (".NET", "net"),
        ("5!", "5"),
        ("f()", "f"),
        ("(1, 2)", "[1, 2)", "1, 2"),
        ("[1, 2]", "[2, 1]"),
        (True, 1, "yes"),
        (None, "", 0, False),
        ({"a": 1}, {"a": 2}, {"b": 1}, {}),
        ("1_000", "1000"),
        ("nan", "inf"),
        ("...", "…", ""),
        ("one two", "onetwo"),
    ],
)
def test_different_answers_are_different_votes(different: tuple[Any, ...]) -> None:
    assert len({ballot(value) for value in different}) == len(different)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@given(JSON.filter(lambda value: not isinstance(value, int) or abs(value) < 2**63))
def test_an_answer_is_the_same_vote_as_the_text_it_is_shown_as(value: Any) -> None:
    """So that votes shown under their labels are never two under one label."""
    assert ballot(value) == ballot(value)
    if not isinstance(value, dict | list):
        assert ballot(label(value)) == ballot(value)


@given(st.text())
def test_any_text_can_be_a_vote_and_outer_space_never_matters(text: str) -> None:
    assert ballot(f" {text}\n") == ballot(text)


# ── who wins ─────────────────────────────────────────────────────────────────────────────────


def votes(*said: str | None, weights: tuple[float, ...] = ()) -> list[Vote]:
    """One voter for each; None is absent."""
    return [
        Vote(Voter(f"m{n}", n, weights[n] if weights else 1.0), one, ballot(one))
        for n, one in enumerate(said)
        if one is not None
    ]


def voters(*weights: float, start: int = 0) -> list[Voter]:
    return [Voter(f"m{n}", n, weight) for n, weight in enumerate(weights, start)]


def winner(rule: Rule, cast: list[Vote]) -> str | None:
    vote = decided(rule, cast)
    return None if vote is None else str(vote.value)


@pytest.mark.parametrize(
    ("said", "wins"),
    [
        (("a", "b", "b"), "b"),
        (("a", "b", "c"), "a"),
        (("b", "a", "a", "b"), "b"),
        ((None, "b", "a"), "b"),
        (("1", "2.0", "2"), "2.0"),
        (("a", None, None), None),
        ((None, None, None), None),
    ],
)
def test_most_votes_win_and_level_ones_by_the_earliest_voter(
    said: tuple[str | None, ...], wins: str | None
) -> None:
    assert winner(PLURALITY, votes(*said)) == wins


def test_weights_outvote_numbers_and_the_order_of_their_sum_does_not_matter() -> None:
    assert winner(PLURALITY, votes("a", "b", "b", weights=(2.5, 1.0, 1.0))) == "a"
    assert winner(PLURALITY, votes("a", "b", "b", weights=(2.0, 1.0, 1.0))) == "a"
    level = (0.3, 0.1, 0.2, 0.2, 0.1, 0.3)  # one by one, those of b would come to a little more
    assert winner(PLURALITY, votes("a", "b", "a", "b", "a", "b", weights=level)) == "a"


@pytest.mark.parametrize(
    ("said", "weights", "wins", "why"),
    [
        (("a", "b", "b"), (), "b", ""),
        (("a", "b", "c"), (), None, "no majority: 1 a, 1 b, 1 c"),
        (("a", "b"), (), None, "no majority: 1 a, 1 b"),
        (("b", "a", "a", "b"), (), None, "no majority: 2 b, 2 a"),
        (("a", "a", "b", "c"), (), None, "no majority: 2 a, 1 b, 1 c"),
        ((None, "b", "b", "a"), (), "b", ""),  # of those who answered
        (("a", None, None), (), None, "1 of 3 voters answered, 2 are needed"),
        (("a", "b", "c"), (2.5, 1.0, 1.0), "a", ""),
        (("a", "b", "c"), (2.0, 1.0, 1.0), None, "no majority: 2 a, 1 b, 1 c"),
        (("a", "b"), (0.0, 0.0), None, "no majority: 0 a, 0 b"),
        (tuple("abcdefg"), (), None, "no majority: 1 a, 1 b, 1 c, 1 d, 1 e, 2 others"),
    ],
)
def test_a_majority_is_more_than_half_of_the_votes_cast(
    said: tuple[str | None, ...], weights: tuple[float, ...], wins: str | None, why: str
) -> None:
    cast = votes(*said, weights=weights)
    assert winner(MAJORITY, cast) == wins
    assert wins or why_undecided(MAJORITY, cast, len(said)) == why


def test_a_quorum_has_to_agree() -> None:
    rule = Rule(agree=2)
    assert winner(rule, votes("a", "b", "b")) == "b"
    assert winner(rule, votes("a", "b", "c")) is None
    assert why_undecided(rule, votes("a", "b", "c"), 3) == (
        "no quorum: at most 1 of 3 agree, 2 are needed"
    )
    assert why_undecided(PLURALITY, votes("a", None, None), 3) == (
        "1 of 3 voters answered, 2 are needed"
    )


def test_the_count_has_the_leader_first() -> None:
    standings = count(votes("b", "a", "a", "c"))
    assert [(one.ballot, len(one.weights), one.first) for one in standings] == [
        ('"a"', 2, 1),
        ('"b"', 1, 0),
        ('"c"', 1, 3),
    ]


# ── can it still change? ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("said", "left", "is_settled"),
    [
        (("a", "a", "a"), 2, True),
        (("a", "a"), 3, False),
        (("a", "a", "b"), 2, False),
        (("a", "b", "a"), 1, True),  # b can draw level, but a stands earlier
        (("b", "a", "a"), 1, False),  # and here b does
        (("a", "b"), 1, False),
        (("a", None, None), 1, False),
        (("a", None, None), 0, True),
        ((None, None), 0, True),
        ((None,), 1, True),  # two must answer, and one is left
    ],
)
def test_a_plurality_is_settled_when_nobody_can_overtake(
    said: tuple[str | None, ...], left: int, is_settled: bool
) -> None:
    rest = voters(*[1.0] * left, start=len(said))
    assert settled(PLURALITY, votes(*said), rest) is is_settled


def outcomes_possible(rule: Rule, cast: list[Vote], rest: list[Voter]) -> set[str | None]:
    """By trying everything the rest could say, or not say."""
    choices = [*{vote.value for vote in cast}, "new", "newer", None]
    found = set()
    for said in product(choices, repeat=len(rest)):
        more = [
            Vote(voter, one, ballot(one))
            for voter, one in zip(rest, said, strict=True)
            if one is not None
        ]
        found.add(winner(rule, cast + more))
    return found


WEIGHTS = st.sampled_from([0.0, 0.1, 0.2, 0.3, 1.0, 2.0])
RULES = st.builds(Rule, turnout=st.integers(1, 4), agree=st.integers(1, 4))


@given(
    RULES.map(lambda rule: Rule(rule.turnout, 1)),
    st.lists(st.tuples(st.sampled_from(["a", "b", None]), WEIGHTS), max_size=4),
    st.lists(WEIGHTS, max_size=3),
    st.randoms(use_true_random=False),
)
def test_settled_is_exactly_when_all_completions_decide_alike(
    rule: Rule, cast: list[tuple[str | None, float]], rest: list[float], chance: Any
) -> None:
    """With weights, ties and absences, in any order of asking."""
    places = list(range(len(cast) + len(rest)))
    chance.shuffle(places)
    seats = [
        Voter(f"m{at}", at, w) for at, w in zip(places, [*[w for _, w in cast], *rest], strict=True)
    ]
    said = [
        Vote(voter, one, ballot(one))
        for voter, (one, _) in zip(seats, cast, strict=False)
        if one is not None
    ]
    left = seats[len(cast) :]
    assert settled(rule, said, left) == (len(outcomes_possible(rule, said, left)) == 1)


@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.sampled_from(["a", "b", "c", None]), WEIGHTS), max_size=4),
    st.lists(WEIGHTS, max_size=3),
)
def test_a_majority_is_settled_when_all_completions_decide_alike(
    turnout: int, cast: list[tuple[str | None, float]], rest: list[float]
) -> None:
    """Also when none can come about any more; but who is needed for the turnout is asked."""
    rule = Rule(turnout, majority=True)
    said = votes(*(one for one, _ in cast), weights=tuple(weight for _, weight in cast))
    left = voters(*rest, start=len(cast))
    alike = len(outcomes_possible(rule, said, left)) == 1
    if len(said) >= turnout or not left:
        assert settled(rule, said, left) == alike
    else:
        assert alike or not settled(rule, said, left)


@given(
    RULES,
    st.lists(st.sampled_from(["a", "b", None]), max_size=4),
    st.integers(0, 3),
)
def test_the_same_for_a_quorum(rule: Rule, said: list[str | None], left: int) -> None:
    rest = voters(*[1.0] * left, start=len(said))
    possible = outcomes_possible(rule, votes(*said), rest)
    assert settled(rule, votes(*said), rest) == (len(possible) == 1)


def asked_in_waves(
    rule: Rule, order: list[Voter], said: dict[int, str | None]
) -> tuple[list[Vote], int]:
    """As the pattern does it. Returns the votes, and how many were asked."""
    heard: list[Vote] = []
    rest = list(order)
    while rest and not enough(rule, heard, rest):
        many = wave(rule, heard, rest)
        assert 1 <= many <= len(rest)
        heard += cast_of(rest[:many], said)
        rest = rest[many:]
    return heard, len(order) - len(rest)


def cast_of(order: list[Voter], said: dict[int, str | None]) -> list[Vote]:
    answers = [(voter, said[voter.place]) for voter in order]
    return [Vote(voter, one, ballot(one)) for voter, one in answers if one is not None]


@given(
    RULES,
    st.booleans(),
    st.lists(
        st.tuples(st.sampled_from(["1", "1.0", "two", "three", None]), WEIGHTS),
        min_size=1,
        max_size=9,
    ),
)
def test_early_stop_decides_as_all_would_have(
    rule: Rule, weighted: bool, electorate: list[tuple[str | None, float]]
) -> None:
    """Also the wording of the answer is the same."""
    rule = Rule(rule.turnout, 1, majority=rule.agree > 2) if weighted else rule
    order = voters(*[weight if weighted else 1.0 for _, weight in electorate])
    order.sort(key=lambda voter: -voter.weight)
    said = {place: one for place, (one, _) in enumerate(electorate)}
    heard, asked = asked_in_waves(rule, order, said)
    assert decided(rule, heard) == decided(rule, cast_of(order, said))
    assert asked <= len(order)


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        (("a", "a", "a", "a", "a"), 3),
        (("a", "a", "b", "a", "a"), 4),
        (("a", "b", "a", "b", "a"), 5),
        (("a", "b", "b", "b", "a"), 4),
        (("a", "b", "c", "a", "b"), 4),  # b can only draw level
        (("a", "a", None, "a", "b"), 3),  # and so can another
    ],
)
def test_no_more_are_asked_than_it_takes(said: tuple[str | None, ...], asked: int) -> None:
    found = asked_in_waves(PLURALITY, voters(*[1.0] * 5), dict(enumerate(said)))
    assert found[1] == asked


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        (("a", "a", "a", "b", "b"), 3),
        (("a", "a", "b", "a", "b"), 4),
        (("a", "b", "c", "d", "a"), 4),  # nobody can get three of five any more
        (("a", "a", "b", "c", "b"), 5),
    ],
)
def test_nor_for_a_majority(said: tuple[str | None, ...], asked: int) -> None:
    found = asked_in_waves(MAJORITY, voters(*[1.0] * 5), dict(enumerate(said)))
    assert found[1] == asked


def test_the_first_wave_is_the_least_that_could_decide() -> None:
    five = voters(*[1.0] * 5)
    assert wave(PLURALITY, [], five) == 3
    assert wave(Rule(turnout=4), [], five) == 4
    assert wave(Rule(agree=5), [], five) == 5
    assert wave(Rule(turnout=2, confidence=1.0), [], five) == 2
    assert wave(PLURALITY, [], voters(10.0, 1.0, 1.0, 1.0, 1.0)) == 2
    assert wave(Rule(turnout=1), [], voters(10.0, 1.0, 1.0)) == 1


@pytest.mark.parametrize(
    ("said", "confidence", "stops"),
    [
        (("a",), 0.5, False),  # fewer than the quorum
        (("a", "a"), 1.0, True),
        (("a", "b"), 0.6, False),
        (("a", "b"), 0.5, True),
        (("a", "a", "b"), 2 / 3, True),
        (("a", "a", "b"), 0.7, False),
        (("a", "a", None), 1.0, True),
    ],
)
def test_a_confidence_is_the_leaders_share_of_the_votes_cast(
    said: tuple[str | None, ...], confidence: float, stops: bool
) -> None:
    rule = Rule(turnout=2, confidence=confidence)
    assert enough(rule, votes(*said), voters(*[1.0] * 6, start=len(said))) is stops
