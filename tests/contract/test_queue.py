"""What runs and workers rely on of a queue, asked of it directly."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from fanfold.errors import StoreFenced
from fanfold.journal import opening
from fanfold.journal.queue import Queue, QueuedAsk, TakenAsk, WorkerOffer
from tests import postgres
from tests.postgres import PostgresServer

MEMBERS = {"m": "openai:m"}
OFFER = WorkerOffer(host="h", pid=1, slots=8, tags=(), members=MEMBERS, version="0")


def asked(span: str, *tags: str, member: str = "m") -> QueuedAsk:
    return QueuedAsk(span, member, f"openai:{member}", tags, span.encode())


def held(span: str) -> TakenAsk:
    return TakenAsk(span, "m", span.encode())


@pytest.fixture
def server() -> PostgresServer:
    return postgres.server()


def tried(test: Callable[[Queue, Queue], Awaitable[None]], server: PostgresServer) -> None:
    """With a run's end and a worker's."""

    async def main() -> None:
        place = server.place()
        run, worker = opening.open_queue(place), opening.open_queue(place)
        await run.enter()
        await worker.enter(OFFER)
        try:
            await test(run, worker)
        finally:
            await run.leave()
            await worker.leave()

    asyncio.run(main())


def test_an_ask_is_taken_once_and_its_answer_stays_until_it_is_forgotten(
    server: PostgresServer,
) -> None:
    async def test(run: Queue, worker: Queue) -> None:
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

    tried(test, server)


def test_tags_are_those_that_a_worker_must_have(server: PostgresServer) -> None:
    async def test(run: Queue, worker: Queue) -> None:
        await run.put([asked("gpu", "gpu", "big"), asked("any")])
        assert await worker.take(MEMBERS, ("gpu",), 8) == [held("any")]
        assert await worker.take(MEMBERS, ("big", "gpu", "repo"), 8) == [held("gpu")]

    tried(test, server)


def test_a_cancelled_ask_is_withdrawn_or_stopped_by_its_worker(server: PostgresServer) -> None:
    async def test(run: Queue, worker: Queue) -> None:
        await run.put([asked("a")])
        assert await worker.take(MEMBERS, (), 8) == [held("a")]
        await run.put([asked("b")])
        assert await run.cancel(["a", "b"], "killed by the operator") == ["b"]
        assert await worker.to_stop() == {"a": "killed by the operator"}
        assert await worker.take(MEMBERS, (), 8) == []
        assert (run.has_trace("a"), run.has_trace("b")) == (True, False)

    tried(test, server)


def test_what_is_known_as_never_put_in_can_not_be_put_in_later(server: PostgresServer) -> None:
    """So a resumed run may give its money back, though the process before it only seemed dead."""

    async def test(run: Queue, worker: Queue) -> None:
        assert not run.has_trace("a")
        assert await run.put([asked("a"), asked("b")]) == {"a"}
        assert await worker.take(MEMBERS, (), 8) == [held("b")]

    tried(test, server)


def test_nothing_is_begun_for_a_run_that_is_gone_until_another_owns_its_asks(
    server: PostgresServer,
) -> None:
    async def test(run: Queue, worker: Queue) -> None:
        place = run.place  # type: ignore[attr-defined]
        await run.put([asked("a")])
        await asyncio.to_thread(run.sessions.leave, run.session)
        assert await worker.take(MEMBERS, (), 8) == []
        resumed = opening.open_queue(place)
        await resumed.enter()
        await resumed.own(["a"])
        assert await worker.take(MEMBERS, (), 8) == [held("a")]
        await resumed.leave()

    tried(test, server)


def test_a_worker_that_counts_as_dead_takes_nothing_and_what_it_held_can_be_taken_over(
    server: PostgresServer,
) -> None:
    async def test(run: Queue, worker: Queue) -> None:
        await run.put([asked("a"), asked("b")])
        assert await worker.take(MEMBERS, (), 1) == [held("a")]
        await asyncio.to_thread(worker.sessions.bury, [worker.session])
        assert await worker.take(MEMBERS, (), 8) == []
        assert await run.left_behind(["m"]) == [(held("a"), worker.session)]
        assert await run.take_over("a", worker.session)
        assert not await run.take_over("a", worker.session)

    tried(test, server)


def test_a_process_that_was_cut_off_is_told_before_it_sends(server: PostgresServer) -> None:
    async def test(run: Queue, worker: Queue) -> None:
        worker.sessions.lost = True  # type: ignore[attr-defined]
        with pytest.raises(StoreFenced):
            worker.check()
        with pytest.raises(StoreFenced):
            await worker.take(MEMBERS, (), 8)

    tried(test, server)
