"""What the database and the machine report, as errors of ours."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from errno import ENOSPC
from pathlib import Path

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
            return StoreError(f"{file}: torn or damaged; restore a copy or use another --store DIR")
        case "SQLITE_BUSY" | "SQLITE_LOCKED":
            return StoreBusy(f"{file}: locked by another program; try again when it is done")
        case name if name.startswith("SQLITE_IOERR"):
            return StoreUnavailable(f"{file}: the disk reports an error ({name}); try again")
        case _ if isinstance(error, UnicodeError) or _is_damage(str(error)):
            return StoreError(f"{file}: a text in it is damaged; restore a copy")
        case name:
            return StoreError(f"{file}: {error} ({name})")


def _is_damage(said: str) -> bool:
    return "decode to UTF-8" in said or "malformed JSON" in said


def unusable(folder: Path, error: OSError) -> StoreError:
    if error.errno == ENOSPC:
        return StoreFull(f"{folder}: the disk is full; make room")
    return StoreError(f"{folder}: {error.strerror}; use --store DIR")
