"""The tables of this version, in a new database or in one of an earlier version."""

from __future__ import annotations

import atexit
import sqlite3
from contextlib import closing
from functools import cache

from fanfold.journal.sqlite.migrations import MIGRATIONS

APPLICATION_ID = 0x46464C44  # "FFLD"


def migrate(db: sqlite3.Connection) -> bool:
    """Bring it up to date. Whether anything was to do."""
    version: int = db.execute("pragma user_version").fetchone()[0]
    if version >= len(MIGRATIONS):
        return False
    if db.execute("pragma page_count").fetchone()[0] == 0:
        _fill(db)
    else:
        _take_steps(db)
    return True


def _fill(db: sqlite3.Connection) -> None:
    """A new store is a copy of an empty one with a name of its own. The steps take ten times as long, and
    a process may make many stores. Trap: `backup` waits for a lock without end, `begin` does not."""
    db.execute("begin immediate")
    db.execute("rollback")
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as new:
        _empty().backup(new)
        new.execute("update store set id = lower(hex(randomblob(8)))")
        new.backup(db)


@cache
def _empty() -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    _take_steps(db)
    atexit.register(db.close)
    return db


def _take_steps(db: sqlite3.Connection) -> None:
    db.execute("begin immediate")
    version = db.execute("pragma user_version").fetchone()[0]
    for step in MIGRATIONS[version:]:
        step(db)
    db.execute(f"pragma application_id = {APPLICATION_ID}")
    db.execute(f"pragma user_version = {len(MIGRATIONS)}")
    db.execute("commit")
