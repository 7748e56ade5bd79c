"""What a resumed graph keeps of the time before, and the pause between two starts."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from fanfold.clock import Clock
from fanfold.run.planning import Batch
from fanfold.run.pool import Pool
from fanfold.run.run import Run
from fanfold.work.dag import Dependent
from fanfold.work.outcome import Missing, State
from fanfold.work.task import Place, Terms


class RemainingTask(msgspec.Struct, frozen=True):
    """A task that is still to be carried out, with the parents that it has to wait for."""

    id: str
    depends_on: tuple[str, ...]
    weight: float


class KeptOutcomes:
    """Answers that passed, and how the others ended. In a new run there are none.

    Tasks that are carried out anew (`run.anew`) keep nothing; if only these are, all others stay as
    they are. Else what agents ended with: one that failed is not started again by itself. But not
    what failed for nothing but a parent, which may have passed by now.
    """

    def __init__(self, run: Run, batch: Batch, terms: Terms, agents: Collection[str]) -> None:
        self.values: dict[str, Any] = {}
        self.not_passed: dict[str, State] = {}
        self._anew, self._only, self._agents = run.anew, run.only, agents
        if not run.record.resumed or not (run.only or agents):
            return
        for part in run.passed(batch, terms):
            if self._may_stay(part.id):
                self.values[part.id] = part.value
                run.count_recorded(Place(batch.no, part.position), terms, "passed")
        for ended in run.missing(batch, terms):
            if self._stays(ended):
                state = self.not_passed[ended.id] = ended.state or "cancelled"
                run.count_recorded(Place(batch.no, ended.position), terms, state)

    def _may_stay(self, id: str) -> bool:
        return id not in self._anew and (self._only or id in self._agents)

    def _stays(self, ended: Missing) -> bool:
        final = ended.state in ("failed", "kicked") and not ended.by_parent
        return self._may_stay(ended.id) and (self._only or final)

    def remaining(self, tasks: Iterable[Dependent]) -> list[RemainingTask]:
        """The tasks that are left."""
        there = {*self.values, *self.not_passed}
        return [
            RemainingTask(one.id, tuple(id for id in one.depends_on if id not in there), one.weight)
            for one in tasks
            if one.id not in there
        ]


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
