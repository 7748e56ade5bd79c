"""Many rows in one statement.

SQLite lets go of Python's lock for each step of a statement and takes it again afterwards. With a
row per step a busy event loop would keep the writer waiting at every row; with many rows per step
it waits once, and the rows go in while the loop runs on.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from typing import Any

SIZES = (64, 8, 1)  # rows per statement: few different texts, so that each is prepared once


def put(db: sqlite3.Connection, into: str, rows: Sequence[Sequence[Any]], after: str = "") -> None:
    """`into` ends where the rows begin: `insert into t`; `after` follows them."""
    at, many = 0, len(rows)
    for size in SIZES:
        while many - at >= size:
            some = rows[at : at + size]
            db.execute(_statement(into, len(some[0]), size, after), tuple(chain(*some)))
            at += size


def find(db: sqlite3.Connection, select: str, keys: Iterable[Any]) -> list[Any]:
    """Rows of `select … in ({})` for any number of keys."""
    wanted = tuple(keys)
    found: list[Any] = []
    at, many = 0, len(wanted)
    for size in SIZES:
        while many - at >= size:
            text = _selecting(select, size)
            found += db.execute(text, wanted[at : at + size]).fetchall()
            at += size
    return found


@cache
def _statement(into: str, columns: int, rows: int, after: str) -> str:
    row = "(" + ",".join("?" * columns) + ")"
    return f"{into} values {','.join([row] * rows)} {after}"


@cache
def _selecting(select: str, size: int) -> str:
    return select.format(",".join("?" * size))
