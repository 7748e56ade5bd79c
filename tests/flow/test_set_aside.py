"""What cannot be paid is set aside; the others go on, and the end says what is lacking."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fanfold.gates.judge import judge
from fanfold.patterns.asked_reduce import asked
from fanfold.patterns.divide import divide_and_conquer, divided
from fanfold.patterns.ensemble import ensemble, voters
from fanfold.patterns.fold import concat
from fanfold.patterns.graph import graph, node
from fanfold.patterns.pipeline import pipeline, stage
from fanfold.patterns.scatter import scatter_gather
from fanfold.price import Price
from fanfold.testing.member import Scripted, traits
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.member import Request
from fanfold.work.outcome import Verdict
from fanfold.work.pieces import Fits
from fanfold.work.task import Budget, Task
from tests.flow.simulation import Scene, outcomes, play, words

OK = Reply("fine", usage=Usage(10, 10))
BULKY = "bulky " * 20_000  # $0.12 at worst
MODEL = traits("model", price=Price(input=1.0, output=5.0), max_tokens=100)


def says_fine(ask: Ask, n: int) -> Reply:
    return OK


def scene(store: Path, items: list[str], member: Scripted | None = None, **more: Any) -> Scene:
    member = member or Scripted(says_fine, MODEL, latency=0.1)
    how = {"concurrency": 4, **more.pop("how", {})}
    return Scene(store, (member,), items, Budget(usd=0.10), how=how, **more)


@pytest.mark.parametrize("at", [0, 20, 40])
def test_an_item_that_does_not_fit_stops_no_other(memory_path: Path, at: int) -> None:
    """Wherever it stands. The run pauses at its end: nothing is made of a part of the items."""
    items = words(40)
    items.insert(at, BULKY)
    member = Scripted(says_fine, MODEL, latency=0.1)
    receipt = play(scene(memory_path, items, member))
    assert (receipt.status, outcomes(receipt)) == ("paused", {"passed": 40, "unfunded": 1})
    assert receipt.result is None
    assert receipt.reason is not None
    assert receipt.reason.startswith("out of budget: dollars of the run: $0.0976")
    assert "the next call may cost $0.121" in receipt.reason
    assert receipt.reason.endswith(f"({at}, step map, member model)")
    assert len(member.asked) == 40


def test_more_money_pays_for_it_and_the_others_are_not_asked_again(memory_path: Path) -> None:
    short = scene(memory_path, [BULKY, *words(40)])
    play(short)
    member = Scripted(says_fine, MODEL)
    receipt = play(replace(short, budget=Budget(usd=0.50), members=(member,)), resume=True)
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 41})
    assert len(member.asked) == 1
    assert len(receipt.result) == 41


def test_a_kick_back_that_does_not_fit_stops_no_other(memory_path: Path) -> None:
    """The first reply is so long that sending it back cannot be paid."""
    long = Reply("no " * 40_000, usage=Usage(10, 10))

    def script(ask: Ask, n: int) -> Reply:
        return long if "word 0" in ask.messages[0].content else OK

    def gate(task: Task, reply: Reply, ask: Any) -> Verdict:
        return Verdict("pass" if reply.text == "fine" else "fail", ("not fine",))

    member = Scripted(script, traits("model", max_tokens=100, price=Price(input=6.0, output=5.0)))
    receipt = play(scene(memory_path, words(40), member, how={"gate": gate}))
    assert (receipt.status, outcomes(receipt)) == ("paused", {"passed": 39, "unfunded": 1})


def test_of_a_shard_that_does_not_fit_those_are_asked_that_do(memory_path: Path) -> None:
    items = [*words(3), BULKY]
    receipt = play(scene(memory_path, items, how={"shard": 4}))
    assert (receipt.status, outcomes(receipt)) == ("paused", {"passed": 3, "unfunded": 1})


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_in_a_pipeline_the_others_go_on_to_the_last_stage(memory_path: Path, mode: Any) -> None:
    """At each resume again: nothing is gained and nothing is lost while the money is the same."""
    items = [BULKY, *words(20)]

    async def pattern(run: Any) -> Any:
        first = stage("One {{ item.text }}", step="one", concurrency=4)
        second = stage("Two {{ steps.one }} {{ item.id }}", step="two", concurrency=1)
        return await pipeline(run, items, first, second, mode=mode)

    short = scene(memory_path, items, pattern=pattern)
    first = play(short)
    assert first.status == "paused"
    reached = {"passed": 20, "unfunded": 1} if mode == "streaming" else {"unfunded": 21}
    assert outcomes(first) == reached
    member = Scripted(says_fine, MODEL)
    again = play(replace(short, members=(member,)), resume=True)
    assert (again.status, outcomes(again), member.asked) == ("paused", reached, [])
    rich = play(replace(short, budget=Budget(usd=0.5)), resume=True)
    assert (rich.status, outcomes(rich)) == ("complete", {"passed": 21})


def test_in_a_graph_only_what_depends_on_it_waits(memory_path: Path) -> None:
    async def pattern(run: Any) -> Any:
        nodes = [
            node("big", BULKY),
            node("small", "Say small"),
            node("after-big", "{{ parents.big }}", depends_on="big", partial=True),
            node("after-small", "{{ parents.small }}", depends_on="small"),
        ]
        return await graph(run, nodes, member="model")

    receipt = play(scene(memory_path, [], pattern=pattern))
    assert receipt.status == "paused"
    assert outcomes(receipt) == {"passed": 2, "unfunded": 2}


def test_when_no_ask_can_be_paid_any_more_the_run_stops_at_once(memory_path: Path) -> None:
    """The rest is not even looked at."""
    looked: list[str] = []

    class Looks(Scripted):
        def prepare(self, ask: Ask) -> Request:
            looked.append(ask.messages[0].content)
            return super().prepare(ask)

    member = Looks(lambda ask, n: Reply("fine", usage=Usage(1000, 100)), MODEL)
    receipt = play(replace(scene(memory_path, words(500), member), budget=Budget(usd=0.02)))
    assert receipt.status == "paused"
    assert 10 <= receipt.passed <= 14
    assert receipt.unfunded == 500 - receipt.passed
    assert len(looked) <= receipt.passed + 8


def test_a_judge_that_cannot_be_paid_leaves_only_its_own_item(memory_path: Path) -> None:
    """The reply is on record; more money lets it be judged."""
    long = Reply("long " * 25_000, usage=Usage(10, 10))

    def script(ask: Ask, n: int) -> Reply:
        return long if "word 0" in ask.messages[0].content else OK

    member = Scripted(script, traits("model", max_tokens=100))
    checks = Scripted(
        lambda ask, n: Reply('{"pass": true}', data={"pass": True}, usage=Usage(10, 10)),
        traits("checks", max_tokens=100),
    )
    how = {"member": "model", "gate": judge("Good?", member="checks")}
    short = replace(scene(memory_path, words(20), member, how=how), members=(member, checks))
    receipt = play(short)
    assert (receipt.status, outcomes(receipt)) == ("paused", {"passed": 19, "unfunded": 1})
    again = play(replace(short, budget=Budget(usd=1.0)), resume=True)
    assert outcomes(again) == {"passed": 20}
    assert len(member.asked) == 20


@pytest.mark.parametrize("nested", [False, True])
def test_a_vote_that_does_not_fit_stops_no_other(memory_path: Path, nested: bool) -> None:
    """Neither in an ensemble nor as a stage of a pipeline."""
    items, asks = [BULKY, *words(10)], "{{ item.text }}"

    async def pattern(run: Any) -> Any:
        if nested:
            by = voters(["model"], samples=2)
            return await pipeline(run, items, stage(asks, step="vote", by=by, member="model"))
        return await ensemble(run, items, prompt=asks, member="model", samples=2)

    short = scene(memory_path, items, pattern=pattern)
    first = play(short)
    assert (first.status, outcomes(first)) == ("paused", {"passed": 10, "unfunded": 1})
    assert first.reason is not None
    assert "member model)" in first.reason
    member = Scripted(says_fine, MODEL)
    rich = play(replace(short, budget=Budget(usd=0.5), members=(member,)), resume=True)
    assert (rich.status, outcomes(rich)) == ("complete", {"passed": 11})
    assert len(member.asked) == 2


@pytest.mark.parametrize("at", [0, 5, 10])
def test_a_piece_of_a_divide_that_does_not_fit_stops_no_other(memory_path: Path, at: int) -> None:
    """Its item waits for more money, and so does the whole: nothing is combined without it."""
    items = words(10)
    items.insert(at, BULKY)

    async def pattern(run: Any) -> Any:
        asks, fits = "{{ item.text }}", Fits(items=1)
        return await divide_and_conquer(
            run, items, prompt=asks, fits=fits, combine=concat(), member="model"
        )

    short = scene(memory_path, items, pattern=pattern)
    first = play(short)
    assert (first.status, outcomes(first)) == ("paused", {"passed": 10, "unfunded": 1})
    assert (first.result, first.reason is not None and "member model)" in first.reason) == (
        None,
        True,
    )
    member = Scripted(says_fine, MODEL)
    rich = play(replace(short, budget=Budget(usd=0.5), members=(member,)), resume=True)
    assert (rich.status, outcomes(rich)) == ("complete", {"passed": 11})
    assert (len(member.asked), rich.result) == (1, "\n\n".join(["fine"] * 11))


def test_an_item_that_cannot_be_split_for_lack_of_money_stops_no_other(memory_path: Path) -> None:
    """The member that would split it is asked for it alone."""
    items = [BULKY, *words(10)]

    async def pattern(run: Any) -> Any:
        fits = Fits(items=1, test=lambda piece: len(piece.items[0].data["text"]) < 1000)
        return await divide_and_conquer(
            run, [{"id": str(n), "text": text} for n, text in enumerate(items)],
            prompt="{{ item.text }}", fits=fits, combine=concat(), member="model",
            split=asked("Split {{ parts[0].value.text }}", member="model", step="split"),
        )  # fmt: skip

    receipt = play(scene(memory_path, items, pattern=pattern))
    assert (receipt.status, outcomes(receipt)) == ("paused", {"passed": 10, "unfunded": 1})


def test_a_piece_within_a_stage_that_does_not_fit_leaves_only_its_own_item(
    memory_path: Path,
) -> None:
    """The run paused at the first such piece, and no other item was asked about."""
    items = [BULKY, *words(10)]

    async def pattern(run: Any) -> Any:
        by = divided("{{ item.text }}", combine=concat(), fits=Fits(tokens=100_000), member="model")
        return await pipeline(run, items, stage(step="pieces", by=by, concurrency=1))

    short = scene(memory_path, items, pattern=pattern)
    first = play(short)
    assert (first.status, outcomes(first)) == ("paused", {"passed": 10, "unfunded": 1})
    rich = play(replace(short, budget=Budget(usd=0.5)), resume=True)
    assert (rich.status, outcomes(rich), rich.calls) == ("complete", {"passed": 11}, 1)


def test_who_cannot_be_paid_is_skipped_when_enough_others_have_answered(memory_path: Path) -> None:
    """It is not needed; the run paused for it all the same."""

    async def pattern(run: Any) -> Any:
        return await scatter_gather(
            run, [BULKY, *words(3)], prompt="{{ item.text }}", first=3, member="model"
        )

    receipt = play(scene(memory_path, [], pattern=pattern))
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 3, "skipped": 1})
