"""Tasks that come in while others are carried out: what is there can be taken at once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, Iterator

from fanfold.work.task import Task


class Inflow(Iterator[Task]):
    """As an iterator it ends when nothing is there now; `more` waits until there is, or never will.

    `most` bounds what waits here: the source is not asked for more until some was taken.
    """

    def __init__(self, tasks: AsyncIterable[Task], most: int) -> None:
        self._tasks, self._most = tasks, most
        self._waiting: deque[Task] = deque()
        self._changed = asyncio.Event()
        self._taken = asyncio.Event()
        self.closed = False

    def __next__(self) -> Task:
        if not self._waiting:
            raise StopIteration
        self._taken.set()
        return self._waiting.popleft()

    async def more(self) -> bool:
        """False: the source has ended and all of it was taken."""
        while not self._waiting:
            if self.closed:
                return False
            self._changed.clear()
            await self._changed.wait()
        return True

    async def pump(self) -> None:
        """Take from the source until it ends; whatever happens, those who wait are told."""
        try:
            async for task in self._tasks:
                self._waiting.append(task)
                self._changed.set()
                while len(self._waiting) >= self._most:
                    self._taken.clear()
                    await self._taken.wait()
        finally:
            self.closed = True
            self._changed.set()
            close = getattr(self._tasks, "aclose", None)
            if close is not None:
                await close()
