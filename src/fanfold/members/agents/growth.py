"""When a log grew: the lines `OFFSET TIME` of session.times."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from fanfold.members.agents.worker import LOG, TIMES

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
