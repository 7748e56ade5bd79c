"""What the database and the machine report, as errors of ours; and who holds the write lock."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from errno import ENOSPC
from pathlib import Path
from typing import Any

from fanfold.errors import StoreBusy, StoreError, StoreFull, StoreUnavailable

DATABASE_ERRORS = (sqlite3.Error, UnicodeError)
"""What a statement may raise. A damaged text in SQLite's own message cannot even be decoded."""
FULL = "the disk is full; make room, then resume"
_NO_ROOM = (
    "SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_SHMMAP",
    "SQLITE_IOERR_SHMOPEN", "SQLITE_IOERR_TRUNCATE",
)  # fmt: skip


@contextmanager
def sqlite_errors(file: Path) -> Iterator[None]:
    """SQLite's errors as ours. A full disk is a pause; damage means the store cannot be used."""
    try:
        yield
    except DATABASE_ERRORS as error:
        raise translate(error, file) from error


def translate(error: Exception, file: Path) -> StoreError:
    match getattr(error, "sqlite_errorname", ""):
        case name if name in _NO_ROOM:
            return StoreFull(f"{file}: {FULL} the run")
        case "SQLITE_READONLY" | "SQLITE_CANTOPEN" | "SQLITE_READONLY_DIRECTORY":
            return StoreError(
                f"{file}: cannot be written; check its permissions or use --store DIR"
            )
        case "SQLITE_NOTADB" | "SQLITE_CORRUPT":
            return torn(file)
        case "SQLITE_BUSY" | "SQLITE_LOCKED":
            return StoreBusy(f"{file}: locked by another program; try again when it is done")
        case name if name.startswith("SQLITE_IOERR"):
            return StoreUnavailable(f"{file}: the disk reports an error ({name}); try again")
        case _ if str(error).startswith("damaged: "):
            return StoreError(f"{file}: a row of {str(error)[9:]} is damaged; restore a copy")
        case _ if isinstance(error, UnicodeError) or _is_damage(str(error)):
            return StoreError(f"{file}: a text in it is damaged; restore a copy")
        case name:
            return StoreError(f"{file}: {error} ({name})")


def torn(file: Path) -> StoreError:
    return StoreError(f"{file}: torn or damaged; restore a copy or use another --store DIR")


def _is_damage(said: str) -> bool:
    """A function of ours fails only over a text that is none."""
    known = ("decode to UTF-8", "malformed JSON", "user-defined function raised exception")
    return any(one in said for one in known)


def unusable(folder: Path, error: OSError) -> StoreError:
    if error.errno == ENOSPC:
        return StoreFull(f"{folder}: the disk is full; make room")
    return StoreError(f"{folder}: {error.strerror}; use --store DIR")


# ── statements ───────────────────────────────────────────────────────────────────────────────


class Cursor:
    """A cursor whose errors are ours: a damaged page may show only when it is reached."""

    def __init__(self, cursor: sqlite3.Cursor, file: Path) -> None:
        self._cursor, self._file = cursor, file

    def __iter__(self) -> Iterator[Any]:
        try:
            for row in self._cursor:  # noqa: UP028 (a cursor cannot be closed after its connection)
                yield row
        except DATABASE_ERRORS as error:
            raise translate(error, self._file) from error

    def fetchone(self) -> Any:
        try:
            return self._cursor.fetchone()
        except DATABASE_ERRORS as error:
            raise translate(error, self._file) from error

    def fetchall(self) -> list[Any]:
        try:
            return self._cursor.fetchall()
        except DATABASE_ERRORS as error:
            raise translate(error, self._file) from error


class Statements:
    """Statements on an open store, with its errors as ours."""

    def __init__(self, db: sqlite3.Connection, file: Path) -> None:
        self._db, self._file = db, file

    def execute(self, question: str, given: Any = ()) -> Cursor:
        try:
            return Cursor(self._db.execute(question, given), self._file)
        except DATABASE_ERRORS as error:
            raise translate(error, self._file) from error

    def flaws(self) -> list[str]:
        """What is wrong with the pages of the database, or with its indexes."""
        told = [" ".join(str(row[0]).split()) for row in self.execute("pragma integrity_check(20)")]
        return [one for one in told if one != "ok"]

    def verify(self, run: int, results: bool = False) -> None:
        """Memory does not decay as disks do."""

    def damaged_attempts(self, numbers: Sequence[int]) -> set[int]:
        """Of these attempts, or of all."""
        return set()


Ask = Callable[..., Cursor]
"""`Statements.execute`, as the readers get it."""


# ── the write lock ───────────────────────────────────────────────────────────────────────────

_WRITE_LOCK = 120  # the byte of the -shm file that SQLite locks to write in WAL mode
_STATES = {"T": "stopped", "t": "stopped by a debugger", "D": "waiting for the disk"}


def lock_holder(file: Path) -> str | None:
    """In words: `process 17 (python, stopped)`. None: nobody knows.

    Read from /proc/locks, without opening the file: closing it would drop our own locks on it.
    """
    try:
        shm = os.stat(file.with_name(file.name + "-shm"))
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    device = f"{os.major(shm.st_dev):02x}:{os.minor(shm.st_dev):02x}:{shm.st_ino}"
    for line in lines:
        _, kind, _, mode, pid, where, first, last = (line.replace("-> ", "").split() + [""] * 8)[:8]
        if (kind, mode, where) == ("POSIX", "WRITE", device) and _covers(first, last):
            return None if pid in ("-1", "0", str(os.getpid())) else _named(pid)
    return None


def _covers(first: str, last: str) -> bool:
    return int(first) <= _WRITE_LOCK and (last == "EOF" or int(last) >= _WRITE_LOCK)


def _named(pid: str) -> str:
    try:
        name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition(" (")[2].rpartition(") ")
    except OSError:
        return f"process {pid}"
    state = _STATES.get(rest[:1])
    return f"process {pid} ({name}{', ' + state if state else ''})"
