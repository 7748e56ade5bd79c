"""The pause between two starts: agents that all begin at once stand in each other's way."""

from __future__ import annotations

import asyncio
from typing import Any

from fanfold.clock import Clock
from fanfold.run.pool import Pool


class Pace:
    """Keeps starts apart: after one there is a pause, in which nothing may start."""

    def __init__(self, clock: Clock, delay: float) -> None:
        self._clock, self._delay = clock, delay
        self._pause: asyncio.Future[None] | None = None
        self._last = ""

    @property
    def paused(self) -> bool:
        return self._pause is not None

    def started(self, id: str, pool: Pool[Any]) -> None:
        """The pool is not done as long as somebody may wait for the end of a pause."""
        if self._delay:
            pool.open_source()
            self._pause = pause = asyncio.ensure_future(self._clock.sleep(self._delay))
            pause.add_done_callback(lambda ended: self._over(ended, pool))
            self._last = id

    def _over(self, pause: asyncio.Future[None], pool: Pool[Any]) -> None:
        if self._pause is pause:
            self._pause = None
        pool.close_source()

    def asked_nobody(self, id: str) -> None:
        """A task that ended without a call; when it was the last to start, nothing has to wait."""
        if id == self._last:
            self.end()

    def end(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
