"""Routing on recorded answers of real models: chosen on one half of the questions, held to the aim on
the other, through the engine with `replay` members at their real prices."""

from __future__ import annotations

import asyncio
from xml.etree import ElementTree

import pytest

from bench.chart import drawn
from bench.contests import (
    A_POINT,
    HALF_THE_COST,
    Choice,
    Contest,
    Scored,
    always,
    by_oracle,
    cascaded,
    choose,
    contests,
    mixing,
    routed,
    scored,
)
from bench.recorded import DATA
from bench.routing import LEGEND, SVG, TITLE, line, play, plot, ways

GSM = ("GSM8K, ZeroEval", "GSM8K, RouteLLM")
PAGE = SVG.parent.parent / "routing.md"
COPIES = ("recorded_zeroeval_gsm/calls.csv", "recorded_routellm/gsm8k.csv",
          "recorded_routellm/mmlu.jsonl", "recorded_prices/prices.csv")  # fmt: skip


pytestmark = pytest.mark.slow
Chosen = tuple[Contest, Choice]
Scores = dict[str, dict[str, Scored]]


@pytest.fixture(scope="module")
def found() -> dict[str, Chosen]:
    return {contest.name: (contest, choose(contest)) for contest in contests()}


@pytest.fixture(scope="module")
def played(found: dict[str, Chosen], tmp_path_factory: pytest.TempPathFactory) -> Scores:
    """GSM8K, each way through the engine, on the half that nothing was chosen on."""
    folder = tmp_path_factory.mktemp("played")
    return {
        name: {way: asyncio.run(play(folder, found[name][0], does))
               for way, does in ways(*found[name]).items()}
        for name in GSM
    }  # fmt: skip


def worked_out(contest: Contest, choice: Choice) -> dict[str, Scored]:
    """The same from the records alone."""
    _, other = contest.halves
    single = contest.single
    return {
        "always weak": always(contest, other, contest.weak),
        "always strong": always(contest, other, contest.strong),
        **({"best cheap one alone": always(contest, other, single)} if single else {}),
        "router": routed(contest, other, choice.router),
        **{f"cascade, {name}: {one}": cascaded(contest, other, one)
           for name, one in choice.cascades.items()},
    }  # fmt: skip


@pytest.mark.sweep
@pytest.mark.parametrize("name", GSM)
def test_a_cascade_is_as_good_as_the_strong_member_at_half_its_cost(
    played: Scores, name: str
) -> None:
    """That the weak one agrees with itself is as good, too, but costs a little more than half: one
    cheap voice more brings that down."""
    strong = played[name]["always strong"]
    cascades = {way: score for way, score in played[name].items() if way.startswith("cascade")}
    good = {way for way, one in cascades.items() if one.accuracy >= strong.accuracy - A_POINT}
    cheap = {way for way, one in cascades.items() if one.usd <= HALF_THE_COST * strong.usd}
    assert len(cascades) == 2
    assert good == cascades.keys()
    assert cheap == cascades.keys() - {"cascade, Mixtral with itself: 2 of 2 agree"}


@pytest.mark.parametrize("name", GSM)
def test_the_engine_asks_and_pays_as_worked_out_and_the_page_says_so(
    found: dict[str, Chosen], played: Scores, name: str
) -> None:
    """Each reply is paid by the tokens it reports; nobody is asked who is not needed."""
    expected = worked_out(*found[name])
    assert {way: pytest.approx(score) for way, score in expected.items()} == played[name]
    page = PAGE.read_text(encoding="utf-8").splitlines()
    contest, _ = found[name]
    missing = [way for way, one in played[name].items() if line(contest, way, one) not in page]
    assert missing == []


def test_a_router_beats_chance_where_it_can_tell_the_cheap_questions(
    found: dict[str, Chosen],
) -> None:
    """MMLU: by three points at the same cost, mostly since short questions cost little there. GSM8K:
    by less than one."""
    over = {}
    for name, (contest, choice) in found.items():
        _, other = contest.halves
        score = routed(contest, other, choice.router)
        assert score.usd <= HALF_THE_COST * always(contest, other, contest.strong).usd
        over[name] = score.accuracy - mixing(contest, other, score.usd)
    assert {name: round(100 * gain, 1) for name, gain in over.items()} == {
        "GSM8K, ZeroEval": 0.7, "GSM8K, RouteLLM": 0.9, "MMLU, RouteLLM": 3.3,
    }  # fmt: skip


def test_nothing_is_chosen_by_the_half_that_is_reported(found: dict[str, Chosen]) -> None:
    for contest, choice in found.values():
        first, other = contest.halves
        assert {one.id for one in first}.isdisjoint(one.id for one in other)
        assert choose(contest._replace(halves=(first, []))) == choice


def test_nobody_is_right_more_often_than_the_oracle(found: dict[str, Chosen]) -> None:
    for contest, choice in found.values():
        oracle = scored(contest, (by_oracle(contest, one) for one in contest.halves[1]))
        others = worked_out(contest, choice)
        assert {way for way, one in others.items() if one.accuracy > oracle.accuracy} == set()


def test_the_picture_is_the_one_the_bench_draws(found: dict[str, Chosen]) -> None:
    picture = drawn(TITLE, [plot(*one) for one in found.values()], LEGEND)
    assert SVG.read_text(encoding="utf-8") == picture
    assert ElementTree.fromstring(picture).tag == "{http://www.w3.org/2000/svg}svg"


def test_the_copies_are_small() -> None:
    assert sum((DATA / copy).stat().st_size for copy in COPIES) < 300_000
