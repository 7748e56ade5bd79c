"""A store's folder on a disk that others use too: who may read it, whether it is still where it was
opened (it may be deleted, moved or replaced while a run executes), and spare room that is given up when the
disk is full, so that what is in progress can be recorded."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path

# ── permissions: a store is its owner's alone, for it holds inputs and replies in full ──────

_FILES = (
    "journal.db",
    "journal.db-wal",
    "journal.db-shm",
    "journal.marks",
    "ballast",
    "setup.lock",
)
_FOLDERS = ("live", "inputs", "unsaved", "agents", "orders", "locks", "launched", "demo", "notify")


def made_private(folder: Path) -> Path:
    """The folder, for its owner alone if it is new. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def make_private_file(file: Path) -> None:
    """Empty, if there is none. SQLite gives its other files the same mode."""
    with suppress(FileExistsError):
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))


def tighten_permissions(folder: Path) -> None:
    """Take from others what an earlier version gave them. Only what is ours, and not a folder that
    we are in: that holds other things than the store."""
    for name in _FILES:
        _take_away(folder / name)
    for name in _FOLDERS:
        _take_away(folder / name)
    if not Path.cwd().is_relative_to(folder.absolute()):
        _take_away(folder)


def _take_away(path: Path) -> None:
    with suppress(OSError):
        stat = os.lstat(path)
        mode = stat.st_mode & 0o7777
        if stat.st_uid == os.geteuid() and mode & 0o077 and not path.is_symlink():
            path.chmod(mode & ~0o077)


# ── presence ─────────────────────────────────────────────────────────────────────────────────


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
            now = os.stat(self._file)
            return (now.st_dev, now.st_ino) != self._is
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
    """Write the content of an open but deleted store to its old place, or, when another file is
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


# ── ballast ──────────────────────────────────────────────────────────────────────────────────

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
        self.size = 0

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

    def grow(self, wanted: int) -> None:
        """A reserve of at least so many bytes. Raises OSError where there is no room for it."""
        wanted = -(-wanted // STEP) * STEP
        if self._reserve < 0:
            handle, name = tempfile.mkstemp(prefix=".reserve-", dir=self._folder)
            os.unlink(name)
            self._reserve = handle
        os.posix_fallocate(self._reserve, 0, wanted)
        self.size = wanted

    def drop(self) -> bool:
        """Give all of it up. False: there was none any more."""
        had = self.size > 0 or (self._file.exists() and self._file.stat().st_size > 0)
        self.release()
        self._file.unlink(missing_ok=True)
        return had

    def release(self) -> None:
        """Give up the reserve. It is cut first: a forked child may have it open too."""
        if self._reserve >= 0:
            os.ftruncate(self._reserve, 0)
            os.close(self._reserve)
            self._reserve, self.size = -1, 0
