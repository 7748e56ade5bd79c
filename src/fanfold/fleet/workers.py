"""The agents' workers of a run: those that were started for it, and which of them live."""

from __future__ import annotations

from pathlib import Path

import msgspec

from fanfold.fleet.logs import Follower
from fanfold.journal.facts import Attempt, RunRecord
from fanfold.journal.journal import Archive
from fanfold.members.agents.dialects import DIALECTS
from fanfold.members.agents.hosting import Host, find
from fanfold.work.ask import Usage

MOST = 100_000


class Worker(msgspec.Struct, frozen=True):
    """A worker that was started for an attempt; its files are in `host.place`."""

    id: str
    attempt: Attempt
    host: Host


def worker_of(store: Path, record: RunRecord, attempt: Attempt) -> Worker | None:
    """None: it has none, since its member is no agent, or a later attempt took over its folder.

    A fleet's worker has a folder of its own, all others one in the store. The span in it tells
    whose it is, so `a` is never taken for `ab`, nor an attempt for the next.
    """
    span = f"{record.id}:{attempt.no}"
    places = [store / "agents" / record.id / str(attempt.no)]
    if record.folder and len(attempt.ids) == 1:
        places.append(Path(record.folder, "workers", attempt.ids[0]))
    for place in places:
        host = find(place, span)
        if host is not None:
            return Worker(attempt.ids[0] if attempt.ids else "", attempt, host)
    return None


class Took(msgspec.Struct, frozen=True):
    """What a worker took, by its files: `cost` (nano-dollars) with the most that a call under way at
    its end can have taken; None where no price is known."""

    cost: int | None
    usage: Usage


def took_at_most(worker: Worker) -> Took | None:
    """None: nobody here can read its log, or it may still go on."""
    host = worker.host
    exit, dialect = host.exit(), DIALECTS.get(host.spec.dialect)
    if exit is None or dialect is None:
        return None
    reading = Follower(host.place, host.spec, dialect).catch_up(over=True)
    more = reading.unknown(exit.at)
    known = reading.cost is not None or more
    return Took((reading.cost or 0) + more if known else None, reading.usage)


def workers_of(archive: Archive, record: RunRecord) -> list[Worker]:
    """All of the run whose files are still there, oldest first."""
    attempts = archive.read.attempts(record.no, MOST)
    found = (worker_of(archive.store.folder, record, attempt) for attempt in attempts)
    return [worker for worker in found if worker is not None]


def living_workers(archive: Archive, record: RunRecord) -> list[Worker]:
    return [worker for worker in workers_of(archive, record) if worker.host.alive()]
