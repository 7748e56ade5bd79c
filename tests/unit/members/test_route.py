"""The router: who may, who should, and the reasons in words."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fanfold.errors import BadInput
from fanfold.members.route import Excluded, Need, Ranking, explain, nearest, rank, standing
from fanfold.price import Price
from fanfold.testing.member import traits
from fanfold.work.member import MemberStats, Traits
from tests.examples import examples

CHEAP, DEAR = Price(input=1.0, output=5.0), Price(input=15.0, output=75.0)
FREE = Price()


def order(ranking: Ranking) -> list[tuple[str, int]]:
    return [(one.id, one.grade) for one in ranking.ranked]


def reasons(ranking: Ranking) -> dict[str, str]:
    return {one.id: one.reason for one in ranking.barred}


def member(id: str, **changes: object) -> Traits:
    return traits(id, **{"price": CHEAP, "max_tokens": 100, **changes})


# ── who may ──────────────────────────────────────────────────────────────────────────────────

PAID = {"tier": "paid", "enabled_written": True}


@pytest.mark.parametrize(
    ("one", "need", "in_the_way"),
    [
        (member("m"), Need(), None),
        (member("m", enabled=False), Need(), "switched off (enabled: false)"),
        (member("m", good_at=("a",)), Need(needs=("a", "b", "c")), "not good at b and c"),
        (member("m", good_at=("c", "b", "a")), Need(needs=("a", "b")), None),
        (member("m", context=8192), Need(tokens=8092), None),
        (member("m", context=8192), Need(tokens=8093),
         "its context is 8,192 tokens, 8,093 and 100 for the reply are needed"),
        (member("m", context=None), Need(tokens=10**9), None),
        (member("m", price=None), Need(), None),
        (member("m", price=None), Need(dollars=True),
         "its price is not known, and there is a dollar budget"),
        (member("m", price=None, budget_usd_month=1.0), Need(),
         "its price is not known, and there is a dollar budget"),
        (member("m", price=FREE), Need(dollars=True), None),
        (member("m", **PAID), Need(), "paid; allow it with --allow-paid or settings.allow_paid"),
        (member("m", tier="paid"), Need(),
         "paid; allow it with --allow-paid or settings.allow_paid, and write enabled: true,"
         " or name it"),
        (member("m", **PAID), Need(allow_paid=True), None),
        (member("m", tier="paid"), Need(allow_paid=True),
         "paid; write enabled: true, or name it"),
        (member("m", tier="paid"), Need(allow_paid=True, members=("m",)), None),
        (member("m", tier="paid"), Need(members=("m",)),
         "paid; allow it with --allow-paid or settings.allow_paid"),
        (member("m"), Need(closed={"m": "bad key"}), "bad key"),
        (member("m"), Need(closed={"n": "bad key"}), None),
    ],
)  # fmt: skip
def test_who_may(one: Traits, need: Need, in_the_way: str | None) -> None:
    ranking = rank([one], need)
    assert reasons(ranking) == ({} if in_the_way is None else {"m": in_the_way})
    assert order(ranking) == ([("m", 0)] if in_the_way is None else [])


def test_a_named_member_that_is_not_there_may_not() -> None:
    ranking = rank([member("a")], Need(members=("b", "a")))
    assert (order(ranking), ranking.barred) == ([("a", 0)], (Excluded("b", "not in the roster"),))


# ── who should ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("members", "need", "wanted"),
    [
        # more skills are no reason to come later: a free local one goes before a paid specialist
        ([member("narrow", good_at=("law",), **PAID),
          member("wide", good_at=("law", "sums", "prose"), price=FREE)],
         Need(needs=("law",), allow_paid=True), [("wide", 0), ("narrow", 1)]),
        # all who are good at what is needed fit alike, and those alike keep the roster's order
        ([member("wide", good_at=("law", "sums")), member("narrow", good_at=("law",))],
         Need(needs=("law",)), [("wide", 0), ("narrow", 0)]),
        ([member("narrow", good_at=("law",)), member("wide", good_at=("law", "sums"))],
         Need(), [("narrow", 0), ("wide", 0)]),
        # at the same cost, local before paid
        ([member("far", **PAID), member("here")],
         Need(allow_paid=True), [("here", 0), ("far", 1)]),
        # cost: free first, then the cheaper one
        ([member("dear", price=DEAR), member("cheap"), member("free", price=FREE)],
         Need(), [("free", 0), ("cheap", 1), ("dear", 2)]),
        # where nothing is paid by the call, local before subscription
        ([member("login", price=FREE, tier="subscription"), member("here", price=FREE)],
         Need(), [("here", 0), ("login", 1)]),
        ([member("login", price=None, tier="subscription"), member("here", price=None)],
         Need(), [("here", 0), ("login", 1)]),
        # a paid member whose price nobody knows is taken for the dearest
        ([member("unknown", price=None, **PAID), member("dear", price=DEAR, **PAID)],
         Need(allow_paid=True), [("dear", 0), ("unknown", 1)]),
        # a flat price counts against tokens, at the size of this very task
        ([member("flat", price=Price(call=0.02)), member("counted")],
         Need(tokens=1_000), [("counted", 0), ("flat", 1)]),
        ([member("flat", price=Price(call=0.02)), member("counted")],
         Need(tokens=100_000), [("flat", 0), ("counted", 1)]),
        # max_tokens is a bound, not a cost
        ([member("long", max_tokens=9000), member("short")], Need(), [("long", 0), ("short", 0)]),
        # within a class: the less busy, though it comes later in the roster
        ([member("a"), member("b")], Need(busy={"a": 0.5}), [("b", 0), ("a", 0)]),
        # but cost goes before capacity
        ([member("a"), member("b", price=DEAR)], Need(busy={"a": 1.0}), [("a", 0), ("b", 1)]),
        # those that are named are one class, as they were named
        ([member("a"), member("b", price=DEAR), member("c", good_at=("x",))],
         Need(members=("b", "a")), [("b", 0), ("a", 0)]),
    ],
)  # fmt: skip
def test_who_should(members: list[Traits], need: Need, wanted: list[tuple[str, int]]) -> None:
    assert order(rank(members, need)) == wanted


@pytest.mark.parametrize(
    ("stats", "wanted"),
    [
        ({"a": MemberStats(0.5, 1.0), "b": MemberStats(0.9, 9.0)}, ["b", "a"]),
        ({"a": MemberStats(0.9, 9.0), "b": MemberStats(0.9, 1.0)}, ["b", "a"]),
        ({"a": MemberStats(0.91, 1.1), "b": MemberStats(0.94, 1.0)}, ["a", "b"]),  # nearly alike
        ({"a": MemberStats(0.4, 1.0)}, ["b", "a"]),  # who was never asked gets a chance
    ],
)
def test_the_past_decides_between_those_of_one_class(
    stats: dict[str, MemberStats], wanted: list[str]
) -> None:
    assert [id for id, _ in order(rank([member("a"), member("b")], Need(), stats))] == wanted


def test_the_past_does_not_make_a_dear_member_cheap() -> None:
    stats = {"a": MemberStats(0.1, 60.0), "b": MemberStats(1.0, 0.1)}
    assert order(rank([member("a"), member("b", price=DEAR)], Need(), stats)) == [
        ("a", 0),
        ("b", 1),
    ]


def test_ties_rotate() -> None:
    members = [member("a"), member("b"), member("c")]
    first = [rank(members, Need(turn=turn)).ranked[0].id for turn in range(6)]
    assert first == ["a", "b", "c", "a", "b", "c"]


def test_use_takes_the_best() -> None:
    members = [member("dear", price=DEAR), member("cheap"), member("free", price=FREE)]
    ranking = rank(members, Need(use=2))
    assert [one.id for one in ranking.chosen] == ["free", "cheap"]
    assert [one.id for one in ranking.ranked] == ["free", "cheap", "dear"]


def test_standing_is_coarse() -> None:
    assert standing(None) == (0, 0)
    assert standing(MemberStats(1.0, 0.0)) == (0, 0)
    assert standing(MemberStats(0.95, 1.0)) == (1, 1)
    assert standing(MemberStats(0.0, 64.0)) == (10, 7)


# ── in words ─────────────────────────────────────────────────────────────────────────────────


def test_everything_is_explained() -> None:
    members = [
        member("haiku", good_at=("legal", "summaries"), **PAID),
        member("opus", good_at=("legal",), price=DEAR, **PAID),
        member("rules", good_at=("legal",), price=FREE),
        member("off", good_at=("legal",), enabled=False),
        member("wc", good_at=("counting",)),
    ]
    need = Need(needs=("legal",), allow_paid=True, use=2, busy={"rules": 0.25})
    ranking = rank(members, need, {"rules": MemberStats(0.875, 1.25, 1200)})
    assert explain(ranking) == [
        "1. rules: good at legal; local, free; 25% busy; 88% success, 1.2 s, in 1,200 calls",
        "2. haiku: good at legal; paid, about $0.003500 a call",
        "3. opus (not among those to use): good at legal; paid, about $0.052500 a call",
        "-  off: switched off (enabled: false)",
        "-  wc: not good at legal",
    ]
    assert [one.why for one in ranking.ranked] == [
        "best that is good at legal",
        "next best that is good at legal",
        "next best that is good at legal",
    ]


def test_the_record_says_in_few_words_why() -> None:
    two = [member("a"), member("b")]
    assert [one.why for one in rank(two, Need()).ranked] == ["one of the 2 best"] * 2
    assert [one.why for one in rank(two[:1], Need()).ranked] == ["cheapest"]
    assert [one.why for one in rank(two, Need(members=("a", "b"))).ranked] == ["named"] * 2


HAIKU = member("haiku", good_at=("legal",), context=8192)


@pytest.mark.parametrize(
    ("members", "need", "miss"),
    [
        ([], Need(), "the roster has no members; add one, or name a roster with --roster"),
        ([HAIKU, member("wc", good_at=("counting",))], Need(needs=("legal", "extraction")),
         "no member is good at legal and extraction; nearest: haiku (legal)"),
        ([HAIKU], Need(needs=("sums",)),
         "no member is good at sums; add it to a member's good_at"),
        ([HAIKU, member("m", context=4096)], Need(tokens=50_000),
         "needs 50,000 tokens, the largest context is 8,192 (haiku), 100 of it for the reply"),
        ([member("off", enabled=False)], Need(),
         "no member may be used; enable one in the roster, or --allow-paid"),
        ([member("m", **PAID)], Need(), "no member may be used;"
         " nearest: m (paid; allow it with --allow-paid or settings.allow_paid)"),
        ([member("a"), member("b")], Need(closed={"a": "bad key", "b": "no credit"}),
         "no member may be used; nearest: a (bad key)"),
    ],
)  # fmt: skip
def test_nobody_fits_and_the_nearest_miss_is_told(
    members: list[Traits], need: Need, miss: str
) -> None:
    ranking = rank(members, need)
    assert (ranking.miss, ranking.ranked) == (miss, ())
    with pytest.raises(BadInput) as caught:
        _ = ranking.chosen
    assert caught.value.what == miss


def test_the_nearest_is_good_at_most_of_it() -> None:
    members = [member("a", good_at=("x",)), member("b", good_at=("z", "x")), member("c")]
    assert nearest(("x", "y", "z"), members) == "b (x and z)"
    assert nearest(("q",), members) == ""


# ── whatever the members are ─────────────────────────────────────────────────────────────────

WORDS = st.lists(st.sampled_from(["a", "b", "c"]), unique=True, max_size=3).map(tuple)
PRICES = st.sampled_from([None, FREE, CHEAP, DEAR, Price(call=0.01)])


@st.composite
def some_members(draw: st.DrawFn) -> list[Traits]:
    ids = draw(st.lists(st.sampled_from("mnopqrs"), unique=True, max_size=7))
    return [
        traits(
            id, good_at=draw(WORDS), price=draw(PRICES), enabled=draw(st.booleans()),
            tier=draw(st.sampled_from(["local", "subscription", "paid"])),
            enabled_written=draw(st.booleans()), context=draw(st.sampled_from([None, 500, 5000])),
        )
        for id in ids
    ]  # fmt: skip


NEEDS = st.builds(
    Need,
    needs=WORDS,
    tokens=st.sampled_from([0, 450, 10_000]),
    dollars=st.booleans(),
    use=st.sampled_from([None, 1, 3]),
    allow_paid=st.booleans(),
    closed=st.dictionaries(st.sampled_from("mnopqrs"), st.just("closed"), max_size=2),
    busy=st.dictionaries(st.sampled_from("mnopqrs"), st.floats(0, 1), max_size=3),
    turn=st.integers(0, 20),
)


def may(one: Traits, need: Need) -> bool:
    """The rule, once more and by itself."""
    return (
        one.enabled
        and set(need.needs) <= set(one.good_at)
        and (one.context is None or need.tokens + one.max_tokens <= one.context)
        and (one.price is not None or not need.dollars)
        and (one.tier != "paid" or (need.allow_paid and one.enabled_written))
        and one.id not in need.closed
    )


@examples(300)
@given(some_members(), NEEDS)
def test_everyone_is_placed_once_and_nobody_who_may_not(members: list[Traits], need: Need) -> None:
    ranking = rank(members, need)
    found = [one.id for one in ranking.ranked] + [one.id for one in ranking.barred]
    assert sorted(found) == sorted(one.id for one in members)
    assert {one.id for one in ranking.ranked} == {one.id for one in members if may(one, need)}
    assert bool(ranking.miss) == (not ranking.ranked)
    grades = [one.grade for one in ranking.ranked]
    assert grades == sorted(grades)
    assert sorted(set(grades)) == list(range(len(set(grades))))
    chosen = [one.chosen for one in ranking.ranked]
    most = len(chosen) if need.use is None else min(need.use, len(chosen))
    assert chosen == [n < most for n in range(len(chosen))]
    assert len(explain(ranking)) == len(members)


@examples(200)
@given(some_members(), NEEDS, st.integers())
def test_the_order_of_the_roster_only_sorts_those_who_are_alike(
    members: list[Traits], need: Need, seed: int
) -> None:
    shuffled = list(members)
    Random(seed).shuffle(shuffled)
    assert sorted(order(rank(shuffled, need))) == sorted(order(rank(members, need)))
    plain = replace(need, busy={}, turn=0)
    positions = {one.id: n for n, one in enumerate(shuffled)}
    found = [(grade, positions[id]) for id, grade in order(rank(shuffled, plain))]
    assert found == sorted(found)


@examples(200)
@given(some_members(), NEEDS, WORDS)
def test_more_skills_change_no_ones_place(
    members: list[Traits], need: Need, more: tuple[str, ...]
) -> None:
    able = {one.id for one in rank(members, need).ranked}
    skilled = [
        replace(one, good_at=tuple({*one.good_at, *more})) if one.id in able else one
        for one in members
    ]
    assert order(rank(skilled, need)) == order(rank(members, need))


@examples(200)
@given(some_members(), NEEDS, st.integers(0, 20))
def test_turning_moves_nobody_out_of_its_class(
    members: list[Traits], need: Need, turn: int
) -> None:
    other = Need(
        needs=need.needs, tokens=need.tokens, dollars=need.dollars, allow_paid=need.allow_paid,
        closed=need.closed, busy=need.busy, turn=turn,
    )  # fmt: skip
    assert sorted(order(rank(members, other))) == sorted(order(rank(members, need)))
