"""The workers of a run: agents that were started for its attempts, found by the files they left."""

from __future__ import annotations

from pathlib import Path

import msgspec

from fanfold.fleet.logs import Follower
from fanfold.fleet.worker_view import WorkerFiles
from fanfold.journal.answers import AttemptRecord
from fanfold.journal.contract import StoreView
from fanfold.journal.facts import RunRecord
from fanfold.members.agents.dialects import DIALECTS
from fanfold.members.agents.hosting import Host
from fanfold.members.agents.processes import living
from fanfold.members.agents.worker import Spec, read_exit, read_host, read_spec
from fanfold.work.ask import Usage

MOST = 100_000


class FleetWorker(msgspec.Struct, frozen=True):
    """A worker that was started for an attempt; its files are in `host.place`."""

    id: str
    attempt: AttemptRecord
    host: Host


class WorkerCost(msgspec.Struct, frozen=True):
    """By the files of a worker: `cost` in nano-dollars, with the most that a call under way at its end
    can have cost; None where no price is known."""

    cost: int | None
    usage: Usage


def place_of(store: Path, record: RunRecord, attempt: AttemptRecord) -> tuple[Path, Spec] | None:
    """The folder of an attempt's worker. None: its member is not an agent, or the folder is
    that of a later attempt.

    A worker of a fleet has a folder of its own, all others one in the store. The span in it says
    whose it is, so `a` is never taken for `ab`, nor an attempt for the next.
    """
    places = [store / "agents" / record.id / str(attempt.no)]
    if record.folder and len(attempt.ids) == 1:
        places.append(Path(record.folder, "workers", attempt.ids[0]))
    for place in places:
        spec = read_spec(place)
        if spec is not None and spec.span == f"{record.id}:{attempt.no}":
            return place, spec
    return None


def worker_of(store: Path, record: RunRecord, attempt: AttemptRecord) -> FleetWorker | None:
    found = place_of(store, record, attempt)
    if found is None:
        return None
    place, spec = found
    return FleetWorker(attempt.ids[0] if attempt.ids else "", attempt, Host(place.absolute(), spec))


def files_in(place: Path, spec: Spec) -> WorkerFiles:
    """A host writes its record first and its exit last; read in the same order."""
    host = read_host(place)
    lives = host is not None and (living(host.host) or living(host.program))
    exit = read_exit(place)
    return WorkerFiles(place, spec, lives and exit is None, exit, hosted=host is not None)


def cost_at_most(worker: FleetWorker) -> WorkerCost | None:
    """None: its log cannot be read here, or it may still be at work."""
    host = worker.host
    exit, dialect = host.exit(), DIALECTS.get(host.spec.dialect)
    if exit is None or dialect is None:
        return None
    reading = Follower(host.place, host.spec, dialect).catch_up(over=True)
    more = reading.unknown(exit.at)
    known = reading.cost is not None or more
    return WorkerCost((reading.cost or 0) + more if known else None, reading.usage)


def workers_of(archive: StoreView, record: RunRecord) -> list[FleetWorker]:
    """All of the run whose files are still there, oldest first."""
    attempts = archive.read.attempts(record.no, MOST)
    found = (worker_of(archive.files, record, attempt) for attempt in attempts)
    return [worker for worker in found if worker is not None]


def living_workers(archive: StoreView, record: RunRecord) -> list[FleetWorker]:
    return [worker for worker in workers_of(archive, record) if worker.host.alive()]
