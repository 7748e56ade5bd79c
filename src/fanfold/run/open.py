"""Opening a run in a script: a new one, or one that was stopped and goes on."""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypedDict, Unpack

from fanfold.clock import Clock, RealClock
from fanfold.errors import ReduceFailed, RunStopped
from fanfold.journal.contract import Store
from fanfold.journal.damage import damage_is_named
from fanfold.journal.facts import RunRecord
from fanfold.journal.opening import open_store
from fanfold.members.entry import ScriptedEntry
from fanfold.members.roster import SETTINGS, Roster
from fanfold.run.inherited import inherited
from fanfold.run.member_sources import members_of_script
from fanfold.run.record import RESUMABLE, Launch, reopen, start
from fanfold.run.run import Run
from fanfold.run.settings import Approve, Govern, Settings
from fanfold.run.stopping import Stop
from fanfold.work.check import Check, flag, many, text, whole
from fanfold.work.member import Member
from fanfold.work.options import function, instance, read_budget, stated
from fanfold.work.outcome import Receipt
from fanfold.work.raised import error_text, singly
from fanfold.work.tags import check_tags
from fanfold.work.task import Budget

_REPLIES_KEPT = (
    "the replies are kept: correct it and run the script again, which asks for none of them again"
)
_LEFT = "the block of the run was left while patterns were under way; await all of them in it"


async def finish(store: Store, run: Run) -> Receipt:
    """Close the books and let go of the session, whatever happens."""
    try:
        return await run.close()
    finally:
        store.sessions.leave(run.record.session)


class RunOptions(TypedDict, total=False):
    """How a run of a script is carried out; see `Settings`. The first four go before those of the
    roster."""

    max_concurrency: int
    max_wait: float
    allow_paid: bool
    queue: str
    fresh: bool
    keep_prompts: bool
    seed: int
    retry_in_doubt: Collection[str] | None
    govern: Govern
    approve: Approve
    serving: bool
    anew: Collection[str]
    only: bool
    tags: Collection[str]
    clock: Clock


_OPTIONS: dict[str, Check] = {
    "name": text,
    "budget": read_budget,
    **SETTINGS,
    "fresh": flag,
    "keep_prompts": flag,
    "seed": whole(),
    "retry_in_doubt": many(text),
    "govern": instance(Govern, "Govern(…)"),
    "approve": function,
    "serving": flag,
    "anew": many(text),
    "only": flag,
}


@asynccontextmanager
async def open_quietly(
    name: str,
    *,
    roster: str | Path | Roster | None = None,
    members: Sequence[Member | ScriptedEntry] = (),
    budget: Budget | None = None,
    store: str | Path | None = None,
    **options: Unpack[RunOptions],
) -> AsyncIterator[Run]:
    """What `open_run` of scripts does (`observe/script.py`), but for the line of progress."""
    clock = options.pop("clock", None) or RealClock()
    tags = check_tags(options.pop("tags", ()), "open_run(): tags")
    settings, said = _settings(name, budget, options)
    around = inherited()
    opened = open_store(around.store if store is None else store)
    for line in opened.warnings:
        warnings.warn(line, RuntimeWarning, stacklevel=3)
    try:
        source = members_of_script(roster, members, said)
        launch = Launch(parent=around.parent, tags=tags)
        with damage_is_named(opened):  # not what the script itself raises
            record = await record_of(opened, name, settings.budget, clock, launch)
            made = Run(opened, record, source, settings, clock)
        async with carried_out(made) as run:
            yield run
    finally:
        opened.close()


@asynccontextmanager
async def carried_out(run: Run) -> AsyncIterator[Run]:
    """From its record to its receipt; raises RunStopped when it stops early."""
    failed: ReduceFailed | None = None
    try:
        if run.record.resumed:
            await run.adopt()
        async with run.taking_orders():
            try:
                yield run
            except Exception as error:
                reasons = singly(error)  # a task group of the script's may be around the patterns
                if not all(isinstance(one, RunStopped | ReduceFailed) for one in reasons):
                    await run.end_patterns(error_text(error))
                    raise
                failed = next((one for one in reasons if isinstance(one, ReduceFailed)), None)
                if failed is not None:
                    run.pause(str(failed))
                elif run.stopping is None:  # another run has stopped
                    await run.end_patterns(_LEFT)
                    raise reasons[0] from reasons[0].__cause__
            await run.end_patterns(_LEFT)
    except RunStopped:
        if run.stopping is None:
            raise
    except BaseException as error:
        run.kill(error_text(error))
        raise
    finally:
        await finish(run.store, run)
    if run.stopping is not None:
        raise RunStopped(_how_to_go_on(run.stopping, failed is not None)) from failed
    if run.closing is not None and run.closing.status == "paused" and not run.only:
        raise RunStopped(_how_to_go_on(Stop("paused", str(run.closing.reason)), False))


def _how_to_go_on(stop: Stop, reduce_failed: bool) -> str:
    """One line: how the run ended, and what to do."""
    if reduce_failed:
        return f"{stop.status}: {stop.reason}; {_REPLIES_KEPT}"
    reason, held, how = (stop.reason or "").partition("; resume")
    if held:  # as the command line says it
        how = how.replace("--retry-in-doubt", "`retry_in_doubt=None`")
        return f"{stop.status}: {reason}; run the script again{how}"
    remedy = "run the script again to continue"
    if stop.cause is not None and stop.cause.kind == "monthly_budget":
        remedy = f"raise `budget_usd_month` of that member and {remedy}, or wait for the next month"
    elif stop.rest == "unfunded":
        remedy = f"raise `budget` and {remedy}; what is on record is not paid again"
    return f"{stop.status}: {stop.reason}; {remedy}"


def _settings(
    name: str, budget: Budget | None, options: RunOptions
) -> tuple[Settings, dict[str, Any]]:
    """By the same checks as plans: the run's settings, and those that go before its roster's.
    `retry_in_doubt=None` is all of them."""
    told = stated({**options, "name": name, "budget": budget}, _OPTIONS, "open_run()")
    del told["name"]
    for ids in ("retry_in_doubt", "anew"):
        if ids in told:
            told[ids] = frozenset(told[ids])
    if "retry_in_doubt" in options:
        told.setdefault("retry_in_doubt", None)
    said = {name: told.pop(name) for name in SETTINGS if name in told}
    return Settings(**told), said


async def record_of(
    store: Store, name: str, budget: Budget, clock: Clock, launch: Launch = Launch()
) -> RunRecord:
    """A new run of that name, or the earlier one that goes on."""
    earlier = store.read.find(name)
    if earlier is not None and earlier.status in RESUMABLE:
        return await reopen(store, earlier, clock, budget)
    return await start(store, name, clock, budget, launch)
