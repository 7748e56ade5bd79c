"""Many rows in one statement.

SQLite releases Python's lock for each step of a statement and takes it again afterwards. With a
row per step a busy event loop would keep the writer waiting at every row; with many rows per step
it waits once, and the rows go in while the loop runs on.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

MOST = 128  # rows per statement
STATEMENTS = 1024  # that a connection keeps prepared: a group has any size up to MOST


def put(db: sqlite3.Connection, into: str, rows: Sequence[Sequence[Any]], after: str = "") -> None:
    """`into` ends where the rows begin: `insert into t`; `after` follows them."""
    for at in range(0, len(rows), MOST):
        some = rows[at : at + MOST]
        db.execute(_statement(into, len(some[0]), len(some), after), tuple(chain(*some)))


def among(db: sqlite3.Connection, select: str, keys: Iterable[Any]) -> list[Any]:
    """What a statement with `in ({})` gives, for any number of keys."""
    wanted = tuple(keys)
    found: list[Any] = []
    for at in range(0, len(wanted), MOST):
        some = wanted[at : at + MOST]
        found += db.execute(_selecting(select, len(some)), some).fetchall()
    return found


@lru_cache(STATEMENTS)
def _statement(into: str, columns: int, rows: int, after: str) -> str:
    row = "(" + ",".join("?" * columns) + ")"
    return f"{into} values {','.join([row] * rows)} {after}"


@lru_cache(STATEMENTS)
def _selecting(select: str, size: int) -> str:
    return select.format(",".join("?" * size))
