"""Spare room on the disk: given up when it is full, so that what is under way can be written down."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

BASE = 1 << 20
STEP = 1 << 20
PER_CALL = 48 << 10  # bytes of pages that one commit of one reply may touch
FIRST_GUESS = 64 << 10  # bytes of a reply, before any has come


class Ballast:
    """A file that all processes share, and for each a reserve that grows with its calls in flight.

    The reserve has no name, so that it ends with its process.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._file = folder, folder / "ballast"
        self._reserve = -1
        self._size = 0

    def lay(self) -> None:
        """The shared file, where there is none. Raises OSError."""
        if not self._file.exists():
            handle = os.open(self._file, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            try:
                os.write(handle, b"\0")
                os.posix_fallocate(handle, 0, BASE)
            except OSError:
                self._file.unlink(missing_ok=True)
                raise
            finally:
                os.close(handle)

    def secure(self, calls: int, largest: int) -> None:
        """Make sure that the replies of so many calls will find room. Raises OSError if not."""
        wanted = calls * (PER_CALL + 2 * largest)
        if wanted <= self._size:
            return
        wanted = -(-wanted // STEP) * STEP
        if self._reserve < 0:
            handle, name = tempfile.mkstemp(prefix=".reserve-", dir=self._folder)
            os.unlink(name)
            self._reserve = handle
        os.posix_fallocate(self._reserve, 0, wanted)
        self._size = wanted

    def drop(self) -> bool:
        """Give all of it up. False: there was none any more."""
        had = self._size > 0 or (self._file.exists() and self._file.stat().st_size > 0)
        self.release()
        self._file.unlink(missing_ok=True)
        return had

    def release(self) -> None:
        """Give up the reserve. It is cut first: a forked child may have it open too."""
        if self._reserve >= 0:
            os.ftruncate(self._reserve, 0)
            os.close(self._reserve)
            self._reserve, self._size = -1, 0
