"""Where runs are kept: the option, which run is meant, and reading it, also again and again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import click

from fanfold.errors import BadInput
from fanfold.fleet import runs
from fanfold.fleet.look import RunSnapshot, WorkerReader
from fanfold.fleet.run_plan import run_plan
from fanfold.fleet.runs import LocatedRun, Registry, locate
from fanfold.fleet.status import FleetStatus, supervisor_of
from fanfold.journal import opening
from fanfold.journal.contract import StoreView
from fanfold.journal.damage import damage_is_named
from fanfold.journal.facts import RunRecord
from fanfold.journal.following import RunMemory
from fanfold.observe.status import summarize
from fanfold.run.inherited import inherited, named_store


def _place(context: click.Context, option: click.Parameter, value: str) -> str:
    """A store in memory has a name here, so that all of a command finds the same one."""
    return "memory:command" if value == "memory:" else value


store_option = click.option(
    "--store",
    default=lambda: inherited().store,
    metavar="DIR",
    help="Where runs are stored: a folder, or postgresql://…; memory: keeps nothing.",
    callback=_place,
)


def registry() -> Registry:
    """The user's. Problems with it are warnings on stderr."""
    return Registry(warn=lambda text: click.echo(f"fanfold: warning: {text}", err=True))


def located(run: str, store: str) -> LocatedRun:
    """Which run is meant: a folder, a run of the store, or a name that was launched elsewhere."""
    return runs.locate(run, store, registry())


@contextmanager
def opened(store: str) -> Iterator[StoreView]:
    archive = opening.look(store)
    for line in archive.warnings:
        click.echo(f"fanfold: warning: {line}", err=True)
    try:
        with damage_is_named(archive):
            yield archive
    finally:
        archive.close()


def find_run(archive: StoreView, name: str) -> RunRecord:
    record = archive.read.find(name)
    if record is None:
        known = ", ".join(archive.read.names()[:8]) or "none yet"
        raise BadInput(f"no run {name!r}; there are: {known}")
    return record


@contextmanager
def found(run: str, store: str) -> Iterator[tuple[StoreView, RunRecord]]:
    """The run that is meant, in the store that it is kept in."""
    where = located(run, store)
    with opened(where.store) as archive:
        yield archive, find_run(archive, where.run)


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


def fleet_of(opened: Opened, reader: WorkerReader, *, timed: bool = False) -> FleetStatus:
    """The present state of a run with workers. `timed`: as of `receipt`."""
    archive, record, now = opened.archive, opened.record, time.time()
    summary = summarize(
        archive.read, record, archive.sessions.alive, now, archive.sent, timed=timed
    )
    return FleetStatus(
        summary=summary, workers=reader.read(archive, record, now), now=now,
        supervisor=supervisor_of(archive.files, record), store=opened.store,
        root=run_plan(record).folder,
    )  # fmt: skip
