"""Tuning on recorded replies: ways are judged as an ensemble would carry them out, bounds hold."""

from __future__ import annotations

from html import escape
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.errors import BadInput
from fanfold.patterns.vote_rules import VoteOptions, vote_rules
from fanfold.tune.bounds import lower, upper
from fanfold.tune.choose import Goal, Tuning, halves, tune
from fanfold.tune.expected import expected_shares
from fanfold.tune.policy import (
    Labelled,
    LabelledReply,
    Routed,
    Single,
    Tried,
    VoteInOrder,
    columns_of,
    total,
)
from fanfold.tune.replies import read_replies
from fanfold.tune.search import frontier, search
from fanfold.tune.show import plot, tuning_text
from fanfold.work.vote import Vote, decided, enough, wave

PRICES = {"cheap": 0.001, "good": 0.004, "best": 0.02, "bad": 0.002}
SKILLS = {"cheap": 0.8, "good": 0.9, "best": 0.95, "bad": 0.4}


def sample(many: int = 300, seed: int = 1, subjects: tuple[str, ...] = ()) -> list[Labelled]:
    """Members that are right as often as `SKILLS` says; with subjects, `cheap` is always right in the
    first and never in the others."""
    random, items = Random(seed), []
    for n in range(many):
        subject = subjects[n % len(subjects)] if subjects else ""
        replies = {}
        for name, skill in SKILLS.items():
            right = random.random() < skill
            if subjects and name == "cheap":
                right = subject == subjects[0]
            answer = "right" if right else f"wrong {random.randrange(5)}"
            replies[name] = LabelledReply(answer, right, PRICES[name], 1.0)
        items.append(Labelled(f"i{n}", replies, {"subject": subject} if subjects else {}))
    return items


# ── ways ─────────────────────────────────────────────────────────────────────────────────────


def said(*answers: str | None) -> Labelled:
    """Of members a, b, c …; the right answer is x, and each costs a dollar."""
    named = zip("abcde", answers, strict=False)
    return Labelled("i", {name: LabelledReply(one, one == "x", 1.0) for name, one in named})


@pytest.mark.parametrize(
    ("answers", "confidence", "tried"),
    [
        (("x", "x", "y", "y"), 1.0, Tried(1, 2.0, 0.0, 2)),  # two agree: enough
        (("x", "y", "x", "y"), 0.6, Tried(1, 3.0, 0.0, 3)),
        (("y", "x", "y", "x"), 1.0, Tried(0, 3.0, 0.0, 3)),  # nobody can overtake the first
        (("y", "z", "x", "x"), 1.0, Tried(1, 4.0, 0.0, 4)),
        ((None, "x", "x", "y"), 1.0, Tried(1, 3.0, 0.0, 3)),  # one failed, and is paid
        ((None, None, "x", None), 1.0, Tried(0, 4.0, 0.0, 4)),  # one answer is no decision
    ],
)
def test_a_vote_asks_until_it_is_decided(
    answers: tuple[str | None, ...], confidence: float, tried: Tried
) -> None:
    assert VoteInOrder(tuple("abcd"), confidence=confidence).tried(said(*answers)) == tried


def test_weights_decide_and_who_was_never_asked_costs_nothing() -> None:
    way = VoteInOrder(("a", "b", "z", "c"), (3.0, 1.0, 1.0, 1.0))
    assert way.tried(said("x", "y", "y")) == Tried(1, 2.0, 0.0, 2)
    assert Single("z").tried(said("x")) == Tried()


@given(
    st.lists(st.sampled_from("xyz"), min_size=3, max_size=5),
    st.sampled_from([None, 0.6, 1.0]),
    st.lists(st.sampled_from([0.5, 1.0, 2.5]), min_size=5, max_size=5),
    st.booleans(),
)
def test_a_way_decides_as_the_step_that_states_it(
    answers: list[str], confidence: float | None, weights: list[float], weighted: bool
) -> None:
    """By the rules that an ensemble makes of the step's fields."""
    names = tuple("abcde"[: len(answers)])
    way = VoteInOrder(names, confidence=confidence)
    if weighted:
        way = VoteInOrder(names, tuple(weights[: len(names)]), confidence)
    kind, fields = way.step()
    rules = vote_rules(fields.pop("members"), VoteOptions(**fields))
    assert (kind, rules.early) == ("ensemble", True)
    votes: list[Vote] = []
    rest = list(rules.voters)
    while rest:
        many = wave(rules.rule, votes, rest)
        taken, rest = rest[:many], rest[many:]
        votes += [Vote(one, None, answers[names.index(one.member or "")]) for one in taken]
        if enough(rules.rule, votes, rest):
            break
    found, tried = decided(rules.rule, votes), way.tried(said(*answers))
    assert found is not None
    assert (tried.right, tried.calls) == (int(found.ballot == "x"), len(votes))
    assert way.total(columns_of([said(*answers)])) == tried


def test_a_router_takes_the_way_of_the_value_else_the_default() -> None:
    way = Routed("subject", {"law": Single("good")}, Single("cheap"))
    for subject, usd in (("law", 0.004), ("art", 0.001)):
        item = Labelled("i", sample(1)[0].replies, {"subject": subject})
        assert way.tried(item).usd == usd


# ── what is expected ──


def test_the_best_of_many_is_expected_to_do_less_than_it_did() -> None:
    """All are equally good: what the best did is chance. What is known of them beforehand counts."""
    chance = Random(3)
    seen = [sum(chance.random() < 0.9 for _ in range(200)) / 200 for _ in range(300)]
    told = expected_shares([[1.0, 0.9]] * 300, seen, 200)
    assert max(told) - 0.9 < 0.8 * (max(seen) - 0.9)
    true = [0.7 + 0.001 * n for n in range(200)]
    seen = [sum(chance.random() < share for _ in range(200)) / 200 for share in true]
    told = expected_shares([[1.0, share] for share in true], seen, 200)
    assert _worst(told, true) < 0.8 * _worst(seen, true)


def _worst(told: list[float], true: list[float]) -> float:
    return max(abs(one - share) for one, share in zip(told, true, strict=True))


# ── bounds ───────────────────────────────────────────────────────────────────────────────────


def test_the_bounds_are_the_exact_ones() -> None:
    """Values of the tables by Clopper and Pearson: 95 % on both sides together."""
    assert round(lower(8, 10, 0.025), 4) == 0.4439 and round(upper(8, 10, 0.025), 4) == 0.9748
    assert (lower(0, 10, 0.05), upper(10, 10, 0.05)) == (0.0, 1.0)
    assert round(lower(10, 10, 0.05), 4) == 0.7411


@pytest.mark.parametrize(
    ("samples", "least"), [(20, 18), pytest.param(40, 36, marks=pytest.mark.sweep)]
)  # of 19 and of 38 expected at least
def test_what_is_promised_holds_in_the_promised_share_of_samples(samples: int, least: int) -> None:
    """The truth is taken from many items that had no part in it."""
    every = sample(4000, seed=5)
    held = 0
    for seed in range(samples):
        taken = Random(seed).sample(every, 200)
        found = tune(taken, Goal(target=0.9))
        truth = total(found.ways[found.recommended].way, every).right / len(every)
        held += truth >= found.promised
    assert held >= least


# ── the search ───────────────────────────────────────────────────────────────────────────────


def test_votes_of_cheap_members_are_found_where_they_beat_the_best_one() -> None:
    found = tune(sample(600), Goal(as_good_as="best"))
    best = found.ways[found.recommended]
    assert found.reached and isinstance(best.way, VoteInOrder)
    assert best.usd_1000 < 1000 * PRICES["best"]


def test_a_member_that_is_good_in_one_subject_is_routed_to() -> None:
    items = sample(400, subjects=("math", "law"))
    routers = [one for one in search(items) if isinstance(one.way, Routed)]
    assert any(one.way.tried(items[0]).usd == PRICES["cheap"] for one in routers)
    assert any(one in frontier([*routers]) for one in routers)


def test_the_halves_are_fixed_by_the_ids_and_do_not_overlap() -> None:
    items = sample(100)
    first, second = halves(items)
    assert halves(items[::-1])[0] == first[::-1]
    assert {one.id for one in first} & {one.id for one in second} == set()
    assert len(first) + len(second) == 100


def test_too_few_items_and_unknown_members_are_refused() -> None:
    with pytest.raises(BadInput, match="at least 40 in each are needed"):
        tune(sample(50), Goal())
    with pytest.raises(BadInput, match="--as-good-as hugo: known: bad, best, cheap, good"):
        tune(sample(), Goal(as_good_as="hugo"))


def test_a_target_above_the_bound_that_is_promised_is_said_to_be_open() -> None:
    found = tune(sample(), Goal(target=0.9))
    shown = told(found, Goal(target=found.promised + 0.01))
    assert f"whether it reaches {found.promised + 0.01:.1%}." in shown
    assert "more labels" not in told(found, Goal(target=found.promised))


def test_a_target_that_nothing_reaches_says_how_near_one_gets() -> None:
    goal = Goal(target=0.9999)
    found = tune(sample(), goal)
    assert not found.reached
    assert "Nothing reaches what is wanted (to be right in 100.0%). Nearest:" in told(found, goal)


def told(found: Tuning, goal: Goal) -> str:
    return tuning_text(found, goal, 100)


def test_the_recommendation_states_quality_price_bound_and_step() -> None:
    goal = Goal(max_usd=4.5)
    found = tune(sample(600), goal)
    best = found.ways[found.recommended]
    text = told(found, goal)
    assert f"${best.usd_1000:.2f} for 1,000 items" in text
    assert f"with a probability of 95% it is right in at least {found.promised:.1%}" in text
    assert "In a plan:\n  " in text
    assert max(map(len, text.split("\n\n")[1].splitlines())) <= 100
    picture = plot(found)
    assert picture.count("<circle") == len(found.ways) + 1
    assert f">{escape(best.way.text())}</text>" in picture, "what is recommended is named"


# ── the table ────────────────────────────────────────────────────────────────────────────────


def test_replies_are_read_with_labels_amounts_and_features(tmp_path: Path) -> None:
    file = tmp_path / "replies.csv"
    file.write_text(
        "item,member,answer,truth,usd,seconds,subject\n"
        "1,a,18.0,$18,0.5,2,math\n1,b,,18,0.1,,math\n2,a,no,Yes,,,law\n"
    )
    assert read_replies(file) == [
        Labelled("1", {"a": LabelledReply("18", True, 0.5, 2.0), "b": LabelledReply(None, False, 0.1)},
                 {"subject": "math"}),
        Labelled("2", {"a": LabelledReply('"no"', False)}, {"subject": "law"}),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("item,member\n", ":1: no column answer"),
        ("item,member,answer\n", ":1: no column truth or right: what is right?"),
        ("item,member,answer,right\n", ": no rows"),
        ("item,member,answer,right\n1,a,x,maybe\n", ":2: `right` is 'maybe', not 1 or 0"),
        ("item,member,answer,right,usd\n1,a,x,1,-2\n", ":2: `usd` is '-2', not an amount"),
        ("item,member,answer,right\n1,a,x,1\n1,a,y,0\n", ":3: a answers 1 twice"),
        ("item,member,answer,truth\n1,a,x,y\n", ": no reply is right: do the labels fit the items"),
    ],
)
def test_a_table_that_cannot_be_used_is_one_line(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "replies.csv"
    file.write_text(text)
    with pytest.raises(BadInput) as caught:
        read_replies(file)
    assert str(caught.value).startswith(f"{file}{why}")
