"""Tasks that come while others are carried out: none is lost, none waits in vain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import pytest

from fanfold.errors import RunStopped
from fanfold.gates.default import default
from fanfold.patterns.map_reduce import sharding_of
from fanfold.patterns.prompt import make_task, prompt_of
from fanfold.run.planning import Batch
from fanfold.run.run import Run
from fanfold.run.sources import Rows
from fanfold.run.stream import Sharding
from fanfold.testing.member import Scripted
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.item import Item
from fanfold.work.outcome import Outcome, Receipt
from fanfold.work.shard import ShardSize
from fanfold.work.task import Place, Task, Terms
from tests.flow.simulation import Scene, outcomes, pause_at, play

TERMS = Terms("step", default(), concurrency=4)
SAY = prompt_of("Say {{ item.text }}", None)


def task(n: int, terms: Terms = TERMS, batch: Batch | None = None) -> Task:
    place = None if batch is None else Place(batch.no, n)
    return make_task(SAY, Item(str(n), f"word {n}"), terms, place)


# ── a stream over tasks that come meanwhile ──────────────────────────────────────────────────


def fine(ask: Ask, n: int) -> Reply:
    if len(ask.items) < 2:
        return Reply("fine", usage=Usage(1, 1))
    answers = [{"id": item.id, "answer": "fine"} for item in ask.items]
    return Reply(data={"answers": answers}, usage=Usage(1, 1))


def played(
    store: Path, member: Scripted, pattern: Callable[[Run, Batch], Awaitable[Any]], **how: Any
) -> Receipt:
    """A run with a batch of 40 planned words, of which the pattern carries out what it likes."""

    async def main(run: Run) -> None:
        words = Rows([f"word {n}" for n in range(40)])
        await pattern(run, await run.plan(words, TERMS))

    return play(Scene(store, (member,), pattern=main), **how)


async def fetched(
    landing: AsyncIterator[Outcome], pause: float, ids: list[str] | None = None
) -> None:
    """Fetch all, with a pause after each."""
    async for outcome in landing:
        if ids is not None:
            ids.append(outcome.id)
        await asyncio.sleep(pause)


async def all_of(batch: Batch, pause: float = 0.0) -> AsyncIterator[Task]:
    for n in range(40):
        yield task(n, TERMS, batch)
        if pause:
            await asyncio.sleep(pause)


def test_tasks_that_come_in_a_burst_are_carried_out_side_by_side(memory_path: Path) -> None:
    """One worker takes what is there; the others must hear of it."""
    member = Scripted(fine, latency=10.0)

    async def pattern(run: Run, batch: Batch) -> None:
        began = run.clock.monotonic()
        landed = [one.position async for one in run.stream(all_of(batch), None, TERMS)]
        assert sorted(landed) == list(range(40))
        assert run.clock.monotonic() - began == pytest.approx(100, rel=0.01)

    assert outcomes(played(memory_path, member, pattern)) == {"passed": 40}
    assert member.most_in_flight == 4


def test_shards_are_filled_as_tasks_come_and_the_rest_goes_out_at_the_end(
    memory_path: Path,
) -> None:
    member = Scripted(fine)

    async def pattern(run: Run, batch: Batch) -> None:
        shard = sharding_of(SAY, ShardSize(items=15), 40)
        async for _ in run.stream(all_of(batch, pause=1.0), shard, TERMS):
            pass

    receipt = played(memory_path, member, pattern)
    assert (outcomes(receipt), len(member.asked)) == ({"passed": 40}, 3)
    assert [prompt.count("Say word") for prompt in member.asked] == [15, 15, 10]


def test_a_source_that_fails_ends_the_stream_and_no_shard_goes_out_for_it(
    memory_path: Path,
) -> None:
    """Also when the one who fetches is busy elsewhere at that moment."""
    member = Scripted(fine, latency=1.0)

    async def source(batch: Batch) -> AsyncIterator[Task]:
        for n in range(8):
            yield task(n, TERMS, batch)
        await asyncio.sleep(0.5)
        raise ValueError("dry")

    async def pattern(run: Run, batch: Batch) -> None:
        with pytest.raises(ValueError, match="dry"):
            await fetched(
                run.stream(source(batch), sharding_of(SAY, ShardSize(items=6), 40), TERMS), 100
            )

    receipt = played(memory_path, member, pattern)
    assert len(member.asked) == 1
    assert outcomes(receipt) in ({"in_doubt": 6, "cancelled": 34}, {"passed": 6, "cancelled": 34})


def test_what_goes_wrong_while_nobody_fetches_is_told_at_the_next_fetch(memory_path: Path) -> None:
    """The others wait for a source that has nothing more; the error must not wait with them."""

    async def source(batch: Batch) -> AsyncIterator[Task]:
        yield task(0, TERMS, batch)
        yield task(1, TERMS, batch)
        await asyncio.sleep(1000)

    async def way(one: Task) -> Outcome:
        if one.id == "1":
            await asyncio.sleep(5)
            raise ValueError("a defect")
        return Outcome(one.id, "passed", Reply("fine"))

    async def pattern(run: Run, batch: Batch) -> None:
        with pytest.raises(ValueError, match="a defect"):
            await fetched(run.stream(source(batch), None, TERMS, way), 50)
        assert run.clock.monotonic() < 60

    played(memory_path, Scripted(fine), pattern)


@pytest.mark.parametrize(
    "shard", [None, sharding_of(SAY, ShardSize(items=5), 40)], ids=["alone", "shard"]
)
def test_a_run_stopped_that_only_the_source_knows_of_is_not_taken_for_its_end(
    memory_path: Path, shard: Sharding | None
) -> None:
    """A shard that is not full does not go out then."""

    async def source(batch: Batch) -> AsyncIterator[Task]:
        yield task(0, TERMS, batch)
        raise RunStopped("elsewhere")

    member = Scripted(fine, latency=3.0)
    landed: list[str] = []

    async def pattern(run: Run, batch: Batch) -> None:
        with pytest.raises(RunStopped, match="elsewhere"):
            await fetched(run.stream(source(batch), shard, TERMS), 0.0, landed)

    played(memory_path, member, pattern)
    assert (landed, len(member.asked)) == ((["0"], 1) if shard is None else ([], 0))


def test_a_source_that_waits_for_outcomes_does_not_hold_up_a_pause(memory_path: Path) -> None:
    """It feeds on what lands; when the run stops nothing lands any more."""
    member = Scripted(fine, latency=10.0)

    async def pattern(run: Run, batch: Batch) -> None:
        ready: asyncio.Queue[int] = asyncio.Queue()
        ready.put_nowait(0)

        async def source() -> AsyncIterator[Task]:
            while True:
                yield task(await ready.get(), TERMS, batch)

        async for outcome in run.stream(source(), None, TERMS):
            ready.put_nowait(outcome.position + 1)

    receipt = played(memory_path, member, pattern, meanwhile=pause_at(25))
    assert (receipt.status, outcomes(receipt)) == ("paused", {"passed": 3, "cancelled": 37})
    assert receipt.seconds == pytest.approx(30, abs=0.5)


def test_a_stream_that_feeds_another_ends_its_calls_when_the_run_stops(memory_path: Path) -> None:
    """The one that feeds is closed by the one that takes, but the run pauses: nothing is cut off."""
    second = Terms("second", default(), concurrency=1)
    member = Scripted(fine, latency=10.0)

    async def pattern(run: Run, batch: Batch) -> None:
        await run.begin(second)

        async def onward() -> AsyncIterator[Task]:
            first = cast("AsyncGenerator[Outcome, None]", run.stream(all_of(batch), None, TERMS))
            async with aclosing(first):
                async for outcome in first:
                    yield task(outcome.position, second)

        async for _ in run.stream(onward(), None, second):
            pass

    receipt = played(memory_path, member, pattern, meanwhile=pause_at(25))
    assert receipt.maybe_paid_twice == 0
    assert outcomes(receipt) == {"passed": 12, "cancelled": 28}
    assert member.in_flight == 0


def test_leaving_the_loop_ends_the_calls_and_closes_the_source(memory_path: Path) -> None:
    member = Scripted(fine, latency=10.0)
    closed: list[bool] = []

    async def pattern(run: Run, batch: Batch) -> None:
        async def source() -> AsyncIterator[Task]:
            try:
                async for one in all_of(batch):
                    yield one
            finally:
                closed.append(True)

        landing = cast("AsyncGenerator[Outcome, None]", run.stream(source(), None, TERMS))
        async with aclosing(landing):
            async for _ in landing:
                break
        assert (closed, member.in_flight) == ([True], 0)

    played(memory_path, member, pattern)


# ── a way of their own ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("comes", [True, False])
def test_a_way_of_their_own_is_used_for_as_many_at_once_as_the_terms_say(
    memory_path: Path, comes: bool
) -> None:
    """One whose prompt cannot be rendered fails without it."""
    at_once = most = 0

    async def way(one: Task) -> Outcome:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(1)
        at_once -= 1
        return Outcome(one.id, "passed", Reply(one.id), position=int(one.id))

    async def pattern(run: Run, batch: Batch) -> None:
        flawed = make_task(prompt_of("{{ item.no }}", None), Item("9", {}), TERMS, Place(0, 9))
        given = [task(n, TERMS, batch) if n != 9 else flawed for n in range(40)]

        async def coming() -> AsyncIterator[Task]:
            for one in given:
                yield one

        tasks = coming() if comes else given
        landed = {one.id: one.state async for one in run.stream(tasks, None, TERMS, way)}
        assert landed == {str(n): "failed" if n == 9 else "passed" for n in range(40)}
        assert run.clock.monotonic() == pytest.approx(10, abs=0.5)

    played(memory_path, Scripted(fine), pattern)
    assert most == TERMS.concurrency


def test_an_empty_source_is_an_empty_stream(memory_path: Path) -> None:
    async def nothing() -> AsyncIterator[Task]:
        return
        yield

    async def pattern(run: Run, batch: Batch) -> None:
        assert [one async for one in run.stream(nothing(), None, TERMS)] == []
        assert [one async for one in run.stream((), None, TERMS)] == []

    played(memory_path, Scripted(fine), pattern)
