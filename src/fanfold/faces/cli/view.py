"""`fanfold view`: what one worker says and does, from its log."""

from __future__ import annotations

import time
from collections.abc import Iterable

import click

from fanfold.errors import BadInput
from fanfold.faces.cli.finding import looked_at, named
from fanfold.faces.cli.screen import columns, until_interrupted
from fanfold.faces.cli.store import store_option
from fanfold.fleet.locate import Located
from fanfold.fleet.look import trace_of
from fanfold.fleet.view import View, closing_line, view_lines
from fanfold.fleet.worker_view import Trace
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
        trace = _awaited(located, worker) if follow else _found(located, worker)[0]
        if trace is None:
            click.echo(f"{worker} has not started yet")
            return
        seen = View(trace)
        _show(seen, raw, lines=lines, over=trace.over)
        while follow and not trace.over:
            time.sleep(POLL)
            trace = _again(trace)
            _show(seen, raw, lines=None, over=trace.over)
        if follow and not raw:
            click.echo(closing_line(trace, columns()))


def _show(seen: View, raw: bool, *, lines: int | None, over: bool) -> None:
    if raw:
        texts: Iterable[str] = (
            seen.more_raw(over=over) if lines is None else seen.last_raw(lines, over=over)
        )
        for text in texts:
            click.echo(text)
        return
    said = seen.more(over=over) if lines is None else seen.last(lines, over=over)
    for one in said:
        for text in view_lines(one, columns()):
            click.echo(text)


def _found(located: Located, worker: str) -> tuple[Trace | None, bool]:
    """Its files, None before it has any; and whether it can still get some."""
    with looked_at(located) as opened:
        scene = opened.scene()
        trace = scene.find(worker)
        if trace is None and worker not in scene.names():
            known = scene.names()
            hint = remedy(worker, known) if known else "no agent has worked in this run"
            raise BadInput(f"no worker {worker!r} in {opened.record.name}: {hint}")
        return trace, scene.alive


def _awaited(located: Located, worker: str) -> Trace | None:
    """Wait until it has started, as long as somebody is there who could start it."""
    told = False
    while True:
        trace, coming = _found(located, worker)
        if trace is not None or not coming:
            return trace
        if not told:
            click.echo(f"{worker} has not started yet; waiting for it")
            told = True
        time.sleep(START)


def _again(trace: Trace) -> Trace:
    """The same worker as it is now. When its place was given to another attempt it is over."""
    spec = read_spec(trace.place)
    if spec is None or spec.span != trace.spec.span:
        return Trace(trace.place, trace.spec, lives=False, exit=trace.exit)
    return trace_of(trace.place, trace.spec)
