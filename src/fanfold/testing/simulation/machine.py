"""Processes of a simulated machine: each has an event loop of its own, and one scheduler runs them all.

Which process goes on next, and which of its ready callbacks, is drawn from the seed. Nothing waits: when
nobody can go on, time moves to the next thing that is due. A process that is killed is never run again:
none of its `finally` blocks takes place.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from typing import Any

from fanfold.testing.clock import EPOCH

FOREVER = float("inf")


class ProcessKilled(KeyboardInterrupt):
    """Ends what a process does just now. Only such an exception leaves an event loop's callback."""


class Endless(AssertionError):
    """It goes on and on: more steps, or more virtual time, than anything here needs."""


class _Ready(asyncio.Handle):
    """Made for each step: without a look whether anybody debugs."""

    __slots__ = ()

    def __init__(self, callback: Any, given: Any, loop: SimulatedLoop, context: Any) -> None:
        self._callback, self._args, self._loop = callback, given, loop
        self._context = copy_context() if context is None else context
        self._cancelled, self._repr = False, None
        self._source_traceback = None


class SimulatedLoop(asyncio.BaseEventLoop):
    """The ready callbacks of one process. It is run step by step from outside."""

    _ready: list[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    get_debug = bool  # called again and again: False, at once

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self._ready = []
        self._machine = machine
        self.failures: list[dict[str, Any]] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self.set_exception_handler(lambda _, said: self.failures.append(said))

    def __del__(self) -> None:
        """It is closed when its process is buried."""

    def time(self) -> float:
        return self._machine.now

    def create_task(self, coro: Any, **named: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, **named)
        self._tasks.append(task)
        return task

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Any, *given: Any
    ) -> asyncio.Future[Any]:
        """What another thread would do is done here, some steps later."""
        done: asyncio.Future[Any] = self.create_future()
        self.call_soon(_carried_out, done, func, given)
        return done

    def call_soon(  # type: ignore[override]
        self, callback: Any, *given: Any, context: Any = None
    ) -> asyncio.Handle:
        handle = _Ready(callback, given, self, context)
        self._ready.append(handle)
        return handle

    def tasks(self) -> list[asyncio.Task[Any]]:
        """Those that are not done, in the order in which they were begun."""
        self._tasks = [one for one in self._tasks if not one.done()]
        return self._tasks

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is dropped when it is due."""

    def ready(self, now: float) -> bool:
        """Whether anything can be run now."""
        scheduled = self._scheduled
        if scheduled and (scheduled[0]._when <= now or scheduled[0]._cancelled):  # type: ignore[attr-defined]
            while scheduled and (scheduled[0]._when <= now or scheduled[0]._cancelled):  # type: ignore[attr-defined]
                timer = heapq.heappop(scheduled)
                timer._scheduled = False  # type: ignore[attr-defined]
                if not timer._cancelled:
                    self._ready.append(timer)
        return bool(self._ready)

    @property
    def due(self) -> float:
        return self._scheduled[0].when() if self._scheduled else FOREVER

    def step(self, rng: random.Random | None) -> Any:
        """Run one ready callback; without `rng` the first. Whose it was: a task, most often."""
        ready = self._ready
        at = 0 if rng is None or len(ready) == 1 else int(rng.random() * len(ready))
        handle = ready.pop(at)
        if handle._cancelled:
            return None
        callback: Any = handle._callback  # type: ignore[attr-defined]
        try:
            handle._context.run(callback, *handle._args)  # type: ignore[attr-defined]
        except Exception as error:
            self.failures.append({"message": f"in {callback}", "exception": error})
        return getattr(callback, "__self__", None)


def _carried_out(done: asyncio.Future[Any], func: Any, given: Any) -> None:
    if done.cancelled():
        return
    try:
        done.set_result(func(*given))
    except Exception as error:
        done.set_exception(error)


class SimulatedClock:
    """The clocks of one process: `offset` is how far its wall clock was set wrong."""

    def __init__(self, machine: Machine, rng: random.Random) -> None:
        self._machine, self.offset = machine, 0.0
        self.random_bits = rng.getrandbits

    def now(self) -> float:
        return EPOCH + self._machine.now + self.offset

    def monotonic(self) -> float:
        return self._machine.now

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SimulatedProcess:
    """One process: its loop, its clock, and what became of it. `stopped_until`: it stands still (a
    SIGSTOP, a machine that sleeps); `cut_off_until`: it cannot reach the store meanwhile."""

    def __init__(self, machine: Machine, slot: int, rng: random.Random) -> None:
        self.machine, self.slot, self.rng = machine, slot, rng
        self.loop = SimulatedLoop(machine)
        self.clock = SimulatedClock(machine, rng)
        self.alive, self.ended = True, False
        self.stopped_until = self.cut_off_until = self.blind_until = 0.0
        self.died_at = FOREVER
        self.fenced = False  # its lease has ended: it may write nothing any more
        self._stopped = self._cut_off = FOREVER
        self.run: Any = None
        self.worker: Any = None
        self.said = ""
        self.may_repeat = True  # what is in doubt, though its step says that it is held
        self.main: asyncio.Task[Any] | None = None
        self.ran: Any = None  # whose step the last one was

    def start(self, main: Coroutine[Any, Any, Any]) -> None:
        self.main = self.loop.create_task(main)
        self.machine.processes.append(self)
        self.machine.running.append(self)

    def kill(self) -> None:
        self.alive, self.died_at = False, self.machine.now
        if self in self.machine.running:
            self.machine.running.remove(self)

    @property
    def unreachable_since(self) -> float:
        """Since when it cannot renew a lease: it stands still, or is cut off."""
        now, since = self.machine.now, FOREVER
        for until, began in (
            (self.stopped_until, self._stopped),
            (self.cut_off_until, self._cut_off),
        ):
            if until > now:
                since = min(since, began)
        return since

    @property
    def disturbed(self) -> bool:
        """It stood still or was cut off once: others may have taken over what it does."""
        return self.stopped_until > 0.0 or self.cut_off_until > 0.0

    def stop(self, seconds: float) -> None:
        self._stopped, self.stopped_until = self.machine.now, self.machine.now + seconds

    def cut_off(self, seconds: float) -> None:
        self._cut_off, self.cut_off_until = self.machine.now, self.machine.now + seconds

    def bury(self) -> None:
        """When all is over: let go of what was under way, where nobody can hear it any more."""
        asyncio._set_running_loop(self.loop)
        try:
            for task in self.loop.tasks():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                coroutine: Any = task.get_coro()
                for _ in range(20):  # a coroutine that waits in its `finally` is closed once more
                    with suppress(BaseException):
                        coroutine.close()
                        break
        finally:
            asyncio._set_running_loop(None)
            self.loop.close()


class Machine:
    """The time that all processes share, and who goes on next. `watch(process)` is called after each
    step and may kill; `wakes` are times at which something outside happens."""

    def __init__(self, rng: random.Random, *, shuffle: bool = True) -> None:
        self.now, self.steps, self._came = 0.0, 0, 0
        self.processes: list[SimulatedProcess] = []
        self.running: list[SimulatedProcess] = []  # those that live, and are not at their end
        self._rng, self._order = rng, rng if shuffle else None
        self.wakes: list[tuple[float, int, Callable[[], None]]] = []
        self.trace = 0

    def at(self, when: float, act: Callable[[], None]) -> None:
        self._came += 1
        heapq.heappush(self.wakes, (when, self._came, act))

    def run(
        self, watch: Callable[[SimulatedProcess], None], most_steps: int, most_time: float
    ) -> None:
        """Until nobody has anything to do."""
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(lambda made: None, lambda dropped: None)
        try:
            self._run(watch, most_steps, most_time)
        finally:
            asyncio._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)

    def _run(
        self, watch: Callable[[SimulatedProcess], None], most_steps: int, most_time: float
    ) -> None:
        here: SimulatedLoop | None = None
        wakes, running = self.wakes, self.running
        while True:
            if wakes and wakes[0][0] <= self.now:
                self._wake()
            now = self.now
            able = [one for one in running if one.stopped_until <= now and one.loop.ready(now)]
            if not able:
                if (due := self._next()) == FOREVER:
                    return
                self.now = due
                continue
            process = able[0] if len(able) == 1 else able[int(self._rng.random() * len(able))]
            self.steps += 1
            if self.steps > most_steps or self.now > most_time:
                raise Endless(f"it goes on and on: {self.steps} steps, {self.now:.0f} s")
            loop = process.loop
            if loop is not here:
                asyncio._set_running_loop(loop)
                here = loop
            try:
                process.ran = loop.step(self._order)
            except ProcessKilled:
                process.ran = None
            self.trace = hash((self.trace, process.slot, len(loop._ready), now))
            if process.main is not None and process.main.done():
                process.ended = True
                if process in running:
                    running.remove(process)
            watch(process)

    def _wake(self) -> None:
        while self.wakes and self.wakes[0][0] <= self.now:
            heapq.heappop(self.wakes)[2]()

    def _next(self) -> float:
        due = [self.wakes[0][0]] if self.wakes else []
        for one in self.running:
            due.append(
                max(one.stopped_until, self.now if one.loop.ready(self.now) else one.loop.due)
            )
        return min(due, default=FOREVER)
