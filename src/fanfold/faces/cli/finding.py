"""Which run is meant on the command line, and reading it again and again while it runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from fanfold.faces.cli.store import find_run, opened
from fanfold.fleet.look import RunSnapshot, WorkerReader
from fanfold.fleet.run_plan import run_plan
from fanfold.fleet.runs import LocatedRun, locate
from fanfold.fleet.status import FleetStatus, supervisor_of
from fanfold.journal.contract import StoreView
from fanfold.journal.facts import RunRecord
from fanfold.journal.following import RunMemory
from fanfold.observe.status import summarize
from fanfold.run.inherited import inherited, named_store


class Opened(NamedTuple):
    """A run in its store, opened to look at. `store` is how it is to be named in a command."""

    archive: StoreView
    record: RunRecord
    store: str

    def snapshot(self) -> RunSnapshot:
        return RunSnapshot(self.archive, self.record, time.time())


def named(run: str, store: str) -> LocatedRun:
    """The run of that name; a store that was named must be there."""
    if store != inherited().store and not Path(run).is_dir():
        with opened(store):
            pass
    return locate(run, store)


@contextmanager
def looked_at(located: LocatedRun, memory: RunMemory | None = None) -> Iterator[Opened]:
    """Open again to see what came since: a store that nobody had open is seen as it was then. With
    `memory` tables are read again only where something was committed."""
    with opened(located.store) as archive:
        record = find_run(archive, located.run)
        view = archive if memory is None else memory.over(archive, record.no)
        yield Opened(view, record, named_store(archive.place))


def fleet_of(opened: Opened, reader: WorkerReader) -> FleetStatus:
    """Where a run with workers stands now."""
    archive, record, now = opened.archive, opened.record, time.time()
    summary = summarize(archive.read, record, archive.sessions.alive, now)
    return FleetStatus(
        summary=summary, workers=reader.read(archive, record, now), now=now,
        supervisor=supervisor_of(archive.files, record), store=opened.store,
        root=run_plan(record).folder,
    )  # fmt: skip
