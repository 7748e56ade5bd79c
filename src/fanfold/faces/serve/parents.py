"""Requests that somebody's attempt makes: they are on record below it, in a run of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fanfold.faces.serve.wire import Refused
from fanfold.run.branch import open_branch
from fanfold.run.run import Run

MOST_OPEN = 64


class _Open:
    """A run below a parent, and how many requests it is at."""

    def __init__(self, run: Run) -> None:
        self.run, self.busy = run, 0


class Parents:
    """One run for each parent, on the budget of the server's own. When there are many, those that
    are idle are closed, the oldest first; `close` them all before the server's run."""

    def __init__(self, run: Run, most: int = MOST_OPEN) -> None:
        self._run, self._most = run, most
        self._open: dict[str, _Open] = {}
        self._one_at_a_time = asyncio.Lock()

    @asynccontextmanager
    async def of(self, span: str) -> AsyncIterator[Run]:
        """The run that a request belongs to, which stays open meanwhile. Raises Refused."""
        if not span:
            yield self._run
            return
        async with self._one_at_a_time:
            found = self._open.get(span) or await self._opened(span)
            found.busy += 1
        try:
            yield found.run
        finally:
            found.busy -= 1

    async def _opened(self, span: str) -> _Open:
        id = span.partition(":")[0]
        record = self._run.journal.read.find(id)
        if record is None or record.id != id:
            why = f"X-Fanfold-Parent: there is no run {id} in this server's store"
            raise Refused(why, code="unknown_parent")
        await self._make_room()
        branch = await open_branch(self._run, f"{self._run.record.name} requests", span)
        self._open[span] = _Open(branch)
        return self._open[span]

    async def _make_room(self) -> None:
        idle = [span for span, one in self._open.items() if not one.busy]
        for span in idle[: len(self._open) - self._most + 1]:
            await self._open.pop(span).run.close()

    async def close(self) -> None:
        """Nothing may be under way any more."""
        while self._open:
            _, one = self._open.popitem()
            await one.run.close()
