"""Many rows in one statement.

SQLite releases Python's lock for each step of a statement and takes it again afterwards. With a
row per step a busy event loop would keep the writer waiting at every row; with many rows per step
it waits once, and the rows go in while the loop runs on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Protocol

MOST = 64  # rows per statement
STEP = 8  # each size is a statement of its own, and preparing one takes longer than running it
STATEMENTS = 512  # that a connection keeps prepared


class Database(Protocol):
    """A connection in a transaction, to SQLite or to another that understands the same statements."""

    def execute(self, question: str, given: Any = ..., /) -> Any: ...

    def executemany(self, question: str, given: Iterable[Any], /) -> Any: ...


def upsert(table: str, columns: str, key: int) -> tuple[str, str]:
    """What comes before the rows and after them; the first `key` columns are the table's key. Trap:
    one statement must not have two rows of the same key."""
    names = columns.split(", ")
    changes = ", ".join(f"{name} = excluded.{name}" for name in names[key:])
    then = f"update set {changes}" if changes else "nothing"
    target = ", ".join(names[:key])
    return f"insert into {table} ({columns})", f"on conflict ({target}) do {then}"


def put(db: Database, into: str, rows: Sequence[Sequence[Any]], after: str = "") -> None:
    """`into` ends where the rows begin: `insert into t`; `after` follows them. What does not fill a
    step has a statement of its own."""
    at = 0
    while at < len(rows):
        remaining = len(rows) - at
        some = rows[at : at + min(MOST, remaining - remaining % STEP or remaining)]
        db.execute(_statement(into, len(some[0]), len(some), after), tuple(chain(*some)))
        at += len(some)


def among(db: Database, select: str, keys: Iterable[Any]) -> list[Any]:
    """What a statement with `in ({})` gives, if it gives rows, for any number of keys. The last one is
    repeated until a step is full, which changes nothing."""
    wanted = tuple(keys)
    wanted += wanted[-1:] * (-len(wanted) % STEP)
    found: list[Any] = []
    for at in range(0, len(wanted), MOST):
        some = wanted[at : at + MOST]
        given = db.execute(_selecting(select, len(some)), some)
        if given.description:
            found += given.fetchall()
    return found


@lru_cache(STATEMENTS)
def _statement(into: str, columns: int, rows: int, after: str) -> str:
    row = "(" + ",".join("?" * columns) + ")"
    return f"{into} values {','.join([row] * rows)} {after}"


@lru_cache(STATEMENTS)
def _selecting(select: str, size: int) -> str:
    return select.format(",".join("?" * size))
