"""How attempts, replies and outcomes become rows. Runs inside the writer's transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from fanfold.journal import decide
from fanfold.journal.answers import Claim, ClaimHolder, QueuedShard
from fanfold.journal.decide import HeldClaim, RecordedReply
from fanfold.journal.facts import (
    DiscardReply,
    EndAttempt,
    EndItems,
    ItemEnding,
    NewReply,
    RecordFailure,
    ReleaseClaims,
    StartAttempt,
)
from fanfold.journal.sqlite import budgets, bulk, checksum, orphans, sealing, sums
from fanfold.journal.sqlite.bulk import Database
from fanfold.work.ask import Usage
from fanfold.work.item import digest
from fanfold.work.split import TakeApart

LARGE = 8192
TIMED = 1 << 32  # added to the checksum of a reply that is also of its time
_encode = msgspec.json.Encoder().encode
_NONE = Usage()
_NOT_REPEATED = (0, 0)

_ATTEMPT = (
    "insert into attempts (no, run, step, session, member, answerer, ids, reserved, started, why, queue,"
    " hedge_of, shard, unplaced, repeats, repeated, state, tokens, cost, crc, end_crc)"
)
_KNOWN = "select key, answerer, run, private, no from replies where key8 in ({})"
_HOLDERS = (
    "select c.key, c.answerer, a.no, a.session, a.state, a.reserved, a.again from claims c"
    " join attempts a on a.no = c.attempt where c.key in ({})"
)
_REPLIES = "insert into replies (no, key8, key, answerer, member, run, private, reply, blob, cost, at, crc)"
_OUTCOMES = bulk.upsert(
    "outcomes",
    "run, batch, position, step, state, reply, reasons, member, cost, calls, key, answerer, body, crc,"
    " body_crc, by_parent",
    4,
)
BLOBS = bulk.upsert("blobs", "hash, data", 1)
_SETTLE = (
    "update attempts set state = v.column2, cost = v.column3, input = v.column4,"
    " output = v.column5, cache_read = v.column6, cache_write = v.column7, ended = v.column8,"
    " error = v.column9, tokens = v.column10, unusable = v.column11, bound = v.column12,"
    " lost = v.column14, shared = v.column15, saved = v.column16, end_crc = v.column17,"
    " took = coalesce(cast(v.column13 as double precision), max(0, v.column8 - started)) from ("
)
_SETTLE_OWN = (
    "delete from claims where key = ? and answerer = ? and attempt in"
    " (select no from attempts where run = ? and state <> 'started')"
)
_OPEN = "exists (select 1 from attempts a where a.no = claims.attempt and a.state = 'started')"


def key8(key: bytes) -> int:
    return int.from_bytes(key[:8], "big", signed=True)


# ── a start claims its keys ──────────────────────────────────────────────────────────────────


def start(db: Database, facts: list[StartAttempt]) -> list[Claim]:
    """All starts of a group at once: look who has the keys, then claim the free ones."""
    keys = [key for fact in facts for key in fact.keys]
    number: int = db.execute("select coalesce(max(no), 0) from attempts").fetchone()[0]
    replies: dict[bytes, list[RecordedReply]] = {}
    for key, *rest in bulk.among(db, _KNOWN, map(key8, keys)):
        replies.setdefault(key, []).append(RecordedReply(*rest))
    holders, spending = _holders(db, keys), budgets.spending_over(db, facts)
    claims: list[Claim] = []
    attempts: list[tuple[Any, ...]] = []
    claimed: list[tuple[bytes, str, int, int]] = []
    granted: list[tuple[StartAttempt, tuple[int, int]]] = []
    for f in facts:
        limits = () if spending is None else spending.limits(f)
        claims.append(claim := decide.claim(f, number + 1, replies, holders, limits))
        if claim.attempt:
            number = claim.attempt
            again = _repeated(db, f, claim) if claim.doubt or f.discards else _NOT_REPEATED
            granted.append((f, again))
            attempts.append(_started(number, f, again))
            claimed += [
                (key, f.answerer, number, checksum.of(key, f.answerer, number))
                for key in dict.fromkeys(f.keys)
            ]
    if spending is not None:
        spending.put([fact for fact, _ in granted])
    bulk.put(db, _ATTEMPT, attempts)
    sums.start(db, granted)
    bulk.put(db, "insert into claims (key, answerer, attempt, crc)", claimed)
    _note_repetitions(db, claims)
    return claims


def _note_repetitions(db: Database, claims: list[Claim]) -> None:
    """`again` is the attempt that repeats one in doubt: the first that was sent, as that is counted."""
    by: dict[int, int] = {}
    for claim in claims:
        if claim.attempt:
            for holder in claim.doubt:
                if not holder.again:
                    by.setdefault(holder.attempt, claim.attempt)
    if by:
        with sealing.changing(db, by):
            db.executemany(
                "update attempts set again = ? where no = ?", [(n, no) for no, n in by.items()]
            )


def _started(number: int, f: StartAttempt, again: tuple[int, int]) -> tuple[Any, ...]:
    begun = (
        number, f.run, f.step, f.session, f.member, f.answerer, _encode(f.ids), f.reserved, float(f.at),
        f.why, f.queue, f.beside or None, None if f.apart is None else _shard(f.keys, f.apart),
        int(f.unplaced), *again,
    )  # fmt: skip
    state = ("started", f.reserved_tokens, f.reserved)
    end_crc = checksum.of(number, *state, *sealing.NOT_ENDED)
    return (*begun, *state, checksum.of(*begun, *sealing.NOT_YET), end_crc)


def _shard(keys: tuple[bytes, ...], apart: TakeApart) -> str:
    return _encode(QueuedShard(keys, apart)).decode()


def _repeated(db: Database, fact: StartAttempt, claim: Claim) -> tuple[int, int]:
    """How many calls that may have been paid it repeats, and what they may have cost."""
    calls, cost = decide.repeated(claim.doubt)
    damaged = sum([discard(db, row) for row in fact.discards])
    return calls + damaged, cost + (fact.reserved if damaged else 0)


def discard(db: Database, row: int) -> int:
    """The row stays, so that its number is not given to another; it answers no key any more. 0: it
    did so before."""
    gone = "update replies set key8 = 0, key = x'', private = 1 where no = ? and key <> x''"
    return int(db.execute(gone, (row,)).rowcount)


def _holders(db: Database, keys: Iterable[bytes]) -> dict[bytes, list[HeldClaim]]:
    found: dict[bytes, list[HeldClaim]] = {}
    for key, answerer, *rest in bulk.among(db, _HOLDERS, keys):
        found.setdefault(key, []).append(HeldClaim(answerer, ClaimHolder(key, *rest)))
    return found


# ── an end settles, files and concludes ──────────────────────────────────────────────────────


def end(db: Database, facts: list[EndAttempt]) -> list[tuple[int, ...]]:
    """Settles attempts, files replies under their keys, and writes outcomes. Answers reply rows."""
    metered = [fact for fact in facts if fact.attempt]
    if metered:
        _settle(db, metered)
    replies: list[tuple[Any, ...]] = []
    outcomes: list[tuple[Any, ...]] = []
    answers: list[tuple[int, ...]] = []
    unplaced: list[tuple[int, int, str]] = []
    next_no = 0
    for fact in facts:
        landed, endings = fact.landed, fact.endings
        if fact.unplaced is not None:
            unplaced.append((fact.run, fact.unplaced, landed[0].member))
        if not fact.attempt and len(landed) == 1 and landed[0].private and endings:
            outcomes.append(_outcome(fact.run, endings[0], (), landed[0]))
            answers.append((0,))
            continue
        next_no = next_no or _next_reply(db)
        rows = tuple(range(next_no, next_no + len(landed)))
        next_no += len(landed)
        for no, one in zip(rows, landed, strict=True):
            replies.append(_reply_row(db, no, fact.run, fact.at, one))
        outcomes.extend([_outcome(fact.run, ending, rows) for ending in endings])
        answers.append(rows)
    bulk.put(db, _REPLIES, replies)
    _put_outcomes(db, outcomes)
    add_unplaced(db, [(*one, 1) for one in unplaced])
    return answers


def add_unplaced(db: Database, calls: Sequence[tuple[int, int, str, int]]) -> None:
    """By run, step and member: calls that have neither an attempt nor an outcome of their own."""
    if calls:
        db.executemany(
            "insert into unplaced (run, step, member, calls, checked) values (?,?,?,?,?)"
            " on conflict (run, step, member) do update set calls = unplaced.calls + excluded.calls,"
            " checked = unplaced.checked + excluded.calls",
            [(*key, many, checksum.of(*key) + many) for *key, many in calls],
        )


def _put_outcomes(db: Database, rows: list[tuple[Any, ...]]) -> None:
    """An item that does not pass a step leaves the flow there. What an earlier invocation, with
    another gate, had of it at later steps counts no more."""
    last = rows if len(rows) == 1 else list({row[:4]: row for row in rows}.values())
    bulk.put(db, _OUTCOMES[0], last, _OUTCOMES[1])
    left = [row[:4] for row in rows if row[4] != "passed"]
    if left:
        db.executemany(
            "delete from outcomes where run = ? and batch = ? and position = ? and step > ?", left
        )


def _next_reply(db: Database) -> int:
    number: int = db.execute("select coalesce(max(no), 0) + 1 from replies").fetchone()[0]
    return number


def _settle(db: Database, facts: list[EndAttempt]) -> None:
    """A reply settles all doubt about its key; one that is private, that of its own run. An error releases
    the attempt's own claim only. What is still in progress keeps its claim, by which it is found when its
    process dies."""
    monthly = {f.attempt: f.cost for f in facts if f.monthly}
    if monthly:
        budgets.settle(db, monthly)
    rows = []
    for f in facts:
        u = f.usage or _NONE
        at, bound, took = float(f.at), int(f.bound), None if f.took is None else float(f.took)
        crc = checksum.of(
            f.attempt, f.state, f.tokens, f.cost, u.input, u.output, u.cache_read, u.cache_write, at,
            f.error, f.unusable, bound, took, f.lost, f.shared, f.saved,
        )  # fmt: skip
        rows.append(
            (f.attempt, f.state, f.cost, u.input, u.output, u.cache_read, u.cache_write, at,
             f.error, f.tokens, f.unusable, bound, took, f.lost, f.shared, f.saved, crc)
        )  # fmt: skip
    numbers = {f.attempt: f.lost for f in facts}
    sums.take(db, numbers)
    bulk.put(db, _SETTLE, rows, ") as v where attempts.no = v.column1")
    sealing.seal_ends(db, [f.attempt for f in facts if f.took is None])
    for number, lost in numbers.items():
        if lost == "unsent":
            orphans.not_repeated(db, number)
    sums.add(db, numbers)
    landed, own = list[tuple[bytes, str]](), list[tuple[bytes, str, int]]()
    for f in facts:
        if f.state == "ok" and f.released:
            private = any(one.private for one in f.landed)
            own += [(key, f.answerer, f.run) for key in f.released if private]
            landed += [(key, f.answerer) for key in f.released if not private]
    bulk.put(db, "delete from claims where (key, answerer) in (", landed, f") and not {_OPEN}")
    if own:
        db.executemany(_SETTLE_OWN, own)
    failed = [(k, f.answerer, f.attempt) for f in facts if f.state != "ok" for k in f.released]
    bulk.put(db, "delete from claims where (key, answerer, attempt) in (", failed, ")")


def _reply_row(db: Database, no: int, run: int, at: float, landed: NewReply) -> tuple[Any, ...]:
    """Large payloads are kept once, by their hash."""
    body: bytes | None = _encode(landed.reply)
    blob = None
    assert body is not None
    if len(body) > LARGE:
        blob = digest(body)
        bulk.put(db, BLOBS[0], [(blob, body)], BLOBS[1])  # over one that may be damaged
        body = None
    private, at = int(landed.private), float(at)
    columns = (no, landed.key, landed.answerer, landed.member, run, private, landed.cost)
    crc = reply_crc(columns, body, blob, at)
    return (
        no, key8(landed.key), landed.key, landed.answerer, landed.member, run, private,
        body, blob, landed.cost, at, crc,
    )  # fmt: skip


def reply_crc(
    columns: tuple[Any, ...], body: bytes | None, blob: bytes | None, at: float | None
) -> int:
    """`columns` are number, key, answerer, member, run, private (0 or 1) and cost. `at`: when it came; None
    for the checksum of earlier versions, which was not of that."""
    payload = blob if body is None else body
    if at is None:
        return checksum.of(*columns, payload=payload)
    return TIMED + checksum.of(*columns, at, payload=payload)


def file_again(db: Database, run: int, batch: int) -> None:
    """Replies that are stored with their outcomes move under their keys, so that they are found again.
    One that is damaged stays damaged there."""
    rows = db.execute(
        "select key, answerer, member, cost, body, body_crc from outcomes"
        " where run = ? and batch = ? and body is not null", (run, batch),
    ).fetchall()  # fmt: skip
    next_no = _next_reply(db)
    replies = []
    for no, (key, answerer, member, cost, body, body_crc) in enumerate(rows, next_no):
        crc = reply_crc((no, key, answerer, member, run, 1, cost), body, None, 0.0)
        sound = checksum.holds(body_crc, payload=body)
        replies.append((no, key8(key), key, answerer, member, run, 1, body, None, cost, 0.0,
                        crc if sound else crc ^ 1))  # fmt: skip
    bulk.put(db, _REPLIES, replies)


def _outcome(
    run: int, ending: ItemEnding, rows: tuple[int, ...], kept: NewReply | None = None
) -> tuple[Any, ...]:
    """`kept`: a reply that is stored with its outcome."""
    reply = rows[ending.landed] if ending.landed >= 0 and rows else ending.reply or None
    reasons = _encode(ending.reasons).decode() if ending.reasons else None
    key = answerer = body = body_crc = None
    if kept is not None:
        key, answerer, body, reply = kept.key, kept.answerer, _encode(kept.reply), None
        body_crc = checksum.of_payload(body)
    head = (
        run, ending.batch, ending.position, ending.step, ending.state, reply, reasons,
        ending.member, ending.cost, ending.calls, key, answerer,
    )  # fmt: skip
    by_parent = int(ending.by_parent)
    return (*head, body, checksum.of_outcome(head, body_crc, by_parent), body_crc, by_parent)


def end_items(db: Database, facts: list[EndItems]) -> list[None]:
    rows = [_outcome(fact.run, ending, ()) for fact in facts for ending in fact.endings]
    _put_outcomes(db, rows)
    return [None] * len(facts)


# ── what went wrong ──────────────────────────────────────────────────────────────────────────


def record_failure(db: Database, facts: list[RecordFailure]) -> list[int]:
    last: int = db.execute("select coalesce(max(no), 0) from attempts").fetchone()[0]
    numbers = list(range(last + 1, last + 1 + len(facts)))
    bulk.put(
        db,
        "insert into attempts (no, run, step, session, member, answerer, state, ids, reserved,"
        " tokens, cost, started, ended, error, why, took)",
        [
            (no, f.run, f.step, f.session, f.member, f.answerer, "error", _encode(f.ids), 0, 0, 0,
             f.at, f.at, f.error, "", 0.0)
            for no, f in zip(numbers, facts, strict=True)
        ],
    )  # fmt: skip
    sealing.seal(db, numbers)
    sums.add(db, numbers)
    return numbers


def discard_reply(db: Database, facts: list[DiscardReply]) -> list[None]:
    for fact in facts:
        discard(db, fact.row)
    return [None] * len(facts)


def release_claims(db: Database, facts: list[ReleaseClaims]) -> list[tuple[int, ...]]:
    answers = []
    for fact in facts:
        mine = {
            held.holder.attempt: None
            for claims in _holders(db, fact.keys).values()
            for held in claims
            if (held.answerer, held.holder.session) == (fact.answerer, fact.session)
            and held.holder.state == "started"
            and held.holder.attempt != fact.beside
        }
        budgets.release(db, mine)
        sums.take(db, mine)
        with sealing.changing(db, mine):
            db.executemany(
                "update attempts set state = 'error', cost = 0, tokens = 0, ended = ?,"
                " error = 'cancelled before it was sent', lost = 'cancelled' where no = ?",
                [(fact.at, number) for number in mine],
            )
        sums.add(db, mine)
        for number in mine:
            rows = [(key, fact.answerer, number) for key in fact.keys]
            bulk.put(db, "delete from claims where (key, answerer, attempt) in (", rows, ")")
        answers.append(tuple(mine))
    return answers
