"""From what was read and checked to a receipt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Protocol

import msgspec

from fanfold.clock import RealClock
from fanfold.errors import BadInput, FanfoldError, RunStopped
from fanfold.journal.answers import decoded
from fanfold.journal.contract import Store
from fanfold.journal.damage import damage_is_named
from fanfold.journal.facts import DropRun, RunRecord
from fanfold.journal.opening import open_store
from fanfold.members.roster import Roster
from fanfold.plans.attached import check_attached
from fanfold.plans.carry import carry_out, check_fields
from fanfold.plans.follow_roster import follow_roster
from fanfold.plans.header import run_command
from fanfold.plans.inputs import open_input
from fanfold.plans.load import import_all, with_commands
from fanfold.plans.output import Output
from fanfold.plans.places import check_names, check_writable
from fanfold.plans.plan import Plan, askings, budget_names
from fanfold.plans.prepare import Job, drop_spool, stored_roster
from fanfold.run.choose import Chooser
from fanfold.run.executor import LocalExecutor
from fanfold.run.inherited import store_words
from fanfold.run.limits import Limits
from fanfold.run.member_sources import ListedMembers
from fanfold.run.open import finish
from fanfold.run.record import Launch, Reopening, reopen, start
from fanfold.run.remote import lacking_workers
from fanfold.run.run import Run
from fanfold.run.settings import Approve, Settings
from fanfold.work.item import Source
from fanfold.work.outcome import Receipt
from fanfold.work.task import Budget, Who

_encode = msgspec.json.Encoder().encode
_budget = msgspec.json.Decoder(Budget).decode


class Watch(Protocol):
    """Looks on while the run is carried out: shows progress, hears signals."""

    def __call__(self, run: Run) -> AbstractAsyncContextManager[None]: ...


class Audience(msgspec.Struct, frozen=True):
    """Those around a run: who watches it, who hears what it says, who may be asked, who makes a page
    for a browser out of the run's name, a result and how many more items there are, and who hears
    what is wrong with the store."""

    watch: Watch
    say: Callable[[str], None] = print
    approve: Approve | None = None
    pages: Callable[[str, Any, int], str] | None = None
    warn: Callable[[str], None] = lambda line: None


async def execute(job: Job, audience: Audience) -> Receipt:
    """Carry it out. A run that is refused before its first call leaves nothing behind."""
    import_all(job.stored.plan)
    check_writable(job.stored.plan)
    journal = open_store(job.options.store)
    try:
        with damage_is_named(journal):
            return await _executed(journal, job, audience)
    finally:
        journal.close()


async def _executed(journal: Store, job: Job, audience: Audience) -> Receipt:
    for line in (
        *journal.warnings,
        *lacking_workers(members_of(job, job.roster), journal.place),
    ):
        audience.warn(line)
    try:
        source = input_of(job, journal)
        run = await _open(journal, job, audience.approve)
    except FanfoldError:
        _drop_input(journal, job)
        raise
    page = None if audience.pages is None else partial(audience.pages, job.name)
    output = Output(run, job.stored.plan, page)
    try:
        if job.record is not None:
            await run.adopt()
        await _carry_out(run, job, source, audience, output)
    except BadInput as error:
        if await _refuse(journal, run, job, error):
            raise
        again = f"to continue: fanfold resume {run.record.id}{store_words(job.options.store)}"
        raise FanfoldError(f"{run.record.name} was killed: {error}; {again}") from None
    receipt = await finish(journal, run)
    return msgspec.structs.replace(receipt, written=tuple(output.files))


async def _open(journal: Store, job: Job, approve: Approve | None) -> Run:
    clock, options, members = RealClock(), job.options, members_of(job, job.roster)
    shared = options.shares is not None
    if job.record is None:
        tags = tuple(dict.fromkeys((*job.stored.plan.tags, *options.tags)))
        launch = Launch(
            _encode(job.stored), job.stored.plan.folder, options.parent, tags, shared=shared
        )
        record = await start(journal, job.name, clock, job.budget, launch)
    else:
        _check_members(job)
        plan = _encode(job.stored) if options.anew or options.step_budgets else None
        how = Reopening(tuple(sorted(options.anew)), keep=options.only, plan=plan, shared=shared)
        record = await reopen(journal, job.record, clock, job.budget, how)
    settings = settings_of(job, record, record.session if shared else "", approve)
    return Run(journal, record, members, settings, clock)


def settings_of(job: Job, record: RunRecord, lead: str, approve: Approve | None) -> Settings:
    """`lead`: see `Settings`. The budget of a run that goes on is the one on record."""
    options = job.options
    return Settings(
        budget=decoded(_budget, record.budget, f"the budget of run {record.name}"),
        fresh=options.fresh or job.stored.fresh, retry_in_doubt=options.retry_in_doubt,
        govern=options.governing(job.stored.plan.govern), approve=approve,
        anew=options.anew, only=options.only, restated=frozenset(options.step_budgets),
        keep_prompts=job.stored.plan.keep is not None, lead=lead,
        taken_over=options.taken_over, steps=_steps_of(job.stored.plan),
    )  # fmt: skip


def _steps_of(plan: Plan) -> frozenset[str]:
    return frozenset(
        (
            *(name for step in plan.steps for name in step.names),
            *budget_names(plan),
        )
    )


def members_of(job: Job, roster: Roster) -> ListedMembers:
    allow_paid, plan = job.options.allow_paid or job.stored.allow_paid, job.stored.plan
    leaves = any(one.outputs for _, one in askings(plan))
    leaves = leaves or any(one.traits.leaves_files for one in roster.entries.values())
    return ListedMembers(roster, Path(plan.folder), allow_paid=allow_paid, leaves_files=leaves)


def chooser_of(job: Job) -> Chooser:
    """Who would be asked, looked at before a run is there."""
    members = members_of(job, job.roster)
    return Chooser(members, Limits(1, Random(0)), LocalExecutor(), RealClock())


def _check_members(job: Job) -> None:
    """Before an earlier run is touched: those who are to answer are there, allowed and priced."""
    choose = chooser_of(job)
    for _, asking in askings(job.stored.plan):
        for who in (asking.who, *(Who(members=(id,)) for id in asking.escalate)):
            choose.eligible(who)


async def _carry_out(
    run: Run, job: Job, source: Source | None, audience: Audience, output: Output
) -> None:
    """Until the end, or until the run stops: for lack of money, by a signal, by a second one."""

    def members() -> ListedMembers:
        stored = job.stored
        return members_of(job, with_commands(stored.plan, stored_roster(stored, job.options)))

    file = None if job.roster.own or job.stored.members is not None else job.roster.file
    try:
        async with (
            audience.watch(run),
            follow_roster(run, file, members, audience.warn),
            run.taking_orders(),
        ):
            await carry_out(run, job.stored.plan, source, audience.say, output)
    except RunStopped:
        if run.stopping is None:
            raise
    except asyncio.CancelledError:
        if run.stopping is None or run.stopping.status != "killed":
            run.kill("cancelled; calls under way may have been carried out")
        task = asyncio.current_task()
        assert task is not None
        task.uncancel()


async def _refuse(journal: Store, run: Run, job: Job, error: BadInput) -> bool:
    """Whether nothing had been asked yet: then it leaves nothing behind."""
    if run.statistics().calls or job.record is not None:
        run.kill(str(error))
        asked = run.statistics().calls > 0
        await finish(journal, run)
        return not asked
    await journal.write(DropRun(run.record.no))
    journal.sessions.leave(run.record.session)
    _drop_input(journal, job)
    return True


def _drop_input(journal: Store, job: Job) -> None:
    """What was kept of it for a run that does not come to be."""
    if job.record is None and job.stored.spool:
        drop_spool(journal.spool() / job.stored.spool)


def input_of(job: Job, journal: Store) -> Source | None:
    """The input, checked against what the run was started with, or against its first prompt."""
    plan = job.stored.plan
    if plan.input is None:
        return None
    key = job.record.id if job.record else None
    spool = journal.spool() / job.stored.spool
    source = open_input(plan.input, plan.folder, spool=spool, again=job.record is not None)
    if job.record is None:
        check_fields(plan, source.walk())
        check_attached(plan, job.roster, source.walk())
        check_names(plan, source)
        return source
    planned = journal.read.batches(job.record.no).get("input")
    if planned is not None and planned[1] != source.fingerprint():
        raise BadInput(
            f"the input has changed since {job.name} ({key}) was started;"
            f" start a new run with: {run_command(plan)}{store_words(job.options.store)}"
            " (it reuses what is unchanged)"
        )
    return source
