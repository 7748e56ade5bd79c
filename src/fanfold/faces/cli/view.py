"""`fanfold view`: what one worker says and does, from its log."""

from __future__ import annotations

import time
from collections.abc import Iterable

import click

from fanfold.errors import BadInput
from fanfold.faces.cli.finding import looked_at, named
from fanfold.faces.cli.screen import columns, until_interrupted
from fanfold.faces.cli.store import store_option
from fanfold.fleet.runs import LocatedRun
from fanfold.fleet.stream import WorkerStream, closing_line, view_lines
from fanfold.fleet.worker_view import WorkerFiles
from fanfold.fleet.workers import files_in
from fanfold.members.agents.worker import read_spec
from fanfold.work.nearest import remedy

POLL = 0.2  # seconds between looks at a log
START = 1.0  # seconds between looks for a worker that has not started


@click.command()
@click.argument("run", metavar="RUN")
@click.argument("worker", metavar="WORKER")
@store_option
@click.option("--lines", type=click.IntRange(0), default=30, help="The last N things it said.")
@click.option("--follow", "-f", is_flag=True, help="Continue until it has ended.")
@click.option("--raw", is_flag=True, help="The lines of its log as they are.")
def view(run: str, worker: str, store: str, lines: int, follow: bool, raw: bool) -> None:
    """What one worker says and does. WORKER is its id, or #N for attempt number N."""
    located = named(run, store)
    with until_interrupted():
        files = _awaited(located, worker) if follow else _found(located, worker)[0]
        if files is None:
            click.echo(f"{worker} has not started yet")
            return
        stream = WorkerStream(files)
        _show(stream, raw, lines=lines, over=files.over)
        while follow and not files.over:
            time.sleep(POLL)
            files = _again(files)
            _show(stream, raw, lines=None, over=files.over)
        if follow and not raw:
            click.echo(closing_line(files, columns()))


def _show(stream: WorkerStream, raw: bool, *, lines: int | None, over: bool) -> None:
    if raw:
        texts: Iterable[str] = (
            stream.more_raw(over=over) if lines is None else stream.last_raw(lines, over=over)
        )
        for text in texts:
            click.echo(text)
        return
    said = stream.more(over=over) if lines is None else stream.last(lines, over=over)
    for one in said:
        for text in view_lines(one, columns()):
            click.echo(text)


def _found(located: LocatedRun, worker: str) -> tuple[WorkerFiles | None, bool]:
    """Its files, None before it has any; and whether it can still get some."""
    with looked_at(located) as opened:
        snapshot = opened.snapshot()
        files = snapshot.find(worker)
        if files is None and worker not in snapshot.names():
            known = snapshot.names()
            hint = remedy(worker, known) if known else "no agent has worked in this run"
            raise BadInput(f"no worker {worker!r} in {opened.record.name}: {hint}")
        return files, snapshot.alive


def _awaited(located: LocatedRun, worker: str) -> WorkerFiles | None:
    """Wait until it has started, as long as somebody is there who could start it."""
    announced = False
    while True:
        files, coming = _found(located, worker)
        if files is not None or not coming:
            return files
        if not announced:
            click.echo(f"{worker} has not started yet; waiting for it")
            announced = True
        time.sleep(START)


def _again(files: WorkerFiles) -> WorkerFiles:
    """The same worker as it is now. When its place was given to another attempt it is over."""
    spec = read_spec(files.place)
    if spec is None or spec.span != files.spec.span:
        return WorkerFiles(files.place, files.spec, lives=False, exit=files.exit)
    return files_in(files.place, files.spec)
