"""`fanfold status`, `report` and `members`: looking, without changing anything."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from fanfold.errors import BadInput
from fanfold.faces.cli.store import find_run as _find
from fanfold.faces.cli.store import opened as _archive
from fanfold.faces.cli.store import store_option as _store
from fanfold.faces.cli.why import Asked, tell_why
from fanfold.journal.journal import Archive
from fanfold.journal.spending import month_of
from fanfold.members.reach import trouble_with
from fanfold.members.roster import DEFAULT_ROSTER, Roster, find_roster, load_roster
from fanfold.observe.detail import detail, detail_json
from fanfold.observe.menu import menu, menu_json
from fanfold.observe.report import report as account
from fanfold.observe.standing import stand
from fanfold.observe.status import overview, overview_json
from fanfold.work.member import Traits

_json = click.option("--json", "as_json", is_flag=True, help="For programs.")


@click.command()
@click.argument("run", required=False)
@_store
@_json
@click.option("--watch", is_flag=True, help="Again and again, until it has ended.")
@click.option("-v", "verbose", is_flag=True, help="Each item that did not pass, with its reasons.")
def status(run: str | None, store: str, as_json: bool, watch: bool, verbose: bool) -> None:
    """All runs, or one. RUN is a run's id or name; the newest of that name wins."""
    while True:
        with _archive(store) as archive:
            text, over = _status(archive, run, as_json, verbose)
        if watch:
            click.clear()
        click.echo(text)
        if over or not watch:
            return
        time.sleep(1.0)


def _status(archive: Archive, run: str | None, as_json: bool, verbose: bool) -> tuple[str, bool]:
    width, now = shutil.get_terminal_size((100, 24)).columns, time.time()
    folder = archive.store.folder.as_posix()
    store = "" if folder == ".fanfold" else folder
    records = archive.read.runs() if run is None else [_find(archive, run)]
    stands = [stand(archive.read, record, archive.store.alive, now) for record in records]
    over = not any(standing.status == "running" for standing in stands)
    if run is None:
        text = overview_json(stands).decode() if as_json else overview(stands, now=now, width=width)
    elif as_json:
        text = detail_json(archive.read, stands[0], store).decode()
    else:
        text = detail(archive.read, stands[0], verbose=verbose, width=width, store=store)
    return text, over


@click.command()
@click.argument("run")
@_store
@click.option("--output", "-o", metavar="FILE", help="Into a file instead of the terminal.")
def report(run: str, store: str, output: str | None) -> None:
    """A run's account, as Markdown: result, receipt, what the gate caught, cost by member."""
    with _archive(store) as archive:
        standing = stand(archive.read, _find(archive, run), archive.store.alive, time.time())
        text = account(archive.read, standing)
    if output is None:
        click.echo(text)
        return
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{output}: cannot be written: {error.strerror}") from error


@click.command()
@click.option("--roster", metavar="FILE", help="The roster to show.")
@_store
@_json
@click.option("--check", is_flag=True, help="See whether each can be used from here.")
@click.option("--why", is_flag=True, help="Who would be asked for a task, and why.")
@click.option("--needs", multiple=True, metavar="WORDS", help="What the task needs; with --why.")
@click.option("--tokens", type=click.IntRange(0), default=0, help="Of its prompt; with --why.")
@click.option("--allow-paid", is_flag=True, help="Paid members may be used; with --why.")
def members(roster: str | None, store: str, as_json: bool, check: bool, **asked: Any) -> None:
    """The menu: who is there, good at what, at which price, ready or not."""
    found = find_roster(roster, None, Path.cwd())
    loaded = load_roster(found)
    if task := Asked(**asked):
        return tell_why(loaded, store, task, as_json)
    traits = {id: entry.traits for id, entry in loaded.entries.items()}
    trouble = asyncio.run(_check(loaded, found)) if check else {}
    used = _used(traits, store)
    if as_json:
        click.echo(msgspec.json.encode(menu_json(traits, trouble, used)))
    elif not traits:
        click.echo("no members: write some into the roster, or name another with --roster")
    else:
        width = shutil.get_terminal_size((100, 24)).columns
        click.echo(menu(traits, trouble, width, used))
    if found == DEFAULT_ROSTER:
        click.echo("there is no roster.yaml here: these are fanfold's own", err=True)
    return None


def _used(traits: Mapping[str, Traits], store: str) -> dict[str, int]:
    """What members with a monthly budget took so far this month, in nano-dollars."""
    budgeted = [id for id, one in traits.items() if one.budget_usd_month is not None]
    if not budgeted or not Path(store).exists():
        return dict.fromkeys(budgeted, 0)
    with _archive(store) as archive:
        month, spending = month_of(time.time()), archive.read.spending
        return {id: spending.added_up(id, month).whole for id in budgeted}


async def _check(roster: Roster, file: Path) -> dict[str, str | None]:
    folder = Path.cwd() if file == DEFAULT_ROSTER else file.parent
    ids = list(roster.entries)
    found = await asyncio.gather(*(trouble_with(roster, id, folder) for id in ids))
    return dict(zip(ids, found, strict=True))
