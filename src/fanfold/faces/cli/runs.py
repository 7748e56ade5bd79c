"""`fanfold runs`: the list, and taking runs out of it."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from typing import Any

import click
import msgspec
from click.core import ParameterSource

from fanfold.errors import BadInput
from fanfold.faces.cli.options import json_option
from fanfold.faces.cli.status import status
from fanfold.faces.cli.store import find_run, opened, registry, store_option
from fanfold.fleet.removal import RemovalResult, old_runs, remove_runs, why_not_removable
from fanfold.journal.facts import RunRecord
from fanfold.observe.amounts import count, size
from fanfold.observe.table import one_line
from fanfold.run.loop import run_sync
from fanfold.run.record import RESUMABLE

_SECONDS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_AGE = re.compile(r"(\d+)([mhdw])")
SHOWN = 10  # runs that are named in the question

_yes = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
_replies = click.option(
    "--replies", is_flag=True, help="Also remove their replies; later runs pay for them again."
)


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@_replies
@_yes
@store_option
@json_option
def rm(runs: tuple[str, ...], store: str, **how: Any) -> None:
    """Remove runs: what they planned, how it ended, their logs. RUN is a run's id or name; the newest
    of a name. Replies that later runs can use stay, unless --replies."""
    store = _meant(store)
    with opened(store) as archive:
        found = {(record := find_run(archive, name)).no: record for name in runs}
        for record in found.values():
            if why := why_not_removable(archive, record):
                raise BadInput(f"{record.name} ({record.id}) {why}")
    _remove(store, list(found.values()), **how)


@click.command()
@click.option("--older-than", metavar="AGE", help="Only runs that ended before that: 30d, 12h, 8w.")
@click.option("--keep", type=click.IntRange(0), metavar="N", help="Keep the N newest runs.")
@_replies
@_yes
@store_option
@json_option
def prune(older_than: str | None, keep: int | None, store: str, **how: Any) -> None:
    """Remove old runs, as `rm` does; never one that is running."""
    if older_than is None and keep is None:
        raise click.UsageError("say which: --older-than 30d, or --keep N")
    store = _meant(store)
    before = None if older_than is None else time.time() - _age(older_than)
    with opened(store) as archive:
        found = old_runs(archive, before, keep)
    _remove(store, found, **how)


def _meant(store: str) -> str:
    """`runs --store DIR rm …` is about that store too, unless `rm` has one of its own."""
    context = click.get_current_context()
    own = context.get_parameter_source("store") is not ParameterSource.DEFAULT
    above = context.parent.params.get("store") if context.parent else None
    return store if own or above is None else str(above)


def _age(text: str) -> int:
    stated = _AGE.fullmatch(text)
    if stated is None:
        raise BadInput(f"--older-than {text}: give a number and m, h, d or w, such as 30d")
    return int(stated[1]) * _SECONDS[stated[2]]


def _remove(
    store: str, found: Sequence[RunRecord], *, replies: bool, yes: bool, as_json: bool
) -> None:
    if found and not yes:
        _ask(found, replies)
    freed = run_sync(remove_runs(store, found, replies=replies)) if found else _NOTHING
    for record in found:
        registry().remove(record.name, record.id)
    click.echo(msgspec.json.encode(freed) if as_json else _removal_text(freed))


_NOTHING = RemovalResult((), 0, 0, 0, True)


def _ask(found: Sequence[RunRecord], replies: bool) -> None:
    """On the terminal. Without one nobody can be asked, and nothing is removed."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise BadInput(f"this would remove {count(len(found), 'run')}; say --yes to do it")
    for record in found[:SHOWN]:
        click.echo(f"  {one_line(record.name, 60)} ({record.id}), {record.status}", err=True)
    if len(found) > SHOWN:
        click.echo(f"  and {len(found) - SHOWN:,} more", err=True)
    unfinished = sum(record.status in RESUMABLE for record in found)
    more = f", {unfinished:,} of them unfinished" if unfinished else ""
    paid = " with their replies, which later runs would pay for again" if replies else ""
    click.confirm(f"Remove {count(len(found), 'run')}{more}{paid}?", abort=True, err=True)


def _removal_text(freed: RemovalResult) -> str:
    if not freed.runs:
        return "nothing to remove"
    said = f"removed {count(len(freed.runs), 'run')}, {size(freed.bytes)} freed"
    if freed.kept:
        replies = count(freed.kept, "reply", "replies")
        said += f"; {replies} kept, which other runs can use without paying again"
    if not freed.shrunk:
        said += (
            "\nthe file does not shrink while others use the store or the disk is full; its free room"
            " is used again, and the next removal gives it back"
        )
    return said


@click.pass_context
def _list(context: click.Context, /, **given: Any) -> None:
    if context.invoked_subcommand is None:
        context.invoke(status, run=None, **given)


runs = click.Group(
    "runs", commands=[rm, prune], callback=_list, invoke_without_command=True,
    params=[one for one in status.params if one.name in ("store", "as_json", "watch")],
    help="All runs of the store, as `fanfold status` lists them; `rm` and `prune` remove some.",
    subcommand_metavar="[rm RUN... | prune]",
)  # fmt: skip
