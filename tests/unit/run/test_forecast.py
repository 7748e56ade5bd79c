"""Forecasts: what asks will take, as arithmetic. The worst case is a bound, whatever is replied."""

from __future__ import annotations

from math import sqrt
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

from fanfold.gates.checks import predicate, require
from fanfold.journal import opening
from fanfold.journal.answers import CallHistory, KnownReply
from fanfold.members.roster import load_roster
from fanfold.price import Price, worst
from fanfold.run.demand import worst_case
from fanfold.run.forecast import Forecast, Note, at_once, in_turn, in_words
from fanfold.run.meter import (
    REASONS_BYTES,
    Meter,
    Prepares,
    StepMembers,
    forecast,
)
from fanfold.run.remaining import RemainingAsks, Survey
from fanfold.testing.member import Scripted, traits
from fanfold.work.ask import KICKED_BYTES, REPLY_BYTES, Ask, Message, Reply, Usage
from fanfold.work.member import MemberLimits
from fanfold.work.outcome import PASS, Outcome, Verdict, fail
from fanfold.work.task import Task, Terms
from tests.examples import examples
from tests.flow.simulation import Provider, Said, Scene, play

PRICE = Price(input=1.0, output=5.0)  # 1,000 and 5,000 nano-dollars a token


def ask(text: str = "x" * 400) -> Ask:
    return Ask((Message("user", text),))


def member(id: str = "m", **changes: Any) -> Scripted:
    return Scripted(lambda ask, n: Reply("ok"), traits(id, **changes))


def left(text: str = "x" * 400, kicks: int = 0, **more: Any) -> RemainingAsks:
    made = ask(text)
    return RemainingAsks(made, made, kicks, **more)


# ── expected ─────────────────────────────────────────────────────────────────────────────────


def test_without_history_a_reply_is_a_quarter_of_what_it_may_be() -> None:
    """400 bytes are 100 tokens; of max_tokens 100, 25; at the 90th percentile 50."""
    made = forecast([left() for _ in range(10)], StepMembers("map", (member(),)))
    assert made == Forecast(
        step="map", tasks=10, calls=10, input=1000, output=250,
        p50=10 * (100_000 + 125_000), variance=pytest.approx((10 * 125_000 / 1.2816) ** 2),
        worst=10 * (1_424_000 + 500_000), most_calls=10, most_tokens=10 * 1524,
        seconds=None, at_least=True, measured=False,
        notes=(Note("no history for m at {}: output taken as a quarter of max_tokens", "map"),),
    )  # fmt: skip
    assert made.p90 == 10 * (100_000 + 250_000)


def test_with_history_the_cost_is_n_times_the_mean_and_p90_grows_with_the_root_of_n() -> None:
    past = CallHistory(
        50, "map", cost=300_000, cost_variance=40_000.0**2, input=120, output=30, latency=2
    )
    made = forecast([left() for _ in range(100)], StepMembers("map", (member(),), past={"m": past}))
    assert (made.p50, made.input, made.output) == (30_000_000, 12_000, 3000)
    assert made.p90 == round(30_000_000 + 1.2816 * sqrt(100) * 40_000)
    assert (made.measured, made.notes) == (True, ())


def test_kick_backs_on_record_are_expected_again_but_not_those_of_a_vote() -> None:
    past = CallHistory(50, "map", cost=100_000, input=100, output=10, kicks=0.25)
    cast = StepMembers("map", (member(),), past={"m": past})
    lefts = [left(kicks=1) for _ in range(100)]
    assert forecast(lefts, cast).calls == 125
    assert forecast(lefts, msgspec.structs.replace(cast, votes=True)).calls == 100


def test_prompts_unlike_those_on_record_are_counted_by_their_size() -> None:
    past = CallHistory(50, "map", cost=300_000, input=20, output=30)
    made = forecast([left()], StepMembers("map", (member(),), past={"m": past}))
    assert (made.input, made.output, made.p50) == (100, 30, 100_000 + 150_000)
    assert [note.what for note in made.notes] == [
        "{}: the prompts are not like those on record for m; counted by their size"
    ]


def test_history_of_other_steps_gives_the_length_of_replies() -> None:
    past = CallHistory(50, None, cost=300_000, input=100, output=30)
    made = forecast([left()], StepMembers("map", (member(),), past={"m": past}))
    assert (made.input, made.output, made.p50, made.measured) == (100, 30, 250_000, True)
    assert in_words(made.notes) == [
        "no history for m at map: replies as long as its 50 at other steps"
    ]


def test_a_price_that_is_not_known_is_no_cost_at_all() -> None:
    cast = StepMembers("map", (member(price=None),))
    made = forecast([left()], cast)
    assert (made.p50, made.p90, made.worst, made.calls) == (None, None, None, 1)
    assert "m has no known price: its cost cannot be told" in in_words(made.notes)
    nothing = forecast([], cast)
    assert (nothing.p50, nothing.worst, nothing.notes) == (0, 0, ())


def test_functions_are_free_and_a_flat_price_is_taken_as_it_is() -> None:
    free = forecast([left(kicks=1)], StepMembers("map", (member(metered=False, price=Price()),)))
    assert (free.calls, free.p50, free.worst, free.most_calls, free.measured) == (1, 0, 0, 2, True)

    class Flat:
        traits = traits("wc", price=Price(call=0.01))

        def prepare(self, ask: Ask) -> Any:
            return msgspec.structs.replace(member().prepare(ask), input_tokens=0, output_tokens=0)

    flat = forecast([left(kicks=1)], StepMembers("map", (Flat(),)))
    assert (flat.p50, flat.p90, flat.worst, flat.notes) == (10_000_000, 10_000_000, 20_000_000, ())


def test_members_share_the_calls_and_the_dearest_bounds_them() -> None:
    cheap, dear = member("a"), member("b", price=Price(input=2.0, output=10.0))
    made = forecast([left() for _ in range(4)], StepMembers("map", (cheap, dear)))
    assert made.p50 == 2 * 225_000 + 2 * 450_000
    assert made.worst == 4 * 2 * 1_924_000


def test_reused_asks_cost_nothing() -> None:
    known = RemainingAsks(None, ask(), 1, reused=1)
    made = forecast([known, left()], StepMembers("map", (member(),)))
    assert (made.tasks, made.calls, made.reused, made.most_calls) == (1, 1, 1, 1)


def test_replies_that_do_not_exist_yet_make_an_ask_longer() -> None:
    made = forecast([left(typical=400, most=8000)], StepMembers("map", (member(),)))
    assert (made.input, made.worst) == (200, 1_924_000 + 8_000_000)


# ── time ─────────────────────────────────────────────────────────────────────────────────────


def timed(calls: int, latency: float | None, **limits: Any) -> Forecast:
    one = member(limits=MemberLimits(**limits))
    past = {} if latency is None else {
        "m": CallHistory(9, "map", cost=1.0, input=100, output=20, latency=latency)
    }  # fmt: skip
    return forecast(
        [left() for _ in range(calls)], StepMembers("map", (one,), concurrency=8, past=past)
    )


@pytest.mark.parametrize(
    ("calls", "latency", "limits", "seconds", "at_least"),
    [
        (17, 2.0, {}, 6.0, False),
        (17, 2.0, {"concurrency": 4}, 10.0, False),
        (98, 0.1, {"rpm": 60}, 100.0, False),
        (98, 0.1, {"tpm": 7200}, 100.0, False),
        (98, None, {"rpm": 60}, 100.0, True),
        (98, None, {}, None, True),
        (0, None, {}, 0.0, False),
    ],
)
def test_time_goes_by_waves_and_by_rates(
    calls: int, latency: float | None, limits: dict[str, int], seconds: float, at_least: bool
) -> None:
    made = timed(calls, latency, **limits)
    assert made.seconds == (None if seconds is None else pytest.approx(seconds))
    assert made.at_least is at_least


# ── sums ─────────────────────────────────────────────────────────────────────────────────────

amounts = st.builds(
    Forecast, tasks=st.integers(0, 99), calls=st.integers(0, 99), p50=st.integers(0, 10**9),
    variance=st.floats(0, 1e18), worst=st.integers(10**9, 10**12), most_calls=st.integers(0, 99),
    seconds=st.none() | st.floats(0, 1e6),
)  # fmt: skip


@given(st.lists(amounts, min_size=1, max_size=5))
def test_forecasts_add_up(parts: list[Forecast]) -> None:
    whole = in_turn(parts)
    assert (whole.tasks, whole.p50, whole.worst) == (
        sum(one.tasks for one in parts), sum(one.p50 or 0 for one in parts),
        sum(one.worst or 0 for one in parts),
    )  # fmt: skip
    assert whole.variance == pytest.approx(sum(one.variance for one in parts))
    known = [one.seconds for one in parts if one.seconds is not None]
    assert whole.seconds == (pytest.approx(sum(known)) if known else None)
    beside = at_once(parts)
    assert beside.seconds == max(known, default=None)
    assert msgspec.structs.replace(beside, seconds=whole.seconds) == whole


def test_one_unknown_price_makes_the_sum_unknown() -> None:
    whole = Forecast(p50=1, worst=2) + Forecast(p50=None, worst=None)
    assert (whole.p50, whole.p90, whole.worst) == (None, None, None)


def test_a_sample_stands_for_the_whole() -> None:
    made = Forecast(tasks=10, calls=12, p50=100, variance=16.0, worst=900, measured=True)
    assert made.scaled(2.5) == Forecast(tasks=25, calls=30, p50=250, variance=40.0, worst=2250)
    guessed = msgspec.structs.replace(made, measured=False).scaled(3)
    assert guessed.variance == 144.0  # an assumption is wrong for all alike


def test_the_same_note_about_several_steps_is_said_once() -> None:
    notes = [Note("{}: guessed", "a"), Note("not read"), Note("{}: guessed", "b")]
    assert in_words(notes) == ["a, b: guessed", "not read"]


# ── the worst case ───────────────────────────────────────────────────────────────────────────


@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(st.text(min_size=1, max_size=60), min_size=1, max_size=5, unique=True),
    revise=st.integers(0, 3),
    better=st.lists(st.sampled_from([1.0, 9.0]), max_size=2),
    most=st.integers(5, 400),
    wide=st.integers(1, REPLY_BYTES),
    reasons=st.integers(1, REASONS_BYTES - 400),
)
@example(
    texts=["x", "y"],
    revise=3,
    better=[9.0],
    most=400,
    wide=REPLY_BYTES,
    reasons=REASONS_BYTES - 400,
)
def test_nothing_the_ledger_reserves_is_above_the_worst_case(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], revise: int, better: list[float],
    most: int, wide: int, reasons: int,
) -> None:  # fmt: skip
    """Every reply is as long as it may be, every item is kicked back as often as it can be, then
    escalated; what was reserved for each call stands in the journal."""
    store = tmp_path_factory.mktemp("worst")

    def says(given: Ask, n: int) -> Said:
        number = len(given.turns)
        return Said(Reply(f"{number}{'x' * (most * wide)}"[: most * wide], usage=Usage(9, most)))

    likes = [traits("first", price=PRICE, max_tokens=most)]
    likes += [traits(f"better{n}", price=Price(input=p, output=p), max_tokens=most)
              for n, p in enumerate(better)]  # fmt: skip
    members = tuple(Provider(says, like) for like in likes)
    never = lambda task, reply, power: fail("y" * reasons)  # noqa: E731
    how = {"gate": never, "revise": revise, "escalate": [t.id for t in likes[1:]],
           "member": "first"}  # fmt: skip
    play(Scene(store, members, texts, how=how))
    prompts = [Ask((Message("user", f"Say {text}"),)) for text in texts]
    lefts = [RemainingAsks(prompt, prompt, revise) for prompt in prompts]
    bound = forecast(lefts, StepMembers("map", members[:1], members[1:]))
    archive = opening.look(store)
    run = archive.read.find("scene")
    assert run is not None
    attempts = archive.read.attempts(run.no)
    archive.close()
    assert len(attempts) == bound.most_calls == len(texts) * (1 + revise + len(better))
    assert bound.worst is not None
    assert sum(attempt.reserved for attempt in attempts) <= bound.worst


ROSTER = """
members:
  - {id: claude, kind: anthropic, model: claude-haiku-4-5, key: env:A_KEY_THAT_IS_NOT_SET}
  - {id: gpt, kind: openai, model: gpt-4o-mini, key: env:A_KEY_THAT_IS_NOT_SET}
  - {id: here, kind: openai, model: m, base_url: "http://127.0.0.1:9", price: {input: 1, output: 2}}
  - {id: wc, kind: command, cmd: [wc], price: {call: 0.25}}
"""


@pytest.mark.parametrize("id", ["claude", "gpt", "here", "wc"])
@given(text=st.text(max_size=300), reply=st.text(min_size=1, max_size=400), n=st.integers(1, 3))
@examples(30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_members_need_no_key_to_be_bounded(
    tmp_path: Path, id: str, text: str, reply: str, n: int
) -> None:
    """Built but not opened, no key there: what each would reserve for the whole chain of kick-backs
    is within the worst case, also with signs that JSON writes with six bytes."""
    (tmp_path / "roster.yaml").write_text(ROSTER)
    one = load_roster(tmp_path / "roster.yaml").build(id, folder=tmp_path)
    size = len(msgspec.json.encode(reply)) - 2
    most = -(-size // REPLY_BYTES)
    params = msgspec.structs.replace(ask().params, max_tokens=most)
    first = msgspec.structs.replace(ask(text), params=params)
    chain, reserved = first, 0
    for _ in range(n + 1):
        reserved += worst_case(one.traits, one.prepare(chain)).usd
        chain = chain.revised(Reply(reply), ("r" * 500, "s" * 500))
    made = forecast([RemainingAsks(first, first, n)], StepMembers("map", (one,)))
    assert made.worst is not None
    assert reserved <= made.worst
    if id == "wc":
        assert reserved == made.worst == (n + 1) * 250_000_000


def test_a_kick_back_has_a_bound_that_stands_in_the_forecast() -> None:
    """However long the reply is, and whatever its bytes: 50 MB here."""
    one = Provider(lambda ask, n: Said(Reply("")), traits("m", price=PRICE, max_tokens=9000))
    first = ask("x" * 400)
    bulky = first.revised(Reply("\x01" * 50_000_000), ("y" * 100_000,))
    reserved = sum(worst_case(one.traits, one.prepare(each)).usd for each in (first, bulky))
    made = forecast([RemainingAsks(first, first, 1)], StepMembers("map", (one,)))
    assert made.worst is not None
    assert worst(PRICE, KICKED_BYTES, 9000) < reserved <= made.worst


def test_a_shard_is_one_call_and_at_worst_all_its_items_alone_too() -> None:
    meter = Meter(StepMembers("map", (member(),)))
    lefts = [left(kicks=1), left("y" * 40, kicks=1)]
    meter.add_shard(lefts, ask("z" * 600))
    made = meter.forecast()
    assert (made.tasks, made.calls, made.most_calls) == (2, 1, 1 + 2 * 2)
    turn = 100 * REPLY_BYTES + REASONS_BYTES
    sizes = [600, 400, 400 + turn, 40, 40 + turn]
    assert made.worst == sum(worst(PRICE, 1024 + size, 100) for size in sizes)


def test_a_member_that_cannot_make_a_request_is_not_asked() -> None:
    class Broken:
        traits = traits("b")

        def prepare(self, ask: Ask) -> Any:
            raise ValueError("half a surrogate pair")

    everyone: tuple[Prepares, ...] = (Broken(), member())
    assert forecast([left()], StepMembers("map", everyone)).worst == 1_924_000
    assert forecast([left()], StepMembers("map", (Broken(),))).most_calls == 0


# ── what is left, with replies on record ─────────────────────────────────────────────────────


def surveyed(
    asks: list[Ask], known: dict[bytes, Reply], gate: Any = None, **terms: Any
) -> list[RemainingAsks]:
    made = Terms(step="map", gate=gate or (lambda task, reply, power: PASS), **terms)
    found = {key: KnownReply(1, "a", "m", reply) for key, reply in known.items()}
    survey = Survey(("messages",), lambda keys: {k: found[k] for k in keys if k in found})
    return survey.remaining([Task(str(n), one, made) for n, one in enumerate(asks)])


def test_what_is_on_record_is_not_left() -> None:
    a, b = ask("a"), ask("b")
    assert surveyed([a, b], {a.key("messages"): Reply("A")}) == [
        RemainingAsks(None, a, 1, reused=1, reply=Reply("A")),
        RemainingAsks(b, b, 1),
    ]


def test_a_reply_on_record_that_fails_the_gate_of_now_leads_to_its_kick_back() -> None:
    gate = require("x")
    first, thin, good = ask("a"), Reply(data={"y": 1}), Reply(data={"x": 1})
    terms = Terms(step="map", gate=gate)
    verdict = gate(Task("0", first, terms), thin, _nobody)
    assert isinstance(verdict, Verdict)
    again = first.revised(thin, verdict.reasons)
    key = first.key("messages")
    assert surveyed([first], {key: thin}, gate) == [RemainingAsks(again, first, 0, reused=1)]
    both = {key: thin, again.key("messages"): good}
    assert surveyed([first], both, gate) == [RemainingAsks(None, first, 0, reused=2, reply=good)]
    assert surveyed([first], {key: thin}, gate, revise=0) == [
        RemainingAsks(None, first, 0, reused=1)
    ]
    better = surveyed([first], {key: thin}, gate, revise=0, escalate=("b",))
    assert better == [RemainingAsks(first, first, -1, reused=1)]


def test_a_judge_is_not_asked_but_what_may_follow_is_left() -> None:
    async def judged() -> Verdict:
        raise AssertionError("nobody is asked here")

    a = ask("a")
    found = surveyed([a], {a.key("messages"): Reply("A")}, lambda task, reply, power: judged())
    assert found == [RemainingAsks(a, a, 1, reused=1, answered=True, reply=Reply("A"))]
    made = forecast(found, StepMembers("map", (member(),)))
    assert (made.tasks, made.calls, made.most_calls) == (0, 0, 1)


def test_the_same_content_twice_is_asked_once_and_bounded_as_two() -> None:
    a = ask("a")
    found = surveyed([a, a], {})
    assert [one.asks for one in found] == [True, False]
    made = forecast(found, StepMembers("map", (member(),)))
    assert (made.tasks, made.calls, made.most_calls) == (1, 1, 2 + 1)


def test_a_survey_within_a_run_calls_no_code_of_the_users() -> None:
    """A gate that ends the process is met where it is on record that it began, not in a forecast."""
    a, called = ask("a"), list[str]()
    known = {a.key("messages"): KnownReply(1, "m", "m", Reply("A"))}
    gate = predicate(lambda value: called.append(value))
    survey = Survey(("messages",), lambda keys: known, careful=True)
    (left,) = survey.remaining([Task("", a, Terms("map", gate))])
    assert (left.asks, left.answered, called) == (False, True, [])


def test_items_that_are_filtered_out_or_flawed_have_nothing_left() -> None:
    a = ask("a")
    kept = surveyed([a], {a.key("messages"): Reply("A")}, keep=lambda task, reply: False)
    assert kept == [RemainingAsks(None, a, 1, reused=1)]
    terms = Terms(step="map", gate=lambda task, reply, power: PASS)
    survey = Survey(("messages",), lambda keys: {})
    assert survey.remaining([Task("0", a, terms, flaw="no field")]) == [RemainingAsks(None, a, 1)]


async def _nobody(task: Task) -> Outcome:
    raise AssertionError("nobody is asked here")
