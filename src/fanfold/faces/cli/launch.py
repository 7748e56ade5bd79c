"""`fanfold launch`: start a run that outlives the terminal, and say what to do next."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Any

import click
import msgspec
from click.core import ParameterSource

from fanfold.errors import BadInput
from fanfold.faces.cli.options import (
    governed,
    json_option,
    notify_option,
    options_of,
    otel_option,
    outside_option,
    overriding,
    refuse_overrides,
    tag_option,
)
from fanfold.faces.cli.store import registry, store_option
from fanfold.faces.cli.ui import show_page, start_page, ui_option
from fanfold.fleet.launch import Launched, forced, open_panes, prepare_launch, register
from fanfold.fleet.launch import launch as begin
from fanfold.fleet.load import is_fleet
from fanfold.observe.amounts import count
from fanfold.plans.prepare import keep_input


@click.command()
@click.argument("target", metavar="ROOT|PLAN")
@overriding
@click.option("--roster", metavar="FILE", help="The members to use.")
@click.option("--budget", metavar="USD", help="5, or usd=5,calls=900,tokens=…,seconds=….")
@click.option("--name", help="The run's name; the fleet's or plan's by default.")
@store_option
@click.option("--fresh", is_flag=True, help="Do not reuse replies of earlier runs.")
@click.option("--force-relaunch", is_flag=True, help="Run all workers of an earlier fleet again.")
@click.option("--attach", is_flag=True, help="Watch it afterwards: in tmux, else as a feed.")
@click.option("--no-tmux", is_flag=True, help="No windows in tmux.")
@governed
@otel_option
@notify_option
@tag_option
@click.option("--allow-paid", is_flag=True, help="Members of tier paid may be used.")
@outside_option
@ui_option
@json_option
def launch(
    target: str, force_relaunch: bool, attach: bool, no_tmux: bool, as_json: bool,
    with_page: bool, **given: Any,
) -> None:  # fmt: skip
    """Start a fleet or a plan in the background; it continues when the terminal is closed.

    ROOT is a folder with a fleet.json, PLAN a plan file.
    """
    options = options_of(given)
    options = forced(options) if force_relaunch else options
    if is_fleet(target) or Path(target).is_dir():
        refuse_overrides(options)
    source = click.get_current_context().get_parameter_source("store")
    job = prepare_launch(target, options, stated_store=source is ParameterSource.COMMANDLINE)
    for line in job.warnings:
        click.echo(f"warning: {line}", err=True)
    keep_input(job)
    link = start_page(job.options.store) if with_page else ""
    launched = begin(job, force=force_relaunch)
    show_launched(launched, "launched", as_json=as_json)
    if link:
        show_page(link, launched.run)
    look_on(launched, attach=attach, no_tmux=no_tmux)


def show_launched(launched: Launched, what: str, *, as_json: bool) -> None:
    """Enter it in the registry, and print what to do next."""
    unknown = register(launched, registry())
    if unknown:
        click.echo(f"fanfold: warning: {unknown}", err=True)
    where = ["--store", launched.store] if unknown else []
    name = launched.run if unknown else launched.name
    status = shlex.join(["fanfold", "status", name, *where])
    if as_json:
        click.echo(msgspec.json.encode(_record(launched, status)))
        return
    few = count(launched.planned, "worker" if launched.fleet else "item")
    click.echo(f"{what} {launched.name} ({launched.run}): {few}")
    click.echo(f"status:  {status}")
    if launched.workers:
        click.echo(f"view:    {shlex.join(['fanfold', 'view', name, launched.workers[0], *where])}")
    click.echo(f"kill:    {shlex.join(['fanfold', 'kill', name, 'all', *where])}")
    click.echo(f"log:     {launched.log}")


def _record(launched: Launched, status: str) -> dict[str, Any]:
    names = ("run", "name", "store", "pid", "log")
    return {name: getattr(launched, name) for name in names} | {"status": status}


def look_on(launched: Launched, *, attach: bool, no_tmux: bool) -> None:
    """Windows for its workers, and the terminal for those who want to look on."""
    session = None
    if launched.workers and not no_tmux:
        session = open_panes(launched, lambda text: click.echo(f"fanfold: {text}", err=True))
    if session is not None and not attach:
        click.echo(f"tmux:    tmux attach -t {shlex.quote('=' + session)}", err=True)
    if attach:
        _attach(launched, session)


def _attach(launched: Launched, session: str | None) -> None:
    """This process becomes the one that looks on: ending it ends nothing else."""
    words = [
        sys.executable,
        "-P",
        "-m",
        "fanfold",
        "feed",
        launched.run,
        "--store",
        launched.store,
        "-f",
    ]
    if session is not None and sys.stdout.isatty():
        verb = "switch-client" if os.environ.get("TMUX") else "attach-session"
        words = ["tmux", verb, "-t", f"={session}"]
    sys.stdout.flush()
    try:
        os.execvp(words[0], words)
    except OSError as error:
        raise BadInput(f"cannot start {words[0]}: {error.strerror}") from error
