"""Runs that are removed: what of them stays, and what goes."""

from __future__ import annotations

import msgspec

from fanfold.journal.answers import RemovedReplies
from fanfold.journal.facts import RemoveRuns
from fanfold.journal.sqlite import bulk, checksum, sealing, shares
from fanfold.journal.sqlite.bulk import Database

_encode = msgspec.json.Encoder().encode

# The row of a run stays, empty, as `removed`: its number is never given out again, and its attempts
# (who, when, how much; not for what) still count in the budgets of the month and of runs above it, and
# keep what is in doubt in doubt. Replies that serve other runs too stay, unless they are to go as well.

TABLES = ("items", "batches", "outcomes", "cascades", "judging", "beats", "waits", "prompts", "orders",
           "attached", "submissions", *shares.TABLES)  # fmt: skip
_ROWS = (
    "update runs set status = 'removed', reason = null, cause = null, plan = x'', folder = '',"
    " result = null, session = '' where no in (select value from json_each(?))"
)
_ATTEMPTS = (
    "select no from attempts"
    " where run in (select value from json_each(?1)) and no >= (select min(first_attempt) from runs"
    " where no in (select value from json_each(?1)))"
)
_FORGET = "update attempts set ids = cast('[]' as blob), error = null where no in ({})"
_THEIRS = "run in (select value from json_each(?1))"
_OWN = f"{_THEIRS} and private = 1"
_UNUSED = f"{_THEIRS} and no not in (select reply from outcomes where reply is not null)"
_LAST = (
    "no = (select max(no) from replies)"  # it stays: its number tells how far the store has come
)
_EMPTY = "update replies set key8 = 0, key = x'', private = 1, reply = null, blob = null"
_BLOBS = (
    "delete from blobs where hash not in (select blob from replies where blob is not null)"
    " and hash not in (select hash from attached)"
)


def _remove(db: Database, fact: RemoveRuns) -> RemovedReplies | None:
    """None: one of them is not there any more as it was, and all stay."""
    there = "select 1 from runs where no = ? and session = ? and status <> 'removed'"
    if not all(db.execute(there, run).fetchone() for run in fact.runs):
        return None
    runs = (_encode([no for no, _ in fact.runs]).decode(),)
    bodies = f"select count(*) from outcomes where {_THEIRS} and body is not null"
    (inline,) = db.execute(bodies, runs).fetchone()
    db.execute(_ROWS, runs)
    for table in TABLES:
        db.execute(f"delete from {table} where {_THEIRS}", runs)
    attempts = [no for (no,) in db.execute(_ATTEMPTS, runs).fetchall()]
    sound = sealing.sound_among(db, attempts)  # one that is damaged stays so
    bulk.among(db, _FORGET, attempts)
    sealing.seal(db, sound)
    db.execute("delete from log")  # it names items and errors; followers read the tables again
    which = f"({_OWN} or {_UNUSED})" if fact.replies else f"({_OWN})"
    removed = db.execute(f"{_EMPTY} where {which} and {_LAST} and key <> x''", runs).rowcount
    removed += db.execute(f"delete from replies where {which} and not {_LAST}", runs).rowcount
    db.execute(_BLOBS)
    remaining = f"select count(*) from replies where {_THEIRS} and private = 0"
    (kept,) = db.execute(remaining, runs).fetchone()
    return RemovedReplies(removed + inline, kept)


def remove(db: Database, facts: list[RemoveRuns]) -> list[RemovedReplies | None]:
    answers = [_remove(db, fact) for fact in facts]
    for fact, answer in zip(facts, answers, strict=True):
        for no, _ in fact.runs if answer else ():
            checksum.sum_up_run(db, no)
    return answers
