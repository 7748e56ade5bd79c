"""`fanfold status`, `report` and `members`: looking, without changing anything."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec

from fanfold.errors import BadInput
from fanfold.journal.facts import RunRecord
from fanfold.journal.journal import Archive
from fanfold.members.reach import trouble_with
from fanfold.members.roster import Roster, find_roster, load_roster
from fanfold.observe.detail import detail, detail_json
from fanfold.observe.menu import menu, menu_json
from fanfold.observe.report import report as account
from fanfold.observe.standing import stand
from fanfold.observe.status import overview, overview_json

_store = click.option("--store", default=".fanfold", metavar="DIR", help="Where runs are kept.")
_json = click.option("--json", "as_json", is_flag=True, help="For programs.")


@contextmanager
def _archive(store: str) -> Iterator[Archive]:
    archive = Archive(store)
    try:
        yield archive
    finally:
        archive.close()


def _find(archive: Archive, name: str) -> RunRecord:
    record = archive.read.find(name)
    if record is None:
        known = ", ".join(archive.read.names()[:8]) or "none yet"
        raise BadInput(f"no run {name!r}; there are: {known}")
    return record


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
@_json
@click.option("--check", is_flag=True, help="See whether each can be used from here.")
def members(roster: str | None, as_json: bool, check: bool) -> None:
    """The menu: who is there, good at what, at which price, ready or not."""
    found = find_roster(roster, None, Path.cwd())
    loaded = Roster() if found is None else load_roster(found)
    traits = {id: entry.traits for id, entry in loaded.entries.items()}
    trouble = asyncio.run(_check(loaded, found)) if check else {}
    if as_json:
        click.echo(msgspec.json.encode(menu_json(traits, trouble)))
    elif not traits:
        click.echo("no members: write a roster.yaml here, or name one with --roster")
    else:
        click.echo(menu(traits, trouble, shutil.get_terminal_size((100, 24)).columns))


async def _check(roster: Roster, file: Path | None) -> dict[str, str | None]:
    folder = Path.cwd() if file is None else file.parent
    ids = list(roster.entries)
    found = await asyncio.gather(*(trouble_with(roster, id, folder) for id in ids))
    return dict(zip(ids, found, strict=True))
