"""What a run has on record and in its accounts, for those who look at it or spend on its behalf."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from fanfold.clock import Clock
from fanfold.errors import BadInput, StoreError
from fanfold.journal import opening
from fanfold.journal.contract import Store
from fanfold.journal.facts import RunRecord
from fanfold.journal.questions import ReportQuestions
from fanfold.journal.submissions import InBatches
from fanfold.price import dollars
from fanfold.run.context import Context
from fanfold.run.events import RunEvents
from fanfold.run.needs import NeededCalls
from fanfold.run.planning import Batch
from fanfold.run.receipt import Tally, receipt, status_of
from fanfold.run.task_state import TaskState
from fanfold.run.unpaid import CannotPay
from fanfold.run.waiting import waiting_calls
from fanfold.work.budget import Amount
from fanfold.work.member import Traits
from fanfold.work.outcome import WENT_WRONG, Missing, Part, Receipt
from fanfold.work.task import Budget, Task, Terms
from fanfold.work.waiting import WaitingCalls


class Statistics(NamedTuple):
    """Where a run stands, for those who watch it. `not_passed`: kicked, failed, unjudged or in
    doubt. Money in nano-dollars. `held`: why nothing new is sent for now."""

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
    held: str | None = None
    batches: InBatches = InBatches()


class RunFigures:
    """The side of a run that only tells; `Run` is the one that does."""

    record: RunRecord
    clock: Clock
    at_close: list[Callable[[Receipt], None]]
    closing: Receipt | None
    _ctx: Context

    @property
    def needs(self) -> NeededCalls:
        """What is still to be asked, which patterns say, so that second requests leave enough for it."""
        return self._ctx.outcomes.needs

    _flaw: str | None

    @property
    def store(self) -> Store:
        """To look things up in. A store must not be opened twice by one process."""
        return self._ctx.store

    def check_open(self) -> None:
        """Raises BadInput once it is closed."""
        if self.closing is not None:
            raise BadInput(f"{self.record.name} is closed; use a run within its `async with`")

    @contextmanager
    def reading(self) -> Iterator[ReportQuestions]:
        """What is on record, also when the run is closed: then its store is opened once more to read."""
        if self.closing is None:
            yield self.store.read
            return
        view = opening.look(self.store.place)
        try:
            yield view.read
        finally:
            view.close()

    # ── what is on record ──

    def passed(self, batch: Batch, terms: Terms) -> Iterator[Part]:
        """What passed a step, in planned order, one at a time, from the journal."""
        return self.store.read.parts(
            self.record.no, batch.no, self._ctx.steps.by_name[terms.step].no
        )

    def behind(self, batch: Batch, terms: Terms) -> Iterator[str]:
        """The ids of what passed a step, in planned order."""
        step = self._ctx.steps.by_name[terms.step].no
        return self.store.read.items_behind(self.record.no, batch.no, step)

    def missing(
        self, batch: Batch, terms: Terms, first: int = 0, end: int | None = None
    ) -> Iterator[Missing]:
        """The planned items that did not pass a step, in planned order, each with why; all of them,
        or those at the positions from `first` up to `end`."""
        step = self._ctx.steps.by_name[terms.step].no
        return self.store.read.items_missing(self.record.no, batch.no, step, first, end)

    def step_number(self, terms: Terms) -> int:
        return self._ctx.steps.by_name[terms.step].no

    def events(self) -> RunEvents:
        """What happens from now on, for `async for event in run.events()`, until the run is closed."""
        events = RunEvents(self.store, self.record.no)
        self.at_close.append(events.end)
        return events

    # ── what it takes ──

    def statistics(self) -> Statistics:
        ctx, account, counts = self._ctx, self._ctx.account, self._ctx.counts.whole()
        return Statistics(
            ctx.planning.planned, counts.done, ctx.limits.in_flight, counts.states["passed"],
            sum(counts.states[state] for state in WENT_WRONG), counts.kicks,
            counts.retries, counts.calls, counts.reused,
            account.usd + sum(one.cost for one in counts.others),
            account.reserved_usd - ctx.dispatch.reserved_ahead,
            account.max_usd, self.clock.monotonic() - ctx.active.began, ctx.dispatch.held,
            ctx.executor.in_batches(),
        )  # fmt: skip

    def forget_unpaid(self, terms: Terms) -> None:
        """What could not be paid at this step is not needed any more."""
        self._ctx.stopping.unpaid.forget(terms.step)

    @property
    def unpaid(self) -> CannotPay | None:
        """What could not be paid, the dearest, if that is why it pauses."""
        added, short = self._ctx.planning.added, self._ctx.stopping.unpaid
        return short.dearest if added is None else None

    def _ending(self, tally: Tally, planned: int) -> tuple[str, str | None]:
        """How it ends, and why, if not well."""
        ctx, stop = self._ctx, self._ctx.stopping.stop
        others = ctx.counts.others
        if stop is not None:
            return stop.status, self.with_batches(stop.reason)
        if added := next(filter(None, (ctx.planning.added, *(one.added for one in others))), None):
            return "paused", added
        if ctx.stopping.unpaid:
            return "paused", ctx.stopping.unpaid.reason
        if held := ctx.outcomes.held + sum(one.held for one in others):
            return "paused", f"{held} failed items are held; resume to try them again"
        rest = planned - sum(tally.values()) + tally["cancelled"] + tally["unfunded"]
        if ctx.settings.only and rest:
            return "paused", "the other items were left as they were; resume to carry them out"
        if tally["in_doubt"]:
            return "paused", "items in doubt are held; resume with --retry-in-doubt to repeat them"
        return ("flagged", self._flaw) if self._flaw else (status_of(tally, planned), None)

    def with_batches(self, reason: str) -> str:
        """Why it stops, and what it leaves at batch services."""
        left = self.store.read.in_batches(self.record.no).lines
        said = f"{reason}; {left:,} in batches, and a resume collects what comes"
        return said if left else reason

    def member_traits(self, id: str) -> Traits | None:
        """None when there is no such member any more."""
        found = self._ctx.choose.known(id)
        return None if found is None else found.traits

    def waiting(self) -> tuple[WaitingCalls, ...]:
        """Why calls wait just now."""
        return waiting_calls(self._ctx.dispatch, self.clock)

    def load(self) -> dict[str, int]:
        """How many calls are under way, by member; who was not needed so far is not there."""
        return {id: gauge.in_flight for id, gauge in self._ctx.limits.gauges.items()}

    def lend(self) -> tuple[Budget, Amount]:
        """All that is left of the budget, for another run that spends on behalf of this one.

        It is reserved here until `repay`; whoever wants to spend meanwhile waits for that.
        """
        account, deadline = self._ctx.account, self._ctx.dispatch.deadline
        lent = account.remaining()
        account.reserve(lent)
        return Budget.of(
            usd=None if account.max_usd is None else dollars(lent.usd),
            tokens=None if account.max_tokens is None else lent.tokens,
            calls=None if account.max_calls is None else lent.calls,
            seconds=None if deadline is None else max(0.0, deadline - self.clock.monotonic()),
        ), lent

    def repay(self, lent: Amount, spent: Amount) -> None:
        """The other run is over, and took so much. It is on record there, so not in our receipt."""
        self._ctx.account.settle(lent, spent)
        self._ctx.dispatch.poke()

    def receipt(self, tally: Tally | None = None) -> Receipt:
        """The account as it stands; once the run is closed, the closing one."""
        if self.closing is not None:
            return self.closing
        record = self.store.read.find(self.record.id)
        if record is None:
            raise StoreError(
                f"the store: the record of run {self.record.name} is damaged; restore a copy"
            )
        counts = self._ctx.counts.whole()
        return receipt(self.store.read, record, counts, self._ctx.steps.by_name, tally)

    @property
    def spool(self) -> Path:
        return self.store.spool()

    def known(self, task: Task) -> bool:
        """Is a reply to this ask on record, so that doing the task begins without a call?"""
        ctx = self._ctx
        state = TaskState(ctx, task, ctx.choose.eligible(task.terms.who))
        found = ctx.replies.recorded(state.ask_keys(), state.eligible) or state.recorded_here()
        return found is not None

    def room(self, terms: Terms) -> int:
        """How many calls those take at once, all together, who answer as long as they can."""
        candidates = self._ctx.choose.eligible(terms.who).candidates
        return sum(one.gauge.most for one in candidates if one.grade <= candidates[0].holds)
