"""Attempts whose process died: they are in doubt, were never sent, or another process adopts them."""

from __future__ import annotations

from fanfold.journal.facts import UNSENT, AdoptAttempts, LoseAttempts
from fanfold.journal.sqlite import budgets, bulk, sealing, sums
from fanfold.journal.sqlite.bulk import Database

_REPEATED_BY = (
    "select no from attempts where again = ? and no < ? and state = 'in_doubt'"
    " and no in (select attempt from claims)"
)


def lose(db: Database, facts: list[LoseAttempts]) -> list[None]:
    for fact in facts:
        left = "select no, session, submission from attempts where no in ({})"
        rows = bulk.among(db, left, {*fact.unsent, *fact.attempts})
        dead, all_lost = set(fact.sessions), set(fact.attempts)
        rows = [row for row in rows if not dead or row[1] in dead]
        numbers = {row[0] for row in rows}
        sums.take(db, numbers)
        if unsent := tuple(number for number in fact.unsent if number in numbers):
            _refund(db, unsent, fact.at)
        lost = [no for no, _, submission in rows if submission == 0 and no in all_lost]
        budgets.lose(db, lost)
        with sealing.changing(db, lost):
            db.executemany(
                "update attempts set state = 'in_doubt', bound = 1, ended = ?,"
                " error = 'the process died', lost = 'died' where no = ? and state = 'started'",
                [(fact.at, number) for number in lost],
            )
        sums.add(db, numbers)
    return [None] * len(facts)


def _refund(db: Database, numbers: tuple[int, ...], at: float) -> None:
    """Started, and surely never sent."""
    started = "select no from attempts where state = 'started' and no in ({})"
    mine = [no for (no,) in bulk.among(db, started, numbers)]
    budgets.release(db, mine)
    for number in mine:
        with sealing.changing(db, [number]):
            db.execute(
                "update attempts set state = 'error', cost = 0, tokens = 0, ended = ?, error = ?,"
                " lost = 'unsent' where no = ?",
                (at, UNSENT, number),
            )
        not_repeated(db, number)
        db.execute("delete from claims where attempt = ?", (number,))


def not_repeated(db: Database, number: int) -> None:
    """It would have repeated attempts in doubt, but was not sent. They wait for another that does,
    which is then counted as the one."""
    rows = db.execute(_REPEATED_BY, (number, number)).fetchall()
    waiting = {no for (no,) in rows}
    with sealing.changing(db, {*waiting, number}):
        bulk.among(db, "update attempts set again = 0 where no in ({})", waiting)
        db.execute("update attempts set repeats = 0, repeated = 0 where no = ?", (number,))


def adopt(db: Database, facts: list[AdoptAttempts]) -> list[tuple[int, ...]]:
    numbers = {number for fact in facts for number in fact.attempts}
    sums.take(db, numbers)
    taken = [_adopted(db, fact) for fact in facts]
    sums.add(db, numbers)
    return taken


def _adopted(db: Database, fact: AdoptAttempts) -> tuple[int, ...]:
    taken = []
    for number in fact.attempts:
        budgets.regain(db, number)
        with sealing.changing(db, [number]):
            changed = db.execute(
                "update attempts set state = 'started', session = ?, ended = null, error = null,"
                " bound = 0, lost = '' where no = ? and run = ?"
                " and ((state = 'in_doubt' and again = 0)"
                " or (state = 'started' and submission <> 0 and session <> ?))",
                (fact.session, number, fact.run, fact.session),
            ).rowcount
        if changed:
            taken.append(number)
    return tuple(taken)
