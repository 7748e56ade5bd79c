"""Where a run stands, read from the journal alone: what status, report and watchers are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from fanfold.journal.facts import RunRecord
from fanfold.journal.read import Answered, Open, Reader, Spent
from fanfold.price import dollars
from fanfold.run.receipt import receipt
from fanfold.work.ask import Usage
from fanfold.work.outcome import STATES, Receipt, State

Alive = Callable[[str], bool]
"""Does a session's process live? `Store.alive`."""

Shown = Literal["running", "crashed", "complete", "flagged", "paused", "aborted", "killed"]

DONE: tuple[State, ...] = ("passed", "kicked", "failed", "skipped", "unjudged")
AGAIN: tuple[State, ...] = ("failed", "unjudged", "unfunded", "in_doubt", "cancelled")


class Standing(msgspec.Struct, frozen=True):
    """A run as it is now. `crashed`: its process died, and nobody has resumed it.

    `seconds` are its active ones, with those of the process that runs now or that died, as far as
    the journal can tell. The attempts of a dead process are in doubt, not under way.
    """

    run: RunRecord
    status: Shown
    receipt: Receipt
    seconds: float
    under_way: Open
    in_doubt: Open

    @property
    def done(self) -> int:
        return sum(getattr(self.receipt, state) for state in DONE)

    @property
    def pending(self) -> int:
        """Items that have no lasting outcome; resuming goes on with these."""
        return max(0, self.receipt.planned - self.done)

    @property
    def resumable(self) -> bool:
        """Would resuming it do something?"""
        if self.status in ("running", "complete"):
            return False
        return self.status != "flagged" or any(getattr(self.receipt, state) for state in AGAIN)


def stand(read: Reader, run: RunRecord, alive: Alive, now: float) -> Standing:
    """Look at a run. `now` is the clock's time, for what is still running."""
    lives = run.status == "running" and alive(run.session)
    crashed = run.status == "running" and not lives
    under_way, in_doubt = read.open(run.no, "started"), read.open(run.no, "in_doubt")
    if crashed:
        lost = Open(under_way.attempts + in_doubt.attempts, under_way.at_most + in_doubt.at_most)
        under_way, in_doubt = Open(), lost
    seconds = run.active if run.status != "running" else _active(read, run, now if lives else None)
    shown: Shown = "crashed" if crashed else run.status
    return Standing(run, shown, receipt(read, run), seconds, under_way, in_doubt)


def _active(read: Reader, run: RunRecord, until: float | None) -> float:
    """The earlier processes' time, and that of the last one from its first sign of life on."""
    span = read.span(run.no, run.session)
    start = run.created if not run.active else span[0] if span else None
    end = until if until is not None else span[1] if span else None
    return run.active if start is None or end is None else run.active + max(0.0, end - start)


class MemberAccount(msgspec.Struct, frozen=True):
    """What one member did for a run. `reused`: items answered by its replies to earlier runs."""

    member: str
    calls: int = 0
    answered: int = 0
    reused: int = 0
    errors: int = 0
    in_doubt: int = 0
    tokens: Usage = Usage()
    cost_usd: float = 0.0


def member_accounts(read: Reader, run: RunRecord) -> list[MemberAccount]:
    """By member, the dearest first. Calls of unmetered members have no attempts: they are counted
    from the replies and errors on record, so a reply that was kicked back before a resume is not
    among them."""
    spent, answered = read.by_member(run.no), read.answered(run.no)
    counted = read.free_calls(run.no)
    accounts = []
    for member in {*spent, *answered}:
        s, a = spent.get(member, Spent()), answered.get(member, Answered())
        calls = s.calls if s.calls > s.errors else max(a.new + s.errors, counted.get(member, 0))
        accounts.append(
            MemberAccount(member, calls, a.new + a.earlier, a.earlier, s.errors, s.in_doubt,
                          s.usage, dollars(s.cost))
        )  # fmt: skip
    return sorted(accounts, key=lambda account: (-account.cost_usd, account.member))


def whole_receipt(standing: Standing, accounts: list[MemberAccount]) -> Receipt:
    """The receipt over all invocations: `calls` and `reused` are the whole run's here."""
    return msgspec.structs.replace(
        standing.receipt,
        calls=sum(account.calls for account in accounts),
        reused=sum(account.reused for account in accounts),
        seconds=round(standing.seconds, 3),
    )


def outcomes(account: Receipt) -> list[tuple[State, int]]:
    """The outcomes that occur, in their order."""
    counts: list[tuple[State, int]] = [(state, getattr(account, state)) for state in STATES]
    return [(state, n) for state, n in counts if n]
