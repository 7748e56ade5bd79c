"""Statements put to an open store, with its troubles told as ours."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fanfold.journal.trouble import sqlite_errors


class Rows:
    """A cursor whose troubles are ours: a damaged page may show only when it is reached."""

    def __init__(self, cursor: sqlite3.Cursor, file: Path) -> None:
        self._cursor, self._file = cursor, file

    def __iter__(self) -> Iterator[Any]:
        with sqlite_errors(self._file):
            for row in self._cursor:  # noqa: UP028 (a cursor cannot be closed after its connection)
                yield row

    def fetchone(self) -> Any:
        with sqlite_errors(self._file):
            return self._cursor.fetchone()

    def fetchall(self) -> list[Any]:
        with sqlite_errors(self._file):
            return self._cursor.fetchall()


class Asking:
    """Asks the store questions."""

    def __init__(self, db: sqlite3.Connection, file: Path) -> None:
        self._db, self._file = db, file

    def move(self, db: sqlite3.Connection, file: Path) -> None:
        """From here on another connection is asked."""
        self._db, self._file = db, file

    def execute(self, question: str, given: Any = ()) -> Rows:
        with sqlite_errors(self._file):
            return Rows(self._db.execute(question, given), self._file)
