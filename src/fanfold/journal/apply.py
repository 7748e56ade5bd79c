"""How each fact becomes rows. Runs inside the writer's transaction; answers in the facts' order."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from fanfold.journal.facts import (
    Claim, End, Ended, Ending, Failed, Holder, Landed, RunRecord, Start,
)  # fmt: skip
from fanfold.work.ask import Usage
from fanfold.work.item import digest

LARGE = 8192
_encode = msgspec.json.Encoder().encode
_NONE = Usage()


class AddRun(msgspec.Struct, frozen=True):
    record: RunRecord


class ReopenRun(msgspec.Struct, frozen=True):
    run: int
    session: str
    budget: bytes


class CloseRun(msgspec.Struct, frozen=True, kw_only=True):
    """The books are closed. Items that have no outcome yet get `rest` (with the reason)."""

    run: int
    status: str
    reason: str | None
    at: float
    active: float
    result: bytes | None
    rest: str | None = None


class DropRun(msgspec.Struct, frozen=True):
    """A run that was refused before it started leaves nothing behind."""

    run: int


class DropBatch(msgspec.Struct, frozen=True):
    """The input changed between two invocations of a script: the batch is planned anew."""

    run: int
    no: int


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
    fingerprint: str
    size: int
    last_step: int


class Lose(msgspec.Struct, frozen=True):
    """Attempts that were under way when their process died are in doubt from now on."""

    attempts: tuple[int, ...]
    at: float


def key8(key: bytes) -> int:
    return int.from_bytes(key[:8], "big", signed=True)


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


# ── attempts ─────────────────────────────────────────────────────────────────────────────────


def _start(db: sqlite3.Connection, facts: list[Start]) -> list[Claim]:
    return [_start_one(db, fact) for fact in facts]


def _start_one(db: sqlite3.Connection, fact: Start) -> Claim:
    known = tuple(key for key in fact.keys if _is_known(db, key, fact))
    if known:
        return Claim(known=known)
    held: list[Holder] = []
    doubt: list[Holder] = []
    for key in fact.keys:
        for holder in _holders(db, key, fact.accept):
            (doubt if holder.state == "in_doubt" else held).append(holder)
    if held or (doubt and not fact.take_over):
        return Claim(held=tuple(held), doubt=tuple(doubt))
    number = db.execute(
        "insert into attempts (run, step, session, member, answerer, state, ids, reserved,"
        " reserved_tokens, cost, started, why, repeats, repeated)"
        " values (?,?,?,?,?,'started',?,?,?,?,?,?,?,?)",
        (fact.run, fact.step, fact.session, fact.member, fact.answerer, _encode(fact.ids),
         fact.reserved, fact.reserved_tokens, fact.reserved, fact.at, fact.why, len(doubt),
         sum(holder.reserved for holder in doubt)),
    ).lastrowid  # fmt: skip
    assert number is not None
    db.executemany(
        "insert or replace into claims (key, answerer, attempt) values (?,?,?)",
        [(key, fact.answerer, number) for key in fact.keys],
    )
    return Claim(attempt=number, doubt=tuple(doubt))


def _is_known(db: sqlite3.Connection, key: bytes, fact: Start) -> bool:
    rows = db.execute(
        "select answerer, run, private from replies where key8 = ? and key = ?", (key8(key), key)
    )
    return any(
        answerer in fact.accept and (run == fact.run or not (private or fact.fresh))
        for answerer, run, private in rows
    )


def _holders(db: sqlite3.Connection, key: bytes, accept: tuple[str, ...]) -> Iterable[Holder]:
    rows = db.execute(
        "select c.answerer, a.no, a.session, a.state, a.reserved from claims c"
        " join attempts a on a.no = c.attempt where c.key = ?",
        (key,),
    ).fetchall()
    return [Holder(key, *row[1:]) for row in rows if row[0] in accept]


def _end(db: sqlite3.Connection, facts: list[End]) -> list[tuple[int, ...]]:
    """Settles attempts, files replies under their keys, and writes outcomes. Answers reply rows."""
    metered = [fact for fact in facts if fact.attempt]
    if metered:
        _settle(db, metered)
    replies: list[tuple[Any, ...]] = []
    outcomes: list[tuple[Any, ...]] = []
    answers: list[tuple[int, ...]] = []
    next_no = 0
    for fact in facts:
        landed, endings = fact.landed, fact.endings
        if len(landed) == 1 and landed[0].private and endings:
            outcomes.append(_outcome_with_reply(db, fact.run, endings[0], landed[0]))
            answers.append((0,))
            continue
        next_no = next_no or _next_reply(db)
        rows = tuple(range(next_no, next_no + len(landed)))
        next_no += len(landed)
        for no, one in zip(rows, landed, strict=True):
            replies.append(_reply_row(db, no, fact.run, fact.at, one))
        outcomes.extend(_outcome(fact.run, ending, rows) for ending in endings)
        answers.append(rows)
    if replies:
        db.executemany("insert into replies values (?,?,?,?,?,?,?,?,?,?,?)", replies)
    if outcomes:
        db.executemany(_PUT_OUTCOME, outcomes)
    return answers


def _next_reply(db: sqlite3.Connection) -> int:
    number: int = db.execute("select coalesce(max(no), 0) + 1 from replies").fetchone()[0]
    return number


def _settle(db: sqlite3.Connection, facts: list[End]) -> None:
    db.executemany(
        "update attempts set state = ?, cost = ?, input = ?, output = ?, cache_read = ?,"
        " cache_write = ?, ended = ?, error = ? where no = ?",
        [
            (f.state, f.cost, u.input, u.output, u.cache_read, u.cache_write, f.at, f.error,
             f.attempt)
            for f in facts
            for u in (f.usage or _NONE,)
        ],
    )  # fmt: skip
    db.executemany(
        "delete from claims where key = ? and answerer = ? and attempt = ?",
        [(key, f.answerer, f.attempt) for f in facts for key in f.released],
    )


def _reply_row(
    db: sqlite3.Connection, no: int, run: int, at: float, landed: Landed
) -> tuple[Any, ...]:
    body, blob = _payload(db, landed)
    return (
        no, key8(landed.key), landed.key, landed.answerer, landed.member, run, landed.private,
        body, blob, landed.cost, at,
    )  # fmt: skip


def _payload(db: sqlite3.Connection, landed: Landed) -> tuple[bytes | None, bytes | None]:
    """Large payloads are kept once, by their hash."""
    body = _encode(landed.reply)
    if len(body) <= LARGE:
        return body, None
    blob = digest(body)
    db.execute("insert or ignore into blobs values (?,?)", (blob, body))
    return None, blob


_PUT_OUTCOME = "insert or replace into outcomes values (?,?,?,?,?,?,?,?,?,?,?,?,?)"


def _outcome(run: int, ending: Ending, rows: tuple[int, ...]) -> tuple[Any, ...]:
    reply = rows[ending.landed] if ending.landed >= 0 else ending.reply or None
    reasons = _encode(ending.reasons).decode() if ending.reasons else None
    return (
        run, ending.batch, ending.position, ending.step, ending.state, reply, reasons,
        ending.member, ending.cost, ending.calls, None, None, None,
    )  # fmt: skip


def _outcome_with_reply(
    db: sqlite3.Connection, run: int, ending: Ending, landed: Landed
) -> tuple[Any, ...]:
    return (
        run, ending.batch, ending.position, ending.step, ending.state, None,
        _encode(ending.reasons).decode() if ending.reasons else None,
        ending.member, ending.cost, ending.calls, landed.key, landed.answerer,
        _encode(landed.reply),
    )  # fmt: skip


def _ended(db: sqlite3.Connection, facts: list[Ended]) -> list[None]:
    rows = [_outcome(fact.run, ending, ()) for fact in facts for ending in fact.endings]
    db.executemany(_PUT_OUTCOME, rows)
    return [None] * len(facts)


def _failed(db: sqlite3.Connection, facts: list[Failed]) -> list[None]:
    db.executemany(
        "insert into attempts (run, step, session, member, answerer, state, ids, reserved,"
        " reserved_tokens, cost, started, ended, error, why) values (?,?,?,?,?,'error',?,0,0,0,?,?,?,'')",
        [
            (f.run, f.step, f.session, f.member, f.answerer, _encode(f.ids), f.at, f.at, f.error)
            for f in facts
        ],
    )
    return [None] * len(facts)


def _lose(db: sqlite3.Connection, facts: list[Lose]) -> list[None]:
    for fact in facts:
        db.executemany(
            "update attempts set state = 'in_doubt', ended = ?, error = 'the process died'"
            " where no = ? and state = 'started'",
            [(fact.at, number) for number in fact.attempts],
        )
    return [None] * len(facts)


# ── runs and what they planned ───────────────────────────────────────────────────────────────


def _add_run(db: sqlite3.Connection, facts: list[AddRun]) -> list[int]:
    numbers = []
    for fact in facts:
        r = fact.record
        cursor = db.execute(
            "insert into runs (id, name, status, reason, created, ended, session, plan, folder,"
            " budget) values (?,?,?,?,?,?,?,?,?,?)",
            (r.id, r.name, r.status, r.reason, r.created, r.ended, r.session, r.plan, r.folder,
             r.budget),
        )  # fmt: skip
        assert cursor.lastrowid is not None
        numbers.append(cursor.lastrowid)
    return numbers


def _reopen_run(db: sqlite3.Connection, facts: list[ReopenRun]) -> list[None]:
    db.executemany(
        "update runs set status = 'running', reason = null, ended = null, session = ?, budget = ?"
        " where no = ?",
        [(f.session, f.budget, f.run) for f in facts],
    )
    db.executemany(
        "delete from outcomes where run = ? and state in ('unfunded', 'cancelled', 'in_doubt')",
        [(f.run,) for f in facts],
    )
    return [None] * len(facts)


def _end_the_rest(db: sqlite3.Connection, f: CloseRun) -> None:
    """Every planned item has an outcome: those that did not leave the flow get one now."""
    db.execute(
        "insert into outcomes select i.run, i.batch, i.position, b.last_step, ?, null, ?, null,"
        " 0, 0, null, null, null from items i join batches b on b.run = i.run and b.no = i.batch"
        " where i.run = ? and not exists (select 1 from outcomes o where o.run = i.run"
        " and o.batch = i.batch and o.position = i.position"
        " and (o.step = b.last_step or o.state <> 'passed'))",
        (f.rest, _encode([f.reason or f.status]).decode(), f.run),
    )


def _close_run(db: sqlite3.Connection, facts: list[CloseRun]) -> list[None]:
    for f in facts:
        if f.rest is not None:
            _end_the_rest(db, f)
        db.execute(
            "update runs set status = ?, reason = ?, ended = ?, active = active + ?, result = ?"
            " where no = ?",
            (f.status, f.reason, f.at, f.active, f.result, f.run),
        )
    return [None] * len(facts)


def _drop_run(db: sqlite3.Connection, facts: list[DropRun]) -> list[None]:
    for fact in facts:
        for table in ("items", "batches", "steps", "outcomes"):
            db.execute(f"delete from {table} where run = ?", (fact.run,))
        db.execute("delete from runs where no = ?", (fact.run,))
    return [None] * len(facts)


def _file_under_keys(db: sqlite3.Connection, run: int, batch: int) -> None:
    """Replies that stand with their outcomes move under their keys, so that they are found again."""
    db.create_function("key8", 1, key8, deterministic=True)
    db.execute(
        "insert into replies (key8, key, answerer, member, run, private, reply, cost, at)"
        " select key8(key), key, answerer, member, run, 1, body, cost, 0 from outcomes"
        " where run = ? and batch = ? and body is not null",
        (run, batch),
    )


def _drop_batch(db: sqlite3.Connection, facts: list[DropBatch]) -> list[None]:
    for f in facts:
        _file_under_keys(db, f.run, f.no)
        db.execute("delete from items where run = ? and batch = ?", (f.run, f.no))
        db.execute("delete from outcomes where run = ? and batch = ?", (f.run, f.no))
        db.execute("delete from batches where run = ? and no = ?", (f.run, f.no))
    return [None] * len(facts)


def _name_step(db: sqlite3.Connection, facts: list[NameStep]) -> list[None]:
    db.executemany(
        "insert or ignore into steps (run, no, name) values (?,?,?)",
        [(f.run, f.no, f.name) for f in facts],
    )
    return [None] * len(facts)


def _plan_items(db: sqlite3.Connection, facts: list[PlanItems]) -> list[None]:
    for fact in facts:
        db.executemany("insert or replace into items values (?,?,?,?,?)", fact.rows)
    return [None] * len(facts)


def _plan_batch(db: sqlite3.Connection, facts: list[PlanBatch]) -> list[None]:
    for f in facts:
        db.execute(
            "insert or replace into batches values (?,?,?,?,?)",
            (f.run, f.no, f.fingerprint, f.size, f.last_step),
        )
    return [None] * len(facts)


_APPLY: dict[type, Callable[[sqlite3.Connection, list[Any]], list[Any]]] = {
    Start: _start, End: _end, Ended: _ended, Failed: _failed, Lose: _lose, AddRun: _add_run,
    ReopenRun: _reopen_run, CloseRun: _close_run, DropRun: _drop_run, DropBatch: _drop_batch, NameStep: _name_step,
    PlanItems: _plan_items, PlanBatch: _plan_batch,
}  # fmt: skip
