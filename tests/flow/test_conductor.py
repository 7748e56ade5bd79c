"""The conductor, end to end: the loop of fan-out, barrier, gate, one kick-back and synthesis."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.clock import RealClock
from fanfold.errors import BadInput, Terminal, Transient
from fanfold.gates.checks import regex, require
from fanfold.gates.combine import all_of
from fanfold.gates.default import default
from fanfold.journal import opening
from fanfold.journal.opening import open_store
from fanfold.members.function import function
from fanfold.members.openai import OpenAI
from fanfold.observe.script import open_run
from fanfold.patterns.arguments import Folded
from fanfold.patterns.asked_reduce import asked
from fanfold.patterns.conductor import conduct, over_all
from fanfold.price import dollars
from fanfold.run.run import Run
from fanfold.testing.member import Scripted, traits
from fanfold.testing.running import RunningServer, threaded_server
from fanfold.testing.script import Asked as Request
from fanfold.testing.script import Says
from fanfold.work.ask import Ask, Message, Reply, Usage
from fanfold.work.outcome import PASS, STATES, Missing, Part, Receipt, Verdict, fail, unjudged
from fanfold.work.task import Budget, Task, Terms, Who
from tests.examples import examples, points
from tests.flow.crash_child import PRICE, like
from tests.flow.simulation import (
    Camera,
    Provider,
    Said,
    Scene,
    carry_out,
    outcomes,
    pause_at,
    play,
)
from tests.places import place

USED = Usage(20, 10)
SPECS = [
    {"id": 1, "topic": "auth"},
    {"id": 2, "topic": "rate-limits"},
    {"id": 3, "topic": "schema"},
    {"id": 4, "topic": "memory"},
    {"id": 5, "topic": "telemetry"},
]
FIELDS = ("id", "topic", "claim", "evidence")
REPORT = """\
FLEET REPORT
- reviewed auth [auth_server.py:1]
- reviewed rate-limits [rate-limits_server.py:1]
- reviewed memory [memory_server.py:1]
- reviewed telemetry [telemetry_server.py:1]"""
SAID = """\
fanned out 5 workers; all returned
4 passed, 1 kicked back -> revise
  gate: result 3 missing evidence -> kicking back before synthesis

"""


def finding(spec: dict[str, Any]) -> dict[str, Any]:
    topic = spec["topic"]
    return {**spec, "claim": f"reviewed {topic}", "evidence": f"{topic}_server.py:1"}


def thin(spec: dict[str, Any]) -> dict[str, Any]:
    """The third one forgets its evidence, however often it is told."""
    found = finding(spec)
    if spec["id"] == 3:
        del found["evidence"]
    return found


def fleet_report(parts: Any) -> str:
    topics = {part.value["topic"]: part.value for part in parts}
    lines = [f"- {found['claim']} [{found['evidence']}]" for found in topics.values()]
    return "\n".join(["FLEET REPORT", *lines])


class Told:
    """Specs to conduct, as a pattern for a scene; it keeps what was said and what came of it."""

    def __init__(self, specs: Any = SPECS, **how: Any) -> None:
        self.specs = specs
        self.how = {"prompt": "Review {{ item.topic }}.", **how}
        self.said: list[str] = []
        self.value: Any = "not reached"
        self.missing: list[Missing] = []
        self.ended = -1.0

    async def __call__(self, run: Run) -> Folded:
        folded = await conduct(run, self.specs, say=self.said.append, **self.how)
        self.value, self.ended = folded.value, run.clock.monotonic()
        self.missing = list(folded.missing())
        return folded


def topics(*names: str) -> list[dict[str, str]]:
    return [{"id": name, "topic": name} for name in names]


def about(ask: Ask) -> str:
    """Which topic an ask is about, with a quote for each time that it was kicked back."""
    text = ask.messages[0].content
    topic = text[7:-1] if text.startswith("Review ") else text.split()[0].lower()
    return topic + "'" * (len(ask.turns) // 2)


def by_topic(**replies: str | Exception) -> Callable[[Ask, int], Reply | Exception]:
    """What it says of each topic; `b2` is its reply when b was kicked back. Else `good`."""

    def script(ask: Ask, n: int) -> Reply | Exception:
        given = replies.get(about(ask).replace("'", "2"), "good")
        return Reply(given, usage=USED) if isinstance(given, str) else given

    return script


def values(told: Told) -> dict[str, Any]:
    return {part["id"]: part["value"] for part in told.value}


# ── the example ──────────────────────────────────────────────────────────────────────────────


def test_five_specs_one_without_evidence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is printed is the text of the example; the thin one never reaches the report."""

    async def main() -> Receipt:
        async with open_run("fleet", members=[function(thin)], store=tmp_path) as run:
            folded = await conduct(run, SPECS, gate=require(*FIELDS), synthesise=fleet_report)
            print(folded.value)  # noqa: T201
        assert run.closing is not None
        return run.closing

    receipt = asyncio.run(main())
    assert capsys.readouterr().out == f"{SAID}{REPORT}\n"
    assert (receipt.status, outcomes(receipt)) == ("flagged", {"passed": 4, "kicked": 1})
    assert (receipt.result, receipt.calls) == (REPORT, 6)
    with closing(opening.look(tmp_path)) as archive:
        (run,) = archive.read.runs()
        (kicked,) = archive.read.endings(run.no, ("kicked",))
    assert (kicked.id, kicked.reasons) == ("3", ("missing or empty: `evidence`",))


def test_a_revision_that_passes_is_said_and_synthesised(memory_path: Path) -> None:
    def worker(spec: dict[str, Any], ask: Ask) -> dict[str, Any]:
        return finding(spec) if ask.turns else thin(spec)

    told = Told(gate=require(*FIELDS))
    receipt = play(Scene(memory_path, (function(worker),), pattern=told))
    assert told.said == [
        *SAID.splitlines()[:3],
        "  gate: result 3 revised -> passed",
        "",
    ]
    assert values(told) == {str(spec["id"]): finding(spec) for spec in SPECS}
    assert (receipt.status, outcomes(receipt), receipt.calls) == ("complete", {"passed": 5}, 6)


def test_the_revision_is_told_the_earlier_reply_and_the_reasons(memory_path: Path) -> None:
    asks: list[Ask] = []

    def script(ask: Ask, n: int) -> Reply:
        asks.append(ask)
        return Reply("good" if ask.turns else "bad", usage=USED)

    told = Told(topics("a"), gate=regex("good"))
    play(Scene(memory_path, (Scripted(script),), pattern=told))
    assert asks[1] == asks[0].revised(Reply("bad"), ("the reply does not match good",))


# ── the barrier ──────────────────────────────────────────────────────────────────────────────


def test_nothing_is_judged_or_kicked_back_before_all_have_returned(memory_path: Path) -> None:
    """At most seven at once by default: 20 workers of 1 s take 3 s, and the kick-backs 1 more."""
    judged: list[float] = []

    def gate(task: Task, reply: Reply, ask: Any) -> Verdict:
        judged.append(asyncio.get_running_loop().time())
        return PASS if task.id != "t3" or reply.text == "t3'" else fail("thin")

    member = Scripted(lambda ask, n: Reply(about(ask)), latency=1.0)
    told = Told(topics(*(f"t{n}" for n in range(20))), gate=gate)
    play(Scene(memory_path, (member,), pattern=told))
    assert (member.most_in_flight, told.ended) == (7, 4.0)
    assert Counter(judged) == {3.0: 20, 4.0: 1}


def test_at_once_and_most_can_be_raised(memory_path: Path) -> None:
    member = Scripted(lambda ask, n: Reply("fine"), latency=1.0)
    told = Told(topics(*(f"t{n}" for n in range(60))), at_once=60, most=60)
    receipt = play(Scene(memory_path, (member,), pattern=told))
    assert (outcomes(receipt), member.most_in_flight, told.ended) == ({"passed": 60}, 60, 1.0)


@pytest.mark.parametrize("endless", [False, True])
def test_more_than_forty_are_refused_before_anything_starts(
    memory_path: Path, endless: bool
) -> None:
    member = Scripted(lambda ask, n: Reply("fine"))
    specs: Any = ({"id": n, "topic": "t"} for n in (count() if endless else range(41)))
    with pytest.raises(
        BadInput, match="more than 40 specs; raise `most`, or conduct them in phase"
    ):
        play(Scene(memory_path, (member,), pattern=Told(specs)))
    assert member.asked == []


def test_a_worker_that_fails_loses_nobody_else(memory_path: Path) -> None:
    said: dict[str, Exception] = {
        "b": ZeroDivisionError("oops\nand more"),
        "c": Terminal("400: too long", scope="ask"),
    }
    told = Told(topics("a", "b", "c", "d"))
    receipt = play(Scene(memory_path, (Scripted(by_topic(**said)),), pattern=told))
    assert told.said == [
        "fanned out 4 workers; 2 returned, 2 failed:"
        " b ZeroDivisionError: oops and more; c 400: too long",
        "2 passed, 0 kicked back",
        "",
    ]
    assert (receipt.status, outcomes(receipt)) == ("flagged", {"passed": 2, "failed": 2})
    assert values(told) == {"a": "good", "d": "good"}


def test_a_worker_that_fails_while_it_revises_has_failed(memory_path: Path) -> None:
    script = by_topic(b="bad", b2=ZeroDivisionError("oops"))
    told = Told(topics("a", "b"), gate=regex("good"))
    receipt = play(Scene(memory_path, (Scripted(script),), pattern=told))
    assert told.missing == [Missing("b", 1, "failed", ("ZeroDivisionError: oops",))]
    assert (outcomes(receipt), values(told)) == ({"passed": 1, "failed": 1}, {"a": "good"})


@pytest.mark.parametrize(("policy", "status"), [("hold", "paused"), ("abort", "aborted")])
def test_a_worker_that_fails_holds_or_aborts_as_the_step_says(
    memory_path: Path, policy: str, status: str
) -> None:
    member = Scripted(by_topic(b=ZeroDivisionError("oops")), latency=1.0)
    told = Told(topics(*"abcd"), on_failure=policy, at_once=2)
    receipt = play(Scene(memory_path, (member,), pattern=told))
    assert receipt.status == status
    assert receipt.reason == {
        "hold": "1 failed items are held; resume to try them again",
        "abort": "b: ZeroDivisionError: oops",
    }.get(policy)
    assert (told.value == "not reached") == (policy == "abort")


# ── the gate ─────────────────────────────────────────────────────────────────────────────────


def test_without_a_gate_an_empty_reply_is_caught_all_the_same(memory_path: Path) -> None:
    told = Told(topics("a", "b"))
    receipt = play(Scene(memory_path, (Scripted(by_topic(b=" ", b2="better")),), pattern=told))
    assert told.said == [
        "fanned out 2 workers; all returned",
        "1 passed, 1 kicked back -> revise",
        "  gate: result b the reply is empty -> kicking back before synthesis",
        "  gate: result b revised -> passed",
        "",
    ]
    assert (receipt.status, values(told)) == ("complete", {"a": "good", "b": "better"})


@pytest.mark.parametrize(("revise", "calls"), [(0, 2), (1, 3), (2, 4)])
def test_it_kicks_back_as_often_as_it_may(memory_path: Path, revise: int, calls: int) -> None:
    told = Told(topics("a", "b"), gate=regex("good"), revise=revise)
    script = by_topic(b="bad", b2="bad", b22="bad")
    receipt = play(Scene(memory_path, (Scripted(script),), pattern=told))
    assert (outcomes(receipt), receipt.calls) == ({"passed": 1, "kicked": 1}, calls)
    caught = "  gate: result b the reply does not match good ->"
    back, out = f"{caught} kicking back before synthesis", f"{caught} left out of the synthesis"
    assert told.said[2:-1] == ([back] * revise or [out])


def test_what_a_revision_does_not_mend_goes_to_a_better_member(memory_path: Path) -> None:
    members = (
        Scripted(by_topic(b="bad", b2="bad"), traits("plain")),
        Scripted(by_topic(b="good enough"), traits("better")),
    )
    told = Told(topics("a", "b"), gate=regex("good"), member="plain", escalate=["better"])
    receipt = play(Scene(memory_path, members, pattern=told))
    assert (receipt.status, values(told)) == ("complete", {"a": "good", "b": "good enough"})
    assert members[1].asked == ["Review b."]


def test_a_better_member_comes_after_the_revision_also_for_an_empty_reply(
    memory_path: Path,
) -> None:
    members = (
        Scripted(by_topic(a=" "), traits("plain")),
        Scripted(by_topic(), traits("better")),
    )
    told = Told(topics("a"), member="plain", escalate=["better"])
    receipt = play(Scene(memory_path, members, pattern=told))
    assert (outcomes(receipt), members[1].asked) == ({"passed": 1}, [])


def broken(task: Task, reply: Reply, ask: Any) -> Verdict:
    raise KeyError("x")


async def dead(task: Task, reply: Reply, ask: Any) -> Verdict:
    raise ConnectionError("x")


def only_b(gate: Any) -> Any:
    return lambda task, reply, ask: gate(task, reply, ask) if task.id == "b" else PASS


@pytest.mark.parametrize(
    ("gate", "why"),
    [
        (only_b(broken), f"the gate raised KeyError: 'x'{place(broken)}"),
        (only_b(dead), f"the gate raised ConnectionError: x{place(dead)}"),
        (only_b(lambda task, reply, ask: unjudged("cannot tell")), "cannot tell"),
    ],
)
def test_what_cannot_be_judged_is_left_out_and_not_kicked_back(
    memory_path: Path, gate: Any, why: str
) -> None:
    told = Told(topics("a", "b"), gate=gate)
    receipt = play(Scene(memory_path, (Scripted(by_topic()),), pattern=told))
    assert told.said == [
        "fanned out 2 workers; all returned",
        "1 passed, 0 kicked back, 1 unjudged",
        f"  gate: result b {why} -> left out of the synthesis",
        "",
    ]
    assert (outcomes(receipt), receipt.calls) == ({"passed": 1, "unjudged": 1}, 2)
    assert (receipt.status, values(told)) == ("flagged", {"a": "good"})


def judge(task: Task, reply: Reply, ask: Any) -> Any:
    """A member judges: its calls are the run's own."""
    terms = Terms("judge", default(), who=Who(("judge",)))

    async def asking() -> Verdict:
        about = Ask((Message("user", f"Judge {reply.text}"),))
        said = await ask(Task(f"judge {task.id}", about, terms))
        if said.state != "passed":
            return unjudged("the judge did not answer")
        return PASS if said.value == "yes" else fail(said.value)

    return asking()


def test_a_member_may_be_the_gate(memory_path: Path) -> None:
    """All are judged at the same time, and its calls are budgeted and counted."""

    def rules(ask: Ask, n: int) -> Reply | Exception:
        text = ask.messages[0].content
        if text == "Judge odd":
            return Transient("503")
        return Reply("yes" if text == "Judge good" else "too thin", usage=USED)

    workers = Scripted(by_topic(b="thin", b2="good", c="odd"), traits("worker"))
    judges = Scripted(rules, traits("judge"), latency=1.0)
    told = Told(topics("a", "b", "c"), member="worker", gate=judge)
    receipt = play(Scene(memory_path, (workers, judges), pattern=told))
    assert told.said == [
        "fanned out 3 workers; all returned",
        "1 passed, 1 kicked back, 1 unjudged -> revise",
        "  gate: result b too thin -> kicking back before synthesis",
        "  gate: result c the judge did not answer -> left out of the synthesis",
        "  gate: result b revised -> passed",
        "",
    ]
    assert outcomes(receipt) == {"passed": 2, "unjudged": 1}
    assert [(step.name, step.calls) for step in receipt.steps] == [("conduct", 4), ("judge", 6)]
    assert receipt.cost_usd == dollars(workers.bill + judges.bill)


def no_two_alike(parts: list[Part]) -> dict[str, str]:
    first: dict[Any, str] = {}
    for part in parts:
        first.setdefault(part.value, part.id)
    return {
        part.id: f"says the same as {first[part.value]}"
        for part in parts
        if first[part.value] != part.id
    }


def test_a_gate_over_all_sees_the_results_together(memory_path: Path) -> None:
    """And only those that pass the gate for each; revised, they are looked at together again."""
    said = {"a": "good x", "b": "good x", "c": "bad", "d": "good y"}
    script = by_topic(**said, b2="good y", c2="good z", d2="good y")
    told = Told(topics(*"abcd"), gate=over_all(no_two_alike, each=regex("good")))
    receipt = play(Scene(memory_path, (Scripted(script),), pattern=told))
    assert told.said == [
        "fanned out 4 workers; all returned",
        "2 passed, 2 kicked back -> revise",
        "  gate: result b says the same as a -> kicking back before synthesis",
        "  gate: result c the reply does not match good -> kicking back before synthesis",
        "  gate: result b revised -> passed",
        "  gate: result c revised -> passed",
        "  gate: result d says the same as b -> kicking back before synthesis",
        "",
    ]
    assert (outcomes(receipt), receipt.calls) == ({"passed": 3, "kicked": 1}, 7)
    assert values(told) == {"a": "good x", "b": "good y", "c": "good z"}


def divides(parts: list[Part]) -> Any:
    return 1 / 0


async def later(parts: list[Part]) -> dict[str, list[str]]:
    await asyncio.sleep(1.0)
    return {"b": ["one", "two"], "a": []}


@pytest.mark.parametrize(
    ("fn", "states", "said"),
    [
        (later, {"passed": 1, "kicked": 1}, "one; two -> kicking back before synthesis"),
        (lambda parts: {"z": "odd"}, {"unjudged": 2},
         "the gate raised BadInput: it named 'z', which is no result -> left out of the synthesis"),
        (divides, {"unjudged": 2}, "the gate raised ZeroDivisionError: division by zero"
         f"{place(divides)} -> left out of the synthesis"),
        (lambda parts: None, {"unjudged": 2},
         "the gate raised AttributeError: 'NoneType' object has no attribute 'items'"
         " -> left out of the synthesis"),
    ],
)  # fmt: skip
def test_a_gate_over_all_may_wait_and_may_be_wrong(
    memory_path: Path, fn: Any, states: dict[str, int], said: str
) -> None:
    told = Told(topics("a", "b"), gate=over_all(fn))
    receipt = play(Scene(memory_path, (Scripted(by_topic()),), pattern=told))
    assert outcomes(receipt) == states
    assert f"  gate: result b {said}" in told.said


def test_numbers_as_ids_are_fine_for_a_gate_over_all(memory_path: Path) -> None:
    told = Told(gate=over_all(lambda parts: {3: "no"}), revise=0)
    receipt = play(Scene(memory_path, (function(thin),), pattern=told))
    assert (outcomes(receipt), [one.id for one in told.missing]) == (
        {"passed": 4, "kicked": 1},
        ["3"],
    )


def test_a_filter_takes_out_what_is_not_wanted_before_the_gate(memory_path: Path) -> None:
    told = Told(topics("a", "b"), keep=lambda value: value != "dull", gate=regex("good"))
    receipt = play(Scene(memory_path, (Scripted(by_topic(b="dull")),), pattern=told))
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 1, "skipped": 1})
    assert told.said[:2] == ["fanned out 2 workers; all returned", "1 passed, 0 kicked back"]


@examples(30)
@given(
    st.lists(st.lists(st.sampled_from(["good", "bad", " ", "raise"]), min_size=2, max_size=2),
             max_size=6),
    st.integers(0, 1),
)  # fmt: skip
def test_only_what_passed_is_synthesised_and_every_spec_has_one_outcome(
    tmp_path_factory: pytest.TempPathFactory, scripts: list[list[str]], revise: int
) -> None:
    def says(ask: Ask, n: int) -> Said:
        word = scripts[int(about(ask)[0])][len(ask.turns) // 2]
        given = ZeroDivisionError("oops") if word == "raise" else Reply(word, usage=USED)
        return Said(given, USED)

    def ending(tries: list[str]) -> str:
        for word in tries[: revise + 1]:
            if word in ("good", "raise"):
                return "passed" if word == "good" else "failed"
        return "kicked"

    specs = topics(*(str(n) for n in range(len(scripts))))
    store, provider = tmp_path_factory.mktemp("s"), Provider(says)
    told = Told(specs, gate=all_of(regex("good"), regex("o")), revise=revise)
    receipt = play(Scene(store, (provider,), pattern=told))
    expected = {str(n): ending(tries) for n, tries in enumerate(scripts)}
    assert ended(store) == expected
    assert values(told) == {id: "good" for id, state in expected.items() if state == "passed"}
    assert dollars(provider.bill) <= receipt.cost_usd + 1e-12


def ended(store: Path) -> dict[str, str]:
    with closing(opening.look(store)) as archive:
        (run,) = archive.read.runs()
        found = [(one.id, one.state) for one in archive.read.endings(run.no, STATES)]
    assert len(found) == len(dict(found))
    return dict(found)


# ── synthesis ────────────────────────────────────────────────────────────────────────────────


def test_an_asked_synthesis_is_told_who_is_missing(memory_path: Path) -> None:
    member = Scripted(by_topic(b="bad", b2="bad", sum="one answer"))
    synthesise = asked("Sum up.", step="sum")
    told = Told(topics("a", "b"), gate=regex("good"), synthesise=synthesise)
    receipt = play(Scene(memory_path, (member,), pattern=told))
    assert member.asked[-1] == "Sum up.\n\n### a\ngood\n\nThere is no answer for: b (kicked)"
    assert (told.value, receipt.result, receipt.status) == ("one answer", "one answer", "flagged")


def test_a_synthesis_that_does_not_pass_gives_no_result(memory_path: Path) -> None:
    synthesise = asked("Sum up.", step="sum", gate=regex("one"))
    told = Told(topics("a"), synthesise=synthesise)
    receipt = play(Scene(memory_path, (Scripted(by_topic()),), pattern=told))
    assert (told.value, receipt.status, outcomes(receipt)) == (None, "flagged", {"passed": 1})
    assert receipt.reason == "sum: kicked: the reply does not match one"


def test_when_nothing_passed_no_synthesis_is_asked_for(memory_path: Path) -> None:
    member = Scripted(by_topic(a="bad", a2="bad"))
    told = Told(topics("a"), gate=regex("good"), synthesise=asked("Sum up.", step="sum"))
    receipt = play(Scene(memory_path, (member,), pattern=told))
    assert (told.value, receipt.status, len(member.asked)) == (None, "flagged", 2)


@pytest.mark.parametrize(
    ("synthesise", "value"), [(None, []), (asked("Sum up.", step="sum"), None)]
)
def test_of_no_specs_comes_an_empty_result(memory_path: Path, synthesise: Any, value: Any) -> None:
    told, member = Told([], synthesise=synthesise), Scripted(by_topic())
    receipt = play(Scene(memory_path, (member,), pattern=told))
    assert (told.value, receipt.status, receipt.planned, member.asked) == (value, "complete", 0, [])


def test_one_spec_is_a_batch_too(memory_path: Path) -> None:
    told = Told(topics("a"))
    receipt = play(Scene(memory_path, (Scripted(by_topic()),), pattern=told))
    assert (receipt.status, values(told)) == ("complete", {"a": "good"})
    assert told.said == ["fanned out 1 worker; all returned", "1 passed, 0 kicked back", ""]


@pytest.mark.parametrize(
    ("how", "wrong"),
    [
        ({"specs": topics("a", "b", "a")}, "duplicate id 'a'"),
        ({"member": "nobody"}, "there is no member `nobody`"),
        ({"escalate": ["nobody"]}, "there is no member `nobody`"),
        ({"synthesise": asked("Sum up.", member="nobody")}, "there is no member `nobody`"),
        (
            {"synthesise": 3},
            "`synthesise` must be a function of the parts, such as concat(), or asked(…)",
        ),
    ],
)
def test_bad_input_is_refused_before_anything_is_asked(
    memory_path: Path, how: dict[str, Any], wrong: str
) -> None:
    told, member = Told(**how), Scripted(by_topic())
    with pytest.raises(BadInput) as refused:
        play(Scene(memory_path, (member,), pattern=told))
    assert (wrong in str(refused.value), member.asked, told.said) == (True, [], [])


# ── killed and resumed ───────────────────────────────────────────────────────────────────────

EVERY = ["a", "b", "b'", "c", "d", "d'", "e", "sum"]


def working(ask: Ask, n: int) -> Said:
    """b is mended by its revision, d is not; c takes longest."""
    topic = about(ask)
    text = {"b": "bad b", "d": "bad d", "d'": "bad d'"}.get(topic, f"good {topic}")
    return Said(Reply(text, usage=USED), USED, 3.0 if topic == "c" else 1.0)


def unlike(parts: list[Part]) -> dict[str, str]:
    return {part.id: "bad" for part in parts if part.value.startswith("bad")}


class Noting(Provider):
    """It also notes which ask each call was."""

    def __init__(self, like: Any = None) -> None:
        self.topics: list[str] = []
        super().__init__(self._noted, like)

    def _noted(self, ask: Ask, n: int) -> Said:
        self.topics.append(about(ask))
        return working(ask, n)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("many", points(4, 12))
@pytest.mark.parametrize("free", [False, True])
def test_killed_at_any_point_it_goes_on_and_pays_nothing_twice(
    memory_path: Path, whole: bool, free: bool, many: int
) -> None:
    kind = traits("provider", takes="items", shared=False, metered=False) if free else None
    gate = over_all(unlike) if whole else regex("good")
    how = {"gate": gate, "synthesise": asked("Sum up.", step="sum"), "at_once": 3}
    first, told = Noting(kind), Told(topics(*"abcde"), **how)
    scene = Scene(memory_path / "store", (first,), pattern=told)
    camera = Camera(scene.store, memory_path / "images", lambda: durable(scene.store))
    play(scene, after_commit=camera)
    assert (sorted(first.topics), told.value) == (EVERY, "good sum")
    images = list(camera.seen.items())
    assert len(images) >= 12
    for image, known in Random(str(whole)).sample(images, many):
        second, again = Noting(kind), Told(topics(*"abcde"), **how)
        receipt = play(replace(scene, store=image, members=(second,), pattern=again), resume=True)
        assert (receipt.status, outcomes(receipt)) == ("flagged", {"passed": 4, "kicked": 1})
        assert (again.value, again.said) == (told.value, told.said)
        assert sorted([*second.topics, *known]) == EVERY


def durable(store: Path) -> set[str]:
    """Which asks are answered on disk."""
    with closing(sqlite3.connect(store / "journal.db")) as db:
        filed = [body for (body,) in db.execute("select reply from replies")]
    return {msgspec.json.decode(body)["text"].split(" ", 1)[1] for body in filed}


def test_paused_between_gate_and_revision_it_goes_on_from_there(memory_path: Path) -> None:
    """What had passed is on the account already."""
    provider = Noting()
    scene = Scene(memory_path, (provider,), pattern=Told(topics(*"abcde"), gate=regex("good")))
    receipt = play(scene, meanwhile=pause_at(3.5))
    assert (receipt.status, outcomes(receipt)) == ("paused", {"passed": 3, "cancelled": 2})
    told = Told(topics(*"abcde"), gate=regex("good"))
    again = play(replace(scene, pattern=told), resume=True)
    assert (again.status, outcomes(again)) == ("flagged", {"passed": 4, "kicked": 1})
    assert sorted(provider.topics) == EVERY[:-1]


def test_out_of_money_it_pauses_and_goes_on_with_more(memory_path: Path) -> None:
    provider = Provider(
        lambda ask, n: Said(Reply("good", usage=Usage(20, 400)), Usage(20, 400), 1.0)
    )
    scene = Scene(memory_path, (provider,), pattern=Told(topics(*"abcdef")))
    receipt = play(replace(scene, budget=Budget(usd=0.008)))
    assert (receipt.status, receipt.unfunded) == ("paused", 6)
    assert receipt.cost_usd == dollars(provider.bill) <= 0.008
    told = Told(topics(*"abcdef"))
    again = play(replace(scene, budget=Budget(usd=1.0), pattern=told), resume=True)
    assert (again.status, len(told.value), provider.sent_again) == ("complete", 6, {})


# ── a member dies ────────────────────────────────────────────────────────────────────────────


def dying(after: int) -> Callable[[Ask, int], Reply | Exception]:
    return lambda ask, n: (
        Reply("good", usage=USED) if n < after else Terminal("401: key refused", scope="pool")
    )


def test_when_one_of_two_dies_half_way_the_other_does_the_rest(memory_path: Path) -> None:
    members = (Scripted(dying(2), traits("dies")), Scripted(dying(99), traits("lives")))
    told = Told(topics(*"abcdef"), at_once=2)
    receipt = play(Scene(memory_path, members, pattern=told))
    assert (receipt.status, values(told)) == ("complete", dict.fromkeys("abcdef", "good"))
    assert receipt.cost_usd == dollars(members[0].bill + members[1].bill)


def test_when_the_only_member_dies_the_run_pauses_and_goes_on_later(memory_path: Path) -> None:
    scene = Scene(memory_path, (Scripted(dying(2)),), pattern=Told(topics(*"abcd"), at_once=1))
    receipt = play(scene)
    assert receipt.status == "paused" and "key refused" in (receipt.reason or "")
    told, member = Told(topics(*"abcd"), at_once=1), Scripted(dying(99))
    again = play(replace(scene, members=(member,), pattern=told), resume=True)
    assert (again.status, member.asked) == ("complete", ["Review c.", "Review d."])


# ── over HTTP ────────────────────────────────────────────────────────────────────────────────


def answering(request: Request) -> Says:
    """One topic has to be told twice, one never learns."""
    asked = request.messages[0].text
    bad = "rate-limits" in asked or ("schema" in asked and len(request.messages) == 1)
    return Says(text="bad" if bad else "good")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    script = "tests.flow.test_conductor:answering"
    with threaded_server(tmp_path / "books", script=script, price=PRICE, latency_ms=2.0) as running:
        yield running


def over_http(server: RunningServer, store: Path, told: Told, **changes: Any) -> Receipt:
    scene = Scene(store, (OpenAI(like(), server.url, lambda: "key"),), pattern=told, **changes)
    journal = open_store(store)

    async def main() -> Receipt:
        try:
            return await carry_out(journal, scene, RealClock())
        finally:
            journal.close()

    return asyncio.run(main())


def test_over_http_the_loop_from_fan_out_to_synthesis(
    server: RunningServer, tmp_path: Path
) -> None:
    how = {"gate": regex("good"), "synthesise": asked("Sum up.", step="sum")}
    told = Told(**how)
    receipt = over_http(server, tmp_path, told, budget=Budget(usd=1.0))
    caught = "the reply does not match good -> kicking back before synthesis"
    assert told.said == [
        "fanned out 5 workers; all returned",
        "3 passed, 2 kicked back -> revise",
        f"  gate: result 2 {caught}",
        f"  gate: result 3 {caught}",
        "  gate: result 3 revised -> passed",
        "",
    ]
    assert (told.value, outcomes(receipt)) == ("good", {"passed": 4, "kicked": 1})
    server.wait_idle()
    books = server.books()
    assert (len(books.asked), receipt.calls) == (8, 8)
    assert receipt.cost_usd == dollars(books.bill) > 0
    again = over_http(server, tmp_path, Told(**how), name="again")
    assert (again.calls, again.reused, again.cost_usd) == (0, 8, 0.0)
