"""The process that runs a launched plan or fleet: detached, one for each run, at the operator's orders.

Started by `fleet.detach`, as `python -m fanfold.fleet.supervisor NAME STORE HANDLE`, with its launch
order on stdin. It does nothing but wait: for replies, for agents, for signals.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from fanfold.clock import RealClock
from fanfold.errors import AlreadyRunning, BadInput, FanfoldError, StoreError
from fanfold.fleet.detach import REFUSED, LaunchOrder, LaunchResult
from fanfold.observe.closing import again_command, closing, interrupted, resume_command
from fanfold.observe.html.account import result_page
from fanfold.observe.notify import notifying
from fanfold.observe.progress import Progress
from fanfold.observe.status import may_resume
from fanfold.observe.traces import trace
from fanfold.plans.execute import Audience, execute
from fanfold.plans.prepare import Job
from fanfold.run.loop import run_sync
from fanfold.run.run import Run
from fanfold.work.outcome import Receipt

STOPPED = 3  # exit code
ENDED = "ended by SIGTERM"
HANDED_OVER = "handed over to another supervisor"
READY_WITHIN = 5.0


class SupervisorLog:
    """Standard output, with the time before each line. On a full disk lines are lost; the run is not."""

    def __init__(self) -> None:
        self._at_line_start = True

    def write(self, text: str) -> int:
        for line in text.splitlines(keepends=True):
            stamp = (
                time.strftime("%Y-%m-%dT%H:%M:%SZ ", time.gmtime()) if self._at_line_start else ""
            )
            with suppress(OSError):
                sys.stdout.write(stamp + line)
            self._at_line_start = line.endswith("\n")
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            sys.stdout.flush()

    def say(self, text: str) -> None:
        self.write(text.rstrip("\n") + "\n")
        self.flush()


class LauncherPipe:
    """The pipe to the launcher: one line, then it is closed. The reader may have ended."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        os.set_inheritable(handle, False)

    def report(self, result: LaunchResult) -> None:
        """Only the first report is sent."""
        if self._handle >= 0:
            with suppress(OSError):
                os.write(self._handle, msgspec.json.encode(result) + b"\n")
            os.close(self._handle)
            self._handle = -1


class RunWatch:
    """Watches the run of a supervisor and acts on signals: SIGTERM pauses the run, a second one cancels
    it. By the order `hand-over` it leaves, and ends nothing: agents continue by themselves, and the next
    supervisor adopts them.
    """

    def __init__(
        self, job: Job, report: Callable[[LaunchResult], None], log: SupervisorLog
    ) -> None:
        self._job, self._report, self._log = job, report, log
        self._tasks: set[asyncio.Task[None]] = set()
        self._notes: set[asyncio.Task[None]] = (
            set()
        )  # those that go on record, also as the last word
        self._closing = False

    @asynccontextmanager
    async def watch(self, run: Run) -> AsyncIterator[None]:
        main = asyncio.current_task()
        assert main is not None
        self._run, self._main = run, main
        run.store.when_waiting(self._log.say)
        trace(run)
        run.hands_over(self._hand_over)
        # The handlers stay until the loop ends: a signal must not interrupt the closing of the
        # run
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._on_terminate)
        loop.add_signal_handler(signal.SIGINT, self._on_terminate)
        progress = Progress(run, self._log, live=False, clock=RealClock())  # type: ignore[arg-type]
        self._start(progress.watch())
        self._start(self._report_ready())
        try:
            async with notifying(run, self._job.options.notify, self._log.say):
                yield
        finally:
            self._closing = True
            for task in self._tasks - self._notes:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _report_ready(self) -> None:
        """Once its tasks are planned: until then the run may be refused, and leaves nothing behind."""
        run, record = self._run, self._run.record
        for _ in range(int(READY_WITHIN / 0.02)):
            stats = run.statistics()
            if stats.planned or stats.calls or stats.reused:
                break
            await asyncio.sleep(0.02)
        planned = run.statistics().planned
        self._report(
            LaunchResult(run=record.id, name=record.name, pid=os.getpid(), planned=planned)
        )

    # ── signals ──

    def _on_terminate(self) -> None:
        if self._closing:
            return
        if self._run.stopping is None:
            self._run.pause(ENDED)
            self._notes.add(self._start(self._note_stop()))
            stats = self._run.statistics()
            self._log.say(interrupted(stats, stats.reserved))
        else:
            self._main.cancel()

    async def _note_stop(self) -> None:
        with suppress(FanfoldError):  # a store in trouble
            await self._run.order("stop", ENDED)

    # ── hand over ──

    def _hand_over(self) -> Callable[[], None]:
        others = [id for id, calls in self._run.load().items() if calls and not self._is_agent(id)]
        if others:
            raise BadInput(
                f"{', '.join(others)} cannot be handed over to another supervisor while at work;"
                " try again when it is done"
            )
        self._run.pause(HANDED_OVER)

        def leave() -> None:
            self._start(self._leave())

        return leave

    async def _leave(self) -> None:
        await self._run.flush()
        self._log.say(HANDED_OVER)
        self._run.store.sessions.leave(self._run.record.session)
        os._exit(0)

    def _is_agent(self, id: str) -> bool:
        entry = self._job.roster.entries.get(id)
        return entry is not None and entry.traits.agent


# ── the process ──────────────────────────────────────────────────────────────────────────────


def main() -> int:
    name, _, handle = sys.argv[1:]
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=LaunchOrder)
    pipe = LauncherPipe(int(handle))
    daemonize()
    log = SupervisorLog()
    log.say(f"supervisor of {name}, process {os.getpid()}")
    return supervise(order, pipe, log)


def daemonize() -> None:
    """Leave the launcher: no parent, a session without a terminal, nothing to read from.

    SIGHUP gets a handler that does nothing instead of being ignored: that would be inherited by the
    programs of members, a handler is not.
    """
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGHUP, lambda number, frame: None)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def supervise(order: LaunchOrder, pipe: LauncherPipe, log: SupervisorLog) -> int:
    """The exit code is for the log only; the receipt is in the journal."""
    try:
        job = order.job()
        watch = RunWatch(job, pipe.report, log)
        audience = Audience(watch.watch, log.say, pages=result_page, warn=log.say)
        receipt = run_sync(execute(job, audience))
    except Exception as error:
        code, text = _error_text(error)
        log.say(text)
        pipe.report(LaunchResult(error=text, code=code))
        return code
    pipe.report(
        LaunchResult(run=receipt.run, name=receipt.name, pid=os.getpid(), planned=receipt.planned)
    )
    store = order.options.store
    log.say(closing(receipt, _resume(job, receipt, store), store))
    return 0


def _error_text(error: Exception) -> tuple[int, str]:
    """The exit code and one or two lines; an unexpected error has its traceback in the log."""
    match error:
        case BadInput() | AlreadyRunning() | StoreError():
            return REFUSED, str(error)
        case FanfoldError():
            return STOPPED, str(error)
        case _:
            traceback.print_exception(error, file=sys.stdout)
            return STOPPED, " ".join(f"unexpected {type(error).__name__}: {error}".split())


def _resume(job: Job, receipt: Receipt, store: str) -> str | None:
    if job.stored.kind == "fleet" and receipt.status == "flagged":
        return again_command(receipt, store)
    return resume_command(receipt, store) if may_resume(receipt) else None


if __name__ == "__main__":
    sys.exit(main())
