"""Where runs are kept: the option, which run is meant, and looking into a store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from fanfold.errors import BadInput
from fanfold.fleet import runs
from fanfold.fleet.registry import Registry
from fanfold.fleet.runs import LocatedRun
from fanfold.journal import opening
from fanfold.journal.contract import StoreView
from fanfold.journal.facts import RunRecord
from fanfold.run.inherited import inherited


def _place(context: click.Context, option: click.Parameter, value: str) -> str:
    """A store in memory has a name here, so that all of a command finds the same one."""
    return "memory:command" if value == "memory:" else value


store_option = click.option(
    "--store",
    default=lambda: inherited().store,
    metavar="DIR",
    help="The folder that runs are stored in; memory: keeps nothing.",
    callback=_place,
)


def registry() -> Registry:
    """The user's. What is wrong with it is said on stderr, and stops nothing."""
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
