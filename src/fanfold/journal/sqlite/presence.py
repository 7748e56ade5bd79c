"""Is the store still where it was opened? It may be deleted, moved or replaced while a run goes on."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path


class Presence:
    """Compares the file at the store's path with the one that was opened. A stat for each look.

    The handle is of the kind that only names a file (O_PATH). Closing any other one would drop the
    locks that this process has on the database.
    """

    def __init__(self, file: Path) -> None:
        self._file = file.absolute()
        self._handle = os.open(self._file, os.O_PATH | os.O_CLOEXEC) if _PATHS else -1
        self._is = _identity(os.fstat(self._handle) if _PATHS else os.stat(self._file))

    def lost(self) -> bool:
        """Whether the path is surely no longer that of the open store."""
        try:
            return _identity(os.stat(self._file)) != self._is
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:
            return False

    def moved_to(self) -> Path | None:
        """Where the store is now, if it was only moved."""
        if self._handle < 0 or not os.fstat(self._handle).st_nlink:
            return None
        try:
            now = os.readlink(f"/proc/self/fd/{self._handle}")
            return Path(now) if _identity(os.stat(now)) == self._is else None
        except OSError:
            return None

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


_PATHS = hasattr(os, "O_PATH")


def _identity(stat: os.stat_result) -> tuple[int, int]:
    return stat.st_dev, stat.st_ino


def put_back(db: sqlite3.Connection, folder: Path) -> Path:
    """Write the content of an open but deleted store to its old place, or, when another file stands
    there, to a new folder beside it. Returns the folder. Raises OSError and sqlite3.Error."""
    for place in (folder, *(folder.with_name(f"{folder.name}.saved-{n}") for n in range(1, 100))):
        if (place / "journal.db").exists():
            continue
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        whole = place / f".journal-{os.getpid()}.new"
        whole.unlink(missing_ok=True)
        os.close(os.open(whole, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        with closing(sqlite3.connect(whole, isolation_level=None)) as copy:
            db.backup(copy)
        try:
            os.link(whole, place / "journal.db")  # never over a file that is there
            return place
        except FileExistsError:
            continue
        finally:
            with suppress(OSError):
                whole.unlink()
    raise FileExistsError(17, "no free name for the saved store", str(folder))
