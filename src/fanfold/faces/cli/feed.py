"""`fanfold feed`: one stream of events across all workers of a run."""

from __future__ import annotations

import time
from collections.abc import Iterable

import click
import msgspec

from fanfold.errors import BadInput
from fanfold.faces.cli.finding import Opened, looked_at, named
from fanfold.faces.cli.screen import columns, until_interrupted
from fanfold.faces.cli.store import store_option
from fanfold.fleet.runs import LocatedRun
from fanfold.fleet.stream import FeedEvent, FeedFilter, RunFeed, feed_json, feed_line
from fanfold.work.nearest import remedy

POLL = 0.25  # seconds
REOPEN = 4  # looks at the logs between two looks at the journal


@click.command()
@click.argument("run", metavar="RUN")
@store_option
@click.option("--agent", metavar="ID", help="Only this worker's.")
@click.option("--type", "kind", metavar="T", help="Only these: a kind (tool) or an event (result).")
@click.option("--follow", "-f", is_flag=True, help="Continue until all have ended.")
@click.option("--lines", type=click.IntRange(0), default=50, help="The last N events at first.")
@click.option("--json", "as_json", is_flag=True, help="For programs: an object in each line.")
def feed(
    run: str, store: str, agent: str | None, kind: str | None, follow: bool, lines: int,
    as_json: bool,
) -> None:  # fmt: skip
    """What happens across the workers of a run, in the order of true times: what they say and do,
    and when their attempts started, ended or were stopped."""
    located = named(run, store)
    stream = RunFeed(FeedFilter(agent, kind))
    with until_interrupted():
        with looked_at(located) as opened:
            _refuse_unknown(opened, agent)
            _print(stream.last(opened.snapshot(), lines), as_json)
        while follow and _more(located, stream, as_json):
            pass


def _more(located: LocatedRun, stream: RunFeed, as_json: bool) -> bool:
    """A few looks. False: it was over before the first of them, so nothing more will come."""
    with looked_at(located) as opened:
        snapshot = opened.snapshot()
        over = snapshot.quiet()
        for _ in range(1 if over else REOPEN):
            _print(stream.more(snapshot), as_json)
            time.sleep(0.0 if over else POLL)
    return not over


def _refuse_unknown(opened: Opened, agent: str | None) -> None:
    known = opened.snapshot().names()
    if agent is not None and agent not in known:
        hint = remedy(agent, known) if known else "no agent has worked in this run"
        raise BadInput(f"no worker {agent!r} in {opened.record.name}: {hint}")


def _print(events: Iterable[FeedEvent], as_json: bool) -> None:
    width = columns()
    for one in events:
        click.echo(msgspec.json.encode(feed_json(one)) if as_json else feed_line(one, width))
