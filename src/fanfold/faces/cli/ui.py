"""`fanfold ui`: a live page in the browser over a store; and `--ui` of those who start a run."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import webbrowser
from html import escape
from pathlib import Path

import click

from fanfold.errors import BadInput
from fanfold.faces.cli.store import store_option
from fanfold.journal import opening
from fanfold.run.loop import run_sync

IDLE = 600.0
"""Seconds without a viewer after which a page that a run brought along ends."""
ui_option = click.option("--ui", "with_page", is_flag=True, help="Show it in the browser, live.")


@click.command()
@store_option
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port; 0, the default: any free one.",
)
@click.option(
    "--host",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; another one needs --token-file.",
)
@click.option(
    "--token-file", metavar="FILE", help="File with the token of the link; a new token by default."
)
@click.option("--no-open", is_flag=True, help="Do not open the browser.")
@click.option("--read-only", is_flag=True, help="Show only, take no orders: a page to share.")
@click.option("--idle", type=float, hidden=True, help="End when nobody has watched for so long.")
def ui(
    store: str, port: int, host: str, token_file: str | None, no_open: bool, read_only: bool,
    idle: float | None,
) -> None:  # fmt: skip
    """Show the runs of a store in the browser, live. Ctrl-C ends it, and nothing else."""
    _check_extra()
    from fanfold.faces.ui.session import UiOptions, is_loopback, serve_ui
    from fanfold.faces.web import new_secret, read_secret

    exposed = "sees every prompt and reply of the store"
    if not read_only:
        exposed += ", and can pause, change, kill and continue its runs (--read-only prevents that)"
    if not is_loopback(host):
        if token_file is None:
            raise BadInput(
                f"--host {host} is not this machine alone: whoever has the link {exposed};"
                " state --token-file FILE with a token of your own"
            )
        _say(f"warning: {host} is reachable by others: whoever has the link {exposed};"
             " the connection is not encrypted")  # fmt: skip
    token = read_secret("token-file", None if token_file is None else f"file:{token_file}")
    options = UiOptions(
        store=store,
        token=token or new_secret(),
        host=host,
        port=port,
        idle=idle,
        read_only=read_only,
    )

    def up(link: str) -> None:
        """Only the link goes to stdout, for programs."""
        click.echo(link)
        _say("Ctrl-C ends it")
        if not no_open:
            open_browser(link)

    run_sync(serve_ui(options, up))


def start_page(store: str) -> str:
    """A page in a process of its own, which outlives this one; its link. Refused before a run starts."""
    _check_extra()
    if not opening.outlives_process(store):
        raise BadInput("--ui: a store in memory is seen only by its own process; use a folder")
    opening.open_store(store).close()  # it may be a new one
    words = [sys.executable, "-P", "-m", "fanfold", "ui", "--no-open", "--idle", f"{IDLE:g}"]
    started = subprocess.Popen(
        [*words, "--store", store], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, start_new_session=True, text=True,
    )  # fmt: skip
    assert started.stdout is not None
    with started.stdout as said:
        link = said.readline().strip()
    if not link:
        raise BadInput("--ui: the page could not be started; try: fanfold ui")
    return link


def show_page(link: str, run: str = "") -> None:
    """Print the link, to one run if it is known, and open it."""
    link = link.replace("/?", f"/run/{run}?", 1) if run else link
    click.echo(f"page:    {link}", err=True)
    open_browser(link)


def open_browser(link: str) -> None:
    """By way of a private file: a link with a token must not stand in the list of processes. Without a
    screen nothing is opened: a browser of the terminal would take it."""
    if sys.platform.startswith("linux") and not (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    ):
        return
    handle, name = tempfile.mkstemp(".html", "fanfold-")
    with open(handle, "w", encoding="utf-8") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0;url={escape(link)}">')
    webbrowser.open(Path(name).as_uri())


def _check_extra() -> None:
    for package in ("starlette", "uvicorn"):
        try:
            __import__(package)
        except ModuleNotFoundError:
            why = f"the page needs {package}; install it: pip install 'fanfold[web]'"
            raise BadInput(why) from None


def _say(line: str) -> None:
    click.echo(f"fanfold ui: {line}", err=True)
