"""`fanfold serve` and `fanfold mcp`: the members behind an endpoint, or as tools of an agent."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import click
import msgspec

from fanfold.errors import BadInput
from fanfold.faces.cli.orchestrator import concurrency_option
from fanfold.faces.cli.store import store_option
from fanfold.faces.extra import missing_extra
from fanfold.members.roster import find_roster
from fanfold.observe.closing import closing
from fanfold.run.inherited import inherited
from fanfold.run.loop import run_sync
from fanfold.work.options import parse_budget
from fanfold.work.task import Budget

EXIT = {"complete": 0, "flagged": 1}
STOPPED = 3


@click.command()
@click.option("--roster", metavar="FILE", help="The members to use.")
@click.option(
    "--port", metavar="N", type=click.IntRange(0, 65535), default=8411, show_default=True,
    help="Port on 127.0.0.1; 0: any free port.",
)  # fmt: skip
@click.option("--key", metavar="REF", help="env:NAME or file:PATH; a new key by default.")
@click.option("--budget", metavar="USD", help="5, or usd=5,calls=900,tokens=…,seconds=….")
@click.option("--name", default="serve", show_default=True, help="The run's name.")
@store_option
@click.option("--fresh", is_flag=True, help="Do not reuse replies of earlier runs.")
@click.option("--allow-paid", is_flag=True, help="Members of tier paid may be used.")
@click.option(
    "--concurrency", type=click.IntRange(min=1), default=64, show_default=True, metavar="N",
    help="Calls at once for one model.",
)  # fmt: skip
@click.option(
    "--connections", type=click.IntRange(min=1), metavar="N",
    help="Connections at once; 512 by default, or half of `ulimit -n`.",
)  # fmt: skip
def serve(roster: str | None, key: str | None, budget: str | None, **given: Any) -> int:
    """Answer OpenAI chat completions on 127.0.0.1 with the members of the roster.

    A model is a member's id, `auto`, or an ensemble of the roster. One run accounts for all
    requests; Ctrl-C ends it, after those under way.
    """
    try:
        from fanfold.faces.serve.session import ServeOptions, ServingInfo, serve_until_signalled
        from fanfold.faces.web import new_secret, read_secret
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("starlette", "uvicorn"):
            raise
        why = f"serve needs {package}; install it: pip install 'fanfold[serve]'"
        raise BadInput(why) from None
    options = ServeOptions(
        roster=find_roster(roster, None, Path.cwd()),
        key=read_secret("key", key) or new_secret(),
        budget=Budget() if budget is None else parse_budget(budget),
        **given,
    )

    def up(found: ServingInfo) -> None:
        """Only the address goes to stdout, for programs."""
        _say(found.describe())
        if key is None:
            _say(f"key: {options.key}")
        _say("Ctrl-C ends it")
        click.echo(found.url)

    receipt = run_sync(serve_until_signalled(options, up, _say))
    _say(closing(receipt, None))
    return EXIT.get(receipt.status, STOPPED)


@click.command()
@click.option("--http", is_flag=True, help="Streamable HTTP at 127.0.0.1 instead of stdio.")
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(0, 65535),
    default=0,
    help="For --http; 0, the default: any free port.",
)
@click.option(
    "--connections", type=click.IntRange(min=1), metavar="N",
    help="For --http: served at once; 512 by default, or half of what `ulimit -n` allows.",
)  # fmt: skip
@click.option("--token", metavar="REF", help="For --http: env:NAME or file:PATH; else a new one.")
@click.option("--name", default="delegates", help="The name of the run.")
@click.option("--roster", metavar="FILE", help="The members to use.")
@click.option("--budget", metavar="USD", help="For all that is delegated: 5, or usd=5,calls=900.")
@store_option
@click.option("--fresh", is_flag=True, help="Do not reuse replies of earlier runs.")
@click.option("--allow-paid", is_flag=True, help="Members of tier paid may be used.")
@concurrency_option
@click.option(
    "--without", multiple=True, metavar="ID", help="Exclude this member: the one that delegates."
)
@click.option(
    "--orders",
    is_flag=True,
    help="Allow the agent to pause, change and continue runs of the store, and to raise budgets.",
)
@click.option(
    "--keys-from", metavar="SOCKET", hidden=True, help="Where `fanfold ask` hands keys over."
)
def mcp(http: bool, port: int, token: str | None, keys_from: str | None, **given: Any) -> None:
    """Serve the members to an agent over the Model Context Protocol, until it leaves."""
    if missing := missing_extra():
        raise BadInput(missing)
    from fanfold.faces.connections import bounds
    from fanfold.faces.mcp.http import on_http
    from fanfold.faces.mcp.server import Transport, on_stdio, serve
    from fanfold.faces.mcp.tools import McpOptions
    from fanfold.faces.web import new_secret, read_secret

    if keys_from is not None:
        _take_keys(Path(keys_from))
    stated, most = given.pop("budget"), given.pop("connections")
    budget = Budget() if stated is None else parse_budget(stated)
    options = McpOptions(budget=budget, parent=inherited().parent, **given)
    transport: Transport = on_stdio
    if http:
        secret = read_secret("token", token)
        if secret is None:
            secret = new_secret()
            _say(f"fanfold mcp: token: {secret}")  # on stderr, which only the operator reads
        transport = on_http(port, secret, _say, bounds(most))
    _say(closing(run_sync(serve(options, Path.cwd(), transport)), None))


def _say(line: str) -> None:
    click.echo(line, err=True)


def _take_keys(path: Path) -> None:
    """The variables that hold the members' keys, once, from the `fanfold ask` that started our
    client. The client itself never has them. Without them, members that need one cannot be used."""
    try:
        with socket.socket(socket.AF_UNIX) as given:
            given.connect(str(path))
            with given.makefile("rb") as stream:
                os.environ.update(msgspec.json.decode(stream.read(), type=dict[str, str]))
    except (OSError, msgspec.DecodeError):
        _say("fanfold mcp: no keys were handed over; members that need one cannot be used")
