"""The stream of one worker, readable: each thing it says or does, with its time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain

from fanfold.fleet.logs import Follower, Said
from fanfold.fleet.worker_view import Trace
from fanfold.members.agents.dialect import Dialect
from fanfold.members.agents.dialects import DIALECTS
from fanfold.observe.table import one_line
from fanfold.observe.wrapped import wrapped

STAMP = 10  # columns of a time and the gap after it
MOST_LINES = 200  # of one message
LONGEST_RAW = 1 << 20
FIRST_WINDOW = 4
GLYPHS = {
    "text": "", "thought": "… ", "tool": "🔧 ", "result": "→ ", "system": "· ", "retry": "↻ ",
    "done": "✓ ", "failed": "✗ ",
}  # fmt: skip


class View:
    """What one worker says. `last` first, then `more` again and again."""

    def __init__(self, trace: Trace, dialects: Mapping[str, Dialect] = DIALECTS) -> None:
        self._trace = trace
        self._dialect = dialects[trace.spec.dialect]
        self._follower = self._from(0)

    def last(self, lines: int, *, over: bool) -> list[Said]:
        """The newest so many. Of a huge log only its end is read."""
        window = max(1, lines) * FIRST_WINDOW
        while True:
            self._follower = self._from(window)
            found = deque(self._follower.read(over=over), maxlen=lines)
            if self._follower.whole or len(found) == lines:
                return list(found)
            window *= 8

    def more(self, *, over: bool) -> Iterator[Said]:
        return self._follower.read(over=over)

    def last_raw(self, lines: int, *, over: bool) -> list[str]:
        """The last so many lines of the log as they are, but for what could steer a terminal."""
        self._follower = self._from(lines)
        return list(deque(self.more_raw(over=over), maxlen=lines))

    def more_raw(self, *, over: bool) -> Iterator[str]:
        return (plain(line[:LONGEST_RAW]) for line in self._follower.raw(over=over))

    def _from(self, lines: int) -> Follower:
        return Follower(self._trace.place, self._trace.spec, self._dialect, lines=lines)


def plain(line: bytes) -> str:
    """Text for a terminal; bytes and signs that are none are shown as such."""
    text = line.decode("utf-8", "backslashreplace").rstrip("\r")
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\t" else repr(c)[1:-1] for c in text)


def view_lines(said: Said, width: int) -> list[str]:
    """`12:03:04  text`, its own line breaks kept, wrapped at the width of the terminal."""
    stamp = datetime.fromtimestamp(said.at, UTC).astimezone().strftime("%H:%M:%S")
    room = max(20, width - STAMP)
    paragraphs = (GLYPHS[said.told.kind] + said.told.text).splitlines() or [""]
    whole = list(
        chain.from_iterable(wrapped(part, room, MOST_LINES) for part in paragraphs[:MOST_LINES])
    )
    first, *rest = [one_line(part, room) for part in whole[:MOST_LINES]]
    return [f"{stamp}  {first}".rstrip(), *(" " * STAMP + part for part in rest if part)]


def closing_line(trace: Trace, width: int) -> str:
    """How it ended."""
    exit = trace.exit
    if exit is None:
        return "── it ended, and left no record of how"
    stamp = datetime.fromtimestamp(exit.at, UTC).astimezone().strftime("%H:%M:%S")
    how = exit.said or (f"ended: {exit.why}" if exit.why else "")
    code = f"exit code {exit.code}" if exit.code >= 0 else f"signal {-exit.code}"
    return one_line(f"── ended at {stamp}, {code}" + (f": {how}" if how else ""), width)
