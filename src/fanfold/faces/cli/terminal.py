"""The terminal: text that is written to it cannot control it; a text that is redrawn in place."""

from __future__ import annotations

import io
import logging
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, TextIO, cast

import click

from fanfold.work.text import visible


class GuardedStream(io.TextIOWrapper):
    """A standard stream that shows what would steer the terminal. Our own control sequences go
    through `raw`."""

    def write(self, text: str, /) -> int:
        super().write(visible(text))
        return len(text)


class UnguardedStream:
    """The same stream for those who draw; what they put in of others, they make visible first."""

    def __init__(self, terminal: GuardedStream) -> None:
        self._terminal = terminal

    def write(self, text: str) -> int:
        return io.TextIOWrapper.write(self._terminal, text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._terminal, name)


def guard() -> None:
    """From now on what is printed to a terminal is only text. Files and pipes get it as it is."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and stream.isatty():
            encoding, errors = stream.encoding, stream.errors
            stream.flush()
            buffer = cast("IO[bytes]", stream.detach())
            put_in_place(name, GuardedStream(buffer, encoding, errors, line_buffering=True))


def put_in_place(name: str, stream: TextIO) -> None:
    """Make it `sys.stdout` or `sys.stderr`. Also the one with underscores, which was taken apart:
    Python asks that one how wide the terminal is."""
    setattr(sys, name, stream)
    setattr(sys, f"__{name}__", stream)


def raw(stream: TextIO) -> TextIO:
    return cast(TextIO, UnguardedStream(stream)) if isinstance(stream, GuardedStream) else stream


HOME, TO_LINE_END, TO_SCREEN_END, CLEAR = "\x1b[H", "\x1b[K", "\x1b[J", "\x1b[2J"
Text = Callable[[int, int | None], tuple[str, bool]]
"""The text for a width and a height (None: any), and whether it will not change any more."""


class Screen:
    """Lines are written over, never erased first, so that nothing flickers."""

    def __init__(self, out: TextIO) -> None:
        self._out, self._live = out, out.isatty()
        self._last: str | None = None

    @property
    def size(self) -> tuple[int, int | None]:
        """Columns, and lines where it is a terminal."""
        size = shutil.get_terminal_size((100, 24))
        return size.columns, size.lines if self._live else None

    def draw(self, text: str) -> None:
        if self._live:
            text = visible(text)
            first = CLEAR if self._last is None else ""
            body = f"{TO_LINE_END}\n".join(text.split("\n"))
            self._out.write(f"{first}{HOME}{body}{TO_LINE_END}{TO_SCREEN_END}")
        elif text != self._last:
            self._out.write(f"{text}\n")
        self._out.flush()
        self._last = text

    def close(self) -> None:
        if self._live and self._last is not None:
            self._out.write("\n")
            self._out.flush()


def watch(show: Text, seconds: float) -> None:
    """Until the text is final, or the one who looks has had enough. It only looks."""
    screen = Screen(raw(sys.stdout))
    with until_interrupted():
        while True:
            text, final = show(*screen.size)
            screen.draw(text)
            if final:
                break
            time.sleep(seconds)
    screen.close()


@contextmanager
def until_interrupted() -> Iterator[None]:
    """Ctrl-C ends the looking, and nothing else."""
    try:
        yield
    except KeyboardInterrupt:
        return


def columns() -> int:
    return shutil.get_terminal_size((100, 24)).columns


# ── `--debug`: tracebacks of what goes wrong, in ours and in yours ───────────────────────────

HELP = "Show a traceback when something goes wrong."


class Debug:
    """Whether tracebacks are wanted; the object of every command's context."""

    def __init__(self) -> None:
        self.on = False

    def begin(self) -> None:
        if not self.on:
            log = logging.getLogger("fanfold.raised")
            log.addHandler(_Tracebacks())
            log.propagate = False
            log.setLevel(logging.DEBUG)
        self.on = True


class _Tracebacks(logging.Handler):
    """What the user's own code raised, once for each line of theirs: a mistake in a function comes
    with every item."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[tuple[str, str]] = set()

    def emit(self, record: logging.LogRecord) -> None:
        assert record.exc_info is not None
        kind, error, trace = record.exc_info
        place = record.getMessage(), "" if kind is None else kind.__name__
        if place not in self._seen:
            self._seen.add(place)
            first = "\n" if sys.stderr.isatty() else ""  # below the line of progress
            sys.stderr.write(first + "".join(traceback.format_exception(kind, error, trace)))


def debuggable(command: click.Command) -> click.Command:
    """The command, which takes `--debug` too; so do those below it."""
    if not any("--debug" in param.opts for param in command.params):
        command.params.append(
            click.Option(["--debug"], is_flag=True, expose_value=False, callback=_said, help=HELP)
        )
    for below in getattr(command, "commands", {}).values():
        debuggable(below)
    return command


def _said(ctx: click.Context, _: click.Parameter, wanted: Any) -> None:
    debug = ctx.find_object(Debug)
    if wanted and debug is not None:
        debug.begin()
