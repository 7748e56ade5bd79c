"""The log of a worker and the files beside it that tell what it spends: read while they grow."""

from __future__ import annotations

import glob
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from fanfold.members.agents.worker import LOG, TIMES, Spec
from fanfold.work.started import MAX_BYTES

PIECE = 1 << 20
LONGEST = MAX_BYTES  # of a line; what is longer is no event, and is passed over


class Tail:
    """`offset` is where the next whole line begins. A file that is not there yet has no lines."""

    def __init__(self, file: Path, offset: int = 0) -> None:
        self.file, self.offset = file, offset

    def lines(self) -> Iterator[bytes]:
        """The whole lines that came since the last time, without their ends."""
        for line, _ in self.placed():
            yield line

    def placed(self) -> Iterator[tuple[bytes, int]]:
        """As `lines`, each with the place in the file where it ends."""
        rest = b""
        for piece in self._pieces():
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                self.offset += len(line) + 1
                yield line, self.offset
            if len(rest) > LONGEST:
                self.offset += len(rest)
                rest = b""

    def rest(self) -> Iterator[bytes]:
        """All that remains, also a last line without an end: nothing will be added to it."""
        yield from self.lines()
        left = b"".join(self._pieces())
        if left:
            self.offset += len(left)
            yield left

    def _pieces(self) -> Iterator[bytes]:
        try:
            with self.file.open("rb") as stream:
                stream.seek(self.offset)
                while piece := stream.read(PIECE):
                    yield piece
        except FileNotFoundError:
            return


_APART = 0.1  # seconds between two lines at least, however often somebody looks


def append(file: Path) -> int:
    """A handle to the end of a file of our own."""
    return os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


class LogGrowth:
    """`handle` is the log's; the program gets it as its stdout. It is written by others, never here."""

    def __init__(self, place: Path) -> None:
        self.handle, self._times = append(place / LOG), append(place / TIMES)
        self._size, self._noted = os.fstat(self.handle).st_size, float("-inf")

    def look(self, *, last: bool = False) -> bool:
        """Whether it has grown since it was noted. Two notes are never close to each other, so that
        fast growth makes no long file; but the last one is always made."""
        now, size = time.monotonic(), os.fstat(self.handle).st_size
        if size == self._size:
            return False
        if last or now - self._noted >= _APART:
            self._size, self._noted = size, now
            with suppress(OSError):  # a full disk: the log itself matters more
                os.write(self._times, f"{size} {time.time():.3f}\n".encode())
        return True


SESSION = "{session}"
_ID = re.compile(r"[A-Za-z0-9_-]+")
_STAMP = re.compile(rb'\{"timestamp":\s*"([^"]{10,40})"')


def meter_files(pattern: str, session: str) -> list[Path]:
    """The files that a pattern names; `{session}` in it is the id that the program gave itself.

    None while that is not known yet: another worker's files must never be counted.
    """
    if SESSION in pattern:
        if not _ID.fullmatch(session):
            return []
        pattern = pattern.replace(SESSION, session)
    return [Path(name) for name in sorted(glob.glob(pattern, recursive=True))] if pattern else []


class SpendingFiles:
    """Reads those files line by line, each line once.

    A session that is continued has lines of earlier workers in the same file: lines with a
    timestamp before this worker began are passed over.
    """

    def __init__(self, spec: Spec) -> None:
        self._pattern = spec.meter
        self._begun = int(spec.begun * 1000) / 1000
        self._tails: dict[Path, Tail] = {}
        self._sizes: dict[Path, int] = {}

    def search(self, session: str) -> None:
        """Look for files that came since. Cheap once there is one: a session has one file."""
        if not self._tails or SESSION not in self._pattern:
            for file in meter_files(self._pattern, session):
                self._tails.setdefault(file, Tail(file))

    def has_grown(self) -> bool:
        """Whether any of them has, since this was asked the last time."""
        before = self._sizes
        self._sizes = {file: _size(file, before.get(file, 0)) for file in self._tails}
        return self._sizes != before

    def lines(self) -> Iterator[bytes]:
        """The whole lines that came since the last time."""
        for tail in self._tails.values():
            yield from (line for line in tail.lines() if self._counts(line))

    def _counts(self, line: bytes) -> bool:
        found = _STAMP.match(line)
        if found is None:
            return True
        try:
            return datetime.fromisoformat(found[1].decode()).timestamp() >= self._begun
        except ValueError:
            return True


def _size(file: Path, known: int) -> int:
    try:
        return os.stat(file).st_size
    except OSError:
        return known
