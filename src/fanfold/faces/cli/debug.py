"""`--debug`, before the command or after it: tracebacks of what goes wrong, in ours and in yours."""

from __future__ import annotations

import logging
import sys
import traceback
from typing import Any

import click

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
