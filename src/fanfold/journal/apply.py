"""How each fact becomes rows. Runs inside the writer's transaction; answers in the facts' order."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import msgspec

from fanfold.journal import bulk, checksum, judging
from fanfold.journal.adoption import Adopt, adopt
from fanfold.journal.attempts import discard, end, ended, failed, file_again, lose, start, unclaim
from fanfold.journal.cascades import Cascade, cascade
from fanfold.journal.facts import (
    Discard,
    End,
    Ended,
    Failed,
    Lose,
    RunRecord,
    Sent,
    Start,
    Unclaim,
)
from fanfold.journal.removal import Removed, RemoveRuns, remove

SUMMED = ("id", "name", "folder", "plan", "budget", "result", "parent")
"""The columns of a run that its checksum is of."""
_encode = msgspec.json.Encoder().encode


class AddRun(msgspec.Struct, frozen=True):
    record: RunRecord


class ReopenRun(msgspec.Struct, frozen=True):
    """A new session takes the run over from `before`. False: somebody else was quicker.

    Outcomes that are not final are dropped, so that it goes on with these items; with `keep` they
    stay. Those of the ids in `anew` are dropped whatever they are. `plan`: it is changed to this.
    """

    run: int
    session: str
    budget: bytes
    before: str
    active: float = 0.0
    anew: tuple[str, ...] = ()
    keep: bool = False
    plan: bytes | None = None


class CloseRun(msgspec.Struct, frozen=True, kw_only=True):
    """The books are closed. Items that have no outcome yet get `rest` (with the reason).

    `session`: only while the run is still that one's; False when somebody has taken it over.
    """

    run: int
    status: str
    reason: str | None
    at: float
    active: float
    result: bytes | None
    rest: str | None = None
    session: str | None = None


class DropRun(msgspec.Struct, frozen=True):
    """A run that was refused before it started leaves nothing behind."""

    run: int


class DropBatch(msgspec.Struct, frozen=True):
    """The input changed between two invocations of a script: the batch is planned anew."""

    run: int
    no: int


class Beat(msgspec.Struct, frozen=True):
    """The process that carries a run out lives, and has been active for so many seconds. When it
    dies, the last of these is what is known."""

    run: int
    active: float


class NameStep(msgspec.Struct, frozen=True):
    run: int
    no: int
    name: str


class PlanItems(msgspec.Struct, frozen=True):
    rows: list[tuple[int, int, int, str, bytes]]


class PlanBatch(msgspec.Struct, frozen=True):
    """A batch is planned in full. `last_step` is where its items leave the flow."""

    run: int
    no: int
    name: str
    fingerprint: str
    size: int
    last_step: int


def apply(db: sqlite3.Connection, facts: list[Any]) -> list[Any]:
    """Facts of one kind go in together, as one statement each; kinds keep their first order."""
    if len(facts) == 1:
        return _APPLY[type(facts[0])](db, facts)
    kinds: dict[type, list[int]] = {}
    for n, fact in enumerate(facts):
        kinds.setdefault(type(fact), []).append(n)
    if len(kinds) == 1:
        return _APPLY[type(facts[0])](db, facts)
    answers: list[Any] = [None] * len(facts)
    for kind, places in kinds.items():
        given = _APPLY[kind](db, [facts[n] for n in places])
        for n, answer in zip(places, given, strict=True):
            answers[n] = answer
    return answers


# ── runs and what they planned ───────────────────────────────────────────────────────────────


def _add_run(db: sqlite3.Connection, facts: list[AddRun]) -> list[int]:
    numbers = []
    for fact in facts:
        r = fact.record
        cursor = db.execute(
            "insert into runs (id, name, status, reason, created, ended, session, plan, folder,"
            " budget, parent, first_attempt) values (?,?,?,?,?,?,?,?,?,?,?,"
            " (select coalesce(max(no), 0) + 1 from attempts))",
            (r.id, r.name, r.status, r.reason, r.created, r.ended, r.session, r.plan, r.folder,
             r.budget, r.parent),
        )  # fmt: skip
        assert cursor.lastrowid is not None
        numbers.append(cursor.lastrowid)
        _sum_up(db, cursor.lastrowid)
    return numbers


def _sum_up(db: sqlite3.Connection, run: int) -> None:
    """The checksum of a run, after it was changed."""
    row = db.execute(f"select {', '.join(SUMMED)} from runs where no = ?", (run,)).fetchone()
    db.execute("update runs set crc = ? where no = ?", (checksum.of(*row), run))


def _reopen_run(db: sqlite3.Connection, facts: list[ReopenRun]) -> list[bool]:
    taken = []
    for f in facts:
        changed = db.execute(
            "update runs set status = 'running', reason = null, ended = null, session = ?,"
            " budget = ?, active = active + ?, plan = coalesce(?, plan) where no = ? and session = ?",
            (f.session, f.budget, f.active, f.plan, f.run, f.before),
        ).rowcount
        taken.append(changed == 1)
        if changed:
            _sum_up(db, f.run)
            _drop_outcomes(db, f)
            _booked(db, f.run)
    return taken


def _drop_outcomes(db: sqlite3.Connection, f: ReopenRun) -> None:
    if not f.keep:
        db.execute(
            "delete from outcomes where run = ? and state in ('unfunded', 'cancelled', 'in_doubt')",
            (f.run,),
        )
    for id in f.anew:
        db.execute(
            "delete from outcomes where run = ?1 and (batch, position) in"
            " (select batch, position from items where run = ?1 and id = ?2)",
            (f.run, id),
        )


def _end_the_rest(db: sqlite3.Connection, f: CloseRun) -> None:
    """Every planned item has an outcome: those that did not leave the flow get one now."""
    db.execute(
        "insert into outcomes select i.run, i.batch, i.position, b.last_step, ?, null, ?, null,"
        " 0, 0, null, null, null, null, null from items i join batches b on b.run = i.run and b.no = i.batch"
        " where i.run = ? and not exists (select 1 from outcomes o where o.run = i.run"
        " and o.batch = i.batch and o.position = i.position"
        " and (o.step = b.last_step or o.state <> 'passed'))",
        (f.rest, _encode([f.reason or f.status]).decode(), f.run),
    )


def _close_run(db: sqlite3.Connection, facts: list[CloseRun]) -> list[bool]:
    return [_close_one(db, f) for f in facts]


def _close_one(db: sqlite3.Connection, f: CloseRun) -> bool:
    whose = "select 1 from runs where no = ? and session = ?"
    if f.session is None or db.execute(whose, (f.run, f.session)).fetchone():
        if f.rest is not None:
            _end_the_rest(db, f)
        db.execute(
            "update runs set status = ?, reason = ?, ended = ?, active = active + ?, result = ?"
            " where no = ?",
            (f.status, f.reason, f.at, f.active, f.result, f.run),
        )
        _booked(db, f.run)
        if f.session is None:  # its own process closes it: no gate has ended that
            mine = "session = (select session from runs where no = ?1)"
            db.execute(f"delete from judging where run = ?1 and {mine}", (f.run,))
        _sum_up(db, f.run)
        return True
    return False


def _drop_run(db: sqlite3.Connection, facts: list[DropRun]) -> list[None]:
    for fact in facts:
        for table in (
            "items",
            "batches",
            "steps",
            "unplaced",
            "outcomes",
            "cascades",
            "judging",
            "beats",
            "prompts",
        ):
            db.execute(f"delete from {table} where run = ?", (fact.run,))
        db.execute("delete from runs where no = ?", (fact.run,))
    return [None] * len(facts)


def _remove_runs(db: sqlite3.Connection, facts: list[RemoveRuns]) -> list[Removed | None]:
    answers = [remove(db, fact) for fact in facts]
    for fact, answer in zip(facts, answers, strict=True):
        for no, _ in fact.runs if answer else ():
            _sum_up(db, no)
    return answers


def _drop_batch(db: sqlite3.Connection, facts: list[DropBatch]) -> list[None]:
    for f in facts:
        file_again(db, f.run, f.no)
        db.execute("delete from items where run = ? and batch = ?", (f.run, f.no))
        db.execute("delete from outcomes where run = ? and batch = ?", (f.run, f.no))
        db.execute("delete from batches where run = ? and no = ?", (f.run, f.no))
    return [None] * len(facts)


def _beat(db: sqlite3.Connection, facts: list[Beat]) -> list[None]:
    db.executemany("insert or replace into beats values (?,?)", [(f.run, f.active) for f in facts])
    return [None] * len(facts)


def _booked(db: sqlite3.Connection, run: int) -> None:
    """The run has the active time of its last process now."""
    db.execute("delete from beats where run = ?", (run,))


def _name_step(db: sqlite3.Connection, facts: list[NameStep]) -> list[None]:
    db.executemany(
        "insert or ignore into steps (run, no, name) values (?,?,?)",
        [(f.run, f.no, f.name) for f in facts],
    )
    return [None] * len(facts)


def _plan_items(db: sqlite3.Connection, facts: list[PlanItems]) -> list[None]:
    for fact in facts:
        for at in range(0, len(fact.rows), bulk.MOST):
            some = [(*row, checksum.of(*row)) for row in fact.rows[at : at + bulk.MOST]]
            bulk.put(db, "insert or replace into items", some)
    return [None] * len(facts)


def _sent(db: sqlite3.Connection, facts: list[Sent]) -> list[None]:
    for f in facts:
        rows = [
            (f.run, f.step, id, f.member, key, f.messages)
            for id, key in zip(f.ids, f.keys, strict=True)
        ]
        bulk.put(db, "insert into prompts (run, step, id, member, key, messages)", rows)
    return [None] * len(facts)


def _plan_batch(db: sqlite3.Connection, facts: list[PlanBatch]) -> list[None]:
    for f in facts:
        db.execute(
            "insert or replace into batches values (?,?,?,?,?,?)",
            (f.run, f.no, f.name, f.fingerprint, f.size, f.last_step),
        )
    return [None] * len(facts)


_APPLY: dict[type, Callable[[sqlite3.Connection, list[Any]], list[Any]]] = {
    Start: start, End: end, Ended: ended, Failed: failed, Lose: lose, Unclaim: unclaim,
    Discard: discard,
    Adopt: adopt, AddRun: _add_run,
    judging.Judging: judging.begin, judging.Judged: judging.judged,
    ReopenRun: _reopen_run, CloseRun: _close_run, DropRun: _drop_run, DropBatch: _drop_batch,
    RemoveRuns: _remove_runs,
    Beat: _beat, NameStep: _name_step, Cascade: cascade, PlanItems: _plan_items, PlanBatch: _plan_batch,
    Sent: _sent,
}  # fmt: skip
