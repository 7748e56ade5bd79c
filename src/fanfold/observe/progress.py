"""The progress of a run that is under way: one line that is redrawn, or plain lines for a log."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from html import escape
from importlib import import_module
from typing import Any, NamedTuple, Protocol, TextIO, TypeAlias

from fanfold.clock import Clock
from fanfold.journal.facts import RunRecord
from fanfold.observe.amounts import batches_text, count, duration, of_budget, per_time
from fanfold.observe.table import GAP, cells_wide, cut, one_line
from fanfold.price import dollars
from fanfold.run.figures import Statistics
from fanfold.work.text import visible

WINDOW = 10.0  # seconds that the rate is taken over
FEWEST = 4  # items that it is taken over at least, when they are slow
FIRST_LOOK = 0.3
REDRAW = 0.2
NEXT_LINE = 10.0
UNBOUNDED = 10_000


class Watched(Protocol):
    """What is watched: a Run."""

    record: RunRecord

    def statistics(self) -> Statistics: ...


class ItemRate:
    """Items per second over a sliding window, from what is seen now and then."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque([(0.0, 0)])

    def see(self, seconds: float, done: int) -> float:
        """What the rate is now. A window without enough items in it reaches back further."""
        seen = self._seen
        if done > seen[-1][1]:
            seen.append((seconds, done))
        while len(seen) > 1 and seconds - seen[1][0] >= WINDOW and done - seen[1][1] >= FEWEST:
            seen.popleft()
        since, before = seen[0]
        return (done - before) / (seconds - since) if seconds > since else 0.0


def line(stats: Statistics, name: str, width: int, rate: float | None = None) -> str:
    """The state of the run, in one line that fits; the least important is dropped first.

    Without a rate, that of the whole time so far is taken.
    """
    if rate is None:
        rate = stats.done / stats.seconds if stats.seconds > 0 else 0.0
    name = one_line(name, 40)
    parts = [part for part in _parts(stats, rate) if part.text]
    whole = GAP.join([name, *(part.text for part in parts)])
    return whole if cells_wide(whole) <= width else _tight(name, parts, width)


class ProgressPart(NamedTuple):
    """A piece of the line, and its rank."""

    rank: int
    text: str


def _tight(name: str, parts: list[ProgressPart], width: int) -> str:
    """The most important first, as long as they fit."""
    kept: list[ProgressPart] = []
    room = width - cells_wide(name)
    for part in sorted(parts):
        size = len(GAP) + len(part.text)
        if size <= room or not kept:
            kept.append(part)
            room -= size
    name = cut(name, max(1, cells_wide(name) + min(room, 0)))
    return cut(GAP.join([name, *(part.text for part in parts if part in kept)]), width)


def _parts(stats: Statistics, rate: float) -> list[ProgressPart]:
    """In the order in which they stand; the lowest rank matters most."""
    if not stats.planned and not stats.done:
        return [ProgressPart(0, "planning")]
    left = stats.planned - stats.done
    time = duration(left / rate) if rate > 0 and left > 0 else ""
    cost = of_budget(dollars(stats.cost), None if stats.budget is None else dollars(stats.budget))
    return [
        ProgressPart(0, f"{stats.done:,}/{stats.planned:,}"),
        ProgressPart(1, stats.held or ""),
        ProgressPart(4, f"{stats.in_flight:,} in flight"),
        ProgressPart(2, batches_text(stats.batches)),
        ProgressPart(6, f"{stats.passed:,} passed"),
        ProgressPart(3, f"{stats.not_passed:,} did not pass" if stats.not_passed else ""),
        ProgressPart(5, f"{stats.kicked_back:,} kicked back"),
        ProgressPart(7, count(stats.retries, "retry", "retries")),
        ProgressPart(1, cost),
        ProgressPart(8, per_time(rate) if rate > 0 else ""),
        ProgressPart(2, f"{time} left" if time else ""),
    ]


class Progress:
    """Shows a run's progress while `watch` runs, as a task; cancel that task at the end.

    `live`: `out` is a terminal, so one line is redrawn in place and erased at the end. Otherwise a
    line now and then, when something has changed. No colours and no escape sequences, ever. When
    nobody reads `out` any more it stops writing: the run matters, not the line.
    """

    def __init__(self, run: Watched, out: TextIO, *, live: bool, clock: Clock) -> None:
        self._run, self._out, self._live, self._clock = run, out, live, clock
        self._rate = ItemRate()
        self._drawn = 0
        self._last: Statistics | None = None
        self._unread = False

    async def watch(self) -> None:
        try:
            await self._clock.sleep(FIRST_LOOK)
            while not self._unread:
                self._look()
                await self._clock.sleep(REDRAW if self._live else NEXT_LINE)
        finally:
            self.erase()

    def say(self, text: str) -> None:
        """Something else for the same place, on lines of its own, above the progress."""
        self.erase()
        self._write(self._shown(text.rstrip("\n")) + "\n")

    def erase(self) -> None:
        if self._drawn:
            self._write("\r" + " " * self._drawn + "\r")
            self._drawn = 0

    def _look(self) -> None:
        stats = self._run.statistics()
        rate = self._rate.see(stats.seconds, stats.done)
        name = self._run.record.name
        if self._live:
            self._draw(line(stats, name, self._columns() - 1, rate))
        elif (now := stats._replace(seconds=0.0)) != self._last:
            self._last = now
            self._write(line(stats, name, UNBOUNDED, rate) + "\n")

    def _shown(self, text: str) -> str:
        return visible(text) if self._live else text

    def _draw(self, text: str) -> None:
        text = self._shown(text)
        wide = cells_wide(text)
        self._write("\r" + text + " " * (self._drawn - wide))
        self._drawn = wide

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._out.fileno()).columns or 80
        except (OSError, ValueError):
            return 80

    def _write(self, text: str) -> None:
        if self._unread:
            return
        try:
            self._out.write(text)
            self._out.flush()
        except (OSError, ValueError):
            self._unread = True


class NotebookProgress:
    """The same in a notebook: a bar that is redrawn in place, by the display of IPython. `show` puts
    something there and gives back a handle that updates it."""

    def __init__(self, run: Watched, show: Callable[[Any], Any], clock: Clock) -> None:
        self._run, self._show, self._clock = run, show, clock
        self._rate = ItemRate()
        self._handle: Any = None

    async def watch(self) -> None:
        try:
            while True:
                self._draw()
                await self._clock.sleep(REDRAW)
        finally:
            self._draw()

    def say(self, text: str) -> None:
        self._show(_Html(f"<pre>{escape(text)}</pre>"))

    def erase(self) -> None:
        """It stays, as it is at the end."""

    def _draw(self) -> None:
        stats = self._run.statistics()
        text = line(
            stats, self._run.record.name, UNBOUNDED, self._rate.see(stats.seconds, stats.done)
        )
        bar = f'<progress value="{stats.done}" max="{max(1, stats.planned)}"></progress>'
        shown = _Html(f"{bar} <code>{escape(text)}</code>")
        if self._handle is None:
            self._handle = self._show(shown)
        else:
            self._handle.update(shown)


class _Html(NamedTuple):
    html: str

    def _repr_html_(self) -> str:
        return self.html


def notebook_display() -> Callable[[Any], Any] | None:
    """How to show something in the notebook that this process is the kernel of; None: it is none."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    display = import_module("IPython.display").display
    return partial(display, display_id=True)


class NoProgress:
    """The same interface as Progress; shows nothing."""

    async def watch(self) -> None:
        """Nothing to watch."""

    def say(self, text: str) -> None:
        """Prints nothing."""

    def erase(self) -> None:
        """Nothing was drawn."""


AnyProgress: TypeAlias = Progress | NotebookProgress | NoProgress


@asynccontextmanager
async def watched(progress: AnyProgress) -> AsyncIterator[None]:
    """Shown while the block runs, and gone after it."""
    watching = asyncio.create_task(progress.watch())
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
