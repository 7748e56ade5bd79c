"""Taking runs out of the store, without forgetting what they paid.

The row of a run stays, empty, as `removed`: its number is never given out again, and its attempts (who,
when, how much; not for what) still count in the budgets of the month and of runs above it, and keep what
is in doubt in doubt. Replies that serve other runs too stay, unless they are to go as well.
"""

from __future__ import annotations

import sqlite3

import msgspec

_encode = msgspec.json.Encoder().encode

_TABLES = ("items", "batches", "outcomes", "cascades", "judging", "beats", "prompts")
_ROWS = (
    "update runs set status = 'removed', reason = null, plan = x'', folder = '', result = null,"
    " session = '' where no in (select value from json_each(?))"
)
_ATTEMPTS = (
    "update attempts set ids = cast('[]' as blob), error = null"
    " where run in (select value from json_each(?1)) and no >= (select min(first_attempt) from runs"
    " where no in (select value from json_each(?1)))"
)
_THEIRS = "run in (select value from json_each(?1))"
_OWN = f"{_THEIRS} and private = 1"
_UNUSED = f"{_THEIRS} and no not in (select reply from outcomes where reply is not null)"
_LAST = (
    "no = (select max(no) from replies)"  # it stays: its number tells how far the store has come
)
_EMPTY = "update replies set key8 = 0, key = x'', private = 1, reply = null, blob = null"
_BLOBS = "delete from blobs where hash not in (select blob from replies where blob is not null)"


class RemoveRuns(msgspec.Struct, frozen=True):
    """All of them or none. `runs`: each with its last session; one that has another by now was
    resumed meanwhile. `replies`: those that could serve other runs go too, but for those that
    other runs hold."""

    runs: tuple[tuple[int, str], ...]
    replies: bool = False


class Removed(msgspec.Struct, frozen=True):
    """How many replies went, and how many stay that can serve other runs."""

    replies: int = 0
    kept: int = 0


def remove(db: sqlite3.Connection, fact: RemoveRuns) -> Removed | None:
    """None: one of them is not there any more as it was, and all stay."""
    there = "select 1 from runs where no = ? and session = ? and status <> 'removed'"
    if not all(db.execute(there, run).fetchone() for run in fact.runs):
        return None
    runs = (_encode([no for no, _ in fact.runs]).decode(),)
    bodies = f"select count(*) from outcomes where {_THEIRS} and body is not null"
    (inline,) = db.execute(bodies, runs).fetchone()
    db.execute(_ROWS, runs)
    for table in _TABLES:
        db.execute(f"delete from {table} where {_THEIRS}", runs)
    db.execute(_ATTEMPTS, runs)
    which = f"({_OWN} or {_UNUSED})" if fact.replies else f"({_OWN})"
    gone = db.execute(f"{_EMPTY} where {which} and {_LAST} and key <> x''", runs).rowcount
    gone += db.execute(f"delete from replies where {which} and not {_LAST}", runs).rowcount
    if gone:
        db.execute(_BLOBS)
    left = f"select count(*) from replies where {_THEIRS} and private = 0"
    (kept,) = db.execute(left, runs).fetchone()
    return Removed(gone + inline, kept)
