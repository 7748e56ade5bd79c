"""`fanfold relaunch`: one worker again, with its prompt as it is now."""

from __future__ import annotations

import click
import msgspec

from fanfold.faces.cli.launched import look_on, show_launched
from fanfold.faces.cli.store import located, store_option
from fanfold.fleet.relaunch import relaunch as begin
from fanfold.plans.execute import Options


@click.command()
@click.argument("run", metavar="RUN")
@click.argument("worker", metavar="WORKER")
@store_option
@click.option("--no-tmux", is_flag=True, help="No windows in tmux.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def relaunch(run: str, worker: str, store: str, no_tmux: bool, as_json: bool) -> None:
    """Start a worker anew that has ended, and those that failed for lack of it. Others go on, or
    stay as they are. RUN is a run's id or name, or the folder of a fleet."""
    where = located(run, store)
    launched = begin(where.run, worker, Options(store=where.store))
    launched = msgspec.structs.replace(launched, workers=(worker,) if launched.workers else ())
    show_launched(launched, f"relaunched {worker} of", as_json=as_json)
    look_on(launched, attach=False, no_tmux=no_tmux)
