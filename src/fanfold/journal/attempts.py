"""How attempts, replies and outcomes become rows. Runs inside the writer's transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any

import msgspec

from fanfold.journal import bulk, checksum, spending
from fanfold.journal.facts import (
    Claim,
    Discard,
    End,
    Ended,
    Ending,
    Failed,
    Holder,
    Landed,
    Lose,
    Start,
    Unclaim,
)  # fmt: skip
from fanfold.journal.scopes import Scopes
from fanfold.work.ask import Usage
from fanfold.work.item import digest

LARGE = 8192
_encode = msgspec.json.Encoder().encode
_NONE = Usage()

_ATTEMPT = (
    "insert into attempts (no, run, step, session, member, answerer, state, ids, reserved,"
    " tokens, cost, started, why, repeats, repeated)"
)
_KNOWN = "select key, answerer, run, private from replies where key8 in ({})"
_HOLDERS = (
    "select c.key, c.answerer, a.no, a.session, a.state, a.reserved, a.again from claims c"
    " join attempts a on a.no = c.attempt where c.key in ({})"
)
_SETTLE = (
    "update attempts set state = v.column2, cost = v.column3, input = v.column4,"
    " output = v.column5, cache_read = v.column6, cache_write = v.column7, ended = v.column8,"
    " error = v.column9, tokens = v.column10, unusable = v.column11, bound = v.column12,"
    " took = coalesce(v.column13, max(0, v.column8 - started)) from ("
)


def key8(key: bytes) -> int:
    return int.from_bytes(key[:8], "big", signed=True)


# ── a start claims its keys ──────────────────────────────────────────────────────────────────


def start(db: sqlite3.Connection, facts: list[Start]) -> list[Claim]:
    """All starts of a group at once: look who has the keys, then claim the free ones."""
    keys = [key for fact in facts for key in fact.keys]
    known = _by_key(bulk.among(db, _KNOWN, map(key8, keys)))
    holders = _by_key(bulk.among(db, _HOLDERS, keys))
    number: int = db.execute("select coalesce(max(no), 0) from attempts").fetchone()[0]
    purses, scopes = spending.Purses(db, facts), Scopes(db, facts)
    claims: list[Claim] = []
    attempts: list[tuple[Any, ...]] = []
    claimed: list[tuple[bytes, str, int]] = []
    for fact in facts:
        claim = _decide(fact, known, holders)
        if claim is None or (claim.doubt and not claim.held and fact.take_over):
            broke = scopes.refuse(fact) or purses.refuse(fact)
            if broke is not None:
                claims.append(broke)
                continue
            number += 1
            claim = Claim(attempt=number, doubt=() if claim is None else claim.doubt)
            attempts.append(_attempt_row(number, fact, claim.doubt))
            for key in dict.fromkeys(fact.keys):
                claimed.append((key, fact.answerer, number))
                mine = (fact.answerer, number, fact.session, "started", fact.reserved, 0)
                holders.setdefault(key, []).append(mine)
        claims.append(claim)
    purses.put(db)
    bulk.put(db, _ATTEMPT, attempts)
    bulk.put(db, "insert into claims (key, answerer, attempt)", claimed)
    again = {holder.attempt for claim in claims if claim.attempt for holder in claim.doubt}
    if again:
        bulk.among(db, "update attempts set again = 1 where no in ({})", again)
    return claims


Rows = dict[bytes, list[tuple[Any, ...]]]


def _by_key(rows: list[Any]) -> Rows:
    found: Rows = {}
    for key, *rest in rows:
        found.setdefault(key, []).append(tuple(rest))
    return found


def _decide(fact: Start, known: Rows, holders: Rows) -> Claim | None:
    """None: the keys are free. In most groups nobody has any of them, and both are empty."""
    there = tuple(key for key in fact.keys if known and _serves(fact, known.get(key, ())))
    if there:
        return Claim(known=there)
    with_it = [
        Holder(key, *rest)
        for key in dict.fromkeys(fact.keys)
        for answerer, *rest in holders.get(key, ())
        if answerer in fact.accept and rest[0] != fact.beside
    ]
    if not with_it:
        return None
    doubt = tuple(holder for holder in with_it if holder.state == "in_doubt")
    return Claim(held=tuple(h for h in with_it if h.state != "in_doubt"), doubt=doubt)


def _serves(fact: Start, replies: Iterable[tuple[Any, ...]]) -> bool:
    return any(
        answerer in fact.accept and (run == fact.run or not (private or fact.fresh))
        for answerer, run, private in replies
    )


def _attempt_row(number: int, fact: Start, doubt: tuple[Holder, ...]) -> tuple[Any, ...]:
    """What it may pay a second time is counted once, by the first that repeats it."""
    first = {holder.attempt: holder.reserved for holder in doubt if not holder.again}
    return (
        number, fact.run, fact.step, fact.session, fact.member, fact.answerer, "started",
        _encode(fact.ids), fact.reserved, fact.reserved_tokens, fact.reserved, fact.at, fact.why,
        len(first), sum(first.values()),
    )  # fmt: skip


# ── an end settles, files and concludes ──────────────────────────────────────────────────────


def end(db: sqlite3.Connection, facts: list[End]) -> list[tuple[int, ...]]:
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
        if not fact.attempt and len(landed) == 1 and landed[0].private and endings:
            outcomes.append(_outcome_with_reply(fact.run, endings[0], landed[0]))
            answers.append((0,))
            continue
        next_no = next_no or _next_reply(db)
        rows = tuple(range(next_no, next_no + len(landed)))
        next_no += len(landed)
        for no, one in zip(rows, landed, strict=True):
            replies.append(_reply_row(db, no, fact.run, fact.at, one))
        outcomes.extend([_outcome(fact.run, ending, rows) for ending in endings])
        answers.append(rows)
    bulk.put(db, "insert into replies", replies)
    _put_outcomes(db, outcomes)
    _count_unplaced(db, facts)
    return answers


def _count_unplaced(db: sqlite3.Connection, facts: list[End]) -> None:
    """Calls that have neither an attempt nor an outcome of their own are counted here."""
    calls = [(f.run, f.unplaced, f.landed[0].member) for f in facts if f.unplaced is not None]
    if calls:
        db.executemany(
            "insert into unplaced values (?,?,?,1)"
            " on conflict do update set calls = calls + 1", calls,
        )  # fmt: skip


def _put_outcomes(db: sqlite3.Connection, rows: list[tuple[Any, ...]]) -> None:
    """An item that does not pass a step leaves the flow there. What an earlier invocation, with
    another gate, had of it at later steps counts no more."""
    bulk.put(db, "insert or replace into outcomes", rows)
    left = [row[:4] for row in rows if row[4] != "passed"]
    if left:
        db.executemany(
            "delete from outcomes where run = ? and batch = ? and position = ? and step > ?", left
        )


def _next_reply(db: sqlite3.Connection) -> int:
    number: int = db.execute("select coalesce(max(no), 0) + 1 from replies").fetchone()[0]
    return number


def _settle(db: sqlite3.Connection, facts: list[End]) -> None:
    """A reply settles all doubt about its key. An error lets go of the attempt's own claim only."""
    spending.settle(db, facts)
    rows = []
    for f in facts:
        u = f.usage or _NONE
        rows.append(
            (f.attempt, f.state, f.cost, u.input, u.output, u.cache_read, u.cache_write, f.at,
             f.error, f.tokens, f.unusable, f.bound, f.took)
        )  # fmt: skip
    bulk.put(db, _SETTLE, rows, ") as v where attempts.no = v.column1")
    landed = [(key, f.answerer) for f in facts if f.state == "ok" for key in f.released]
    bulk.put(db, "delete from claims where (key, answerer) in (", landed, ")")
    failed = [(k, f.answerer, f.attempt) for f in facts if f.state != "ok" for k in f.released]
    bulk.put(db, "delete from claims where (key, answerer, attempt) in (", failed, ")")


def _reply_row(
    db: sqlite3.Connection, no: int, run: int, at: float, landed: Landed
) -> tuple[Any, ...]:
    body, blob = _payload(db, landed)
    private = int(landed.private)
    columns = (no, landed.key, landed.answerer, landed.member, run, private, landed.cost)
    crc = reply_crc(columns, body, blob)
    return (
        no, key8(landed.key), landed.key, landed.answerer, landed.member, run, private,
        body, blob, landed.cost, at, crc,
    )  # fmt: skip


def reply_crc(columns: tuple[Any, ...], body: bytes | None, blob: bytes | None) -> int:
    """`columns` are number, key, answerer, member, run, private (0 or 1) and cost."""
    return checksum.of(*columns, payload=blob if body is None else body)


def _payload(db: sqlite3.Connection, landed: Landed) -> tuple[bytes | None, bytes | None]:
    """Large payloads are kept once, by their hash."""
    body = _encode(landed.reply)
    if len(body) <= LARGE:
        return body, None
    blob = digest(body)
    db.execute("insert or replace into blobs values (?,?)", (blob, body))  # over a damaged one
    return None, blob


def file_again(db: sqlite3.Connection, run: int, batch: int) -> None:
    """Replies that stand with their outcomes move under their keys, so that they are found again.
    One that is damaged stays damaged there."""
    rows = db.execute(
        "select key, answerer, member, cost, body, body_crc from outcomes"
        " where run = ? and batch = ? and body is not null", (run, batch),
    ).fetchall()  # fmt: skip
    next_no = _next_reply(db)
    replies = []
    for no, (key, answerer, member, cost, body, body_crc) in enumerate(rows, next_no):
        crc = reply_crc((no, key, answerer, member, run, 1, cost), body, None)
        sound = checksum.holds(body_crc, payload=body)
        replies.append((no, key8(key), key, answerer, member, run, 1, body, None, cost, 0.0,
                        crc if sound else crc ^ 1))  # fmt: skip
    bulk.put(db, "insert into replies", replies)


def _outcome(run: int, ending: Ending, rows: tuple[int, ...]) -> tuple[Any, ...]:
    reply = rows[ending.landed] if ending.landed >= 0 else ending.reply or None
    reasons = _encode(ending.reasons).decode() if ending.reasons else None
    return outcome_row(
        (run, ending.batch, ending.position, ending.step, ending.state, reply, reasons,
         ending.member, ending.cost, ending.calls, None, None), None,
    )  # fmt: skip


def outcome_row(head: tuple[Any, ...], body: bytes | None) -> tuple[Any, ...]:
    body_crc = None if body is None else checksum.of(payload=body)
    return (*head, body, checksum.of(*head, body_crc), body_crc)


def _outcome_with_reply(run: int, ending: Ending, landed: Landed) -> tuple[Any, ...]:
    reasons = _encode(ending.reasons).decode() if ending.reasons else None
    return outcome_row(
        (run, ending.batch, ending.position, ending.step, ending.state, None, reasons,
         ending.member, ending.cost, ending.calls, landed.key, landed.answerer),
        _encode(landed.reply),
    )  # fmt: skip


def ended(db: sqlite3.Connection, facts: list[Ended]) -> list[None]:
    rows = [_outcome(fact.run, ending, ()) for fact in facts for ending in fact.endings]
    _put_outcomes(db, rows)
    return [None] * len(facts)


# ── what went wrong ──────────────────────────────────────────────────────────────────────────


def failed(db: sqlite3.Connection, facts: list[Failed]) -> list[None]:
    bulk.put(
        db,
        "insert into attempts (run, step, session, member, answerer, state, ids, reserved,"
        " tokens, cost, started, ended, error, why, took)",
        [
            (f.run, f.step, f.session, f.member, f.answerer, "error", _encode(f.ids), 0, 0, 0,
             f.at, f.at, f.error, "", 0.0)
            for f in facts
        ],
    )  # fmt: skip
    return [None] * len(facts)


def discard(db: sqlite3.Connection, facts: list[Discard]) -> list[None]:
    """The row stays, so that its number is not given to another; it answers no key any more."""
    for fact in facts:
        db.execute("update replies set key8 = 0, key = x'', private = 1 where no = ?", (fact.row,))
    return [None] * len(facts)


def unclaim(db: sqlite3.Connection, facts: list[Unclaim]) -> list[None]:
    for fact in facts:
        mine = [
            number
            for _, answerer, number, session, state, _, _ in bulk.among(db, _HOLDERS, fact.keys)
            if (answerer, session, state) == (fact.answerer, fact.session, "started")
            and number != fact.beside
        ]
        spending.release(db, mine)
        for number in dict.fromkeys(mine):
            db.execute(
                "update attempts set state = 'error', cost = 0, tokens = 0, ended = ?,"
                " error = 'cancelled before it was sent' where no = ?",
                (fact.at, number),
            )
            rows = [(key, fact.answerer, number) for key in fact.keys]
            bulk.put(db, "delete from claims where (key, answerer, attempt) in (", rows, ")")
    return [None] * len(facts)


def lose(db: sqlite3.Connection, facts: list[Lose]) -> list[None]:
    for fact in facts:
        spending.lose(db, fact.attempts)
        db.executemany(
            "update attempts set state = 'in_doubt', bound = 1, ended = ?, error = 'the process died'"
            " where no = ? and state = 'started'",
            [(fact.at, number) for number in fact.attempts],
        )
    return [None] * len(facts)
