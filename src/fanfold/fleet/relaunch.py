"""Launch one worker again, with its prompt as it is now. All others stay untouched."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from fanfold.errors import AlreadyRunning, BadInput, FanfoldError
from fanfold.fleet.detach import lasting, run_lock
from fanfold.fleet.job import prepare_fleet
from fanfold.fleet.launch import Launched, start
from fanfold.fleet.runs import find_record, may_live, reading
from fanfold.fleet.worker_view import FleetWorker, worker_of, workers_of
from fanfold.journal.contract import StoreView
from fanfold.journal.facts import GiveOrder, RunRecord
from fanfold.journal.opening import open_store
from fanfold.members.agents.continuing import earlier_session
from fanfold.plans.prepare import Job, Options, Stored, prepare, prepare_resume, revised
from fanfold.plans.steps.graph import Graph, GraphTask
from fanfold.run.loop import run_sync
from fanfold.run.orders import give
from fanfold.work.nearest import remedy
from fanfold.work.outcome import State

HAND_OVER_ENDS = 30.0  # seconds for a supervisor to leave
SETTLED_WITHIN = 30.0  # seconds for it to record how a worker ended
MOST = 1_000_000


def relaunch(run: str, id: str, options: Options, by: str, *, continued: bool = False) -> Launched:
    """Its log is kept under another name and it starts again, with the dependents that failed only because
    it had. While the run is under way its supervisor hands over to a new one, which adopts the workers
    that live. A run that has ended is opened again for this worker alone. `continued`: in the session of
    its last start, not from zero.
    """
    options = msgspec.structs.replace(options, store=lasting(options.store))
    record = find_record(options.store, run)
    assert record is not None
    with run_lock(options.store, record.name):
        job = prepare_resume(run, options, _allow_changes)
        assert job.record is not None
        changed = _changed(job.stored, id, options)
        _refuse_failed_parent(options.store, job.record, _task(changed, id))
        _refuse_busy(job, job.record, id)
        if continued:
            _refuse_unknown_session(options.store, job.record, id)
        repeated = _with_dependents(job, job.record, id)
        running = job.record.status == "running"
        more = msgspec.structs.replace(options, anew=frozenset(repeated), only=not running)
        again = revised(msgspec.structs.replace(job, options=more), changed)
        if running:
            run_sync(_take_over(options.store, job.record, by))
        orders = [("set", cap)] if (cap := _restated_cap(job, again, id)) else []
        run_sync(_leave(job, by, orders + ([("continue", id)] if continued else [])))
        return _start_changed(job, again, id)


def _allow_changes(stored: Stored, record: RunRecord) -> None:
    """Files that were changed since are not refused: they are why a worker is launched again."""


def _start_changed(job: Job, again: Job, id: str) -> Launched:
    """A run that was handed over must not stay without a supervisor: when the change is refused at the last
    moment it continues as it was."""
    assert job.record is not None
    try:
        _refuse_busy(job, job.record, id)
        return start(again)
    except FanfoldError:
        if job.record.status == "running":
            start(job)
        raise


# ── may it, and who else ─────────────────────────────────────────────────────────────────────


def _refuse_busy(job: Job, record: RunRecord, id: str) -> None:
    """While it runs, or while one that depends on it works with its results."""
    those = (id, *dependents(_tasks(job.stored), id))
    with reading(job.options.store) as archive:
        busy = at_work(archive, record, those)
    for other in those:
        if other in busy:
            what = "is running" if other == id else f"is running, which depends on {id}"
            raise AlreadyRunning(f"{other} {what}; first: fanfold kill {record.name} {other}")


def _refuse_failed_parent(store: str, record: RunRecord, task: GraphTask) -> None:
    """It would fail at once again: its parent comes first."""
    with reading(store) as archive:
        failed = archive.read.endings(record.no, ("failed", "kicked", "unjudged"), limit=MOST)
    bad = [one.id for one in failed if one.id in task.depends_on]
    if task.partial == "always" or (task.partial and len(bad) < len(task.depends_on)):
        return
    for parent in bad:
        what = f"{task.id} depends on {parent}, which failed"
        raise BadInput(f"{what}; first: fanfold relaunch {record.name} {parent}")


def _with_dependents(job: Job, record: RunRecord, id: str) -> set[str]:
    """The worker, and its dependents that failed for nothing but a parent."""
    with reading(job.options.store) as archive:
        failed = archive.read.endings(record.no, ("failed",), limit=MOST)
    by_parents = {one.id for one in failed if one.by_parent}
    return {id, *dependents([task for task in _tasks(job.stored) if task.id in by_parents], id)}


def at_work(archive: StoreView, record: RunRecord, ids: Iterable[str]) -> set[str]:
    """Those of the tasks that are being worked on. The end of a worker that its files show but the journal
    does not yet is waited for: `status` shows it already."""
    deadline = time.monotonic() + SETTLED_WITHIN
    while True:
        busy, ended = _unsettled(archive, record, frozenset(ids))
        if busy or not ended or time.monotonic() > deadline:
            return busy | ended
        time.sleep(0.02)


def _unsettled(
    archive: StoreView, record: RunRecord, ids: frozenset[str]
) -> tuple[set[str], set[str]]:
    """Tasks without an end on record, by a living worker or in a process that lives; and those of
    them whose worker has ended."""
    alive = may_live(archive.files, record.session)
    busy: set[str] = set()
    ended: set[str] = set()
    for attempt in archive.read.newest(record.no, ("started", "in_doubt"), limit=10_000):
        worker = worker_of(archive.files, record, attempt)
        if worker is not None and worker.host.alive():
            busy.update(attempt.ids)
        elif alive and attempt.state == "started":
            over = worker is not None and worker.host.exit() is not None
            (ended if over else busy).update(attempt.ids)
    return busy & ids, ended & ids


def dependents(tasks: Iterable[GraphTask], id: str) -> list[str]:
    """All that depend on it, directly or not, in planned order."""
    found = {id}
    several = list(tasks)
    grown = -1
    while grown != len(found):
        grown = len(found)
        found.update(task.id for task in several if found.intersection(task.depends_on))
    return [task.id for task in several if task.id in found and task.id != id]


# ── what changes ─────────────────────────────────────────────────────────────────────────────


def _tasks(stored: Stored) -> list[GraphTask]:
    return [t for step in stored.plan.steps if isinstance(step, Graph) for t in step.tasks]


def _changed(stored: Stored, id: str, options: Options) -> Stored:
    """What the run was started with, but this one task as the files state it now."""
    before = _task(stored, id)
    now = _now(stored, id, options)
    after = _task(now, id)
    if after.depends_on != before.depends_on:
        raise BadInput(
            f"the `depends_on` of {id} has changed since the run was started; that needs a new run:"
            " fanfold launch, with --force-relaunch"
        )
    plan = _with_task(stored, msgspec.structs.replace(after, sample=before.sample + 1))
    return msgspec.structs.replace(plan, members=_with_member(stored.members, now.members, id))


def _task(stored: Stored, id: str) -> GraphTask:
    tasks = {task.id: task for task in _tasks(stored)}
    if not tasks:
        raise BadInput("only tasks of a graph can be relaunched, such as the workers of a fleet")
    if id not in tasks:
        raise BadInput(f"there is no worker {id!r}: {remedy(id, tasks)}")
    return tasks[id]


def _now(stored: Stored, id: str, options: Options) -> Stored:
    """Where the files were deleted it is launched again as it was."""
    file = Path(stored.plan.folder) / Path(stored.plan.file).name
    if not file.exists():
        return stored
    plan = stored.plan
    options = msgspec.structs.replace(
        options, roster=stored.roster, overrides=plan.overrides, allow_outside=plan.allow_outside
    )
    if stored.kind == "fleet":
        return prepare_fleet(file, options).stored
    return prepare(str(file), options).stored


def _with_task(stored: Stored, task: GraphTask) -> Stored:
    steps = tuple(
        msgspec.structs.replace(
            step, tasks=tuple(task if one.id == task.id else one for one in step.tasks)
        )
        if isinstance(step, Graph)
        else step
        for step in stored.plan.steps
    )
    plan = msgspec.structs.replace(stored.plan, steps=steps)
    return msgspec.structs.replace(stored, plan=plan)


def _restated_cap(job: Job, again: Job, id: str) -> str:
    """A cap that the file states anew goes before what was ordered earlier, also when it is resumed."""
    before, now = (
        {one["id"]: one for one in (each.stored.members or {"members": ()})["members"]}.get(id, {})
        for each in (job, again)
    )
    field = "max_budget_usd"
    return "" if before.get(field) == now.get(field) else f"{id}.{field}={now[field]}"


async def _leave(job: Job, by: str, orders: list[tuple[str, str]]) -> None:
    """Orders for the process that continues the run."""
    assert job.record is not None
    journal = open_store(job.options.store)
    try:
        for what, value in orders:
            await journal.write(GiveOrder(job.record.no, time.time(), by, what, value))
    finally:
        journal.close()


def continue_all(job: Job, by: str) -> Job:
    """Workers of a run that are started again when it is resumed continue in their sessions; those in
    doubt are among them."""
    assert job.record is not None
    with reading(job.options.store) as archive:
        states: tuple[State, ...] = ("passed", "failed", "kicked", "skipped", "unjudged")
        over = {one.id for one in archive.read.endings(job.record.no, states, limit=MOST)}
        last = {one.id: one for one in workers_of(archive, job.record) if one.id not in over}
    known = [worker.id for worker in last.values() if _has_session(worker)]
    run_sync(_leave(job, by, [("continue", id) for id in known]))
    options = msgspec.structs.replace(job.options, retry_in_doubt=None)
    return msgspec.structs.replace(job, options=options)


def _has_session(worker: FleetWorker) -> bool:
    with suppress(BadInput):
        return bool(earlier_session(worker.host.place, worker.host.spec.span))
    return False


def _refuse_unknown_session(store: str, record: RunRecord, id: str) -> None:
    with reading(store) as archive:
        workers = [one for one in workers_of(archive, record) if one.id == id]
    try:
        if not workers:
            raise BadInput("nothing is left of its last start")
        earlier_session(workers[-1].host.place, workers[-1].host.spec.span)
    except BadInput as error:
        what = f"{id} cannot be continued: {error}"
        raise BadInput(f"{what}; from zero: fanfold relaunch {record.name} {id}") from None


def _with_member(
    before: dict[str, Any] | None, now: dict[str, Any] | None, id: str
) -> dict[str, Any] | None:
    """The roster that a fleet brings along, with this worker's entry as it is now."""
    if before is None or now is None:
        return before
    entry = next(one for one in now["members"] if one["id"] == id)
    members = [entry if one["id"] == id else one for one in before["members"]]
    return {**before, "members": members}


# ── its supervisor ───────────────────────────────────────────────────────────────────────────


async def _take_over(store: str, record: RunRecord, by: str) -> None:
    """Have the supervisor leave, unless it is dead; its workers continue by themselves."""
    journal = open_store(store)
    try:
        order = await give(journal, record, by, "hand-over", within=HAND_OVER_ENDS)
    finally:
        journal.close()
    if order.state == "refused" and may_live(store, record.session):
        raise AlreadyRunning(f"{record.name}: {order.said}")
    deadline = time.monotonic() + HAND_OVER_ENDS
    while may_live(store, record.session):
        if time.monotonic() > deadline:
            raise FanfoldError(f"the supervisor of {record.name} does not hand over; see its log")
        await asyncio.sleep(0.02)
