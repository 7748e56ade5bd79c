"""Tasks that come in while others are carried out: what is there can be taken at once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterator

from fanfold.work.task import Task


class Inflow(Iterator[Task]):
    """As an iterator it ends when nothing is there now; `more` waits until there may be.

    `most` bounds what waits here: the source is not asked for more until some was taken.
    `complete`: the source has ended well. `error`: it has not, and this is why.
    """

    def __init__(self, tasks: AsyncIterable[Task], most: int) -> None:
        self._tasks: AsyncIterator[Task] = aiter(tasks)
        self._most = most
        self._waiting: deque[Task] = deque()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._taken = asyncio.Event()
        self._over = False
        self.complete = False
        self.error: Exception | None = None

    def __next__(self) -> Task:
        if not self._waiting:
            raise StopIteration
        self._taken.set()
        return self._waiting.popleft()

    async def more(self) -> bool:
        """Wait until something may be there. False: nothing is, and nothing will come.

        For each task one of those who wait is woken, also when another takes several at once: look
        there too before you wait again.
        """
        if self._waiting:
            return True
        if self._over:
            return False
        idle = asyncio.get_running_loop().create_future()
        self._idle.append(idle)
        await idle
        return True

    def _wake_one(self) -> None:
        while self._idle:
            idle = self._idle.popleft()
            if not idle.done():
                idle.set_result(None)
                return

    def close(self) -> None:
        """Nothing more is wanted: nobody waits from here on."""
        self._over = True
        while self._idle:
            self._wake_one()

    async def pump(self) -> None:
        """Take from the source until it ends; whatever happens there, those who wait are told."""
        try:
            await self._take()
            self.complete = True
        except Exception as error:
            self.error = error
        finally:
            self.close()

    async def _take(self) -> None:
        try:
            async for task in self._tasks:
                self._waiting.append(task)
                self._wake_one()
                while len(self._waiting) >= self._most:
                    self._taken.clear()
                    await self._taken.wait()
        finally:
            close = getattr(self._tasks, "aclose", None)
            if close is not None:
                await close()
