"""Launch a run: checked in the foreground, carried out by a supervisor of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from fanfold.errors import AlreadyRunning, BadInput, FanfoldError
from fanfold.fleet import tmux
from fanfold.fleet.detach import start_supervisor
from fanfold.fleet.job import prepare_fleet, store_of
from fanfold.fleet.load import is_fleet
from fanfold.fleet.locks import acting
from fanfold.fleet.mission import log_file, mission_of, root_folder
from fanfold.fleet.money import refuse_unaffordable
from fanfold.fleet.registry import Entry, Registry, utc
from fanfold.fleet.workers import living_workers
from fanfold.journal.checksum import decoded
from fanfold.journal.facts import RunRecord
from fanfold.journal.journal import Archive
from fanfold.journal.store import Store
from fanfold.plans.execute import Job, Options, prepare
from fanfold.plans.plan import Graph

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
    """All workers again: no reply of an earlier run serves, and what is in doubt is repeated."""
    return msgspec.structs.replace(options, fresh=True, retry_in_doubt=None)


def launch(job: Job, *, force: bool = False) -> Launched:
    """Start it, unless it runs already. A fleet that ran before is not begun anew by accident."""
    with beginning(job, force=force):
        return start(job)


@contextmanager
def beginning(job: Job, *, force: bool = False) -> Iterator[None]:
    """Nobody else begins it meanwhile; refused where it runs, or ran before."""
    refuse_unaffordable(job)
    store = str(Path(job.options.store).absolute())
    with acting(store, job.name):
        earlier = _newest(store, job)
        if earlier is not None:
            _refuse(job, store, earlier, force)
        yield


def start(job: Job) -> Launched:
    """Start the supervisor of a job; whoever calls this holds the run's lock."""
    log, mission = log_file(job), mission_of(job)
    ready = start_supervisor(mission, log)
    return Launched(
        run=ready.run, name=ready.name, store=mission.options.store, pid=ready.pid, log=str(log),
        root=root_folder(job), planned=ready.planned, fleet=job.stored.kind == "fleet",
        workers=_workers(job),
    )  # fmt: skip


def resume_detached(job: Job) -> Launched:
    """An earlier run goes on, with a supervisor of its own."""
    with acting(str(Path(job.options.store).absolute()), job.name):
        return start(job)


def register(launched: Launched, registry: Registry, now: float | None = None) -> str | None:
    """So that the name is enough from anywhere. What comes back is why it is not.

    A name whose run is under way elsewhere stays with that run: `fanfold kill NAME all` must never
    come to mean another one.
    """
    at = utc(time.time() if now is None else now)
    entry = Entry(launched.name, launched.root, launched.store, launched.run, launched.pid, at)
    try:
        other = registry.put(entry, unless=_is_under_way)
    except OSError:
        return "the registry cannot be written"
    if other is None:
        return None
    return f"{launched.name} is also the name of the run in {other.root}, which is under way"


def _is_under_way(entry: Entry) -> bool:
    """False also for one whose store is gone, or cannot be read."""
    try:
        archive = Archive(entry.store)
    except FanfoldError:
        return False
    try:
        record = archive.read.find(entry.run)
    finally:
        archive.close()
    return record is not None and record.status == "running" and archive.store.alive(record.session)


def open_panes(launched: Launched, log: Say) -> str | None:
    """A window for each worker; the name of the tmux session, None without one."""
    panes = tmux.show(launched.name, launched.run, Path(launched.store), log)
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


class _Started(msgspec.Struct, frozen=True):
    """Of what a run was started with. A fleet with a `roster` was only rehearsed."""

    kind: str = "plan"
    roster: str | None = None


_started = msgspec.json.Decoder(_Started).decode


def _newest(store: str, job: Job) -> RunRecord | None:
    """The newest of its name. Of a fleet, one under another name counts too while it is under way,
    since both would work in the same folders; but a rehearsal that is over does not."""
    if not Store(Path(store)).file.exists():
        return None
    archive = Archive(store)
    try:
        runs = list(reversed(archive.read.runs()))
    finally:
        archive.close()
    return next((one for one in runs if _stands_in_the_way(one, job)), None)


def _stands_in_the_way(record: RunRecord, job: Job) -> bool:
    if job.stored.kind != "fleet":
        return record.name == job.name
    started = decoded(_started, record.plan or b"{}", f"what run {record.name} was started with")
    if record.status == "running":
        beside = started.kind == "fleet" and record.folder == job.stored.plan.folder
        return record.name == job.name or beside
    return record.name == job.name and started.roster == job.stored.roster


def _refuse(job: Job, store: str, earlier: RunRecord, force: bool) -> None:
    """A plan may be run as often as one likes, but not twice at once under one name."""
    if earlier.status == "running" and Store(Path(store)).alive(earlier.session):
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
    tmux.close_session(name, earlier.id, Path(store))


def _refuse_living(store: str, earlier: RunRecord) -> None:
    archive = Archive(store)
    try:
        living = [worker.id for worker in living_workers(archive, earlier)]
    finally:
        archive.close()
    if living:
        what = f"workers of {earlier.name} are still at work: {', '.join(living)}"
        raise AlreadyRunning(f"{what}; end them first: fanfold kill {earlier.name} all")
