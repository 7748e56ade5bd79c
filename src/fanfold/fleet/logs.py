"""The log of one worker, followed: its events, each with its true time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from fanfold.members.agents.dialect import Dialect, EventLine, LogReader, WorkerReading
from fanfold.members.agents.logs import SpendingFiles, Tail
from fanfold.members.agents.worker import LOG, TIMES, Spec

CHUNK = 1 << 18


class LogEvent(NamedTuple):
    """One thing that a worker said or did. `own`: the event states its time itself."""

    at: float
    told: EventLine
    own: bool = False


class LogTimes:
    """When the lines of a log came: from the file beside it, read along with the log.

    A line `OFFSET TIME` says that the log was that long at that time, so the bytes before OFFSET
    came then at the latest. Ask for places in rising order; None where nothing is known.
    """

    def __init__(self, file: Path) -> None:
        self._tail = Tail(file)
        self._coming: Iterator[tuple[int, float]] = iter(())
        self._next: tuple[int, float] | None = None

    def at(self, end: int) -> float | None:
        """The time when what ends at this place was there."""
        while self._next is None or self._next[0] < end:
            self._next = next(self._coming, None) or self._more()
            if self._next is None:
                return None
        return self._next[1]

    def _more(self) -> tuple[int, float] | None:
        self._coming = filter(None, map(_stamp, self._tail.lines()))
        return next(self._coming, None)


def _stamp(line: bytes) -> tuple[int, float] | None:
    """None for what is torn."""
    words = line.split()
    try:
        return int(words[0]), float(words[1])
    except (ValueError, IndexError):
        return None


def last_stamp(file: Path) -> float | None:
    """The newest time in a file of times."""
    try:
        with file.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - 200))
            lines = stream.read().split(b"\n")[:-1]
    except OSError:
        return None
    stamps = [stamp[1] for stamp in map(_stamp, lines) if stamp]
    return stamps[-1] if stamps else None


class Follower:
    """Reads a worker's log on from where it was. `lines`: only so many of its last lines at first, so
    that a view of a huge log opens at once; sums are then of these alone."""

    def __init__(
        self, place: Path, spec: Spec, dialect: Dialect, *, lines: int | None = None
    ) -> None:
        self.place, self.spec = place, spec
        start = 0 if lines is None else start_of_last(place / LOG, lines)
        self.whole = start == 0
        self._reader: LogReader = dialect.reader(spec.price, resumed=spec.resumed, call=spec.call)
        self._log = Tail(place / LOG, start)
        self._times = LogTimes(place / TIMES)
        self._meter = SpendingFiles(spec)
        self._latest = spec.begun

    @property
    def reading(self) -> WorkerReading:
        return self._reader.reading

    def read(self, *, over: bool = False) -> Iterator[LogEvent]:
        """What came since. `over`: nothing more is written, so a last line without an end counts.

        Times never go back within a log, whatever its events say of themselves.
        """
        for line, end in self._log.placed():
            yield from self._events(line, end)
        if over:
            for line in self._log.rest():
                yield from self._events(line, self._log.offset)
        self._read_meter()

    def catch_up(self, *, over: bool = False) -> WorkerReading:
        """All that came since, for the sums alone."""
        for _ in self.read(over=over):
            pass
        return self.reading

    def raw(self, *, over: bool = False) -> Iterator[bytes]:
        """The lines that came since, as they are."""
        return self._log.rest() if over else self._log.lines()

    def _events(self, line: bytes, end: int) -> Iterator[LogEvent]:
        for told in self._reader.feed(line):
            at = told.at if told.at is not None else self._times.at(end)
            self._latest = max(self._latest, at or 0.0)
            yield LogEvent(self._latest, told, told.at is not None)

    def _read_meter(self) -> None:
        if self.spec.meter:
            self._meter.search(self.reading.session)
            for line in self._meter.lines():
                self._reader.meter(line)


def start_of_last(file: Path, lines: int) -> int:
    """Where the last so many lines of a file begin: found from its end, so that its size does not
    matter. 0 when it has fewer, or is not there. None of them: after the last whole line."""
    try:
        with file.open("rb") as stream:
            return _start_of_last(stream, lines)
    except OSError:
        return 0


def _start_of_last(stream: BinaryIO, lines: int) -> int:
    position = size = stream.seek(0, 2)
    wanted = lines
    while position > 0:
        block = min(CHUNK, position)
        position -= block
        stream.seek(position)
        data = stream.read(block)
        if wanted and position + block == size and not data.endswith(b"\n"):
            wanted -= 1  # a last line without its end is one of them
        cut = len(data)
        while (cut := data.rfind(b"\n", 0, cut)) >= 0:
            if wanted == 0:
                return position + cut + 1
            wanted -= 1
    return 0
