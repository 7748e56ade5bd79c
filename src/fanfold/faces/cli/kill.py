"""`fanfold kill`: end one worker, or a whole run."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec

from fanfold.errors import FanfoldError
from fanfold.faces.cli.store import found, registry, store_option
from fanfold.fleet import tmux
from fanfold.fleet.kill import KillResult, kill_all, kill_worker
from fanfold.journal.facts import RunRecord

ALL = "all"


@click.command()
@click.argument("run", metavar="RUN")
@click.argument("worker", metavar="WORKER|all")
@click.option("--force", is_flag=True, help="Ask nothing.")
@store_option
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def kill(run: str, worker: str, force: bool, store: str, as_json: bool) -> None:
    """End a worker with all that it started; or all of them, and the run.

    RUN is a run's id or name, or the folder of a fleet. What was killed is not started again by
    itself: see `fanfold relaunch` and `fanfold resume`.
    """
    with found(run, store) as (archive, record):
        folder = str(archive.files)
    if worker == ALL:
        _ask(record, force)
        ended = kill_all(folder, record)
        registry().remove(record.name, record.id)
        tmux.close_session(record.name, record.id, Path(folder))
    else:
        ended = kill_worker(folder, record, worker)
    click.echo(msgspec.json.encode(ended) if as_json else _told(ended, record, worker))
    if ended.left:
        raise FanfoldError(f"could not be ended: {'; '.join(ended.left)}")


def _ask(record: RunRecord, force: bool) -> None:
    if not force and sys.stdin.isatty() and sys.stderr.isatty():
        click.confirm(f"End all of {record.name} ({record.id})?", abort=True, err=True)


def _told(ended: KillResult, record: RunRecord, worker: str) -> str:
    names = ", ".join(ended.killed)
    if worker == ALL:
        what = f"{record.name} ({record.id})"
        if not names and record.status not in ("running", "paused"):
            return f"{what} was over before, {record.status}: nothing was left to end"
        return f"killed {what}" + (f": {names}" if names else "")
    if ended.killed:
        return f"killed {names}; again: fanfold relaunch {record.name} {worker}"
    return ended.said
