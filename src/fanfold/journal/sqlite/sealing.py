"""Which rows have which checksum, and how it gets there.

A call of a Python function out of SQL waits for Python's lock, which a busy event loop has: a trigger takes
longer for one row than the row itself. So what every call writes is sealed in Python, together with its rows:
- an attempt has two checksums, of what is known when it begins and of how it ended. Each is made from the
  fact that writes it, without reading the row;
- sums that are added to have one that is added to as well (see `sums`);
- all other tables, which are written seldom, are sealed by triggers of the writer's connection.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import islice
from typing import Any

from fanfold.errors import StoreError
from fanfold.journal.sqlite import bulk, checksum
from fanfold.journal.sqlite.bulk import Database
from fanfold.journal.sqlite.read_tables import TABLES

SEALED = (
    "steps", "batches", "cascades", "beats", "waits", "prompts", "attached", "orders", "submissions",
    "sharers", "divisions", "ranges",
)  # fmt: skip
"""By triggers. Each has a column `run`."""
BEGUN = (
    "no, run, step, session, member, answerer, ids, reserved, started, why, queue, hedge_of, shard,"
    " unplaced, repeats, repeated, again, submission"
)
ENDED = (
    "no, state, tokens, cost, input, output, cache_read, cache_write, ended, error, unusable, bound,"
    " took, lost, shared, saved"
)
ATTEMPT = f"{BEGUN}, {ENDED}, crc, end_crc"
NOT_YET = (0, 0)
"""The last columns of BEGUN when it begins."""
NOT_ENDED = (0, 0, 0, 0, None, None, "", 0, None, "", 0, 0)
"""The columns of ENDED behind `cost` until it ends."""
DAMAGED = "damaged: "
"""How the error of a trigger begins; the name of the table follows."""
_BEGUN, _ENDED = len(BEGUN.split(", ")), len(ENDED.split(", "))
_AT_ONCE = 10_000
_ROWS = f"select {ATTEMPT} from attempts where no in ({{}})"
_SEAL = "update attempts set crc = v.column2, end_crc = v.column3 from ("
_SEAL_END = "update attempts set end_crc = v.column2 from ("
_OF = ") as v where attempts.no = v.column1"


# ── attempts ─────────────────────────────────────────────────────────────────────────────────


def _crcs(row: Sequence[Any]) -> tuple[int, int]:
    return checksum.of(*row[:_BEGUN]), checksum.of(*row[_BEGUN : _BEGUN + _ENDED])


def attempt_holds(row: Sequence[Any]) -> bool:
    """Of the columns ATTEMPT."""
    begun, ended = row[-2:]
    crcs = _crcs(row)
    return (begun is None or begun == crcs[0]) and (ended is None or ended == crcs[1])


def seal(db: Database, numbers: Collection[int]) -> None:
    for some in _parts(numbers):
        rows = [(row[0], *_crcs(row)) for row in bulk.among(db, _ROWS, some)]
        bulk.put(db, _SEAL, rows, _OF)


def seal_ends(db: Database, numbers: Collection[int]) -> None:
    """How they ended; where not all of it was in the fact."""
    if numbers:
        rows = [(row[0], _crcs(row)[1]) for row in bulk.among(db, _ROWS, numbers)]
        bulk.put(db, _SEAL_END, rows, _OF)


def sound_among(db: Database, numbers: Collection[int]) -> list[int]:
    return [
        row[0]
        for some in _parts(numbers)
        for row in bulk.among(db, _ROWS, some)
        if attempt_holds(row)
    ]


@contextmanager
def changing(db: Database, numbers: Collection[int]) -> Iterator[None]:
    """Attempts that are changed in the block are sealed after it. One that was damaged before is not: that
    would make its damage right."""
    if len(sound := sound_among(db, numbers)) < len(set(numbers)) and any(
        not attempt_holds(row) for row in bulk.among(db, _ROWS, set(numbers))
    ):
        raise StoreError(
            "the store: the record of an attempt is damaged; restore a copy, or run its plan again:"
            " replies are reused"
        )
    yield
    seal(db, sound)


def _parts(numbers: Collection[int]) -> Iterator[list[int]]:
    rest = iter(numbers)
    while some := list(islice(rest, _AT_ONCE)):
        yield some


# ── others that are sealed with their rows ───────────────────────────────────────────────────


def of_spending(
    member: str, month: str, settled: int, reserved: int
) -> tuple[str, str, int, int, int]:
    """A row of `spending`. What is added to it is added to its checksum, times 3 or 5."""
    checked = checksum.of(member, month) + 3 * settled + 5 * reserved
    return member, month, settled, reserved, checked


def spending_holds(row: Sequence[Any]) -> bool:
    *columns, checked = row
    return checked is None or tuple(row) == of_spending(*columns)


def unplaced_holds(row: Sequence[Any]) -> bool:
    *key, calls, checked = row
    return bool(checked is None or checked == checksum.of(*key) + calls)


def last_holds(row: Sequence[Any]) -> bool:
    """Of a row whose last column is the checksum of the others."""
    *columns, crc = row
    return checksum.holds(crc, *columns)


HOLDS: dict[str, Callable[[Sequence[Any]], bool]] = {
    "claims": last_holds,
    "judging": last_holds,
    "unplaced": unplaced_holds,
    "spending": spending_holds,
}
"""Of the columns that a copy has of them."""


# ── triggers ─────────────────────────────────────────────────────────────────────────────────


def sealed_columns(table: str) -> str:
    return f"{TABLES[table].columns}, crc"


def seal_by_triggers(db: sqlite3.Connection) -> None:
    """Whatever this connection writes into those tables is sealed. A row that is damaged is not changed, as
    that would make it right."""
    db.create_function("row_crc", -1, checksum.of, deterministic=True)
    for statement in _all_triggers():
        db.execute(statement)


@cache
def _all_triggers() -> tuple[str, ...]:
    return tuple(statement for table in SEALED for statement in _triggers(table))


def _triggers(table: str) -> tuple[str, ...]:
    names, width = TABLES[table].columns.split(", "), TABLES[table].key
    new, old = (", ".join(f"{row}.{name}" for name in names) for row in ("new", "old"))
    same = " and ".join(f"{name} = new.{name}" for name in names[:width])
    seal = f"begin update {table} set crc = row_crc({new}) where {same}; end"
    changed = f"update of {', '.join(names)} on main.{table}"
    refuse = f"begin select raise(abort, '{DAMAGED}{table}'); end"
    return (
        f"create temp trigger seal_new_{table} after insert on main.{table} {seal}",
        f"create temp trigger seal_{table} after {changed} {seal}",
        f"create temp trigger refuse_{table} before {changed}"
        f" when old.crc <> row_crc({old}) {refuse}",
    )
