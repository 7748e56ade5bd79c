"""The worker pool: none of its work is lost, none waits in vain, and its end is the end of all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, cast

import pytest

from fanfold.errors import RunStopped
from fanfold.run.pool import Feed, Pool, in_order
from fanfold.testing.clock import run_virtual


def played(main: Callable[[], Awaitable[None]]) -> None:
    async def bounded(clock: Any) -> None:
        async with asyncio.timeout(1000):
            await main()

    run_virtual(bounded)


class Work:
    """Work that takes a second each, and knows what was begun, what ended and how many at most."""

    def __init__(self, wrong: dict[int, Exception] | None = None) -> None:
        self.wrong = wrong or {}
        self.begun: list[int] = []
        self.ended: list[int] = []
        self.at_once = self.most = 0

    async def do(self, n: int) -> None:
        self.begun.append(n)
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            await asyncio.sleep(1)
            if n in self.wrong:
                raise self.wrong[n]
            self.ended.append(n)
        finally:
            self.at_once -= 1


def numbers(many: int) -> Callable[[], int | None]:
    left = iter(range(many))
    return lambda: next(left, None)


# ── workers ──────────────────────────────────────────────────────────────────────────────────


def test_all_work_is_done_by_no_more_than_the_workers() -> None:
    async def main() -> None:
        work = Work()
        await Pool(4, work.do, numbers(10)).run()
        assert (sorted(work.ended), work.most) == (list(range(10)), 4)

    played(main)


def test_a_pool_without_work_is_done_at_once() -> None:
    async def main() -> None:
        work = Work()
        await Pool(3, work.do).run()
        assert (work.begun, asyncio.get_running_loop().time()) == ([], 0.0)

    played(main)


def test_work_that_work_adds_is_done_before_what_waits_and_by_those_who_are_idle() -> None:
    async def main() -> None:
        done: list[int] = []

        async def do(n: int) -> None:
            done.append(n)
            if n < 2:
                await asyncio.sleep(5)
                pool.add(10 * n + 10, 10 * n + 11)
            await asyncio.sleep(1)

        pool = Pool(3, do, numbers(2))
        await pool.run()
        assert sorted(done) == [0, 1, 10, 11, 20, 21]

    played(main)


def test_an_error_cancels_the_others_and_is_raised_when_they_are_gone() -> None:
    async def main() -> None:
        gone: list[int] = []

        async def do(n: int) -> None:
            if n == 2:
                raise ValueError("a defect")
            try:
                await asyncio.sleep(100)
            finally:
                await asyncio.sleep(1)
                gone.append(n)

        with pytest.raises(ValueError, match="a defect"):
            await Pool(3, do, numbers(50)).run()
        assert sorted(gone) == [0, 1]

    played(main)


def test_a_run_that_stops_lets_what_is_under_way_end_and_begins_nothing_new() -> None:
    async def main() -> None:
        work = Work({0: RunStopped("paused")})
        with pytest.raises(RunStopped, match="paused"):
            await Pool(3, work.do, numbers(50)).run()
        assert (work.begun, sorted(work.ended)) == ([0, 1, 2], [1, 2])

    played(main)


def test_a_pool_that_is_told_to_stop_begins_nothing_new() -> None:
    async def main() -> None:
        work = Work()
        await Pool(3, work.do, numbers(50), lambda: len(work.ended) >= 3).run()
        assert sorted(work.ended) == sorted(work.begun) == list(range(len(work.ended)))
        assert len(work.ended) <= 5

    played(main)


def test_a_pool_that_is_cancelled_leaves_nothing_behind_even_when_cancelled_twice() -> None:
    async def main() -> None:
        gone: list[int] = []

        async def do(n: int) -> None:
            try:
                await asyncio.sleep(100)
            finally:
                await asyncio.sleep(2)
                gone.append(n)

        running = asyncio.create_task(Pool(3, do, numbers(50)).run())
        await asyncio.sleep(1)
        running.cancel()
        await asyncio.sleep(1)
        assert not running.done()
        await asyncio.wait((running,))
        assert (running.cancelled(), sorted(gone)) == (True, [0, 1, 2])

    played(main)


def test_whoever_adds_is_held_up_until_few_enough_wait() -> None:
    async def main() -> None:
        work = Work()
        pool = Pool(2, work.do)
        pool.open_source()
        pool.start()
        for n in range(20):
            pool.add(n)
            await pool.room(4)
            assert n + 1 - len(work.begun) < 4
        pool.close_source()
        await pool.wait()
        assert sorted(work.ended) == list(range(20))

    played(main)


def test_results_come_in_order_whichever_ends_first() -> None:
    async def main() -> None:
        async def do(n: int) -> int:
            await asyncio.sleep(10 - n)
            return n * n

        assert await in_order(range(5), do) == [0, 1, 4, 9, 16]
        assert await in_order([3], do) == [9]
        assert await in_order([], do) == []

    played(main)


# ── a source ─────────────────────────────────────────────────────────────────────────────────


class Tap:
    """A source that counts what was taken from it, and knows whether it was closed."""

    def __init__(self, many: int, wrong: Exception | None = None) -> None:
        self._many, self._wrong = many, wrong
        self.given, self.closed = 0, False

    async def flow(self) -> AsyncIterator[int]:
        try:
            for n in range(self._many):
                self.given += 1
                yield n
            if self._wrong is not None:
                raise self._wrong
        finally:
            self.closed = True


class Fed:
    """A pool that is fed by a source."""

    def __init__(self, workers: int, source: AsyncIterator[int], most: int = 64) -> None:
        self.work = Work()
        self.pool: Pool[int] = Pool(workers, self.work.do, lambda: next(self.feed, None))
        self.feed: Feed[int] = self.pool.feed(source, most)


def test_what_comes_is_done_at_once_and_then_the_workers_wait_for_more() -> None:
    async def main() -> None:
        gate = asyncio.Event()

        async def source() -> AsyncIterator[int]:
            yield 0
            yield 1
            await gate.wait()
            yield 2

        fed = Fed(4, source())
        running = asyncio.create_task(fed.pool.run())
        await asyncio.sleep(5)
        assert (sorted(fed.work.ended), running.done()) == ([0, 1], False)
        gate.set()
        await running
        assert (sorted(fed.work.ended), fed.feed.complete) == ([0, 1, 2], True)

    played(main)


def test_a_burst_is_shared_by_all_who_wait() -> None:
    async def main() -> None:
        gate = asyncio.Event()

        async def source() -> AsyncIterator[int]:
            await gate.wait()
            for n in range(8):
                yield n

        fed = Fed(4, source())
        running = asyncio.create_task(fed.pool.run())
        await asyncio.sleep(1)
        gate.set()
        await running
        assert (sorted(fed.work.ended), fed.work.most) == (list(range(8)), 4)

    played(main)


def test_the_source_is_asked_for_no_more_than_may_wait() -> None:
    async def main() -> None:
        tap = Tap(100)
        fed = Fed(1, tap.flow(), 5)
        fed.pool.start()
        while fed.pool.active:
            assert tap.given - len(fed.work.begun) <= 5
            await asyncio.sleep(1)
        assert fed.work.ended == list(range(100))

    played(main)


def test_a_source_that_fails_ends_the_pool_and_is_closed() -> None:
    async def main() -> None:
        tap = Tap(2, ValueError("dry"))
        fed = Fed(2, tap.flow())
        with pytest.raises(ValueError, match="dry"):
            await fed.pool.run()
        assert (fed.feed.complete, tap.closed) == (False, True)

    played(main)


def test_what_came_before_the_source_stopped_with_the_run_is_done() -> None:
    async def main() -> None:
        stopped = RunStopped("elsewhere")
        fed = Fed(1, Tap(3, stopped).flow())
        await fed.pool.run()
        assert (fed.work.ended, fed.feed.complete, fed.feed.error) == ([0, 1, 2], False, stopped)

    played(main)


@pytest.mark.parametrize("many", [1000, 3])
def test_a_pool_that_ends_closes_its_source_wherever_that_is(many: int) -> None:
    """Waiting for somebody to take something, or for what it is made of."""

    async def main() -> None:
        tap = Tap(many)

        async def endless() -> AsyncIterator[int]:
            async with aclosing(cast("AsyncGenerator[int, None]", tap.flow())) as flow:
                async for one in flow:
                    yield one
                await asyncio.Event().wait()

        fed = Fed(1, endless(), 5)
        fed.pool.start()
        await asyncio.sleep(10)
        assert not tap.closed or many == 3
        await fed.pool.end()
        assert (tap.closed, fed.work.at_once, fed.pool.active) == (True, 0, 0)

    played(main)


def test_an_iterable_without_a_close_of_its_own_will_do() -> None:
    class Few:
        def __init__(self) -> None:
            self._rest = iter([0, 1])

        def __aiter__(self) -> Few:
            return self

        async def __anext__(self) -> int:
            for one in self._rest:
                return one
            raise StopAsyncIteration

    async def main() -> None:
        fed = Fed(2, Few())
        await fed.pool.run()
        assert (sorted(fed.work.ended), fed.feed.complete) == ([0, 1], True)

    played(main)
