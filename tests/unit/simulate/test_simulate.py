"""A simulation says what a run would have come to, and nothing but."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from fanfold.clock import VirtualClock, run_virtual
from fanfold.errors import BadInput, RateLimited, Transient
from fanfold.journal.opening import look, open_store
from fanfold.plans.carry import carry_out
from fanfold.plans.inputs import open_input
from fanfold.plans.output import Output
from fanfold.plans.prepare import Job, Options, prepare
from fanfold.run.member_sources import GivenMembers
from fanfold.run.open import finish
from fanfold.run.record import start
from fanfold.run.run import Run
from fanfold.run.settings import Settings
from fanfold.simulate.behaviour import Behaviour, PastCall, parse_members
from fanfold.simulate.history import CallRecords, SeenCalls
from fanfold.simulate.report import PlanSimulation, simulation
from fanfold.simulate.runs import Figures, Simulator, extrapolated
from fanfold.simulate.sample import sampled_items
from fanfold.simulate.show import picture, simulation_text
from fanfold.simulate.stand_in import Premise
from fanfold.simulate.what_if import Scenario, parse_what_ifs
from fanfold.testing.member import Scripted
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.outcome import Receipt

ROSTER = """\
members:
  - id: ada
    kind: openai
    model: one
    base_url: "http://127.0.0.1:9/v1"
    key: none
    price: {input: 1, output: 5}
    max_tokens: 200
    limits: {concurrency: 32}
  - id: ben
    kind: openai
    model: two
    base_url: "http://127.0.0.1:9/v1"
    key: none
    price: {input: 10, output: 50}
    max_tokens: 200
"""
PLAN = """\
name: reviews
roster: roster.yaml
input: {count: ITEMS}
steps:
  - map:
      prompt: "Sum up number {{ item.id }}"
      member: ada
      gate: {regex: "^good"}
"""
AS_IT_IS = "concurrency=8"  # without other rows


def job_of(folder: Path, plan: str = PLAN, items: int = 80) -> Job:
    (folder / "roster.yaml").write_text(ROSTER)
    (folder / "plan.yaml").write_text(plan.replace("ITEMS", str(items)))
    return prepare(str(folder / "plan.yaml"), Options())


def simulator(
    job: Job, members: tuple[str, ...], tried: list[Scenario], store: str = "", **how: int
) -> Simulator:
    plan, names = job.stored.plan, list(job.roster.entries)
    records, stated = CallRecords(look(store) if store else None), parse_members(members, names)
    premise = Premise(job.roster, Path(plan.folder), False, records, stated)
    assert plan.input is not None
    source = open_input(plan.input, plan.folder)
    items, whole = sampled_items(plan, source, how.get("sample", 200), tried)
    return Simulator(job, premise, items, whole, how.get("seed", 0))


def simulated(
    job: Job, *members: str, what_if: tuple[str, ...] = (), store: str = "", **how: int
) -> PlanSimulation:
    tried = parse_what_ifs(what_if, list(job.roster.entries))
    made = simulator(job, members, tried, store, **how)
    return simulation(made, tried, how.get("runs", 3), how.get("seed", 0))


def real_run(job: Job, place: str, script: Callable[[Ask, int], Any]) -> Receipt:
    """The same plan on the virtual clock, with a member that is scripted, on record at `place`."""
    plan = job.stored.plan
    assert plan.input is not None
    source = open_input(plan.input, plan.folder)
    ada = Scripted(
        script, msgspec.structs.replace(job.roster.entries["ada"].traits, keeps_time=False)
    )

    async def main(clock: VirtualClock) -> Receipt:
        store = open_store(place)
        record = await start(store, plan.name, clock, job.budget)
        run = Run(store, record, GivenMembers(ada), Settings(), clock)
        await carry_out(run, plan, source, lambda line: None, Output(run, plan, None))
        receipt = await finish(store, run)
        store.close()
        return receipt

    return run_virtual(main)


def behaved(refused: float, errors: float, bad: float) -> Callable[[Ask, int], Any]:
    """Latencies with a long tail, refusals, errors, and replies that the gate does not pass."""
    chance = Random(9)

    async def script(ask: Ask, n: int) -> Reply | Exception:
        drawn = chance.random()
        if drawn < refused:
            return RateLimited("busy", retry_after=0.5)
        if drawn < refused + errors:
            return Transient("HTTP 500")
        await asyncio.sleep(chance.lognormvariate(0.7, 0.6))
        text = "bad reply" if chance.random() < bad else "good reply"
        return Reply(text=text, usage=Usage(chance.randint(40, 60), chance.randint(20, 120)))

    return script


def test_what_is_simulated_from_the_record_agrees_with_the_run_it_is_of(tmp_path: Path) -> None:
    """Time, calls, cost and outcomes of the real run lie within what is simulated, give or take 10 %."""
    job = job_of(tmp_path, items=150)
    real = real_run(job, "memory:truth", behaved(refused=0.05, errors=0.05, bad=0.2))
    found = simulated(job, store="memory:truth", what_if=(AS_IT_IS,), runs=4).total
    assert real.kicked > 0 and real.calls > 170
    for known, spread in (
        (real.seconds, found.seconds), (real.calls, found.calls), (real.cost_usd, found.usd),
        (real.passed, found.outcomes["passed"]),
    ):  # fmt: skip
        assert 0.9 * spread.p10 <= known <= 1.1 * spread.p90, (known, spread)
        assert abs(spread.mean - known) <= 0.1 * known, (known, spread)
    assert abs(found.outcomes["kicked"].mean - real.kicked) <= 0.05 * 150


@pytest.mark.sweep
def test_a_sample_comes_to_what_the_whole_comes_to(tmp_path: Path) -> None:
    """An asked reduce and a second step included: what grows with the items is extrapolated."""
    plan = (
        PLAN
        + """\
  - map: {name: second, prompt: "Translate {{ steps.map }}", member: ada}
  - reduce: {kind: ask, member: ben, prompt: "Join {{ parts }}", fan_in: 10}
"""
    )
    job, how = job_of(tmp_path, plan, items=180), "ada:latency=1s,p95=3s,kicked=0.1,output=80"
    whole, part = (
        simulated(job, how, sample=sample, what_if=(AS_IT_IS,), runs=3) for sample in (200, 80)
    )
    assert (whole.items, whole.simulated, part.simulated) == (180, 180, 80)
    for name in ("usd", "seconds", "calls", "tokens"):
        expected, found = (getattr(one.total, name).p50 for one in (whole, part))
        assert abs(found - expected) <= 0.1 * expected, (name, expected, found)
    assert [one.name for one in part.steps] == ["map", "second", "reduce"]


def test_a_billion_numbered_items_are_not_walked(tmp_path: Path) -> None:
    job = job_of(tmp_path, items=10**9)
    found = simulated(job, "ada:latency=1s,p95=2s,output=80", sample=20, what_if=(AS_IT_IS,))
    assert (found.items, found.simulated) == (10**9, 64)
    assert found.total.calls.mean == 10**9


def test_more_than_a_million_simulated_items_are_refused(tmp_path: Path) -> None:
    job = job_of(tmp_path, items=10**9)
    with pytest.raises(
        BadInput, match="a concurrency of 900,000 takes a sample of 7,200,000 items"
    ):
        simulated(job, what_if=("concurrency=900000",))


def test_the_same_seed_says_the_same_and_another_one_something_else(tmp_path: Path) -> None:
    job, how = job_of(tmp_path, items=30), "ada:latency=2s,errors=0.1,refused=0.05,kicked=0.2"
    first, again, other = (
        simulated(job, how, seed=seed, what_if=(AS_IT_IS,), runs=3) for seed in (1, 1, 2)
    )
    assert first == again
    assert first.total != other.total


# ── what is tried ────────────────────────────────────────────────────────────────────────────


def test_what_ifs_do_what_they_say(tmp_path: Path) -> None:
    job = job_of(tmp_path, items=32)
    what_if = ("budget=0.01", "rpm=ada:30", "slots=ada:1", "outage=ada:10m@5s", "concurrency=8,32")
    found = simulated(job, "ada:latency=2s,p95=3s,output=100", what_if=what_if, runs=3)
    rows, plain = {one.name: one for one in found.what_if}, found.total
    assert list(rows) == [
        "budget=0.01", "rpm=ada:30", "slots=ada:1", "outage=ada:10m@5s", "concurrency=8",
        "concurrency=32",
    ]  # fmt: skip
    assert plain.outcomes.keys() == {"passed"}
    poor = rows["budget=0.01"]
    assert poor.usd.p90 <= 0.01 < plain.usd.p10
    assert poor.outcomes["passed"].mean + poor.outcomes["unfunded"].mean == 32
    assert rows["rpm=ada:30"].seconds.p10 >= 60
    assert rows["slots=ada:1"].seconds.p50 > 5 * plain.seconds.p50
    assert 600 <= rows["outage=ada:10m@5s"].seconds.p50 < 600 + 4 * plain.seconds.p50
    assert rows["outage=ada:10m@5s"].outcomes["passed"].mean == 32
    assert rows["concurrency=8"].seconds == plain.seconds
    assert rows["concurrency=32"].seconds.p50 < plain.seconds.p50 / 2


def test_where_no_call_takes_time_nothing_is_said_of_concurrency(tmp_path: Path) -> None:
    """As with functions, of which nothing is on record."""
    (tmp_path / "roster.yaml").write_text("members: [{id: f, kind: function, target: 'm:f'}]")
    (tmp_path / "plan.yaml").write_text(
        "name: p\nroster: roster.yaml\ninput: {count: 9}\nsteps: [{map: {member: f}}]"
    )
    found = simulated(prepare(str(tmp_path / "plan.yaml"), Options()), what_if=("concurrency=2",))
    assert found.advice.startswith("No call takes time here, so nothing can be said")


def test_the_advice_says_what_binds(tmp_path: Path) -> None:
    job = job_of(tmp_path, PLAN.replace("gate:", "concurrency: 4\n      gate:"), items=50)
    limits = ROSTER.replace("{concurrency: 32}", "{concurrency: 32, rpm: 120}")
    (tmp_path / "roster.yaml").write_text(limits)
    job = prepare(str(tmp_path / "plan.yaml"), Options())
    found = simulated(job, "ada:latency=4s,p95=5s", what_if=("concurrency=8,24",), runs=3)
    assert found.advice.startswith("Beyond a concurrency of 8 nothing is gained: at 24, ")
    assert found.advice.endswith("waiting for the rate limit of ada (rpm).")
    alone = simulated(job_of(tmp_path, items=20), "ada:latency=2s", runs=3)
    assert [one.name for one in alone.what_if] == ["concurrency=4", "concurrency=16"]
    assert alone.advice == (
        "A concurrency of 16 is the fastest of those tried, and more may be faster still."
    )


# ── patterns ─────────────────────────────────────────────────────────────────────────────────

STEPS = {
    "shards": "- map: {prompt: 'Sum up {{ item.id }}', member: ada, shard: {items: 5}}",
    "escalation": "- map: {prompt: 'Sum up {{ item.id }}', member: ada, escalate: [ben]}",
    "judge": (
        "- map: {prompt: 'Sum up {{ item.id }}', member: ada,"
        " gate: {judge: {prompt: 'Good? {{ reply }}', member: ben}}}"
    ),
    "vote": "- ensemble: {prompt: 'Yes? {{ item.id }}', members: [ada, ben], samples: 2}",
    "rank": "- rank: {prompt: 'Which is best?', member: ada}",
    "resolve": (
        "- resolve: {prompt: 'The same?', member: ada, block: {on: [name], neighbours: 2}}"
    ),
    "watch": (
        "- map: {prompt: 'Sum up {{ item.id }}', member: ada,"
        " watch: {truth: item.name, target: 0.9, rate: 1, on_drift: pause}}"
    ),
    "fields": (
        "- map: {prompt: 'Sum up {{ item.id }}', member: ada, schema: {type: object,"
        " properties: {title: {type: string}}, required: [title]}}\n"
        "  - map: {name: next, prompt: 'More: {{ steps.map.title }}', member: ada}"
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_each_shape_of_work_is_simulated_to_its_end(tmp_path: Path, name: str) -> None:
    items = ", ".join(f"{{id: i{n}, name: the same word {n}}}" for n in range(12))
    given = f"name: x\nroster: roster.yaml\ninput: {{list: [{items}]}}"
    text = f"{given}\nsteps:\n  {STEPS[name]}\n"
    found = simulator(job_of(tmp_path, text), ("ada:latency=1s",), []).simulate(Scenario(), 1)
    assert found.of("total", "", "passed") == found.of("total", "", "planned"), found.ended
    assert found.of("total", "", "planned") >= [12]
    assert found.of("total", "", "usd") > [0] and found.of("total", "", "seconds") > [0]


def test_members_escalate_as_often_as_replies_are_refused(tmp_path: Path) -> None:
    job = job_of(tmp_path, PLAN.replace("gate:", "escalate: [ben]\n      gate:"), items=160)
    found = simulator(job, ("ada:latency=1s,kicked=0.5",), []).simulate(Scenario(), 1)
    (calls,) = found.of("member", "ben", "calls")
    assert 25 <= calls <= 55, "both replies of ada were refused: a quarter of 160"
    assert found.of("total", "", "passed") == [160]


def test_no_items_come_to_nothing(tmp_path: Path) -> None:
    found = simulated(job_of(tmp_path, PLAN.replace("{count: ITEMS}", "{list: []}")), runs=3)
    assert (found.items, found.total.calls.mean, found.total.outcomes) == (0, 0, {})


def test_programs_take_no_tokens(tmp_path: Path) -> None:
    given = "name: x\nroster: roster.yaml\ninput: {count: 4}\nsteps:\n"
    steps = "  - command: {cmd: [wc], prompt: 'x {{ item.n }}', price: {call: 0.5}}\n"
    total = simulated(job_of(tmp_path, given + steps), runs=3).total
    assert (total.calls.mean, total.tokens.mean, total.usd.mean) == (4, 0, 2.0)


def test_what_an_agent_without_bounds_costs_has_to_be_stated(tmp_path: Path) -> None:
    given = "name: x\nroster: roster.yaml\ninput: {count: 4}\nsteps:\n"
    job = job_of(tmp_path, f"{given}  - map: {{prompt: 'x {{{{ item.n }}}}', member: ada}}\n")
    (tmp_path / "roster.yaml").write_text(
        "members:\n  - {id: ada, kind: claude, enabled: true}\nsettings: {allow_paid: true}\n"
    )
    job = prepare(str(tmp_path / "plan.yaml"), Options(allow_paid=True))
    with pytest.raises(BadInput, match="nothing bounds what a call of `ada` costs") as found:
        simulated(job, runs=3)
    assert str(found.value).endswith("state it, such as --member ada:usd=0.50")
    assert simulated(job, "ada:usd=0.5", runs=3).total.usd.mean == 2.0


@pytest.mark.parametrize(("many", "said"), [(1, "1 call"), (2, "2 calls")])
def test_how_many_calls_are_on_record_is_said_in_words(many: int, said: str) -> None:
    seen = SeenCalls(good=[PastCall(0.1)] * many)
    assert seen.behaviour("on record").known == f"on record: {said}, 0.0% without a reply"


def test_what_is_not_simulated_is_said(tmp_path: Path) -> None:
    given = "name: x\nroster: roster.yaml\ninput: {count: 4}\nsteps:\n"
    tools = "tools: [{function: 'own:look'}]"
    (tmp_path / "own.py").write_text('def look(x: int) -> int:\n    "Looks."\n    return x\n')
    job = job_of(tmp_path, f"{given}  - map: {{prompt: 'x', member: ada, {tools}}}\n")
    assert simulated(job, runs=3).known[-1] == "map: its tools are not called"


# ── parts ────────────────────────────────────────────────────────────────────────────────────


def test_a_line_and_a_constant_are_extrapolated_and_deviations_grow_less() -> None:
    def taken(seconds: float, calls: float, once: float) -> Figures:
        return {
            ("total", "", "seconds"): seconds, ("total", "", "calls"): calls,
            ("step", "once", "calls"): once, ("total", "", "passed"): calls / 2,
        }  # fmt: skip

    runs, parts = [taken(109, 100, 1), taken(111, 104, 1)], [taken(34, 25, 1), taken(36, 26, 1)]
    found = extrapolated(runs, parts, 100, 400)
    assert [round(one["total", "", "seconds"]) for one in found] == [408, 412]
    assert [round(one["total", "", "calls"]) for one in found] == [404, 412]
    assert [one["total", "", "passed"] for one in found] == [202, 206]
    assert [one["step", "once", "calls"] for one in found] == [1, 1], "asked once, whatever comes"


def test_faults_are_drawn_as_often_as_they_are_stated() -> None:
    stated = parse_members(["ada:errors=0.2,refused=0.1,latency=2s,p95=6s"], ["ada"])["ada"]
    how, chance = stated.over(Behaviour(calls=(PastCall(9.0, Usage(5, 7)),))), Random(3)
    drawn = [how.fault(chance) for _ in range(4000)]
    names = [one and one[0] for one in drawn]
    assert abs(names.count("error") / 4000 - 0.2) < 0.03
    assert abs(names.count("refused") / 4000 - 0.1) < 0.03
    times = sorted(how.call(chance).seconds for _ in range(4000))
    assert abs(times[2000] - 2.0) < 0.2 and abs(times[3800] - 6.0) < 0.9
    assert how.call(chance).usage == Usage(5, 7)


def test_a_refusal_is_on_record_as_one(tmp_path: Path) -> None:
    """So that history tells refusals, which are waited out, from errors, which use attempts up."""
    job = job_of(tmp_path, items=40)
    real_run(job, "memory:refusals", behaved(refused=0.3, errors=0.1, bad=0.0))
    view = look("memory:refusals")
    run = view.read.runs()[-1]
    lost = [one.lost for one in view.read.attempts(run.no) if one.state == "error"]
    assert {"refused", ""} == set(lost)
    records = CallRecords(view).behaviour(job.roster.entries["ada"].traits, "map")
    assert records is not None
    assert records.faults["refused"].rate > records.faults["error"].rate > 0


def test_nothing_on_record_of_another_model_counts(tmp_path: Path) -> None:
    job = job_of(tmp_path, items=10)
    real_run(job, "memory:model", behaved(0.0, 0.0, 0.0))
    ada = job.roster.entries["ada"].traits
    records = CallRecords(look("memory:model"))
    assert records.behaviour(ada, "map") is not None
    elsewhere = records.behaviour(ada, "another step")
    assert elsewhere is not None and elsewhere.known.startswith("on record at other steps")
    assert records.behaviour(msgspec.structs.replace(ada, answerer="openai:new"), "map") is None


def test_text_and_picture_have_every_row(tmp_path: Path) -> None:
    found = simulated(job_of(tmp_path, items=20), what_if=("budget=1", "rpm=ada:100"), runs=3)
    text, drawn = simulation_text(found, 100), picture(found)
    for name in ("as it is", "budget=1", "rpm=ada:100", "concurrency=4"):
        assert name in text and drawn.count(f">{name}<") == 2
    assert "ada at map: assumed: 2 s a call (95 % within 6 s), no errors, no kick-backs" in text
    assert max(map(len, text.splitlines())) <= 100
    assert drawn.startswith("<svg") and drawn.endswith("</svg>\n")


@pytest.mark.parametrize(("given", "what"), [
    ("ada", "write NAME:latency=2s"), ("bob:latency=2s", "no member `bob`"),
    ("ada:speed=2", "unknown field `speed`"), ("ada:latency=fast", "90s, 30m or 6h"),
    ("ada:errors=2", "a share from 0 to 1"), ("ada:errors=x", "an amount"),
    ("ada:p95=2s", "needs a `latency`"), ("ada:latency=3s,p95=2s", "is less than `latency`"),
    ("ada:errors=0.6,refused=0.5", "add up to 1.1"), ("ada:latency", "`latency` has no value"),
])  # fmt: skip
def test_a_mistake_in_a_stated_member_is_named(given: str, what: str) -> None:
    with pytest.raises(BadInput, match=what) as found:
        parse_members([given], ["ada", "ben"])
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(("given", "what"), [
    ("speed=2", "unknown kind `speed`"), ("concurrency", "a value is missing"),
    ("concurrency=0", "at least 1"),
    ("concurrency=8,x", "'x'"), ("budget=none", "--what-if budget=none"), ("rpm=60", "MEMBER:VALUE"),
    ("rpm=bob:60", "no member `bob`"), ("rpm=ada:fast", "whole number"),
    ("outage=ada:soon", "ada:10m@90s"), ("budget=-1", "budget"),
])  # fmt: skip
def test_a_mistake_in_a_what_if_is_named(given: str, what: str) -> None:
    with pytest.raises(BadInput, match=what) as found:
        parse_what_ifs([given], ["ada", "ben"])
    assert "\n" not in str(found.value)


def test_several_values_are_several_rows() -> None:
    found = parse_what_ifs(["concurrency=8, 16", "rpm=ada:60,120", "budget=usd=5,calls=9"], ["ada"])
    assert [one.name for one in found] == [
        "concurrency=8", "concurrency=16", "rpm=ada:60", "rpm=ada:120", "budget=usd=5,calls=9",
    ]  # fmt: skip
    assert found[2] == Scenario(name="rpm=ada:60", member="ada", rpm=60)
