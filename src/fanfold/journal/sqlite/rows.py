"""How each fact becomes rows. Runs inside the writer's transaction; answers in the facts' order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from fanfold.journal.facts import (
    AddRun,
    AdoptAttempts,
    AnswerOrder,
    BeginJudging,
    CloseRun,
    CopyRows,
    DeclareCascade,
    DiscardReply,
    DropBatch,
    DropRun,
    EndAttempt,
    EndItems,
    EndJudging,
    Fact,
    GiveOrder,
    Heartbeat,
    KeepPrompt,
    LoseAttempts,
    NameStep,
    NoteWaits,
    PlanBatch,
    PlanItems,
    RecordFailure,
    ReleaseClaims,
    RemoveRuns,
    ReopenRun,
    StartAttempt,
)
from fanfold.journal.kept import KeepContent
from fanfold.journal.sqlite import attempts, bulk, checksum, orphans, removal, shares, submissions
from fanfold.journal.sqlite.bulk import Database
from fanfold.journal.sqlite.read_tables import TABLES
from fanfold.journal.submissions import NoteSubmission, SubmitBatch

_ITEMS = bulk.upsert("items", "run, batch, position, id, hash, crc", 3)
_BATCHES = bulk.upsert("batches", "run, no, name, fingerprint, size, last_step", 2)
_encode = msgspec.json.Encoder().encode


def apply(db: Database, facts: Sequence[Fact]) -> list[Any]:
    """Facts of one kind go in together, as one statement each; kinds keep their first order."""
    if len(facts) == 1:
        return _APPLY[type(facts[0])](db, list(facts))
    kinds: dict[type, list[int]] = {}
    for n, fact in enumerate(facts):
        kinds.setdefault(type(fact), []).append(n)
    if len(kinds) == 1:
        return _APPLY[type(facts[0])](db, list(facts))
    answers: list[Any] = [None] * len(facts)
    for kind, places in kinds.items():
        given = _APPLY[kind](db, [facts[n] for n in places])
        for n, answer in zip(places, given, strict=True):
            answers[n] = answer
    return answers


# ── runs and what they planned ───────────────────────────────────────────────────────────────


def _add_run(db: Database, facts: list[AddRun]) -> list[int]:
    numbers = []
    for fact in facts:
        r = fact.record
        if fact.shared and shares.is_led(db, fact):
            numbers.append(0)
            continue
        number = next_number(db, "runs")
        db.execute(
            "insert into runs (no, id, name, status, reason, created, ended, session, plan, folder,"
            " budget, parent, tags, first_attempt) values (?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
            (number, r.id, r.name, r.status, r.reason, r.created, r.ended, r.session, r.plan, r.folder,
             r.budget, r.parent, _encode(r.tags).decode(), next_number(db, "attempts")),
        )  # fmt: skip
        numbers.append(number)
        if fact.shared:
            shares.lead(db, number, r.session, anew=True)
        checksum.sum_up_run(db, number)
    return numbers


def next_number(db: Database, table: str) -> int:
    number: int = db.execute(f"select coalesce(max(no), 0) + 1 from {table}").fetchone()[0]
    return number


def _reopen_run(db: Database, facts: list[ReopenRun]) -> list[bool]:
    taken = []
    for f in facts:
        changed = db.execute(
            "update runs set status = 'running', reason = null, cause = null, ended = null,"
            " session = ?, budget = ?, active = active + ?, plan = coalesce(?, plan)"
            " where no = ? and session = ?",
            (f.session, f.budget, f.active, f.plan, f.run, f.before),
        ).rowcount
        taken.append(changed == 1)
        if changed:
            checksum.sum_up_run(db, f.run)
            _drop_outcomes(db, f)
            if f.shared:
                shares.lead(db, f.run, f.session, anew=False)
            else:
                shares.close(db, f.run)
            _booked(db, f.run)
    return taken


def _drop_outcomes(db: Database, f: ReopenRun) -> None:
    if not f.keep:
        db.execute(
            "delete from outcomes where run = ? and state in ('unfunded', 'cancelled', 'in_doubt')",
            (f.run,),
        )
    of_item = (
        "from outcomes where run = ?1 and (batch, position) in"
        " (select batch, position from items where run = ?1 and id = ?2)"
    )
    for id in f.anew:  # of what only the outcome counted, the calls were made all the same
        calls = (
            f"select step, member, sum(calls) {of_item} and body is not null group by step, member"
        )
        found = db.execute(calls, (f.run, id)).fetchall()
        attempts.add_unplaced(db, [(f.run, step, who, int(many)) for step, who, many in found])
        db.execute(f"delete {of_item}", (f.run, id))


def _end_the_rest(db: Database, f: CloseRun) -> None:
    """Every planned item has an outcome: those that did not leave the flow get one now."""
    assert f.rest is not None
    reasons = _encode([f.reason or f.status]).decode()
    db.execute(
        "insert into outcomes (run, batch, position, step, state, reasons, cost, calls, crc)"
        f" select i.run, i.batch, i.position, b.last_step, ?, ?, 0, 0, ? + {checksum.PLACE} from items i"
        " join batches b on b.run = i.run and b.no = i.batch"
        " where i.run = ? and not exists (select 1 from outcomes o where o.run = i.run"
        " and o.batch = i.batch and o.position = i.position"
        " and (o.step = b.last_step or o.state <> 'passed'))",
        (f.rest, reasons, checksum.of_rest(f.run, f.rest, reasons), f.run),
    )


def _close_run(db: Database, facts: list[CloseRun]) -> list[bool]:
    return [_close_one(db, f) for f in facts]


def _close_one(db: Database, f: CloseRun) -> bool:
    whose = "select 1 from runs where no = ? and session = ?"
    if f.session is None or db.execute(whose, (f.run, f.session)).fetchone():
        if f.rest is not None:
            _end_the_rest(db, f)
        db.execute(
            "update runs set status = ?, reason = ?, ended = ?, active = active + ?, result = ?,"
            " cause = ? where no = ?",
            (
                f.status,
                f.reason,
                f.at,
                f.active,
                f.result,
                None if f.cause is None else _encode(f.cause).decode(),
                f.run,
            ),
        )
        _booked(db, f.run)
        shares.close(db, f.run)
        if f.session is None:  # its own process closes it: no gate has ended that
            mine = "session = (select session from runs where no = ?1)"
            db.execute(f"delete from judging where run = ?1 and {mine}", (f.run,))
        checksum.sum_up_run(db, f.run)
        return True
    return False


def _drop_run(db: Database, facts: list[DropRun]) -> list[None]:
    for fact in facts:
        for table in ("steps", "unplaced", "sums", *removal.TABLES):
            db.execute(f"delete from {table} where run = ?", (fact.run,))
        db.execute("delete from runs where no = ?", (fact.run,))
    return [None] * len(facts)


def _drop_batch(db: Database, facts: list[DropBatch]) -> list[None]:
    for f in facts:
        attempts.file_again(db, f.run, f.no)
        db.execute("delete from items where run = ? and batch = ?", (f.run, f.no))
        db.execute("delete from outcomes where run = ? and batch = ?", (f.run, f.no))
        db.execute("delete from batches where run = ? and no = ?", (f.run, f.no))
    return [None] * len(facts)


def _heartbeat(db: Database, facts: list[Heartbeat]) -> list[None]:
    into, after = bulk.upsert("beats", "run, active", 1)
    bulk.put(db, into, list({f.run: f.active for f in facts}.items()), after)
    return [None] * len(facts)


def _booked(db: Database, run: int) -> None:
    """The run has the active time of its last process now, and nothing of it waits."""
    db.execute("delete from beats where run = ?", (run,))
    db.execute("delete from waits where run = ?", (run,))


def _note_waits(db: Database, facts: list[NoteWaits]) -> list[None]:
    into, after = bulk.upsert("waits", "run, at, waits", 1)
    rows = {f.run: (f.run, f.at, _encode(f.waits)) for f in facts}
    bulk.put(db, into, list(rows.values()), after)
    return [None] * len(facts)


def _name_step(db: Database, facts: list[NameStep]) -> list[None]:
    db.executemany(
        "insert into steps (run, no, name, note) values (?,?,?,?) on conflict (run, no)"
        " do update set note = excluded.note where excluded.note != ''",
        [(f.run, f.no, f.name, f.note) for f in facts],
    )
    return [None] * len(facts)


def _plan_items(db: Database, facts: list[PlanItems]) -> list[None]:
    for fact in facts:
        for at in range(0, len(fact.rows), bulk.MOST):
            some = [(*row, checksum.of(*row)) for row in fact.rows[at : at + bulk.MOST]]
            bulk.put(db, _ITEMS[0], some, _ITEMS[1])
    return [None] * len(facts)


def _keep_prompt(db: Database, facts: list[KeepPrompt]) -> list[None]:
    first = next_number(db, "prompts")
    rows = [
        (f.run, f.step, id, f.member, key, f.messages)
        for f in facts
        for id, key in zip(f.ids, f.keys, strict=True)
    ]
    numbered = [(no, *row) for no, row in enumerate(rows, first)]
    bulk.put(db, "insert into prompts (no, run, step, id, member, key, messages)", numbered)
    return [None] * len(facts)


def _keep_content(db: Database, facts: list[KeepContent]) -> list[None]:
    contents = [(fact.hash, fact.content) for fact in facts if fact.content]
    for one in contents:
        bulk.put(db, attempts.BLOBS[0], [one], attempts.BLOBS[1])
    rows = [(fact.run, fact.name, fact.hash) for fact in facts]
    bulk.put(db, "insert into attached (run, name, hash)", rows, "on conflict do nothing")
    return [None] * len(facts)


def _copy_rows(db: Database, facts: list[CopyRows]) -> list[None]:
    for fact in facts:
        columns, key = TABLES[fact.table]
        into, after = bulk.upsert(fact.table, columns, key)
        bulk.put(db, into, fact.rows, after)
    return [None] * len(facts)


def _plan_batch(db: Database, facts: list[PlanBatch]) -> list[None]:
    for f in facts:
        row = (f.run, f.no, f.name, f.fingerprint, f.size, f.last_step)
        bulk.put(db, _BATCHES[0], [row], _BATCHES[1])
    return [None] * len(facts)


def _declare_cascade(db: Database, facts: list[DeclareCascade]) -> list[None]:
    db.executemany(
        "insert into cascades (run, step, members, price) values (?,?,?,?) on conflict do nothing",
        [(f.run, f.step, _encode(f.members).decode(), _encode(f.price).decode()) for f in facts],
    )
    return [None] * len(facts)


def _begin_judging(db: Database, facts: list[BeginJudging]) -> list[None]:
    rows = [(fact.run, key, fact.session) for fact in facts for key in dict.fromkeys(fact.keys)]
    sealed = [(*row, checksum.of(*row)) for row in rows]
    bulk.put(db, "insert into judging (run, key, session, crc)", sealed, "on conflict do nothing")
    return [None] * len(facts)


def _end_judging(db: Database, facts: list[EndJudging]) -> list[None]:
    rows = [(fact.run, fact.key) for fact in facts]
    bulk.put(db, "delete from judging where (run, key) in (", rows, ")")
    return [None] * len(facts)


def _give_order(db: Database, facts: list[GiveOrder]) -> list[int]:
    numbers = []
    for f in facts:
        numbers.append(next_number(db, "orders"))
        db.execute(
            "insert into orders (no, run, at, by, what, value) values (?,?,?,?,?,?)",
            (numbers[-1], f.run, f.at, f.by, f.what, f.value),
        )
    return numbers


def _answer_order(db: Database, facts: list[AnswerOrder]) -> list[bool]:
    answers = []
    for f in facts:
        changed = db.execute(
            "update orders set state = ?, answered = ?, said = ? where no = ? and state = 'given'",
            (f.state, f.at, f.said, f.order),
        ).rowcount
        answers.append(changed == 1)
        if changed and f.budget is not None:
            (run,) = db.execute("select run from orders where no = ?", (f.order,)).fetchone()
            db.execute("update runs set budget = ? where no = ?", (f.budget, run))
            checksum.sum_up_run(db, run)
    return answers


_APPLY: dict[type, Callable[[Database, list[Any]], list[Any]]] = {
    AddRun: _add_run,
    ReopenRun: _reopen_run,
    CloseRun: _close_run,
    DropRun: _drop_run,
    RemoveRuns: removal.remove,
    Heartbeat: _heartbeat,
    NoteWaits: _note_waits,
    NameStep: _name_step,
    DeclareCascade: _declare_cascade,
    PlanItems: _plan_items,
    PlanBatch: _plan_batch,
    DropBatch: _drop_batch,
    StartAttempt: attempts.start,
    EndAttempt: attempts.end,
    RecordFailure: attempts.record_failure,
    EndItems: attempts.end_items,
    KeepPrompt: _keep_prompt,
    KeepContent: _keep_content,
    CopyRows: _copy_rows,
    ReleaseClaims: attempts.release_claims,
    LoseAttempts: orphans.lose,
    AdoptAttempts: orphans.adopt,
    DiscardReply: attempts.discard_reply,
    BeginJudging: _begin_judging,
    EndJudging: _end_judging,
    GiveOrder: _give_order,
    AnswerOrder: _answer_order,
    SubmitBatch: submissions.submit,
    NoteSubmission: submissions.note,
    **shares.APPLY,
}
