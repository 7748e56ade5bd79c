"""How a supervisor looks on while its run is carried out, and does what it is told."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

from fanfold.clock import RealClock
from fanfold.fleet.mission import Ready
from fanfold.fleet.orders import Orders
from fanfold.journal.facts import Attempt
from fanfold.observe.closing import interrupted
from fanfold.observe.progress import Progress
from fanfold.plans.execute import Job
from fanfold.run.run import Run

KILLED = "killed by the operator"
ENDED = "ended by SIGTERM"
HANDED_OVER = "handed over to another supervisor"
GRACE = 10.0  # seconds for agents that were killed to be settled
LOOK = 0.1
READY_WITHIN = 5.0


class Out(Protocol):
    """Where it writes; a log."""

    def write(self, text: str) -> int: ...

    def flush(self) -> None: ...

    def say(self, text: str) -> None: ...


class Obeying:
    """The Watch of a supervisor. It waits for signals only: SIGTERM pauses the run, a second one
    cancels it; with the word `kill` it is killed; SIGUSR1 with `hand-over` makes it leave.

    Leaving, it ends nothing: agents go on by themselves, and the next supervisor adopts them.
    """

    def __init__(self, job: Job, report: Callable[[Ready], None], log: Out) -> None:
        self._job, self._report, self._log = job, report, log
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False

    @asynccontextmanager
    async def watch(self, run: Run) -> AsyncIterator[None]:
        main = asyncio.current_task()
        assert main is not None
        self._run, self._main = run, main
        run.journal.when_waiting(self._log.say)
        store = run.journal.store
        self._orders = Orders(store.folder, run.record.session)
        self._orders.listen(store)
        self._listen()
        progress = Progress(run, self._log, live=False, clock=RealClock())  # type: ignore[arg-type]
        self._go(progress.watch())
        self._go(self._tell_ready())
        try:
            yield
        finally:
            self._closing = True
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._orders.close()

    def _go(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _listen(self) -> None:
        """The handlers stay until the loop ends: a signal must not hit while the books are closed."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._on_end)
        loop.add_signal_handler(signal.SIGINT, self._on_end)
        loop.add_signal_handler(signal.SIGUSR1, self._on_order)

    async def _tell_ready(self) -> None:
        """Once its tasks are planned: until then it may be refused, and leaves nothing behind."""
        run, record = self._run, self._run.record
        for _ in range(int(READY_WITHIN / 0.02)):
            stats = run.statistics()
            if stats.planned or stats.calls or stats.reused:
                break
            await asyncio.sleep(0.02)
        planned = run.statistics().planned
        self._report(Ready(run=record.id, name=record.name, pid=os.getpid(), planned=planned))

    # ── signals ──

    def _on_end(self) -> None:
        if self._closing:
            return
        if self._orders.given("kill"):
            self._log.say(KILLED)
            self._go(self._kill())
        elif self._run.stopping is None:
            self._run.pause(ENDED)
            self._orders.stop(ENDED)
            stats = self._run.statistics()
            self._log.say(interrupted(stats, stats.reserved))
        else:
            self._main.cancel()

    def _on_order(self) -> None:
        if not self._closing and self._orders.given("hand-over"):
            self._go(self._hand_over())

    # ── kill all ──

    async def _kill(self) -> None:
        """No new call. Agents are ended and settled by what they left; then the rest is cancelled.

        The word is repeated: one may be starting right now.
        """
        run, clock = self._run, asyncio.get_running_loop()
        run.pause(KILLED)
        run.kill(KILLED)
        deadline = clock.time() + GRACE
        while self._agents_at_work() and clock.time() < deadline:
            run.end_agents("killed", KILLED)
            await asyncio.sleep(LOOK)
        if not self._closing:
            self._main.cancel()

    def _agents_at_work(self) -> list[Attempt]:
        run = self._run
        started = run.journal.read.newest(run.record.no, ("started",), limit=1000)
        return [one for one in started if self._is_agent(one.member)]

    # ── hand over ──

    async def _hand_over(self) -> None:
        others = self._others_at_work()
        if others:
            what = f"{', '.join(others)} cannot be handed over to another supervisor while at work"
            self._orders.refuse("hand-over", what)
            return
        self._run.pause(HANDED_OVER)
        await self._run.flush()
        self._log.say(HANDED_OVER)
        self._orders.close()
        self._run.journal.store.leave(self._run.record.session)
        os._exit(0)

    def _others_at_work(self) -> list[str]:
        return [id for id, calls in self._run.load().items() if calls and not self._is_agent(id)]

    def _is_agent(self, id: str) -> bool:
        entry = self._job.roster.entries.get(id)
        return entry is not None and entry.traits.agent
