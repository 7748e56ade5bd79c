"""What is said of a run that was launched, and how to look on."""

from __future__ import annotations

import os
import shlex
import sys
from typing import Any

import click
import msgspec

from fanfold.errors import BadInput
from fanfold.faces.cli.store import registry
from fanfold.fleet.launch import Launched, open_panes, register
from fanfold.observe.amounts import count


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
