"""The edge where text goes to a terminal: replies, items and errors cannot steer it."""

from __future__ import annotations

import io
import sys
from typing import IO, Any, TextIO, cast

from fanfold.work.text import visible


class Terminal(io.TextIOWrapper):
    """A standard stream that shows what would steer the terminal. Our own control sequences go
    through `raw`."""

    def write(self, text: str, /) -> int:
        super().write(visible(text))
        return len(text)


class Raw:
    """The same stream for those who draw; what they put in of others, they make visible first."""

    def __init__(self, terminal: Terminal) -> None:
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
            put_in_place(name, Terminal(buffer, encoding, errors, line_buffering=True))


def put_in_place(name: str, stream: TextIO) -> None:
    """Make it `sys.stdout` or `sys.stderr`. Also the one with underscores, which was taken apart:
    Python asks that one how wide the terminal is."""
    setattr(sys, name, stream)
    setattr(sys, f"__{name}__", stream)


def raw(stream: TextIO) -> TextIO:
    return cast(TextIO, Raw(stream)) if isinstance(stream, Terminal) else stream
