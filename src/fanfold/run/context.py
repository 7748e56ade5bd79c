"""What a run works with, built once, in one place.

It is frozen: each part owns its own state, and nobody assigns another's attributes. A branch is on
record as a run of its own, but pays from the budget of the whole and shares its limits and members.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from fanfold.clock import Clock
from fanfold.journal import opening
from fanfold.journal.contract import Store
from fanfold.journal.facts import RunRecord
from fanfold.run.batches import BatchExecutor, Executors
from fanfold.run.choose import Chooser
from fanfold.run.contents import Contents
from fanfold.run.demand import NeededCall
from fanfold.run.dispatch import Dispatch
from fanfold.run.executor import Executor
from fanfold.run.judging import Judgings
from fanfold.run.limits import Limits
from fanfold.run.member_sources import MemberSource
from fanfold.run.outcomes import ActiveTime, Counts, Outcomes, Replies
from fanfold.run.planning import Planning
from fanfold.run.remote import PlacedExecutor
from fanfold.run.settings import Settings
from fanfold.run.steps import Steps, spent_before
from fanfold.run.stopping import Stopping
from fanfold.work.budget import NOTHING, Account
from fanfold.work.member import NextStart
from fanfold.work.task import AskPower


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """`place`, `server`: the store's, as requests name it. `do` carries one task out, for gates that ask.
    `starts`: what an operator said of the next starts of agents, by item."""

    record: RunRecord
    settings: Settings
    store: Store
    place: str
    server: str
    clock: Clock
    rng: random.Random
    account: Account
    limits: Limits
    dispatch: Dispatch
    executor: Executor
    choose: Chooser
    steps: Steps
    planning: Planning
    replies: Replies
    outcomes: Outcomes
    stopping: Stopping
    judgings: Judgings
    counts: Counts
    active: ActiveTime
    do: AskPower
    starts: dict[str, NextStart]
    contents: Contents

    @property
    def unasked(self) -> list[NeededCall]:
        """The calls that are needed and were not made yet, and one at each step that has not begun."""
        needs, steps = self.outcomes.needs, self.steps.by_name
        idle = (s.name for s in steps.values() if not (s.calls or s.reused) and s.name not in needs)
        return [self._needed(name, many) for name, many in (*needs, *((one, 1) for one in idle))]

    def _needed(self, name: str, many: int) -> NeededCall:
        step = self.steps.by_name.get(name)
        who = self.outcomes.needs.whos.get(name) or (None if step is None else step.who)
        candidates = () if who is None else self.choose.eligible(who).candidates
        return NeededCall(many, candidates, NOTHING if step is None else step.dearest)


@dataclass(frozen=True, slots=True)
class Shared:
    """What a run and its branches have in common."""

    rng: random.Random
    account: Account
    limits: Limits
    dispatch: Dispatch
    executor: Executor
    choose: Chooser


def share(
    store: Store, record: RunRecord, source: MemberSource, settings: Settings, clock: Clock
) -> Shared:
    """Of a run that pays for itself."""
    rng = random.Random(settings.seed)
    limits = Limits(source.settings.max_concurrency, rng, source.settings.max_wait)
    seconds = settings.budget.seconds
    deadline = None if seconds is None else clock.monotonic() + seconds - record.active
    spent = sum(spent_before(store, record.no).values(), NOTHING)
    dispatch = Dispatch(limits, clock.monotonic, deadline)
    executor = Executors(PlacedExecutor(store.place, source), BatchExecutor(store, record, clock))
    dispatch.on_halt.append(executor.leave)
    return Shared(
        rng,
        Account("run", settings.budget, spent),
        limits,
        dispatch,
        executor,
        Chooser(source, limits, executor, clock, store.read, settings.budget),
    )


def build(
    store: Store, record: RunRecord, settings: Settings, clock: Clock, shared: Shared,
    do: AskPower,
) -> Context:  # fmt: skip
    counts, stopping = Counts(), Stopping(shared.dispatch)
    leads = settings.lead in ("", record.session)
    crashes = store.read.gate_crashes(record.no) if record.resumed else {}
    return Context(
        record=record, settings=settings, store=store, place=str(store.files.absolute()),
        server=opening.server(store.place), clock=clock,
        rng=shared.rng, account=shared.account, limits=shared.limits,
        dispatch=shared.dispatch, executor=shared.executor, choose=shared.choose,
        steps=Steps(
            store, record.no, shared.account, shared.choose, shared.dispatch, bool(settings.lead)
        ),
        planning=Planning(store, record, stopping.pause),
        replies=Replies(store, record, settings),
        outcomes=Outcomes(store, record.no, clock, counts, stopping),
        stopping=stopping, judgings=Judgings(store, record.no, record.session, crashes),
        counts=counts, active=ActiveTime(store, clock, record.no, booked=leads), do=do,
        starts={}, contents=Contents(store, record, stopping.pause),
    )  # fmt: skip
