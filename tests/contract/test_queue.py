"""What runs and workers rely on of a queue, asked of it directly."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from fanfold.errors import StoreFenced
from fanfold.journal import opening
from fanfold.journal.postgres.queue import PostgresQueue
from fanfold.journal.queue import QueuedAsk, TakenAsk, WorkerOffer
from fanfold.journal.sqlite.queue import FolderQueue
from tests import postgres

AnyQueue: TypeAlias = PostgresQueue | FolderQueue
MEMBERS = {"m": "openai:m"}
OFFER = WorkerOffer(host="h", pid=1, slots=8, tags=(), members=MEMBERS, version="0")


def asked(span: str, *tags: str, member: str = "m") -> QueuedAsk:
    return QueuedAsk(span, member, f"openai:{member}", tags, span.encode())


def opened(place: str) -> AnyQueue:
    made = opening.open_queue(place)
    assert isinstance(made, (PostgresQueue, FolderQueue))
    return made


def over(queue: AnyQueue) -> None:
    """As if its process had died."""
    if isinstance(queue, PostgresQueue):
        queue.sessions.bury([queue.session])
    else:
        queue.sessions.let_go()


def held(span: str) -> TakenAsk:
    return TakenAsk(span, "m", span.encode())


@pytest.fixture(params=["postgres", "folder"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return postgres.server().place() if request.param == "postgres" else f"folder:{tmp_path}/queue"


def tried(test: Callable[[AnyQueue, AnyQueue], Awaitable[None]], place: str) -> None:
    """With a run's end and a worker's."""

    async def main() -> None:
        run, worker = opened(place), opened(place)
        await run.enter()
        await worker.enter(OFFER)
        try:
            await test(run, worker)
        finally:
            await run.leave()
            await worker.leave()

    asyncio.run(main())


def test_an_ask_is_taken_once_and_its_answer_stays_until_it_is_forgotten(
    place: str,
) -> None:
    async def test(run: AnyQueue, worker: AnyQueue) -> None:
        assert await run.put([asked("a"), asked("b"), asked("x", member="n")]) == frozenset()
        assert await run.put([asked("a")]) == frozenset(), "put again after a lost connection"
        assert await worker.take(MEMBERS, (), 1) == [held("a")]
        assert await worker.take(MEMBERS, (), 8) == [held("b")]
        assert await worker.take(MEMBERS, (), 8) == []
        assert await run.held_by() == {worker.session: ["a", "b"]}
        await worker.report([("b", b"B")])
        await worker.report([("b", b"again")])
        assert await run.answers(()) == [("b", b"B")]
        assert await run.answers({"b"}) == []
        await run.forget(["b"])
        assert await run.answers(()) == []
        assert await worker.taken() == [held("a")]

    tried(test, place)


def test_tags_are_those_that_a_worker_must_have(place: str) -> None:
    async def test(run: AnyQueue, worker: AnyQueue) -> None:
        await run.put([asked("gpu", "gpu", "big"), asked("any")])
        assert await worker.take(MEMBERS, ("gpu",), 8) == [held("any")]
        assert await worker.take(MEMBERS, ("big", "gpu", "repo"), 8) == [held("gpu")]

    tried(test, place)


def test_a_cancelled_ask_is_withdrawn_or_stopped_by_its_worker(place: str) -> None:
    async def test(run: AnyQueue, worker: AnyQueue) -> None:
        await run.put([asked("a")])
        assert await worker.take(MEMBERS, (), 8) == [held("a")]
        await run.put([asked("b")])
        assert await run.cancel(["a", "b"], "killed by the operator") == ["b"]
        assert await worker.to_stop() == {"a": "killed by the operator"}
        assert await worker.take(MEMBERS, (), 8) == []
        assert (await run.has_trace("a"), await run.has_trace("b")) == (True, False)

    tried(test, place)


def test_what_is_taken_back_nobody_takes_and_what_a_worker_has_goes_on(place: str) -> None:
    """Asked again, the answer is the same: a connection may have been lost in between."""

    async def test(run: AnyQueue, worker: AnyQueue) -> None:
        await run.put([asked("a")])
        assert await worker.take(MEMBERS, (), 8) == [held("a")]
        await run.put([asked("b")])
        assert await run.withdraw(["a", "b", "c"]) == ["b"]
        assert await run.withdraw(["a", "b", "c"]) == ["b"]
        assert await worker.to_stop() == {}
        assert await worker.take(MEMBERS, (), 8) == []
        await worker.report([("a", b"1")])
        assert await run.answers(()) == [("a", b"1")]

    tried(test, place)


def test_what_is_known_as_never_put_in_can_not_be_put_in_later(place: str) -> None:
    """So a resumed run may give its money back, though the process before it only seemed dead."""

    async def test(run: AnyQueue, worker: AnyQueue) -> None:
        assert not await run.has_trace("a")
        assert await run.put([asked("a"), asked("b")]) == {"a"}
        assert await worker.take(MEMBERS, (), 8) == [held("b")]

    tried(test, place)


def test_nothing_is_begun_for_a_run_that_is_gone_until_another_owns_its_asks(
    place: str,
) -> None:
    async def test(run: AnyQueue, worker: AnyQueue) -> None:
        await run.put([asked("a")])
        await asyncio.to_thread(run.sessions.leave, run.session)
        assert await worker.take(MEMBERS, (), 8) == []
        resumed = opened(place)
        await resumed.enter()
        await resumed.own(["a"])
        assert await worker.take(MEMBERS, (), 8) == [held("a")]
        await resumed.leave()

    tried(test, place)


def test_a_worker_that_counts_as_dead_takes_nothing_and_what_it_held_can_be_taken_over(
    place: str,
) -> None:
    async def test(run: AnyQueue, worker: AnyQueue) -> None:
        await run.put([asked("a"), asked("b")])
        assert await worker.take(MEMBERS, (), 1) == [held("a")]
        await asyncio.to_thread(over, worker)
        assert await run.dead([worker.session, run.session]) == {worker.session}
        assert await run.left_behind(["m"]) == [(held("a"), worker.session)]
        assert await run.take_over("a", worker.session)
        assert not await run.take_over("a", worker.session)

    tried(test, place)


def test_a_process_that_was_cut_off_is_told_before_it_sends() -> None:
    """Only a server's: on one machine nobody is ever cut off."""

    async def test(run: AnyQueue, worker: AnyQueue) -> None:
        assert isinstance(worker, PostgresQueue)
        worker.sessions.lost = True
        with pytest.raises(StoreFenced):
            worker.check()
        with pytest.raises(StoreFenced):
            await worker.take(MEMBERS, (), 8)

    tried(test, postgres.server().place())


def test_a_run_over_a_new_connection_has_what_it_had_and_its_old_end_puts_in_nothing_more(
    tmp_path: Path,
) -> None:
    """So an ask that was repeated after a lost connection is in the queue once, and whose it is, is
    known, also if the old end hears of it late."""
    place = f"folder:{tmp_path}/queue"

    async def test(run: AnyQueue, worker: AnyQueue) -> None:
        await run.put([asked("a"), asked("b")])
        assert await worker.take(MEMBERS, (), 1) == [held("a")]
        again = opened(place)
        assert isinstance(again, FolderQueue)
        await again.enter()
        await again.rejoin(run.session)
        assert await again.put([asked("b"), asked("c")]) == frozenset()
        assert await run.put([asked("c"), asked("d")]) == {"c", "d"}
        assert await worker.take(MEMBERS, (), 8) == [held("b"), held("c")]
        await worker.report([("a", b"A")])
        assert (await again.answers(()), await run.answers(())) == ([("a", b"A")], [])
        assert not await run.has_trace("d")
        await again.leave()

    tried(test, place)


def test_ends_in_other_processes_hear_of_changes(tmp_path: Path) -> None:
    async def main() -> None:
        folder, heard = tmp_path / "queue", asyncio.Queue[str]()
        run, worker = FolderQueue(folder), FolderQueue(folder, heard.put_nowait)
        await run.enter()
        await worker.enter(OFFER)
        os.mkfifo(folder / "wake" / "dead")
        await run.put([asked("a")])
        assert await asyncio.wait_for(heard.get(), 60) == ""
        await run.cancel(["a"])
        assert await asyncio.wait_for(heard.get(), 60) == "cancel"
        await worker.leave()
        await run.leave()
        assert list((folder / "wake").iterdir()) == []

    asyncio.run(main())


def test_what_is_in_a_file_is_kept_once_and_that_of_an_answer_as_long_as_the_answer(
    place: str,
) -> None:
    async def test(run: AnyQueue, worker: AnyQueue) -> None:
        assert await run.lacking(["a", "b"]) == ["a", "b"]
        await run.bring("a", b"\x00one")
        await run.bring("a", b"\x00one")
        assert await run.lacking(["a", "b"]) == ["b"]
        assert (await worker.content("a"), await worker.content("b")) == (b"\x00one", None)
        await run.put([asked("r:1")])
        await worker.take(MEMBERS, (), 1)
        await worker.bring("c", b"", "r:1")
        assert await run.lacking(["c"]) == ["c"], "it is not for other asks"
        assert (await run.content("c", "r:1"), await run.content("c")) == (b"", None)
        await run.forget(["r:1"])
        assert await run.content("c", "r:1") is None
        assert await run.content("a") == b"\x00one"

    tried(test, place)
