"""The pause between two starts: agents that all begin at once stand in each other's way."""

from __future__ import annotations

import asyncio

from fanfold.clock import Clock
from fanfold.work.outcome import Outcome


class Pace:
    """Keeps starts apart: after one there is a pause, in which nothing may start."""

    def __init__(self, clock: Clock, delay: float) -> None:
        self._clock, self._delay = clock, delay
        self._pause: asyncio.Future[None] | None = None
        self._of: asyncio.Future[Outcome] | None = None

    @property
    def pause(self) -> asyncio.Future[None] | None:
        return None if self._pause is None or self._pause.done() else self._pause

    def room(self, free: int) -> int:
        """How many of so many may start now."""
        if not self._delay:
            return free
        return 0 if self.pause else min(1, free)

    def started(self, task: asyncio.Future[Outcome]) -> None:
        if self._delay:
            self._pause = asyncio.ensure_future(self._clock.sleep(self._delay))
            self._of = task

    def asked_nobody(self, task: asyncio.Future[Outcome]) -> None:
        """A task that ended without a call; when it was the last to start, nothing has to wait."""
        if task is self._of:
            self.end()

    def end(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
