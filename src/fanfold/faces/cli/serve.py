"""`fanfold serve`: an OpenAI-compatible endpoint on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fanfold.errors import BadInput
from fanfold.faces.cli.store import store_option
from fanfold.members.roster import find_roster
from fanfold.observe.closing import closing
from fanfold.plans.load import parse_budget
from fanfold.run.loop import run_sync
from fanfold.work.task import Budget

EXIT = {"complete": 0, "flagged": 1}
STOPPED = 3


@click.command()
@click.option("--roster", metavar="FILE", help="The members to use.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8411, show_default=True,
    help="On 127.0.0.1; 0 is any that is free.",
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
    help="Served at once; 512 by default, or half of what `ulimit -n` allows.",
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


def _say(line: str) -> None:
    click.echo(line, err=True)
