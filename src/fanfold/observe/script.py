"""How a script opens a run, and how it is run itself: with the command line's line of progress, and
its Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NoReturn, TextIO, TypeVar, Unpack, cast

from fanfold.clock import RealClock
from fanfold.errors import BadInput, RunStopped, StoreError
from fanfold.members.entry import ScriptedEntry
from fanfold.members.roster import Roster
from fanfold.observe.closing import interrupted
from fanfold.observe.notify import check_hook, notifying
from fanfold.observe.progress import (
    AnyProgress,
    NoProgress,
    NotebookProgress,
    Progress,
    notebook_display,
    watched,
)
from fanfold.observe.traces import trace
from fanfold.run import loop
from fanfold.run.open import RunOptions, open_quietly
from fanfold.run.run import Run
from fanfold.work.arguments import public
from fanfold.work.check import described, flag, text
from fanfold.work.member import Member
from fanfold.work.options import option
from fanfold.work.task import Budget

T = TypeVar("T")


class ScriptOptions(RunOptions, total=False):
    """How it is carried out, whether its progress is shown on stderr (None: where that is a terminal), and
    who is told of its end, its pauses and its spending."""

    progress: bool | None
    notify: str | None


@public
def open_run(
    name: str,
    *,
    roster: str | Path | Roster | None = None,
    members: Sequence[Member | ScriptedEntry] = (),
    budget: Budget | None = None,
    store: str | Path | None = None,
    **options: Unpack[ScriptOptions],
) -> AbstractAsyncContextManager[Run]:
    """Open a run for a script. Running the script again continues where it stopped.

    The newest run of that name continues if it did not finish; otherwise a new one begins, which
    reuses every recorded reply all the same. `members` are used beside those of the roster, whose
    settings hold unless they are stated here (`max_concurrency`, `max_wait`, `allow_paid`).
    `store` is `.fanfold` by default; in a process that a command member started, the store of that
    member's run, whose attempt is then on record as this run's parent.
    `progress`: a line on stderr, as `fanfold run` has it; by default where that is a terminal.
    `notify`: a command, or a web address, that gets a JSON object at the end, at a pause, and at 50, 80 and
    100 % of the budget. Raises RunStopped at the end when the run paused: the budget was used up, say.
    """
    wanted = option("progress", options.pop("progress", None), flag)
    hook = option("notify", options.pop("notify", None), text)
    hook = None if hook is None else check_hook(hook)
    opened = open_quietly(
        name,
        roster=roster,
        members=members,
        budget=budget,
        store=store,
        **cast(RunOptions, options),
    )
    return _Opening(_opened(opened, wanted, hook))


@asynccontextmanager
async def _opened(
    opened: AbstractAsyncContextManager[Run], wanted: bool | None, hook: str | None
) -> AsyncIterator[Run]:
    async with opened as run:
        trace(run)
        progress = _progress(run, sys.stderr, wanted)
        with _interruptible(run, progress):
            async with watched(progress), notifying(run, hook, progress.say):
                yield run


class _Opening(AbstractAsyncContextManager[Run]):
    """What a store says of an option of the command line is said of the argument of that name."""

    def __init__(self, opened: AbstractAsyncContextManager[Run]) -> None:
        self._opened = opened

    async def __aenter__(self) -> Run:
        try:
            return await self._opened.__aenter__()
        except StoreError as error:
            if "--store DIR" not in (said := str(error)):
                raise
            raise type(error)(said.replace("--store DIR", "store=DIR")) from error.__cause__

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._opened.__aexit__(*error)

    def __enter__(self) -> NoReturn:
        raise BadInput("a run is opened with `async with`: async with open_run(…) as run:")

    def __exit__(self, *error: object) -> None: ...


def _progress(run: Run, out: TextIO | None, wanted: bool | None) -> AnyProgress:
    """`out` is None in a program without a console. In a notebook it is a bar, unless it is not wanted."""
    if wanted is not False and (show := notebook_display()) is not None:
        return NotebookProgress(run, show, RealClock())
    live = out is not None and out.isatty()
    if out is None or not (live if wanted is None else wanted):
        return NoProgress()
    progress = Progress(run, out, live=live, clock=RealClock())
    run.store.when_waiting(progress.say)
    return progress


# ── running it ───────────────────────────────────────────────────────────────────────────────


@public
def run_sync(main: Coroutine[Any, Any, T]) -> T:
    """Run an async function to its end, from ordinary code: `run_sync(main())`. Where a loop runs
    already, as in a notebook, write `await main()` instead.

    The first Ctrl-C, SIGTERM or SIGHUP pauses the runs that are open: no new call, what is under way
    is waited for, so nothing paid is lost. The second cancels. Signals that the script handles itself
    are left to it.
    """
    _refuse_what_cannot_run(main)
    interrupts = Interrupts(loop.handled_signals())
    ours = threading.current_thread() is threading.main_thread()
    try:
        return loop.run_sync(interrupts.around(main) if ours else main)
    except RunStopped as stopped:  # its text says what to do; a traceback is no help
        raise stopped.with_traceback(None) from None
    except asyncio.CancelledError:
        match interrupts.cancelled_by:
            case None:
                raise
            case signal.SIGINT:
                raise KeyboardInterrupt from None
            case number:
                raise SystemExit(128 + number) from None


class Interrupts:
    """What Ctrl-C and other signals that end a program do to a script, by the runs that are open."""

    def __init__(self, left_out: frozenset[signal.Signals]) -> None:
        self._left_out = left_out
        self.open: dict[Run, AnyProgress] = {}
        self.cancelled_by: signal.Signals | None = None

    async def around(self, main: Coroutine[Any, Any, T]) -> T:
        task = asyncio.current_task()
        assert task is not None
        _interrupts.set(self)
        remove = loop.on_ending_signals(
            lambda number: self._on_signal(task, number), signal.SIGINT, left_out=self._left_out
        )
        try:
            return await main
        finally:
            remove()

    def _on_signal(self, task: asyncio.Task[Any], number: signal.Signals) -> None:
        going = {run: progress for run, progress in self.open.items() if run.stopping is None}
        for run, progress in going.items():
            run.pause(loop.signal_text(number))
            stats = run.statistics()
            progress.erase()
            if sys.stderr is not None:
                sys.stderr.write(f"{interrupted(stats, stats.reserved)}\n")
        if not going:
            self.cancelled_by = number
            task.cancel()


_interrupts: ContextVar[Interrupts | None] = ContextVar("interrupts", default=None)


@contextmanager
def _interruptible(run: Run, progress: AnyProgress) -> Iterator[None]:
    interrupts = _interrupts.get()
    if interrupts is None:
        yield
        return
    interrupts.open[run] = progress
    try:
        yield
    finally:
        del interrupts.open[run]


def _refuse_what_cannot_run(main: Any) -> None:
    if not isinstance(main, Coroutine):
        name = getattr(main, "__name__", "")
        call = f"call it: run_sync({name}())" if callable(main) and name else "give it main()"
        raise BadInput(f"run_sync() needs a coroutine, not {described(main)}; {call}")
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    main.close()
    name = getattr(main, "__name__", "main")
    raise BadInput(
        "run_sync() cannot be used where an event loop runs already (a notebook, an async function);"
        f" write `await {name}()` instead"
    )
