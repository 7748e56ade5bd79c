"""Why a run ends early, if it does, and how everybody in it learns of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextvars import ContextVar
from typing import NoReturn, TypeVar

import msgspec

from fanfold.errors import RunStopped
from fanfold.run.dispatch import Dispatch
from fanfold.run.unpaid import CannotPay, Unpaid
from fanfold.work.outcome import State, StopCause
from fanfold.work.task import Task

T = TypeVar("T")
_patterns: ContextVar[frozenset[int]] = ContextVar("patterns", default=frozenset())
"""In which runs a pattern is under way here: others that are called meanwhile are parts of it."""


class Stop(msgspec.Struct, frozen=True):
    """Why the run ends early. `rest` is the outcome of the items that were not reached. `cause`: what
    it lacks, if that is why."""

    status: str
    reason: str
    rest: State = "cancelled"
    cause: StopCause | None = None


class Stopping:
    """The first reason to stop counts. From then on no call starts; calls in flight end by themselves.

    `streams`: how many are open.
    """

    def __init__(self, dispatch: Dispatch) -> None:
        self._dispatch = dispatch
        self._signal: asyncio.Future[None] | None = None
        self.stop: Stop | None = None
        self.unpaid = Unpaid()
        self.streams = self._at_work = 0
        self._ended = asyncio.Event()  # a pattern

    def halt(self, stop: Stop) -> None:
        if self.stop is None:
            self.stop = stop
            self._dispatch.halt(self.error())
            if self._signal is not None and not self._signal.done():
                self._signal.set_result(None)

    def kill(self, reason: str) -> None:
        """It ends now, whatever the reason was before."""
        self.stop = Stop("killed", reason)

    def pause(self, reason: str) -> NoReturn:
        """The run cannot continue here: it pauses, and the caller is stopped."""
        self.halt(Stop("paused", reason))
        raise self.error()

    def error(self) -> RunStopped:
        stop = self.stop
        return RunStopped("stopped" if stop is None else f"{stop.status}: {stop.reason}")

    def raise_if_stopping(self) -> None:
        if self.stop is not None:
            raise self.error()

    async def wait(self, seconds: float | None, *sooner: asyncio.Future[None]) -> None:
        """Sleep, but not longer than until the run stops, or one of these is done. None: until then."""
        if self._signal is None:
            self._signal = asyncio.get_running_loop().create_future()
        if self.stop is None:
            first = asyncio.FIRST_COMPLETED
            await asyncio.wait((self._signal, *sooner), timeout=seconds, return_when=first)

    # ── several patterns at once ──

    async def after_all_calls(self, pattern: Awaitable[T]) -> T:
        """Carry out a pattern of a script, which may do several at once. When the run stops, none of them
        ends while calls are under way: a task group cancels all others when the first one raises, and
        calls that are cut off are paid for. Only a part of another pattern ends at once: what a call
        itself does cannot wait for that call."""
        outer, run = _patterns.get(), id(self._dispatch)
        if run in outer:
            return await pattern
        before = _patterns.set(outer | {run})
        self._at_work += 1
        try:
            return await pattern
        except RunStopped:
            if self.stop is None or self.stop.status != "killed":
                await self._calls_end()
                self.halt_if_unpaid()  # before anything else can begin
            raise
        finally:
            _patterns.reset(before)
            self._at_work -= 1
            self._ended.set()

    async def end_patterns(self, why: str) -> None:
        """Those that are still under way though the script is done with its run: the run pauses, and they
        come to their end. `gather` leaves them behind when one of them raises."""
        if self._at_work:
            self.halt(Stop("paused", why))
        while self._at_work:
            self._ended.clear()
            await self._ended.wait()

    async def _calls_end(self) -> None:
        ended, freed = asyncio.Event(), self._dispatch.on_freed
        freed.append(ended.set)
        try:
            while self._dispatch.limits.in_flight:
                ended.clear()
                await ended.wait()
        finally:
            freed.remove(ended.set)

    # ── for lack of money ──

    def skip_unpaid(self, task: Task, short: CannotPay) -> None:
        """This item cannot be paid; when no other can either, the run pauses at once."""
        self.unpaid.add(task.id, task.terms.step, short)
        if short.last:
            self.halt_if_unpaid()

    def halt_if_unpaid(self) -> None:
        """Some items could not be paid, and nothing else is left to do: the run pauses."""
        if self.unpaid:
            assert self.unpaid.dearest is not None
            cause = self.unpaid.dearest.cause
            self.halt(Stop("paused", self.unpaid.reason, "unfunded", cause))
