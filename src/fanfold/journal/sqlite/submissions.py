"""Batches that were submitted to the service of a member, as rows: what is in them, and how far they are."""

from __future__ import annotations

from fanfold.journal.sqlite import bulk, sealing
from fanfold.journal.sqlite.bulk import Database
from fanfold.journal.submissions import NoteSubmission, SubmitBatch


def submit(db: Database, facts: list[SubmitBatch]) -> list[int]:
    """The attempts in it are the service's from now on, whatever becomes of our process."""
    numbers = []
    for f in facts:
        row = db.execute("select coalesce(max(no), 0) + 1 from submissions").fetchone()
        number: int = row[0]
        db.execute(
            "insert into submissions (no, run, step, id, member, lines, claimed, due, reading)"
            " values (?,?,?,?,?,?,?,?,?)",
            (number, f.run, f.step, f.id, f.member, len(f.attempts), f.at, f.due, f.reading),
        )
        rows = [(attempt, number) for attempt in f.attempts]
        put = "update attempts set submission = v.column2 from ("
        with sealing.changing(db, f.attempts):
            bulk.put(db, put, rows, ") as v where attempts.no = v.column1")
        numbers.append(number)
    return numbers


def note(db: Database, facts: list[NoteSubmission]) -> list[None]:
    """One that was never sent has no lines: what was to be in it is as if nobody had submitted it."""
    for f in facts:
        db.execute(
            "update submissions set state = ?, at = ?, service = case when ? then ? else service end"
            " where no = ?",
            (f.state, f.at, bool(f.service), f.service, f.submission),
        )
        if f.state == "unsent":
            inside = "select no from attempts where submission = ? and submission <> 0"
            numbers = [no for (no,) in db.execute(inside, (f.submission,)).fetchall()]
            with sealing.changing(db, numbers):
                bulk.among(db, "update attempts set submission = 0 where no in ({})", numbers)
    return [None] * len(facts)
