"""The worker pool of all patterns: a fixed number of workers, and work that comes while they work."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Sequence,
)
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

from fanfold.errors import RunStopped

T = TypeVar("T")
R = TypeVar("R")


FIRST = 256  # workers that a pool starts with


def _nothing() -> None:
    return None


def _never() -> bool:
    return False


class Pool(Generic[T]):
    """Workers take from what was added, else from `take`, and `do` it, until there is no more.

    A worker that finds nothing waits for `add` or `wake`. When all wait and no source is open, the
    pool is done. After `close`, or when `stopping` says so, nothing new is begun. The first error
    ends the pool and is raised: the other workers are cancelled. But when it is RunStopped they come
    to their own end, since their calls are paid for.
    """

    def __init__(
        self,
        workers: int,
        do: Callable[[T], Awaitable[None]],
        take: Callable[[], T | None] = _nothing,
        stopping: Callable[[], bool] = _never,
    ) -> None:
        self._many, self._do, self._take, self._stopping = workers, do, take, stopping
        self._queue: deque[T] = deque()
        self._workers: list[asyncio.Task[None]] = []
        self._others: list[asyncio.Task[None]] = []
        self._idle: deque[asyncio.Future[None]] = deque()
        self._taken = asyncio.Event()
        self._changed: asyncio.Future[None] | None = None
        self._consumer = _Consumer()
        self._sources = 0
        self.active = 0
        self.closed = False
        self.error: Exception | None = None

    async def run(self) -> None:
        """Do all work, whatever is added meanwhile. Raises the error that ended it."""
        self.start()
        try:
            await self.wait()
        finally:
            await self.end()
        if self.error is not None:
            raise self.error

    def start(self) -> None:
        """Where there may be thousands of workers, they come as there is work."""
        self.active = min(self._many, FIRST)
        self._workers = [asyncio.create_task(self._work()) for _ in range(self.active)]

    def _one_more(self) -> None:
        """Somebody has found work, and nobody is left to look for more."""
        if self.active < self._many and not self._idle and not self.closed:
            self.active += 1
            self._workers.append(asyncio.create_task(self._work()))

    def grow(self, workers: int) -> None:
        """So many from now on, if that is more; fewer calls at once is for the limits to see to."""
        self._many = max(self._many, workers)
        workers = min(workers, max(FIRST, self.active))
        while self.active < workers and self._workers and not self.closed:
            self.active += 1
            self._workers.append(asyncio.create_task(self._work()))

    async def wait(self) -> None:
        """Until all workers have ended, or one has failed."""
        while self.active and not self.failed:
            await self.changed()

    async def changed(self) -> None:
        """Until `notify`; the end and a failure notify too. One may wait for it at a time."""
        self._changed = asyncio.get_running_loop().create_future()
        await self._changed

    def notify(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    @property
    def failed(self) -> bool:
        """An error that the other workers do not survive."""
        return self.error is not None and not isinstance(self.error, RunStopped)

    def fail(self, error: Exception) -> None:
        if self.error is None or not (self.failed or isinstance(error, RunStopped)):
            self.error = error
        self.close()
        if self.failed:
            self.notify()

    # ── where work comes from ──

    def add(self, *works: T) -> None:
        """Work that goes before what `take` gives."""
        self._queue.extend(works)
        self.wake(len(works))

    async def room(self, most: int) -> None:
        """Until fewer than so many wait that were added: whoever adds is held up so long."""
        while len(self._queue) >= most and not self.closed:
            self._taken.clear()
            await self._taken.wait()

    def open_source(self) -> None:
        """More may be added until `close_source`, though all workers wait."""
        self._sources += 1

    def close_source(self) -> None:
        self._sources -= 1
        self.wake(len(self._idle))

    def accompany(self, work: Coroutine[Any, Any, None]) -> None:
        """Something that goes on beside the workers, and is cancelled with them."""
        self._others.append(asyncio.create_task(work))

    def wake(self, many: int = 1) -> None:
        """`take` may give so many now."""
        while many and self._idle:
            idle = self._idle.popleft()
            if not idle.done():
                idle.set_result(None)
                many -= 1

    # ── the workers ──

    async def _work(self) -> None:
        try:
            while (work := self._next()) is not None or (work := await self._wait()) is not None:
                if self.active < self._many:
                    self._one_more()
                await self._do(work)
        except Exception as error:
            self.fail(error)
        finally:
            self.active -= 1
            if not self.active:
                self.notify()

    def _next(self) -> T | None:
        """None: there is nothing now."""
        if self._stopping():
            self.close()
        if self.closed:
            return None
        if self._queue:
            self._taken.set()
            return self._queue.popleft()
        return self._take()

    async def _wait(self) -> T | None:
        """None: there will be nothing more."""
        while not self.closed:
            self._idle.append(idle := asyncio.get_running_loop().create_future())
            if len(self._idle) == self.active and not self._sources:
                self.close()
            await idle
            if (work := self._next()) is not None:
                return work
        return None

    # ── the end ──

    def close(self) -> None:
        """Nothing new is begun; what was added and not begun is dropped."""
        self.closed = True
        self._queue.clear()
        self._taken.set()
        self.wake(len(self._idle))

    async def end(self, graceful: bool = False) -> None:
        """Cancel what is under way and see it gone. Gracefully: it comes to its own end, also in a
        pool that this one takes its work from."""
        self.close()
        self._consumer.graceful = graceful
        tasks = [*self._workers, *self._others]

        def again() -> None:
            if not ends_gracefully():
                self._consumer.graceful = False
                _cancel(tasks)

        _cancel(self._others if graceful else tasks)
        await _gone(tasks, again)

    def feed(self, source: AsyncIterable[R], most: int) -> Feed[R]:
        """What comes from an async source, for `take` to take from."""
        feed = Feed(self, source, most, self._consumer)
        self.accompany(feed.pump())
        return feed


async def in_order(items: Sequence[T], do: Callable[[T], Awaitable[R]]) -> list[R]:
    """All at once, the results in the order of the items. The run's limits bound the calls."""
    if len(items) == 1:
        return [await do(items[0])]
    results: dict[int, R] = {}
    numbers = iter(range(len(items)))

    async def one(number: int) -> None:
        results[number] = await do(items[number])

    await Pool(len(items), one, lambda: next(numbers, None)).run()
    return [results[number] for number in range(len(items))]


async def end_all(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """Cancel these and see them gone, also when the one who waits for that is cancelled."""
    _cancel(tasks)
    await _gone(tasks, lambda: _cancel(tasks))


async def _gone(tasks: Sequence[asyncio.Future[Any]], cancelled: Callable[[], None]) -> None:
    again = False
    while any(not task.done() for task in tasks):
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            again = True
            cancelled()
    if again:
        raise asyncio.CancelledError


def _cancel(tasks: Sequence[asyncio.Future[Any]]) -> None:
    for task in tasks:
        task.cancel()


# ── work that comes from another pool, or from anywhere ──────────────────────────────────────


class _Consumer:
    """Who takes from an async source. `graceful`: it ends because the run stops, so what is under
    way at the source is not cut off."""

    graceful = False


_consumer: ContextVar[_Consumer | None] = ContextVar("consumer", default=None)


def ends_gracefully() -> bool:
    """Is this task cancelled only because the run stops?"""
    consumer = _consumer.get()
    return consumer is not None and consumer.graceful


class Feed(Iterator[T]):
    """Work from an async source. As an iterator it ends when nothing is there now.

    `most` bounds what waits here: the source is not asked for more until some was taken.
    `complete`: the source has ended well. `error`: it has not, and this is why.
    """

    def __init__(
        self, pool: Pool[Any], source: AsyncIterable[T], most: int, consumer: _Consumer
    ) -> None:
        self._pool, self._most, self._consumer = pool, most, consumer
        self._source: AsyncIterator[T] = aiter(source)
        self._waiting: deque[T] = deque()
        self._taken = asyncio.Event()
        self._open = True
        self.complete = False
        self.error: Exception | None = None
        pool.open_source()

    def __next__(self) -> T:
        if not self._waiting:
            raise StopIteration
        self._taken.set()
        return self._waiting.popleft()

    async def pump(self) -> None:
        """Take from the source until it ends; whatever happens there, those who wait are woken.

        An error of the source ends the pool. RunStopped does not: what has come is done.
        """
        _consumer.set(self._consumer)
        try:
            await self._fetch()
            self.complete = True
        except Exception as error:
            self.error = error
            if not isinstance(error, RunStopped):
                self._pool.fail(error)
        finally:
            self.close()

    def close(self) -> None:
        """Nothing more is wanted."""
        if self._open:
            self._open = False
            self._pool.close_source()

    async def _fetch(self) -> None:
        try:
            async for work in self._source:
                self._waiting.append(work)
                self._pool.wake()
                while len(self._waiting) >= self._most:
                    self._taken.clear()
                    await self._taken.wait()
        finally:
            close = getattr(self._source, "aclose", None)
            if close is not None:
                await close()
