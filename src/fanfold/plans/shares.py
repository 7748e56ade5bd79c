"""A plan that several processes carry out together: which of its steps can be divided, and what those do
that another one leads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import msgspec

from fanfold.errors import BadInput, RunStopped, StoreUnavailable
from fanfold.journal.contract import Store, StoreView
from fanfold.journal.facts import RunRecord
from fanfold.journal.opening import exists, look, open_store, outlives_process
from fanfold.journal.shares import DividedBatch, JoinRun, LeaveRun
from fanfold.plans.carry import PlanState
from fanfold.plans.execute import Audience, chooser_of, input_of, members_of, settings_of
from fanfold.plans.flow import leg
from fanfold.plans.load import import_all
from fanfold.plans.output import Output
from fanfold.plans.plan import Plan, askings, comparable
from fanfold.plans.prepare import Job, stored_with
from fanfold.run.inherited import store_words
from fanfold.run.orders import is_under_way
from fanfold.run.run import Run
from fanfold.run.shares import LOOK
from fanfold.work.budget import combined

CAN = (
    "a `map` over the input can, without `batch`, `tools` and `watch`, and not in shards by `count`,"
    " `hash` or `range`"
)
BETWEEN = 2 * LOOK  # seconds from one look for something to do to the next


LEFT = "left"


class Ended(msgspec.Struct, frozen=True):
    """Why this process takes part no more: the run has ended (its status), this process was told to go
    (LEFT), or who led it is dead (None). `calls`: that it made."""

    status: str | None
    calls: int = 0


# ── may it be ────────────────────────────────────────────────────────────────────────────────


def divisible(plan: Plan) -> Iterator[str]:
    """The steps that several processes can carry out together."""
    first = next((n for n, step in enumerate(plan.steps) if step.takes_items), None)
    if plan.input is not None and plan.overrides.batch is None and first is not None:
        yield from (step.name for step in leg(plan.steps, first) if step.divides)


def refuse_undivided(job: Job) -> None:
    plan = job.stored.plan
    if next(divisible(plan), None) is None:
        names = ", ".join(f"`{step.name}`" for step in plan.steps)
        raise BadInput(f"--shares: no step can be divided of {names}; {CAN}", file=plan.file)
    _refuse_free_calls(job)
    if not outlives_process(job.options.store):
        raise BadInput("--shares: a store in memory is of one process; use --store DIR")


def _refuse_free_calls(job: Job) -> None:
    """The store counts what is claimed, and calls that cost nothing are not."""
    plan, choose = job.stored.plan, chooser_of(job)
    for name, asking in askings(plan):
        own = combined(asking.budget, plan.step_budgets.get(name))
        if name not in divisible(plan) or job.budget.calls is own.calls is None:
            continue
        for one in choose.eligible(asking.who).candidates:
            if not one.traits.metered:
                raise BadInput(
                    f"--shares: `{name}` has a budget of calls, and those of {one.traits.id} cost nothing,"
                    " so processes cannot share it; leave `calls` out",
                    file=plan.file, line=asking.line,
                )  # fmt: skip


def under_way(job: Job) -> Job | None:
    """The run of that name that others carry out already, and that this one may join."""
    if not exists(job.options.store):
        return None
    archive = look(job.options.store)
    try:
        record = archive.read.find(job.name if job.record is None else job.record.id)
        if record is None or not _is_shared(archive, record):
            return None
    finally:
        archive.close()
    if job.record is None:
        theirs = stored_with(record)
        if comparable(theirs.plan, anywhere=True) != comparable(job.stored.plan, anywhere=True):
            raise BadInput(
                f"{job.name} is under way with another plan; give this one another --name"
            )
        stored = msgspec.structs.replace(job.stored, spool=theirs.spool)
        job = msgspec.structs.replace(job, stored=stored)
    return msgspec.structs.replace(job, record=record)


def other_budget(job: Job, record: RunRecord) -> str:
    """What to say to one that joins with a budget of its own; empty: it has none, or the same."""
    if job.options.budget is None or msgspec.json.encode(job.budget) == record.budget:
        return ""
    how = f"fanfold set {record.id} budget=TOTAL{store_words(job.options.store)}"
    return f"{record.name} is under way, and its budget stays as it is; to change it: {how}"


def _is_shared(archive: StoreView, record: RunRecord) -> bool:
    """It is under way, and not the run of one process."""
    shared = any(one.session == record.session for one in archive.read.sharers(record.no))
    return shared and is_under_way(archive, record.no)


# ── taking part ──────────────────────────────────────────────────────────────────────────────


class Seat:
    """The session of this process among those that carry out a run. It lives on while nobody leads, until
    this process leads or takes part again: all that time the run is under way, and orders wait."""

    def __init__(self) -> None:
        self._held: tuple[Store, str] | None = None

    async def take(self, journal: Store, run: int) -> str:
        """On record, with no part in anything yet; what it held before ends only then."""
        session = journal.sessions.enter()
        before, self._held = self._held, (journal, session)
        try:
            await journal.write(JoinRun(run, session, journal.read.led_by(run)[1]))
            await journal.write(LeaveRun(run, (session,)))
        finally:
            _let_go(before)
        return session

    def leave(self) -> None:
        held, self._held = self._held, None
        _let_go(held)

    def __enter__(self) -> Seat:
        return self

    def __exit__(self, *error: object) -> None:
        self.leave()


def _let_go(held: tuple[Store, str] | None) -> None:
    if held is not None:
        journal, session = held
        journal.sessions.leave(session)
        journal.close()


async def take_part(job: Job, audience: Audience, seat: Seat) -> Ended:
    """Carry out a part of a run that another process leads, until it ends or nobody leads it. The seat is
    kept then."""
    assert job.record is not None
    import_all(job.stored.plan)
    journal = open_store(job.options.store)
    session = await seat.take(journal, job.record.no)
    return await _Helper(journal, job, session, audience).until_it_ends()


async def _leave(run: Run) -> None:
    """A process that cannot say so, because its store takes nothing more from it, pauses by itself."""
    try:
        await run.leave()
    except RunStopped as stopped:
        raise StoreUnavailable(str(stopped)) from None


class _Helper:
    def __init__(self, journal: Store, job: Job, session: str, audience: Audience) -> None:
        assert job.record is not None
        self._journal, self._job, self._session = journal, job, session
        self._audience, self._run = audience, job.record.no
        self._done: set[tuple[str, int, int]] = set()
        self._calls = 0

    async def until_it_ends(self) -> Ended:
        journal = self._journal
        while True:
            status, lead = journal.read.led_by(self._run)
            if status != "running":
                return Ended(status, self._calls)
            if not journal.sessions.alive(lead):
                return Ended(None, self._calls)
            division = journal.read.division(self._run)
            new = division is not None and division.lead == lead and self._is_new(division)
            if division is not None and new and await self._help(division):
                return Ended(LEFT, self._calls)
            await asyncio.sleep(BETWEEN)

    def _is_new(self, division: DividedBatch) -> bool:
        which = division.lead, division.batch, division.step
        new = which not in self._done
        self._done.add(which)
        return new

    async def _help(self, division: DividedBatch) -> bool:
        """With what is left of a batch. True: it was told to go meanwhile."""
        journal, job = self._journal, self._job
        if not await journal.write(JoinRun(self._run, self._session, division.lead)):
            return False
        assert job.record is not None
        record = journal.read.find(job.record.id)
        assert record is not None
        record = msgspec.structs.replace(record, session=self._session, resumed=True)
        settings = settings_of(job, record, division.lead, self._audience.approve)
        run = Run(journal, record, members_of(job, job.roster), settings)
        try:
            await self._carry_out(run, division)
        finally:
            self._calls += run.statistics().calls
            await _leave(run)
        assert run.share is not None
        return run.share.for_good

    async def _carry_out(self, run: Run, division: DividedBatch) -> None:
        job, audience = self._job, self._audience
        state = PlanState(run, job.stored.plan, audience.say, Output(run, job.stored.plan, None))
        source = input_of(job, self._journal)
        assert source is not None
        try:
            async with audience.watch(run), run.taking_orders():
                await state.take_part(source, division.state)
        except RunStopped:
            if run.stopping is None:
                raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            assert task is not None
            if run.stopping is None or run.stopping.status != "killed":
                run.kill("cancelled; calls under way may have been carried out")
            task.uncancel()
