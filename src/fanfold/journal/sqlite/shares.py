"""Processes that carry out one run together, as rows: who takes part, and who works on which positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fanfold.journal.facts import AddRun
from fanfold.journal.shares import (
    ALL,
    NO_PORTION,
    DivideBatch,
    DividedBatch,
    EndDivision,
    EndRange,
    JoinRun,
    LeaveRun,
    NoteShare,
    Portion,
    Sharer,
    TakenRange,
    TakePortion,
    TakeRange,
    range_size,
)
from fanfold.journal.sqlite.bulk import Database
from fanfold.journal.sqlite.checksum import sound
from fanfold.journal.sqlite.trouble import Ask

TABLES = ("sharers", "divisions", "ranges")
_LED = "select 1 from runs where no = ? and session = ? and status = 'running'"
_SHARED = (
    "select r.session from runs r where r.name = ? and r.status = 'running' and exists"
    " (select 1 from sharers s where s.run = r.no and s.session = r.session)"
)
_ENTER = (
    "insert into sharers (run, session, joined, low, high, wants, gone, stop, counts)"
    " select ?1, ?2, coalesce(max(joined), 0) + 1, ?3, ?4, 1, 0, x'', x'' from sharers where run = ?1"
)
_AGAIN = "on conflict (run, session) do update set wants = 1, gone = 0, stop = x''"
_PORTION = (
    "update sharers set low = ?3, high = ?4 where run = ?1 and session = ?2 and gone = 0 and not exists"
    " (select 1 from sharers o where o.run = ?1 and o.session <> ?2 and o.low < ?4 and o.high > ?3)"
)
_NOTE = "update sharers set wants = ?, stop = ?, counts = ? where run = ? and session = ?"
_GONE = "update sharers set gone = 1, wants = 0, low = 0, high = 0 where run = ? and session = ?"
_FREE = "update ranges set session = '' where run = ? and session = ? and done = 0"
_DIVIDE = "insert into divisions (run, lead, batch, step, size, unit, next, state) values (?,?,?,?,?,?,0,?)"
_OPEN = "select size, unit, next from divisions where run = ? and lead = ?"
_FREED = "select first, after from ranges where run = ? and session = '' and done = 0 order by first limit 1"
_EAGER = "select count(*) from sharers where run = ? and wants = 1 and gone = 0"
_RANGE = "insert into ranges (run, first, after, session, done) values (?,?,?,?,0)"
_OTHERS = "select 1 from ranges where run = ? and session <> ? and done = 0 limit 1"


# ── who takes part ───────────────────────────────────────────────────────────────────────────


def is_led(db: Database, fact: AddRun) -> bool:
    """A run of that name is under way already that others may join."""
    rows = db.execute(_SHARED, (fact.record.name,)).fetchall()
    return any(session not in fact.dead for (session,) in rows)


def lead(db: Database, run: int, session: str, *, anew: bool) -> None:
    """That session leads from now on. Where others may still be at work, it has no portion yet. Rows of
    those that left stay: they may stand by to take part again."""
    for table in ("divisions", "ranges"):
        db.execute(f"delete from {table} where run = ?", (run,))
    db.execute("update sharers set counts = x'', stop = x'' where run = ?", (run,))
    _enter(db, run, session, ALL if anew else NO_PORTION)


def _enter(db: Database, run: int, session: str, portion: Portion) -> None:
    db.execute(f"{_ENTER} {_AGAIN}", (run, session, *portion))


def join(db: Database, facts: list[JoinRun]) -> list[bool]:
    answers = []
    for f in facts:
        led = db.execute(_LED, (f.run, f.lead)).fetchone() is not None
        if led:
            _enter(db, f.run, f.session, NO_PORTION)
        answers.append(led)
    return answers


def take_portion(db: Database, facts: list[TakePortion]) -> list[bool]:
    rows = ((f.run, f.session, f.low, f.high) for f in facts)
    return [bool(db.execute(_PORTION, row).rowcount == 1) for row in rows]


def note(db: Database, facts: list[NoteShare]) -> list[None]:
    for f in facts:
        db.execute(_NOTE, (int(f.wants), f.stop, f.counts, f.run, f.session))
    return [None] * len(facts)


def leave(db: Database, facts: list[LeaveRun]) -> list[None]:
    for f in facts:
        for session in f.sessions:
            db.execute(_GONE, (f.run, session))
            db.execute(_FREE, (f.run, session))
    return [None] * len(facts)


# ── who works on what ────────────────────────────────────────────────────────────────────────


def divide(db: Database, facts: list[DivideBatch]) -> list[None]:
    for f in facts:
        _forget(db, f.run)
        db.execute(_DIVIDE, (f.run, f.lead, f.batch, f.step, f.size, f.unit, f.state))
    return [None] * len(facts)


def _forget(db: Database, run: int) -> None:
    for table in ("divisions", "ranges"):
        db.execute(f"delete from {table} where run = ?", (run,))


def take_range(db: Database, facts: list[TakeRange]) -> list[TakenRange | None]:
    return [_take_one(db, fact) for fact in facts]


def _take_one(db: Database, f: TakeRange) -> TakenRange | None:
    """First what somebody left behind, then what comes next."""
    row = db.execute(_OPEN, (f.run, f.lead)).fetchone()
    if row is None or db.execute(_LED, (f.run, f.lead)).fetchone() is None:
        return None
    size, unit, first = row
    freed = db.execute(_FREED, (f.run,)).fetchone()
    if freed is not None:
        taken = "update ranges set session = ? where run = ? and first = ?"
        db.execute(taken, (f.session, f.run, freed[0]))
        return TakenRange(*freed)
    if first < size:
        (sharers,) = db.execute(_EAGER, (f.run,)).fetchone()
        after = first + range_size(size - first, sharers, unit)
        db.execute(_RANGE, (f.run, first, after, f.session))
        db.execute("update divisions set next = ? where run = ?", (after, f.run))
        return TakenRange(first, after)
    others = db.execute(_OTHERS, (f.run, f.session)).fetchone()
    return TakenRange(0, 0, others is not None)


def end_range(db: Database, facts: list[EndRange]) -> list[None]:
    for f in facts:
        over = "update ranges set done = 1 where run = ? and first = ? and session = ?"
        db.execute(over, (f.run, f.first, f.session))
    return [None] * len(facts)


def end_division(db: Database, facts: list[EndDivision]) -> list[None]:
    for f in facts:
        _forget(db, f.run)
    return [None] * len(facts)


def close(db: Database, run: int) -> None:
    """The run is over."""
    for table in TABLES:
        db.execute(f"delete from {table} where run = ?", (run,))


APPLY: dict[type, Callable[[Database, list[Any]], list[Any]]] = {
    JoinRun: join, TakePortion: take_portion, NoteShare: note, LeaveRun: leave,
    DivideBatch: divide, TakeRange: take_range, EndRange: end_range, EndDivision: end_division,
}  # fmt: skip


# ── questions ────────────────────────────────────────────────────────────────────────────────


@sound
class ShareRows:
    _execute: Ask

    def led_by(self, run: int) -> tuple[str, str]:
        row = self._execute("select status, session from runs where no = ?", (run,)).fetchone()
        return ("removed", "") if row is None else (row[0], row[1])

    def sharers(self, run: int) -> list[Sharer]:
        rows = self._execute(
            "select session, low, high, wants, gone, stop, counts from sharers where run = ?"
            " order by joined",
            (run,),
        )
        return [
            Sharer(session, low, high, bool(wants), bool(gone), bytes(stop), bytes(counts))
            for session, low, high, wants, gone, stop, counts in rows
        ]

    def division(self, run: int) -> DividedBatch | None:
        row = self._execute(
            "select lead, batch, step, size, state from divisions where run = ?", (run,)
        ).fetchone()
        if row is None:
            return None
        lead, batch, step, size, state = row
        return DividedBatch(lead, batch, step, size, bytes(state))
