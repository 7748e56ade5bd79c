"""Launch a run: checked in the foreground, run by a supervisor of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from fanfold.errors import AlreadyRunning, BadInput, FanfoldError
from fanfold.fleet import tmux
from fanfold.fleet.detach import (
    lasting,
    log_file,
    order_of,
    root_folder,
    run_lock,
    start_supervisor,
)
from fanfold.fleet.job import prepare_fleet, store_of
from fanfold.fleet.load import is_fleet
from fanfold.fleet.preflight import refuse_unaffordable
from fanfold.fleet.run_plan import started_with
from fanfold.fleet.runs import Registry, RegistryEntry, find_record, may_run, reading, runs_of, utc
from fanfold.fleet.worker_view import living_workers
from fanfold.journal.facts import RunRecord
from fanfold.plans.prepare import Job, Options, prepare
from fanfold.plans.steps.graph import Graph

Say = Callable[[str], None]
FINISHED = ("complete", "flagged")


class Launched(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is under way. `workers`: the tasks of agents that are known beforehand."""

    run: str
    name: str
    store: str
    pid: int
    log: str
    root: str
    planned: int = 0
    fleet: bool = False
    workers: tuple[str, ...] = ()


def prepare_launch(target: str, options: Options, *, stated_store: bool = False) -> Job:
    """Read and check a plan or a fleet. Nothing is touched. A fleet's store is beside its file."""
    if not (is_fleet(target) or Path(target).is_dir()):
        return prepare(target, options)
    if not stated_store:
        options = msgspec.structs.replace(options, store=store_of(target), parent=None)
    return prepare_fleet(target, options)


def forced(options: Options) -> Options:
    """All workers again: no reply of an earlier run is reused, and what is in doubt is repeated."""
    return msgspec.structs.replace(options, fresh=True, retry_in_doubt=None)


def launch(job: Job, *, force: bool = False) -> Launched:
    """Start it, unless it runs already. A fleet that ran before is not started again by accident."""
    with starting(job, force=force):
        return start(job)


@contextmanager
def starting(job: Job, *, force: bool = False) -> Iterator[None]:
    """No other process starts it meanwhile; refused where it runs, or ran before."""
    refuse_unaffordable(job)
    store = lasting(job.options.store)
    with run_lock(store, job.name):
        # The newest of its name. For a fleet, also one under another name that may be under way,
        # since both would work in the same folders; but not a rehearsal that has ended.
        earlier = next((one for one in reversed(runs_of(store)) if _conflicts(one, job)), None)
        if earlier is not None:
            _refuse(job, store, earlier, force)
        yield


def start(job: Job) -> Launched:
    """Start the supervisor of a job; the caller holds the lock of the run."""
    log, order = log_file(job), order_of(job)
    started = start_supervisor(order, log)
    return Launched(
        run=started.run, name=started.name, store=order.options.store, pid=started.pid, log=str(log),
        root=root_folder(job), planned=started.planned, fleet=job.stored.kind == "fleet",
        workers=_workers(job),
    )  # fmt: skip


def resume_detached(job: Job) -> Launched:
    """An earlier run continues, with a supervisor of its own."""
    with run_lock(lasting(job.options.store), job.name):
        return start(job)


def retry_options(store: str, run: str, items: Iterable[str]) -> Options:
    """To resume a run for these items alone, whatever became of them. BadInput: one is not there."""
    chosen = frozenset(items)
    with reading(store) as archive:
        record = archive.read.find(run)
        assert record is not None
        for id in items:
            if not archive.read.has_item(record.no, id):
                raise BadInput(f"there is no item {id!r} in {record.name} ({record.id})")
        doubtful = {one.id for one in archive.read.endings(record.no, ("in_doubt",), 1_000_000)}
    return Options(store=store, anew=chosen, only=True, retry_in_doubt=chosen & doubtful)


def register(launched: Launched, registry: Registry, now: float | None = None) -> str | None:
    """So that the name is enough from any folder; else the reason why it is not.

    A name whose run is under way elsewhere stays with that run: `fanfold kill NAME all` must never
    come to mean another one.
    """
    at = utc(time.time() if now is None else now)
    entry = RegistryEntry(
        launched.name, launched.root, launched.store, launched.run, launched.pid, at
    )
    try:
        other = registry.put(entry, unless=_runs_elsewhere)
    except OSError:
        return "the registry cannot be written"
    if other is None:
        return None
    return f"{launched.name} is also the name of the run in {other.root}, which is under way"


def _runs_elsewhere(entry: RegistryEntry) -> bool:
    """False also where its store was deleted, or cannot be read."""
    try:
        record = find_record(entry.store, entry.run)
    except FanfoldError:
        return False
    return record is not None and may_run(entry.store, record)


def open_panes(launched: Launched, log: Say) -> str | None:
    """A window for each worker; the name of the tmux session, None without one."""
    panes = tmux.show(launched.name, launched.run, launched.store, log)
    if panes is None:
        return None
    if launched.workers:
        panes.started(*launched.workers)
    panes.close()
    return panes.session


def _workers(job: Job) -> tuple[str, ...]:
    tasks = [t for step in job.stored.plan.steps if isinstance(step, Graph) for t in step.tasks]
    entries = job.roster.entries
    return tuple(
        task.id
        for task in tasks
        if task.who.members and all(entries[id].traits.agent for id in task.who.members)
    )


# ── what ran before ──────────────────────────────────────────────────────────────────────────


def _conflicts(record: RunRecord, job: Job) -> bool:
    if job.stored.kind != "fleet":
        return record.name == job.name
    started = started_with(record)
    if record.status == "running":
        same_folder = started.kind == "fleet" and record.folder == job.stored.plan.folder
        return record.name == job.name or same_folder
    return record.name == job.name and started.roster == job.stored.roster


def _refuse(job: Job, store: str, earlier: RunRecord, force: bool) -> None:
    """A plan may be run as often as one likes, but not twice at once under one name."""
    if may_run(store, earlier):
        what = f"{earlier.name} ({earlier.id}) is already running"
        raise AlreadyRunning(f"{what}; see: fanfold status {earlier.name}")
    if job.stored.kind != "fleet":
        return
    root, name = job.stored.plan.folder, earlier.name
    if not force and earlier.status in FINISHED:
        raise BadInput(
            f"{name} has finished; one worker again: fanfold relaunch {name} WORKER,"
            f" all of them: fanfold launch {root} --force-relaunch"
        )
    if not force:
        how = "crashed" if earlier.status == "running" else f"was {earlier.status}"
        raise BadInput(
            f"{name} {how} before it was done; to continue: fanfold resume {root} --detach"
        )
    _refuse_living(store, earlier)
    tmux.close_session(name, earlier.id, store)


def _refuse_living(store: str, earlier: RunRecord) -> None:
    with reading(store) as archive:
        living = [worker.id for worker in living_workers(archive, earlier)]
    if living:
        what = f"workers of {earlier.name} are still at work: {', '.join(living)}"
        raise AlreadyRunning(f"{what}; end them first: fanfold kill {earlier.name} all")
