"""Orders to a run that is under way: taken from its store, answered once, kept when it is resumed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fanfold.errors import BadInput, RunStopped
from fanfold.journal.answers import OrderRecord
from fanfold.journal.facts import GiveOrder
from fanfold.members.function import function
from fanfold.observe.script import open_run
from fanfold.patterns.divide import divide_and_conquer
from fanfold.patterns.fold import concat
from fanfold.patterns.graph import graph
from fanfold.patterns.map_reduce import map_reduce
from fanfold.run.orders import give, give_order, parse_change
from fanfold.run.run import Run
from fanfold.testing.member import traits
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.budget import nanos
from fanfold.work.member import MemberLimits
from fanfold.work.outcome import Receipt
from fanfold.work.pieces import Fits
from fanfold.work.task import Budget
from tests.flow.simulation import PRICE, Meanwhile, Provider, Said, Scene, outcomes, play
from tests.waiting import LONG

ITEMS = [{"id": str(n), "text": f"t{n}"} for n in range(40)]
Act = Callable[[Run], Awaitable[Any]]


class Counting(Provider):
    """A second for each call; how many are in flight at once since somebody looked."""

    def __init__(self, id: str = "provider", slots: int = 64) -> None:
        like = traits(id, price=PRICE, max_tokens=400, limits=MemberLimits(concurrency=slots))
        super().__init__(self._second, like)
        self.in_flight = self.most = 0

    def _second(self, ask: Ask, n: int) -> Said:
        return Said(Reply("fine", usage=Usage(100, 10)), Usage(100, 10), seconds=1.0)

    async def ask(self, request: Any, tell: Any) -> Reply:
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            return await super().ask(request, tell)
        finally:
            self.in_flight -= 1


def scene(store: Path, *members: Provider, **how: Any) -> Scene:
    """Two at once, so twenty seconds."""
    return Scene(store, members, ITEMS, how={"concurrency": 2, **how})


def operated(act: Act, at: float = 5.2) -> Meanwhile:
    """An operator who acts at that second of the run."""

    async def operate(run: Run, work: asyncio.Future[Any]) -> None:
        async with run.taking_orders():
            await run.clock.sleep(at)
            await act(run)
            await asyncio.wait((work,))

    return operate


async def order(run: Run, what: Any, value: str = "") -> OrderRecord:
    return await give(run.store, run.record, "ann", what, value)


def carried_out(one: Scene, act: Act, at: float = 5.2, *, resume: bool = False) -> Receipt:
    return play(one, meanwhile=operated(act, at), resume=resume)


# ── pause and resume ─────────────────────────────────────────────────────────────────────────


def test_a_paused_run_sends_nothing_and_goes_on_at_once(tmp_path: Path) -> None:
    member, seen = Counting(), []

    async def act(run: Run) -> None:
        assert (await order(run, "pause")).state == "done"
        await run.clock.sleep(1.5)
        seen.append((member.in_flight, len(member.sent)))
        await run.clock.sleep(100)
        seen.append((member.in_flight, len(member.sent)))
        assert (await order(run, "pause")).said == "it is paused already"
        assert (await order(run, "resume")).state == "done"
        assert (await order(run, "resume")).said == "it is not paused"

    budget = Budget(seconds=30)
    receipt = carried_out(replace(scene(tmp_path, member), budget=budget), act)
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 40})
    assert seen[0] == seen[1] and seen[0][0] == 0
    assert not member.sent_again
    assert receipt.seconds < 30, "the pause is no active time"


# ── set ──────────────────────────────────────────────────────────────────────────────────────


def test_more_and_fewer_calls_at_once(tmp_path: Path) -> None:
    """`STEP.concurrency` also above what the step began with; `concurrency` is for all steps."""
    member, seen = Counting(), []

    async def act(run: Run) -> None:
        for change, most in (("map.concurrency=8", 8), ("concurrency=3", 3)):
            assert (await order(run, "set", change)).state == "done"
            await run.clock.sleep(1.1)  # those under way end
            member.most = member.in_flight
            await run.clock.sleep(1.0)
            seen.append((member.most, most))

    receipt = carried_out(scene(tmp_path, member), act, at=2.2)
    assert outcomes(receipt) == {"passed": 40}
    assert all(found == wanted for found, wanted in seen), seen


def test_a_smaller_budget_cuts_nothing_and_a_larger_one_goes_on(tmp_path: Path) -> None:
    member = Counting()

    async def act(run: Run) -> None:
        assert (await order(run, "set", "budget=0.000001")).state == "done"

    budget = Budget(usd=1.0)
    receipt = carried_out(replace(scene(tmp_path, member), budget=budget), act)
    assert receipt.status == "paused"
    assert receipt.in_doubt == 0 and receipt.passed == len(member.sent)
    assert nanos(receipt.cost_usd) == member.bill


def test_a_step_and_a_member_can_be_limited(tmp_path: Path) -> None:
    """The step's budget ends it; a member that is switched off is asked no more, the other is."""
    one, two = Counting("one"), Counting("two")
    sent = []

    async def act(run: Run) -> None:
        assert (await order(run, "set", "one=off")).state == "done"
        sent.append(len(one.sent))

    receipt = carried_out(scene(tmp_path / "a", one, two), act)
    assert (outcomes(receipt), len(one.sent)) == ({"passed": 40}, sent[0])

    async def calls(run: Run) -> None:
        assert (await order(run, "set", "map.budget=calls=20")).state == "done"

    receipt = carried_out(scene(tmp_path / "b", member := Counting()), calls)
    assert (receipt.status, len(member.sent)) == ("paused", 20)


def test_off_without_another_pauses_and_says_how_to_switch_it_on(tmp_path: Path) -> None:
    member = Counting()

    async def off(run: Run) -> None:
        await order(run, "set", "provider=off")

    async def nothing(run: Run) -> None:
        """It goes on as it was ordered before."""

    receipt = carried_out(scene(tmp_path, member), off)
    assert receipt.status == "paused"
    assert receipt.reason is not None and "switched off" in receipt.reason
    sent = len(member.sent)
    again = carried_out(scene(tmp_path, member), nothing, resume=True)
    assert (again.status, len(member.sent)) == ("paused", sent)


def test_a_rate_can_be_lowered(tmp_path: Path) -> None:
    member, seen = Counting(), []

    async def act(run: Run) -> None:
        assert (await order(run, "set", "provider.limits.rpm=60")).state == "done"
        before = len(member.sent)
        await run.clock.sleep(10)
        seen.append(len(member.sent) - before)

    receipt = carried_out(scene(tmp_path, member), act)
    assert outcomes(receipt) == {"passed": 40}
    assert seen[0] <= 12, "20 without it"


# ── skip ─────────────────────────────────────────────────────────────────────────────────────


def test_what_is_skipped_is_not_asked_also_after_a_crash(tmp_path: Path) -> None:
    member = Counting()

    async def act(run: Run) -> None:
        assert (await order(run, "skip", "39")).state == "done"
        assert (await order(run, "skip", "0")).said == "item '0' has ended already: passed"
        assert (await order(run, "skip", "no")).said == "there is no item 'no'"
        run.pause("enough")

    async def nothing(run: Run) -> None:
        """It goes on as it was ordered before."""

    carried_out(scene(tmp_path, member), act)
    receipt = carried_out(scene(tmp_path, member), nothing, resume=True)
    assert outcomes(receipt) == {"passed": 39, "skipped": 1}
    assert receipt.status == "complete"
    assert "Say t39" not in member.sent and not member.sent_again


# ── from Python ──────────────────────────────────────────────────────────────────────────────


def test_from_a_script_and_from_another_one(tmp_path: Path) -> None:
    place = str(tmp_path)

    async def ordered() -> tuple[Receipt, list[tuple[str, str, str]]]:
        async with open_run("talk", members=[Counting()], store=place) as run:
            await run.order("pause")
            await give_order(place, "talk", "set", "budget=5", by="bob")
            with pytest.raises(BadInput, match="it is paused already"):
                await give_order(place, "talk", "pause")
            with pytest.raises(BadInput, match="no run 'tulk'"):
                await give_order(place, "tulk", "pause")
            await run.order("resume")
            with pytest.raises(BadInput, match="it is not paused"):
                await run.order("resume")
            done = await map_reduce(run, ITEMS[:2], prompt="Say {{ item.text }}")
            given = run.store.read.orders(run.record.no)
        return done.receipt, [(one.by, one.what, one.state) for one in given]

    receipt, given = asyncio.run(ordered())
    assert (receipt.passed, receipt.budget_usd) == (2, 5.0)
    assert ("bob", "set", "done") in given
    with pytest.raises(BadInput, match="is over: complete"):
        asyncio.run(give_order(place, "talk", "pause"))


# ── what it accepts ──────────────────────────────────────────────────────────────────────────


def test_what_cannot_be_done_is_refused_on_record(tmp_path: Path) -> None:
    said = []

    async def act(run: Run) -> None:
        said.extend(
            [
                (await order(run, "set", "provder=off")).said,
                (await order(run, "set", "map.budget=seconds=3")).said,
                (await order(run, "set", "provider.concurrency=3")).said,
                (await order(run, "dance")).said,
            ]
        )
        assert all(one.state == "refused" for one in run.store.read.orders(run.record.no))

    carried_out(scene(tmp_path, Counting()), act)
    assert said == [
        "no member 'provder': did you mean `provider`?",
        "`seconds` are of the whole run, not of a step",
        "'provider' is a member, not a step: there are provider.limits.concurrency=N,"
        " provider.limits.rpm=N and provider=off",
        "'dance' is no order; there are pause, resume, set, approve, skip, stop, kill, hand-over,"
        " continue, tell",
    ]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("budget", "cannot be set"),
        ("=3", "cannot be set"),
        ("colour=red", "cannot be set"),
        ("concurrency=0", "a whole number from 1 on, not '0'"),
        ("map.concurrency=-3", "a whole number from 1 on, not '-3'"),
        ("m.limits.rpm=fast", "a whole number from 1 on, not 'fast'"),
        ("budget=dollars=3", "dollars"),
        ("budget=-3", "-3"),
    ],
)
def test_a_change_that_means_nothing_is_refused_before_it_is_given(text: str, error: str) -> None:
    with pytest.raises(BadInput, match=error):
        parse_change(text)


def test_names_may_have_dots() -> None:
    assert parse_change("gpt-4.1=off").name == "gpt-4.1"
    assert parse_change("gpt-4.1.limits.tpm=5").name == "gpt-4.1"
    assert parse_change("a.b.budget=calls=5").value == Budget(calls=5)


# ── kill, for those who run it ───────────────────────────────────────────────────────────────


def test_a_script_is_killed_by_order_and_goes_on_when_it_is_run_again(tmp_path: Path) -> None:
    """What was under way is in doubt; the process itself lives."""
    hanging, asked = asyncio.Event(), []

    async def slow(text: str) -> str:
        asked.append(text)
        if len(asked) == 1:
            hanging.set()
            await asyncio.Event().wait()
        return text

    async def work() -> Receipt:
        async with open_run("s", members=[function(slow)], store=tmp_path, progress=False) as run:
            await map_reduce(run, ["a"], members=["slow"])
        assert run.closing is not None
        return run.closing

    async def both() -> tuple[str, Receipt]:
        first = asyncio.create_task(work())
        await hanging.wait()
        await give_order(str(tmp_path), "s", "kill")
        with pytest.raises(RunStopped) as stopped:
            await first
        return str(stopped.value), await work()

    said, receipt = asyncio.run(both())
    assert said == "killed: killed by the operator; run the script again to continue"
    assert (receipt.status, asked) == ("complete", ["a", "a"])


def test_a_run_in_the_foreground_cannot_be_handed_over_and_a_kill_of_nobody_is_refused(
    tmp_path: Path,
) -> None:
    said = []

    async def act(run: Run) -> None:
        said.extend([(await order(run, "hand-over")).said, (await order(run, "kill", "7")).said])

    carried_out(scene(tmp_path, Counting()), act)
    assert said == [
        "it runs in the foreground, which cannot hand it over; stop it there with Ctrl-C first",
        "no agent is at work for '7'",
    ]


def test_an_order_for_a_process_that_died_is_too_late(tmp_path: Path) -> None:
    """It does not reach the next one."""

    async def act(run: Run) -> None:
        orders = run.store.read.orders(run.record.no)
        assert [(one.what, one.state) for one in orders] == [("kill", "refused")]

    async def leave_one(run: Run, work: asyncio.Future[Any]) -> None:
        await run.store.write(GiveOrder(run.record.no, run.clock.now() - 1, "ann", "kill"))
        run.pause("for now")

    one = scene(tmp_path, Counting())
    play(one, meanwhile=leave_one)
    assert carried_out(one, act, resume=True).status == "complete"


@pytest.mark.parametrize("shape", ["graph", "divide"])
def test_more_at_once_also_where_a_pattern_has_workers_of_its_own(
    tmp_path: Path, shape: str
) -> None:
    under_way, one, three, ended = [0], asyncio.Event(), asyncio.Event(), []

    async def slow(item: Any) -> str:
        under_way[0] += 1
        one.set()
        if under_way[0] == 3:
            three.set()
        await three.wait()
        ended.append(item)
        return "fine"

    async def work(run: Run) -> None:
        how: Any = {"members": ["slow"], "concurrency": 1}
        if shape == "graph":
            await graph(run, [{"id": str(n)} for n in range(4)], **how)
        else:
            items = [{"id": str(n), "text": str(n)} for n in range(4)]
            await divide_and_conquer(run, items, combine=concat(), fits=Fits(items=1), **how)

    async def both() -> None:
        async with open_run("s", members=[function(slow)], store=tmp_path, progress=False) as run:
            task = asyncio.create_task(work(run))
            first = asyncio.create_task(one.wait())
            await asyncio.wait((task, first), return_when=asyncio.FIRST_COMPLETED)
            await run.order("set", f"{shape}.concurrency=3")
            async with asyncio.timeout(LONG):
                await task

    asyncio.run(both())
    assert len(ended) == 4
