"""`fanfold kill`, `relaunch`, `view` and `feed`: the workers of a run."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable

import click
import msgspec

from fanfold.errors import BadInput, FanfoldError
from fanfold.faces.cli.launch import look_on, show_launched
from fanfold.faces.cli.options import json_option
from fanfold.faces.cli.orders import operator
from fanfold.faces.cli.store import found, located, looked_at, named, registry, store_option
from fanfold.faces.cli.terminal import columns, until_interrupted
from fanfold.fleet import tmux
from fanfold.fleet.kill import KillResult, kill_all, kill_worker
from fanfold.fleet.relaunch import relaunch as begin
from fanfold.fleet.runs import LocatedRun
from fanfold.fleet.stream import (
    FeedEvent,
    FeedFilter,
    RunFeed,
    WorkerStream,
    closing_line,
    feed_json,
    feed_line,
    view_lines,
)
from fanfold.fleet.worker_view import WorkerFiles, files_in
from fanfold.journal import opening
from fanfold.journal.facts import RunRecord
from fanfold.members.agents.worker import read_spec
from fanfold.plans.prepare import Options
from fanfold.work.nearest import remedy

ALL = "all"


@click.command()
@click.argument("run", metavar="RUN")
@click.argument("worker", metavar="WORKER|all")
@click.option("--force", is_flag=True, help="Do not ask for confirmation.")
@store_option
@json_option
def kill(run: str, worker: str, force: bool, store: str, as_json: bool) -> None:
    """End a worker with all that it started; or all of them, and the run.

    RUN is a run's id or name, or the folder of a fleet. What was killed is not started again by
    itself: see `fanfold relaunch` and `fanfold resume`.
    """
    with found(run, store) as (archive, record):
        folder = str(archive.files)
        place = opening.server(archive.place) or folder
    if worker == ALL:
        if not force and sys.stdin.isatty() and sys.stderr.isatty():
            click.confirm(f"End all of {record.name} ({record.id})?", abort=True, err=True)
        ended = kill_all(place, record, operator())
        registry().remove(record.name, record.id)
        tmux.close_session(record.name, record.id, folder)
    else:
        ended = kill_worker(place, record, worker, operator())
    text = msgspec.json.encode(ended) if as_json else _kill_text(ended, record, worker)
    if text:
        click.echo(text)
    if ended.left:
        raise FanfoldError(f"could not be ended: {'; '.join(ended.left)}")


def _kill_text(ended: KillResult, record: RunRecord, worker: str) -> str:
    names = ", ".join(ended.killed)
    if worker == ALL:
        what = f"{record.name} ({record.id})"
        if not names and record.status not in ("running", "paused"):
            return f"{what} had already ended, {record.status}: nothing to kill"
        return f"killed {what}" + (f": {names}" if names else "")
    if ended.killed:
        return f"killed {names}; again: fanfold relaunch {record.name} {worker}"
    return ended.said


@click.command()
@click.argument("run", metavar="RUN")
@click.argument("worker", metavar="WORKER")
@store_option
@click.option(
    "--continue", "continued", is_flag=True, help="Continue its session instead of starting over."
)
@click.option("--no-tmux", is_flag=True, help="No windows in tmux.")
@json_option
def relaunch(
    run: str, worker: str, store: str, continued: bool, no_tmux: bool, as_json: bool
) -> None:
    """Start a worker again that has ended, and those that failed because of it. Others continue, or
    stay as they are. RUN is a run's id or name, or the folder of a fleet."""
    where = located(run, store)
    options = Options(store=where.store)
    launched = begin(where.run, worker, options, operator(), continued=continued)
    launched = msgspec.structs.replace(launched, workers=(worker,) if launched.workers else ())
    show_launched(launched, f"relaunched {worker} of", as_json=as_json)
    look_on(launched, attach=False, no_tmux=no_tmux)


LOG_POLL = 0.2  # seconds between looks at a log
START = 1.0  # seconds between looks for a worker that has not started


@click.command()
@click.argument("run", metavar="RUN")
@click.argument("worker", metavar="WORKER")
@store_option
@click.option(
    "--lines", metavar="N", type=click.IntRange(0), default=30, help="Only the last N events."
)
@click.option("--follow", "-f", is_flag=True, help="Continue until it has ended.")
@click.option("--raw", is_flag=True, help="The lines of its log, unchanged.")
def view(run: str, worker: str, store: str, lines: int, follow: bool, raw: bool) -> None:
    """Show what one worker says and does. WORKER is its id, or #N for attempt number N."""
    located = named(run, store)
    with until_interrupted():
        files = _awaited(located, worker) if follow else _found(located, worker)[0]
        if files is None:
            click.echo(_without_log(located, worker))
            return
        stream = WorkerStream(files)
        _show(stream, raw, lines=lines, over=files.over)
        while follow and not files.over:
            time.sleep(LOG_POLL)
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


def _without_log(located: LocatedRun, worker: str) -> str:
    """Why there is nothing to show. A worker that was no agent, as in a rehearsal, leaves no log."""
    with looked_at(located) as opened:
        ended = opened.snapshot().ended().get(worker)
        name = opened.record.name
    if ended is None:
        return f"{worker} has not started yet"
    return f"{worker} ended {ended.state} and left no log; see: fanfold show {name} {worker}"


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


POLL = 0.25  # seconds
REOPEN = 4  # looks at the logs between two looks at the journal


@click.command()
@click.argument("run", metavar="RUN")
@store_option
@click.option("--agent", metavar="ID", help="Only this worker's.")
@click.option("--type", "kind", metavar="T", help="Only these: a kind (tool) or an event (result).")
@click.option("--follow", "-f", is_flag=True, help="Continue until all have ended.")
@click.option(
    "--lines", metavar="N", type=click.IntRange(0), default=50, help="Begin with the last N events."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object in each line.")
def feed(
    run: str, store: str, agent: str | None, kind: str | None, follow: bool, lines: int,
    as_json: bool,
) -> None:  # fmt: skip
    """Show what the workers of a run say and do, in the order in which it happened, and when their
    attempts started, ended or were stopped."""
    located = named(run, store)
    stream = RunFeed(FeedFilter(agent, kind))
    with until_interrupted():
        with looked_at(located) as opened:
            known = opened.snapshot().names()
            if agent is not None and agent not in known:
                hint = remedy(agent, known) if known else "no agent has worked in this run"
                raise BadInput(f"no worker {agent!r} in {opened.record.name}: {hint}")
            _print_events(stream.last(opened.snapshot(), lines), as_json)
        while follow and _more(located, stream, as_json):
            pass


def _more(located: LocatedRun, stream: RunFeed, as_json: bool) -> bool:
    """A few looks. False: it was over before the first of them, so nothing more will come."""
    with looked_at(located) as opened:
        snapshot = opened.snapshot()
        over = snapshot.quiet()
        for _ in range(1 if over else REOPEN):
            _print_events(stream.more(snapshot), as_json)
            time.sleep(0.0 if over else POLL)
    return not over


def _print_events(events: Iterable[FeedEvent], as_json: bool) -> None:
    width = columns()
    for one in events:
        click.echo(msgspec.json.encode(feed_json(one)) if as_json else feed_line(one, width))
