"""The path of a task through the engine, under the virtual clock."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fanfold.errors import BadInput, RateLimited, RunStopped, Terminal, TimedOut, Transient
from fanfold.gates.checks import regex, require
from fanfold.journal.opening import open_store
from fanfold.patterns.fold import collect
from fanfold.patterns.map_reduce import map_reduce
from fanfold.patterns.pipeline import pipeline, stage
from fanfold.run.member_sources import GivenMembers
from fanfold.run.open import finish
from fanfold.run.record import reopen, start
from fanfold.run.run import Run
from fanfold.run.settings import Settings
from fanfold.testing.clock import VirtualClock, run_virtual
from fanfold.testing.member import Scripted
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.outcome import Receipt
from fanfold.work.task import Budget
from tests.flow.simulation import Scene, play


def ran(
    store: Path, members: list[Scripted], items: Any, *, resume: bool = False, **how: Any
) -> Receipt:
    """One run of a map over `items`, to its end, on a virtual clock; the receipt."""
    budget = how.pop("run_budget", Budget())

    async def main(clock: VirtualClock) -> Receipt:
        journal = open_store(store, thread=False)
        try:
            earlier = journal.read.find("test") if resume else None
            if earlier is None:
                record = await start(journal, "test", clock, budget)
            else:
                record = await reopen(journal, earlier, clock, budget)
            run = Run(journal, record, GivenMembers(*members), Settings(budget=budget), clock)
            how.setdefault("prompt", "Say {{ item.text }}")
            with suppress(RunStopped):
                await map_reduce(run, items, reduce=collect(), **how)
            return await finish(journal, run)
        finally:
            journal.close()

    return run_virtual(main)


def words(n: int) -> list[str]:
    return [f"word {i}" for i in range(n)]


def says(text: str = "fine", output: int = 10) -> Callable[[Ask, int], Reply]:
    return lambda ask, n: Reply(text, usage=Usage(20, output))


def outcomes(receipt: Receipt) -> dict[str, int]:
    names = (
        "passed",
        "kicked",
        "failed",
        "skipped",
        "unjudged",
        "unfunded",
        "in_doubt",
        "cancelled",
    )
    return {name: getattr(receipt, name) for name in names if getattr(receipt, name)}


def test_a_map_asks_each_item_once_and_the_cost_is_the_bill(tmp_path: Path) -> None:
    member = Scripted(says())
    receipt = ran(tmp_path, [member], words(20))
    assert receipt.status == "complete"
    assert outcomes(receipt) == {"passed": 20}
    assert len(member.asked) == receipt.calls == 20
    assert receipt.cost_usd == member.bill / 1e9
    assert [part["id"] for part in receipt.result] == [str(n) for n in range(20)]


def test_a_second_run_of_the_same_content_makes_no_call(tmp_path: Path) -> None:
    first, second = Scripted(says()), Scripted(says())
    ran(tmp_path, [first], words(20))
    receipt = ran(tmp_path, [second], list(reversed(words(20))), concurrency=3)
    assert second.asked == []
    assert (receipt.status, receipt.calls, receipt.reused, receipt.cost_usd) == (
        "complete",
        0,
        20,
        0,
    )


def test_one_edited_item_is_one_call(tmp_path: Path) -> None:
    ran(tmp_path, [Scripted(says())], words(50))
    member = Scripted(says())
    ran(tmp_path, [member], [*words(20), "edited", *words(50)[21:]])
    assert member.asked == ["Say edited"]


def test_the_same_content_twice_in_one_run_is_paid_once(tmp_path: Path) -> None:
    member = Scripted(says(), latency=1.0)
    receipt = ran(tmp_path, [member], ["same"] * 10)
    assert (len(member.asked), outcomes(receipt)) == (1, {"passed": 10})


def test_a_reply_that_fails_the_gate_is_kicked_back_once_with_the_reason(tmp_path: Path) -> None:
    def script(ask: Ask, n: int) -> Reply:
        good = {"claim": "x", "evidence": "y"}
        thin = "word 2" in ask.messages[0].content and not ask.turns
        return Reply(data={"claim": "x"} if thin else good, usage=Usage(1, 1))

    member = Scripted(script)
    receipt = ran(tmp_path, [member], words(5), gate=require("claim", "evidence"))
    assert outcomes(receipt) == {"passed": 5}
    assert len(member.asked) == 6
    assert "evidence" in member.asked[-1]


def test_a_reply_that_never_passes_ends_kicked_and_never_reaches_the_reduce(tmp_path: Path) -> None:
    def script(ask: Ask, n: int) -> Reply:
        bad = "word 2" in ask.messages[0].content
        return Reply(data={"a": 1} if bad else {"b": 1}, usage=Usage(1, 1))

    receipt = ran(tmp_path, [Scripted(script)], words(5), gate=require("b"))
    assert receipt.status == "flagged"
    assert outcomes(receipt) == {"passed": 4, "kicked": 1}
    assert [part["id"] for part in receipt.result] == ["0", "1", "3", "4"]


def test_transient_errors_are_tried_again_and_refunded(tmp_path: Path) -> None:
    member = Scripted(lambda ask, n: Transient("503") if n < 3 else Reply("ok", usage=Usage(1, 1)))
    receipt = ran(tmp_path, [member], words(2))
    assert outcomes(receipt) == {"passed": 2}
    assert (receipt.calls, receipt.retries, receipt.maybe_paid_twice) == (5, 3, 0)
    assert receipt.cost_usd == member.bill / 1e9


def test_a_lost_call_counts_as_spent_and_its_repetition_is_on_record(tmp_path: Path) -> None:
    member = Scripted(lambda ask, n: TimedOut("slow") if n == 0 else Reply("ok", usage=Usage(1, 1)))
    receipt = ran(tmp_path, [member], ["one"])
    assert outcomes(receipt) == {"passed": 1}
    worst = (1024 + len("Say one")) * 1e-6 + 100 * 5e-6
    assert receipt.maybe_paid_twice == 1
    assert round(receipt.maybe_paid_twice_usd, 9) == round(worst, 9)
    assert round(receipt.cost_usd, 9) == round(worst + 6e-6, 9)


def test_a_lost_call_is_held_when_the_plan_says_so(tmp_path: Path) -> None:
    member = Scripted(lambda ask, n: TimedOut("slow"))
    receipt = ran(tmp_path, [member], ["one"], in_doubt="hold")
    assert outcomes(receipt) == {"in_doubt": 1}
    assert len(member.asked) == 1


def test_a_member_that_raises_fails_only_its_item(tmp_path: Path) -> None:
    def script(ask: Ask, n: int) -> Reply | Exception:
        return ZeroDivisionError("oops") if "word 1" in ask.messages[0].content else Reply("ok")

    receipt = ran(tmp_path, [Scripted(script)], words(3))
    assert outcomes(receipt) == {"passed": 2, "failed": 1}


def test_a_gate_that_raises_leaves_its_item_unjudged(tmp_path: Path) -> None:
    def gate(task: Any, reply: Reply, ask: Any) -> Any:
        raise KeyError("x") if task.id == "1" else None

    def checked(task: Any, reply: Reply, ask: Any) -> Any:
        from fanfold.work.outcome import PASS

        return gate(task, reply, ask) if task.id == "1" else PASS

    receipt = ran(tmp_path, [Scripted(says())], words(3), gate=checked)
    assert outcomes(receipt) == {"passed": 2, "unjudged": 1}


def test_a_run_out_of_money_pauses_and_resumes_without_repeating(tmp_path: Path) -> None:
    member = Scripted(says(output=100), latency=1.0)
    receipt = ran(tmp_path, [member], words(40), run_budget=Budget(usd=0.01), concurrency=16)
    assert receipt.status == "paused"
    assert receipt.passed + receipt.unfunded == 40 and receipt.unfunded > 0
    assert member.bill <= 0.01e9
    again = ran(tmp_path, [member], words(40), run_budget=Budget(usd=1), resume=True)
    assert (again.status, again.passed) == ("complete", 40)
    assert len(member.asked) == 40


def test_a_bad_key_stops_the_rest_with_one_request_per_open_slot(tmp_path: Path) -> None:
    member = Scripted(lambda ask, n: Terminal("401: key refused", scope="pool"), latency=1.0)
    receipt = ran(tmp_path, [member], words(100), concurrency=4)
    assert receipt.status == "paused" and "key refused" in (receipt.reason or "")
    assert len(member.asked) == 4
    assert receipt.failed + receipt.cancelled == 100


def test_a_storm_of_429_completes_without_hammering(tmp_path: Path) -> None:
    state = {"refused": 0}

    def script(ask: Ask, n: int) -> Reply | Exception:
        now = asyncio.get_running_loop().time()
        if now < 30:
            state["refused"] += 1
            return RateLimited("429", retry_after=2.0)
        return Reply("ok", usage=Usage(1, 1))

    receipt = ran(tmp_path, [Scripted(script, latency=0.1)], words(200), concurrency=32)
    assert outcomes(receipt) == {"passed": 200}
    assert state["refused"] < 120


def test_a_step_that_is_full_holds_up_only_itself(tmp_path: Path) -> None:
    """Two steps share a member: the narrow one waits for its own slot, the other goes past it."""
    order: list[str] = []

    async def answer(ask: Ask, n: int) -> Reply:
        order.append(ask.messages[0].content)
        await asyncio.sleep(10 if "slow" in ask.messages[0].content else 1)
        return Reply("fine", usage=Usage(1, 1))

    async def pattern(run: Run) -> None:
        slow = map_reduce(run, words(3), prompt="slow {{ item.text }}", step="a", concurrency=1)
        quick = map_reduce(run, words(3), prompt="quick {{ item.text }}", step="b", concurrency=1)
        await asyncio.gather(slow, quick)

    receipt = play(Scene(tmp_path, (Scripted(answer),), pattern=pattern))
    assert receipt.passed == 6
    assert sorted(order[:4]) == ["quick word 0", "quick word 1", "quick word 2", "slow word 0"]


def test_an_item_that_no_longer_passes_an_early_stage_is_gone_from_the_later_ones(
    tmp_path: Path,
) -> None:
    """A script that is run again with a harder gate: what fails now does not reach the reduce."""

    def scene(gate: Any, out: list[Any]) -> Scene:
        async def pattern(run: Run) -> None:
            first = stage("say {{ item.text }}", step="one", gate=gate, revise=0)
            second = stage("then {{ steps.one }}", step="two")
            done = await pipeline(run, words(2), first, second, reduce=collect())
            out.append(done.value)
            if not gate:
                run.pause("to be gone on with")

        return Scene(tmp_path, (Scripted(lambda ask, n: Reply(ask.messages[0].content)),),
                     pattern=pattern)  # fmt: skip

    found: list[Any] = []
    play(scene(None, found))
    receipt = play(scene(regex("word 0"), found), resume=True)
    assert [[one["id"] for one in value] for value in found] == [["0", "1"], ["0"]]
    assert (receipt.status, receipt.passed, receipt.kicked) == ("flagged", 1, 1)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"concurrency": 0}, "`concurrency` must be 1 or more, not 0"),
        ({"revise": -1}, "`revise` must be 0 or more, not -1"),
        ({"use": 1.5}, "`use` must be a whole number, not the number 1.5"),
    ],
)
def test_counts_that_mean_nothing_are_refused(
    tmp_path: Path, how: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadInput, match=re.escape(message)):
        ran(tmp_path, [Scripted(says())], words(1), **how)
