"""`fanfold worker` and `fanfold workers`: asks of runs on other machines, and who carries them out."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from fanfold.errors import BadInput
from fanfold.faces.cli.options import json_option
from fanfold.fleet.job import offered_by
from fanfold.fleet.load import is_fleet
from fanfold.journal import opening
from fanfold.journal.queue import WorkerState
from fanfold.members.kinds import check_tags
from fanfold.members.roster import find_roster, load_roster
from fanfold.observe.amounts import count, duration
from fanfold.observe.table import Column, aligned, one_line
from fanfold.run.inherited import inherited
from fanfold.run.loop import on_ending_signals, run_sync
from fanfold.run.member_sources import ListedMembers
from fanfold.run.stdio import queue_folder, serve_stdio
from fanfold.run.worker import Worker, WorkerOptions
from fanfold.work.reader import Misfit

queue_option = click.option(
    "--queue", default=lambda: inherited().store, metavar="URL",
    help="Where asks are put: postgresql://…; FANFOLD_STORE by default.",
)  # fmt: skip


def _tags(context: click.Context, option: click.Parameter, value: str) -> tuple[str, ...]:
    tags = tuple(word.strip() for word in value.split(",") if word.strip())
    try:
        check_tags(tags)
    except Misfit as wrong:
        raise BadInput(f"--tags: {wrong}") from None
    return tags


@click.command()
@queue_option
@click.option(
    "--roster",
    metavar="FILE",
    help="Members of this machine: a roster, or a fleet.json.",
)
@click.option(
    "--slots", type=click.IntRange(min=1), default=8, show_default=True, metavar="N",
    help="Concurrent asks.",
)  # fmt: skip
@click.option(
    "--tags",
    default="",
    callback=_tags,
    metavar="A,B",
    help="Labels of this machine, for members that need them.",
)
@click.option("--stdio", is_flag=True, help="For a run that has started it over ssh.")
def worker(queue: str, roster: str | None, slots: int, tags: tuple[str, ...], stdio: bool) -> None:
    """Take asks from a queue, carry them out with the members of this machine, and report.

    Keys stay here. Ctrl-C or SIGTERM finishes what is under way; a second one cancels it.
    """
    found = find_roster(roster, None, Path.cwd())
    read = offered_by(found) if is_fleet(found) else load_roster(found)
    source = ListedMembers(read, found.parent, allow_paid=True, works=True)
    if stdio:
        run_sync(serve_stdio(source, queue_folder(found), slots, tags))
        return
    options = WorkerOptions(queue=queue, slots=slots, tags=tags)
    run_sync(_serve(source, options))


async def _serve(source: ListedMembers, options: WorkerOptions) -> None:
    working = Worker(source, options, lambda line: click.echo(f"fanfold worker: {line}", err=True))
    remove = on_ending_signals(lambda number: working.stop(), signal.SIGINT)
    try:
        await working.serve()
    finally:
        remove()


@click.command()
@queue_option
@json_option
def workers(queue: str, as_json: bool) -> None:
    """List the workers of a queue: machine, slots, what they run, last sign of life, version."""
    state = opening.open_queue(queue).state()
    if as_json:
        click.echo(msgspec.json.encode(state))
        return
    if state.workers:
        click.echo("\n".join(_listed(state.workers)))
    else:
        click.echo("no workers; start one: fanfold worker --queue URL --roster FILE")
    for member, waiting in state.waiting.items():
        click.echo(
            f"{count(waiting, 'ask waits', 'asks wait')} for a worker with {one_line(member)}"
        )


def _listed(found: Sequence[WorkerState]) -> list[str]:
    columns = (
        Column("WORKER", [f"{one.worker.host}:{one.worker.pid}" for one in found], names=True),
        Column("SLOTS", [f"{len(one.holds)}/{one.worker.slots}" for one in found], right=True),
        Column("SEEN", [_seen(one) for one in found]),
        Column("MEMBERS", [", ".join(one.worker.members) for one in found], rank=1, least=12),
        Column("TAGS", [", ".join(one.worker.tags) for one in found], rank=2, least=8),
        Column("VERSION", [one.worker.version for one in found], rank=3),
        Column("RUNS", [_held(one) for one in found], rank=1, least=16),
    )
    lines = aligned(columns, shutil.get_terminal_size((100, 24)).columns)
    for one in found:
        for why in one.misfits if one.alive else ():
            lines.append(f"{one.worker.host}:{one.worker.pid} gets no such asks: {one_line(why)}")
    return lines


def _seen(one: WorkerState) -> str:
    if not one.alive:
        return "gone"
    return f"{duration(max(0.0, one.now - one.seen))} ago"


def _held(one: WorkerState) -> str:
    return ", ".join(f"{held.member} {held.span}" for held in one.holds[:3])
