"""A member judges: pass, fail with its reasons, or unjudged; its calls are the run's own."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fanfold.errors import BadInput, RunStopped, Transient
from fanfold.gates.checks import require
from fanfold.gates.combine import all_of
from fanfold.gates.judge import judge
from fanfold.gates.kinds import from_plan
from fanfold.journal import opening
from fanfold.testing.member import Scripted, traits
from fanfold.work.ask import Ask, Message, Reply, Usage
from fanfold.work.item import Item
from fanfold.work.outcome import PASS, Outcome, State, Verdict, fail, unjudged
from fanfold.work.task import Budget, Gate, Task, Terms, Who
from tests.flow.simulation import Scene, outcomes, pause_at, play

USED = Usage(10, 5)


class Bench:
    """Stands in for the run: answers as told, and keeps what it was asked."""

    def __init__(self, said: Any = None, state: State = "passed", *reasons: str) -> None:
        self._outcome = Outcome("c-1", state, Reply(data=said), reasons)
        self.asked: list[Task] = []

    async def __call__(self, task: Task) -> Outcome:
        self.asked.append(task)
        return self._outcome


def judging(gate: Gate, bench: Any, reply: Any = "fine") -> Verdict:
    ask = Ask((Message("user", "How is it?"),), (Item("c-1", {"text": "a text"}),))
    task = Task("c-1", ask, Terms("map", gate))
    given = Reply(reply) if isinstance(reply, str) else Reply(data=reply)

    async def main() -> Verdict:
        said = gate(task, given, bench)
        return said if isinstance(said, Verdict) else await said

    return asyncio.run(main())


# ── what it says ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ({"pass": True, "reasons": ["good"]}, PASS),
        ({"pass": False, "reasons": ["too short", "too dull"]}, fail("too short", "too dull")),
        ({"pass": False}, fail("the judge does not accept it")),
        ({"pass": False, "reasons": []}, fail("the judge does not accept it")),
        ({"pass": "yes"}, unjudged("the judge's reply has no `pass`")),
        ({"score": 9}, unjudged("the judge's reply has no `pass`")),
        ("yes", unjudged("the judge's reply has no `pass`")),
    ],
)
def test_pass_or_fail_with_its_reasons(said: Any, verdict: Verdict) -> None:
    assert judging(judge("Good?"), Bench(said)) == verdict


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ({"score": 7}, PASS),
        ({"score": "7.5"}, PASS),
        ({"score": 6.5}, fail("the judge gives it 6.5, less than 7")),
        ({"score": 0, "reasons": ["no"]}, fail("no")),
        ({"score": None}, unjudged("the judge's reply has no `score`")),
        ({"pass": True}, unjudged("the judge's reply has no `score`")),
    ],
)
def test_a_score_passes_from_the_threshold_on(said: Any, verdict: Verdict) -> None:
    assert judging(judge("How good?", threshold=7), Bench(said)) == verdict


@pytest.mark.parametrize("state", ["failed", "kicked", "unjudged", "in_doubt"])
def test_a_judge_that_gives_no_verdict_leaves_it_unjudged(state: State) -> None:
    found = judging(judge("Good?"), Bench(None, state, "it is gone"))
    assert found == unjudged(f"the judge: {state}: it is gone")


def test_a_run_that_stops_stops_the_judge_too() -> None:
    async def stopped(task: Task) -> Outcome:
        raise RunStopped("paused: enough")

    with pytest.raises(RunStopped, match="paused: enough"):
        judging(judge("Good?"), stopped)


def test_it_is_asked_only_about_what_passes_the_other_gates() -> None:
    bench = Bench({"pass": True})
    gate = all_of(judge("Good?"), require("a"))
    assert judging(gate, bench, {"b": 1}) == fail("missing or empty: `a`")
    assert bench.asked == []
    assert (judging(gate, bench, {"a": 1}), len(bench.asked)) == (PASS, 1)


# ── what it is asked ─────────────────────────────────────────────────────────────────────────


def asked_with(prompt: str, reply: Any = "fine", **how: Any) -> Task:
    bench = Bench({"pass": True, "score": 1})
    judging(judge(prompt, **how), bench, reply)
    (task,) = bench.asked
    return task


def test_what_the_prompt_does_not_show_is_appended() -> None:
    assert asked_with("Good?").ask.messages == (
        Message("user", "Good?\n\n### What was asked\nHow is it?\n\n### The reply\nfine"),
    )
    assert asked_with("On {{ item.text }}: is {{ reply }} good?").ask.messages == (
        Message("user", "On a text: is fine good?"),
    )
    shown = asked_with("{{ question }} {{ reply.a }}", {"a": 1}).ask.messages[0].content
    assert shown == "How is it? 1"


def test_the_ask_has_its_own_terms_and_no_place() -> None:
    task = asked_with("Good?", member="m", step="court", revise=0, threshold=1)
    assert (task.id, task.place) == ("c-1", None)
    assert (task.terms.step, task.terms.who, task.terms.revise) == ("court", Who(("m",)), 0)
    assert task.ask.items == (
        Item("c-1", {"question": "How is it?", "item": {"text": "a text", "id": "c-1"}, "reply": "fine"}),
    )  # fmt: skip
    assert task.ask.schema is not None
    assert task.ask.schema.definition["required"] == ["score"]


def test_in_a_plan() -> None:
    gate = from_plan(
        [{"judge": {"prompt": "Is {{ reply }} good?", "member": "m", "threshold": 7}}], lambda t: t
    )
    bench = Bench({"score": 6, "reasons": ["dull"]})
    assert judging(gate, bench) == fail("dull")
    assert bench.asked[0].terms.who == Who(("m",))


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({}, "gate `judge` needs the field `prompt`"),
        ("Good?", "gate `judge` takes a mapping of prompt, member"),
        ({"prompt": "{{ repl }}"}, "template: `repl` is not defined"),
        ({"prompt": "Good?", "treshold": 7}, "gate `judge` has no field `treshold`"),
        ({"prompt": "Good?", "threshold": "high"}, "`threshold` must be a number"),
        ({"prompt": "Good?", "threshold": "7"}, "`threshold` must be a number, not the text '7'"),
        ({"prompt": "Good?", "member": ["m"]}, "gate `judge`: `member` is a text, not ['m']"),
        ({"prompt": "Good?", "schema": "x"}, "gate `judge`: `schema` is a JSON Schema, not 'x'"),
        ({"prompt": "Good?", "schema": {"type": 3}}, "not a valid JSON Schema"),
    ],
)
def test_a_mistake_shows_when_the_gate_is_made(spec: Any, says: str) -> None:
    with pytest.raises(BadInput) as raised:
        from_plan([{"judge": spec}], lambda target: target)
    assert raised.value.what.startswith(says)


# ── in a run ─────────────────────────────────────────────────────────────────────────────────


def writer(ask: Ask, n: int) -> Reply:
    """Short at first; better when told so. A shard is answered item by item."""
    if len(ask.items) > 1:
        answers = [{"id": item.id, "answer": "short"} for item in ask.items]
        return Reply(data={"answers": answers}, usage=USED)
    return Reply("a long answer" if ask.turns else "short", usage=USED)


def strict(ask: Ask, n: int) -> Reply:
    good = ask.items[0].data["reply"] != "short"
    return Reply(data={"pass": good, "reasons": [] if good else ["too short"]}, usage=USED)


def scene(store: Path, judge_says: Any = strict, **how: Any) -> Scene:
    members = (Scripted(writer, traits("writer"), 1.0), Scripted(judge_says, traits("judge"), 1.0))
    gate = judge("Is it long?", member="judge")
    return Scene(store, members, ["one", "two"], how={"member": "writer", "gate": gate, **how})


@pytest.mark.parametrize("shard", [None, 2])
def test_its_reasons_go_into_the_kick_back(memory_path: Path, shard: int | None) -> None:
    play_it = scene(memory_path, **({} if shard is None else {"shard": shard}))
    receipt = play(play_it)
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 2})
    assert [part["value"] for part in receipt.result] == ["a long answer"] * 2
    author, court = play_it.members
    assert isinstance(author, Scripted) and isinstance(court, Scripted)
    assert "- too short\n" in author.asked[-1]
    assert {step.name: step.calls for step in receipt.steps} == {
        "map": 4 if shard is None else 3,
        "judge": 4,
    }
    assert len(court.asked) == 4


def test_what_it_said_is_on_record(memory_path: Path) -> None:
    """Resumed, or run again under another name: nothing is asked twice."""
    first = scene(memory_path, concurrency=1)
    receipt = play(first, meanwhile=pause_at(1.5))
    assert receipt.status == "paused"
    author, court = first.members
    assert isinstance(author, Scripted) and isinstance(court, Scripted)
    assert outcomes(play(first, resume=True)) == {"passed": 2}
    assert (len(author.asked), len(court.asked)) == (4, 4)
    again = play(Scene(memory_path, first.members, first.items, name="later", how=first.how))
    assert (outcomes(again), again.calls, again.reused) == ({"passed": 2}, 0, 8)


def test_a_judge_that_fails_or_babbles_leaves_the_items_unjudged(memory_path: Path) -> None:
    failing = scene(memory_path / "failing", lambda ask, n: Transient("503"))
    assert outcomes(play(failing)) == {"unjudged": 2}
    babbling = scene(memory_path / "babbling", lambda ask, n: Reply("well, well", usage=USED))
    receipt = play(babbling)
    assert (outcomes(receipt), receipt.calls) == ({"unjudged": 2}, 6)
    with closing(opening.look(babbling.store)) as archive:
        (run,) = archive.read.runs()
        (ended, _) = archive.read.endings(run.no, ["unjudged"])
    assert ended.reasons[0].startswith("the judge: kicked: the reply is not JSON")


def test_it_is_paid_from_the_same_purse(memory_path: Path) -> None:
    one = scene(memory_path)
    receipt = play(Scene(one.store, one.members, one.items, Budget(calls=3), how=one.how))
    assert (receipt.status, receipt.calls, outcomes(receipt)) == ("paused", 3, {"unfunded": 2})
