"""`fanfold launch`: start a run that outlives the terminal, and say what to do next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from fanfold.faces.cli.carry import (
    governed,
    options_of,
    outside_option,
    overriding,
    refuse_overrides,
)
from fanfold.faces.cli.launched import look_on, show_launched
from fanfold.faces.cli.store import store_option
from fanfold.fleet.launch import forced, prepare_launch
from fanfold.fleet.launch import launch as begin
from fanfold.fleet.load import is_fleet
from fanfold.plans.execute import keep_input


@click.command()
@click.argument("target", metavar="ROOT|PLAN")
@overriding
@click.option("--roster", metavar="FILE", help="The members to use.")
@click.option("--budget", metavar="USD", help="5, or usd=5,calls=900,tokens=…,seconds=….")
@click.option("--name", help="The run's name; the fleet's or plan's by default.")
@store_option
@click.option("--fresh", is_flag=True, help="Do not reuse replies of earlier runs.")
@click.option("--force-relaunch", is_flag=True, help="A fleet that ran before: all workers again.")
@click.option("--attach", is_flag=True, help="Look on afterwards: in tmux, else as a feed.")
@click.option("--no-tmux", is_flag=True, help="No windows in tmux.")
@governed
@click.option("--allow-paid", is_flag=True, help="Members of tier paid may be used.")
@outside_option
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def launch(
    target: str, force_relaunch: bool, attach: bool, no_tmux: bool, as_json: bool, **given: Any
) -> None:
    """Start a fleet or a plan and return: it goes on by itself, whatever happens to the terminal.

    ROOT is a folder with a fleet.json, PLAN a plan file.
    """
    options = options_of(given)
    options = forced(options) if force_relaunch else options
    if is_fleet(target) or Path(target).is_dir():
        refuse_overrides(options)
    job = prepare_launch(target, options, stated_store=_is_stated("store"))
    for line in job.warnings:
        click.echo(f"warning: {line}", err=True)
    keep_input(job)
    launched = begin(job, force=force_relaunch)
    show_launched(launched, "launched", as_json=as_json)
    look_on(launched, attach=attach, no_tmux=no_tmux)


def _is_stated(name: str) -> bool:
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.COMMANDLINE
