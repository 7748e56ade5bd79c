"""The questions of runs and reports, answered from SQLite. Only what is durable is seen."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from fanfold.journal.sqlite.log import LogRows
from fanfold.journal.sqlite.read_attempts import AttemptRows
from fanfold.journal.sqlite.read_items import ItemRows
from fanfold.journal.sqlite.read_members import MemberRows
from fanfold.journal.sqlite.read_runs import RunRows
from fanfold.journal.sqlite.trouble import Statements


class Reader(RunRows, ItemRows, AttemptRows, MemberRows, LogRows):
    """All of them, on one connection."""

    def __init__(self, db: sqlite3.Connection, file: Path) -> None:
        self._db = Statements(db, file)
        self._execute = self._db.execute

    def move(self, db: sqlite3.Connection, file: Path) -> None:
        """The store is somewhere else from now on."""
        self._db.move(db, file)
