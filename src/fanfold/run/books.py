"""What a run has on record and in its accounts, for those who look at it or spend on its behalf."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fanfold.clock import Clock
from fanfold.journal.contract import Store
from fanfold.journal.facts import RunRecord
from fanfold.price import dollars
from fanfold.run.engine import Engine
from fanfold.run.ledger import Sum
from fanfold.run.planning import Batch, Planning
from fanfold.run.pursuit import Pursuit
from fanfold.run.receipt import Tally, receipt
from fanfold.work.outcome import WENT_WRONG, Missing, Part, Receipt
from fanfold.work.task import Budget, Task, Terms


class Statistics(NamedTuple):
    """Where a run stands, for those who watch it. `not_passed`: kicked, failed, unjudged or in
    doubt. Money in nano-dollars."""

    planned: int
    done: int
    in_flight: int
    passed: int
    not_passed: int
    kicked_back: int
    retries: int
    calls: int
    reused: int
    cost: int
    reserved: int
    budget: int | None
    seconds: float


class Books:
    """The side of a run that only tells; `Run` is the one that does."""

    record: RunRecord
    clock: Clock
    _engine: Engine
    _journal: Store
    _planning: Planning
    _began: float

    # ── what is on record ──

    def passed(self, batch: Batch, terms: Terms) -> Iterator[Part]:
        """What passed a step, in planned order, one at a time, from the journal."""
        return self._journal.read.parts(self.record.no, batch.no, self._engine.steps[terms.step].no)

    def behind(self, batch: Batch, terms: Terms) -> Iterator[str]:
        """The ids of what passed a step, in planned order."""
        step = self._engine.steps[terms.step].no
        return self._journal.read.items_behind(self.record.no, batch.no, step)

    def missing(
        self, batch: Batch, terms: Terms, first: int = 0, end: int | None = None
    ) -> Iterator[Missing]:
        """The planned items that did not pass a step, in planned order, each with why; all of them,
        or those at the positions from `first` up to `end`."""
        step = self._engine.steps[terms.step].no
        return self._journal.read.items_missing(self.record.no, batch.no, step, first, end)

    # ── what it takes ──

    def statistics(self) -> Statistics:
        engine, account = self._engine, self._engine.ledger.run
        counts = engine.counts
        return Statistics(
            self._planning.planned, counts.done, engine.limits.in_flight, counts.states["passed"],
            sum(counts.states[state] for state in WENT_WRONG), counts.kicks,
            counts.retries, counts.calls, counts.reused, account.usd, account.reserved_usd,
            account.max_usd, self.clock.monotonic() - self._began,
        )  # fmt: skip

    def load(self) -> dict[str, int]:
        """How many calls are under way, by member; who was not needed so far is not there."""
        return {id: gauge.in_flight for id, gauge in self._engine.limits.gauges.items()}

    def lend(self) -> tuple[Budget, Sum]:
        """All that is left of the budget, for another run that spends on behalf of this one.

        It is reserved here until `repay`; whoever wants to spend meanwhile waits for that.
        """
        account, deadline = self._engine.ledger.run, self._engine.dispatch.deadline
        lent = account.left()
        self._engine.ledger.reserve((account,), lent)
        return Budget.of(
            usd=None if account.max_usd is None else dollars(lent.usd),
            tokens=None if account.max_tokens is None else lent.tokens,
            calls=None if account.max_calls is None else lent.calls,
            seconds=None if deadline is None else max(0.0, deadline - self.clock.monotonic()),
        ), lent

    def repay(self, lent: Sum, spent: Sum) -> None:
        """The other run is over, and took so much. It is on record there, so not in our receipt."""
        self._engine.ledger.settle((self._engine.ledger.run,), lent, spent)
        self._engine.dispatch.poke()

    def receipt(self, tally: Tally | None = None) -> Receipt:
        """The account as it stands; the closing one comes from `close`."""
        record = self._journal.read.find(self.record.id)
        assert record is not None
        return receipt(self._journal.read, record, self._engine.counts, tally)

    @property
    def journal(self) -> Store:
        """To look things up in. A store must not be opened twice by one process."""
        return self._journal

    @property
    def spool(self) -> Path:
        return self._journal.spool()

    def known(self, task: Task) -> bool:
        """Is a reply to this ask on record, so that doing the task begins without a call?"""
        engine = self._engine
        pursuit = Pursuit(engine, task, engine.circle(task.terms.who))
        return bool(engine.recorded(pursuit.ask_keys(), pursuit.circle) or pursuit.recorded_here())

    def room(self, terms: Terms) -> int:
        """How many calls those take at once, all together, who answer as long as they can."""
        circle = self._engine.circle(terms.who)
        return sum(one.traits.limits.concurrency for one in circle.candidates if not one.grade)
