"""`fanfold status` and `members`: looking, without changing anything."""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import suppress
from typing import NamedTuple

import click
import msgspec

from fanfold.errors import BadInput, FanfoldError
from fanfold.faces.cli.options import json_option
from fanfold.faces.cli.store import Opened, fleet_of, looked_at, named, registry
from fanfold.faces.cli.store import opened as _archive
from fanfold.faces.cli.store import store_option as _store
from fanfold.faces.cli.terminal import Text, columns
from fanfold.faces.cli.terminal import watch as watching
from fanfold.fleet.look import WorkerReader
from fanfold.fleet.runs import LocatedRun
from fanfold.fleet.status import (
    SORTS,
    FleetStatus,
    Sort,
    fleet_json,
    fleet_status,
    ordered,
    worker_lines,
)
from fanfold.journal import opening
from fanfold.journal.following import RunMemory
from fanfold.observe.detail import detail, detail_json
from fanfold.observe.status import RunSummary, listed, overview, overview_json
from fanfold.run.inherited import inherited

AGAIN = 2.0  # seconds


@click.command()
@click.argument("run", required=False)
@_store
@json_option
@click.option("--watch", is_flag=True, help="Refresh until it has ended.")
@click.option(
    "-v",
    "verbose",
    is_flag=True,
    help="Show more: steps, members, workers, items that did not pass.",
)
@click.option("--tag", metavar="TAG", help="Only runs with this tag.")
@click.option(
    "--sort",
    type=click.Choice(SORTS),
    help="Order of workers; attention: those that need you first.",
)
def status(
    run: str | None, store: str, as_json: bool, watch: bool, verbose: bool, sort: Sort | None,
    tag: str | None,
) -> None:  # fmt: skip
    """List all runs of the store, or show one. Without a store: all runs that were launched.

    RUN is a run's id or name, or a fleet's folder; the newest of a name wins.
    """
    if run is None and sort is not None:
        raise BadInput(f"--sort is for the workers of one run: fanfold status RUN --sort {sort}")
    if run is not None and tag is not None:
        raise BadInput("--tag is for all runs: fanfold status --tag TAG")
    how = StatusOptions(as_json, verbose, sort or "planned")
    show = _all(store, as_json, watch, tag) if run is None else _one(named(run, store), how)
    if watch:
        watching(show, AGAIN)
    else:
        click.echo(show(columns(), None)[0])


def _all(store: str, as_json: bool, watch: bool, tag: str | None) -> Text:
    memories: dict[int, RunMemory] | None = defaultdict(RunMemory) if watch else None

    def show(width: int, height: int | None) -> tuple[str, bool]:
        now = time.time()
        stands = _launched(store, now) or _of_store(store, now, memories, tag)
        if tag is not None:
            stands = [one for one in stands if tag in one.run.tags]
        over = not any(summary.status == "running" for summary in stands)
        if as_json:
            return overview_json(stands).decode(), over
        return overview(stands, now=now, width=width, store=store), over

    return show


def _of_store(
    store: str, now: float, memories: dict[int, RunMemory] | None, tag: str | None
) -> list[RunSummary]:
    with _archive(store) as archive:
        found = []
        for one in archive.read.runs():
            if tag is not None and tag not in one.tags:
                continue
            view = archive if memories is None else memories[one.no].over(archive, one.no)
            found.append(listed(view.read, one, archive.sessions.alive, now, archive.sent))
        return found


def _launched(store: str, now: float) -> list[RunSummary]:
    """Where there is no store, and none was named: the runs that were launched elsewhere."""
    if store != inherited().store or opening.exists(store):
        return []
    found = []
    for entry in registry().entries():
        with suppress(FanfoldError), _archive(entry.store) as archive:
            if (record := archive.read.find(entry.run)) is not None:
                found.append(
                    listed(archive.read, record, archive.sessions.alive, now, archive.sent)
                )
    return found


class StatusOptions(NamedTuple):
    """How one run is shown."""

    as_json: bool
    verbose: bool
    sort: Sort


def _one(located: LocatedRun, how: StatusOptions) -> Text:
    reader, memory = WorkerReader(), RunMemory()

    def show(width: int, height: int | None) -> tuple[str, bool]:
        with looked_at(located, memory) as opened:
            status = fleet_of(opened, reader, timed=how.as_json)
            workers = ordered(status.workers, how.sort)
            status = msgspec.structs.replace(status, workers=workers)
            if how.as_json:
                return _status_json(opened, status), status.over
            if opened.snapshot().of_tasks:
                text = fleet_status(status, verbose=how.verbose, width=width, height=height)
                return text, status.over
            return _detail(opened, status, how.verbose, width), status.over

    return show


def _status_json(opened: Opened, status: FleetStatus) -> str:
    """The receipt's fields, and those of a fleet where there are workers."""
    whole = detail_json(opened.archive.read, status.summary, opened.store)
    if not status.workers:
        return whole.decode()
    return msgspec.json.encode(msgspec.json.decode(whole) | fleet_json(status)).decode()


def _detail(opened: Opened, status: FleetStatus, verbose: bool, width: int) -> str:
    """As for every run; with its agents, while some are at work."""
    read, summary = opened.archive.read, status.summary
    text = detail(read, summary, verbose=verbose, width=width, store=opened.store)
    if not any(one.state == "RUNNING" for one in status.workers):
        return text
    return "\n".join([text, "", "workers", *worker_lines(status, verbose=verbose, width=width)])
