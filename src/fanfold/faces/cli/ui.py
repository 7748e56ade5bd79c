"""`fanfold ui`: a live page in the browser over a store."""

from __future__ import annotations

import webbrowser

import click

from fanfold.errors import BadInput
from fanfold.faces.cli.store import store_option
from fanfold.run.loop import run_sync


@click.command()
@store_option
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="0, the default, is any that is free."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Others need --token-file.")
@click.option("--token-file", metavar="FILE", help="Holds the token of the link; else a new one.")
@click.option("--no-open", is_flag=True, help="Do not open the browser.")
@click.option("--read-only", is_flag=True, help="No orders: a page to share.")
@click.option("--idle", type=float, hidden=True, help="End when nobody has watched for so long.")
def ui(
    store: str, port: int, host: str, token_file: str | None, no_open: bool, read_only: bool,
    idle: float | None,
) -> None:  # fmt: skip
    """Show the runs of a store in the browser, live. Ctrl-C ends it, and nothing else."""
    try:
        from fanfold.faces.ui.session import UiOptions, is_loopback, serve_ui
        from fanfold.faces.web import new_secret, read_secret
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("starlette", "uvicorn"):
            raise
        why = f"ui needs {package}; install it: pip install 'fanfold[web]'"
        raise BadInput(why) from None
    if not is_loopback(host):
        if token_file is None:
            raise BadInput(
                f"--host {host} is not this machine alone: whoever has the link sees every prompt and"
                " reply of the store; state --token-file FILE with a token of your own"
            )
        _say(f"warning: {host} is reachable by others, and the link is not encrypted")
    token = read_secret("token-file", None if token_file is None else f"file:{token_file}")
    options = UiOptions(store=store, token=token or new_secret(), host=host, port=port, idle=idle)

    def up(link: str) -> None:
        """Only the link goes to stdout, for programs."""
        click.echo(link)
        _say("Ctrl-C ends it")
        if not no_open:
            webbrowser.open(link)

    run_sync(serve_ui(options, up))


def _say(line: str) -> None:
    click.echo(f"fanfold ui: {line}", err=True)
