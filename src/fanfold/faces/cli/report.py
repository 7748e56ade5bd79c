"""`fanfold report`, `tree` and `show`: what happened in a run. They only read."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path
from typing import Literal

import click
import msgspec

from fanfold.errors import BadInput
from fanfold.faces.cli.options import json_option
from fanfold.faces.cli.store import Opened, fleet_of, found, looked_at, named, store_option
from fanfold.faces.cli.terminal import columns
from fanfold.fleet.look import WorkerReader
from fanfold.fleet.report import diff_of, fleet_page, fleet_report
from fanfold.fleet.runs import LocatedRun
from fanfold.observe.account import account
from fanfold.observe.html.account import account_page
from fanfold.observe.item import item_json, item_text
from fanfold.observe.report import report as markdown
from fanfold.observe.status import summarize
from fanfold.observe.tree import ALL, SHOWN, draw_tree, tree_json
from fanfold.observe.tree import tree as build_tree
from fanfold.plans.item import find_item
from fanfold.work.files import replacing
from fanfold.work.text import visible

Form = Literal["md", "html"]
_ENDINGS: dict[str, Form] = {".md": "md", ".markdown": "md", ".html": "html", ".htm": "html"}


@click.command()
@click.argument("run")
@store_option
@click.option("--html", "as_html", is_flag=True, help="As one HTML file that needs nothing else.")
@click.option("--output", "-o", metavar="FILE", help="Write it to a file; .html means --html.")
def report(run: str, store: str, as_html: bool, output: str | None) -> None:
    """Print a run's report, as Markdown or HTML: result, what the gate caught, receipt, cost and time,
    tree; of a fleet its workers, their files and errors."""
    form: Form = "html" if as_html or (output and form_of(output) == "html") else "md"
    with looked_at(named(run, store)) as opened:
        text = made(opened, form)
    if output is None:
        shown = visible(text) if sys.stdout.isatty() else text
        click.echo(shown.encode(errors="replace"))
    else:
        write(Path(output), text)


def form_of(path: str) -> Form | None:
    """By the ending; None when it says nothing."""
    return _ENDINGS.get(Path(path).suffix.lower())


def made(opened: Opened, form: Form) -> str:
    archive, record = opened.archive, opened.record
    if not opened.snapshot().of_tasks:
        summary = summarize(archive.read, record, archive.sessions.alive, time.time(), archive.sent)
        found = account(archive, summary, replies=form == "html")
        return markdown(found) if form == "md" else account_page(found)
    status = fleet_of(opened, WorkerReader())
    store = archive.files.absolute()
    diffs = {
        one.id: diff_of(store, one.span, one.member)
        for one in status.workers
        if one.isolated and one.span
    }
    if form == "md":
        return fleet_report(archive.read, status, diffs)
    return fleet_page(account(archive, status.summary, replies=True), status, diffs)


def write_report(run: str, store: str, path: Path) -> None:
    """The account of a run that has just been closed, in the form that the file's ending says."""
    with looked_at(LocatedRun(store, run)) as opened:
        write(path, made(opened, form_of(path.name) or "md"))


def writable(path: str) -> Path:
    """Refused before the run starts: a page that could not be written when it has ended."""
    if form_of(path) is None:
        raise BadInput(f"--report {path}: name a file that ends with .html or .md")
    found = Path(path)
    if found.is_dir() or not os.access(found.parent, os.W_OK):
        raise BadInput(f"--report {path}: cannot be written; name a file in a folder that is there")
    return found


def write(path: Path, text: str) -> None:
    """All of it or nothing."""
    try:
        with replacing(path) as out:
            out.write(text.encode(errors="replace"))
    except OSError as error:
        raise BadInput(f"{path}: cannot be written: {error.strerror}") from error


_LEAST = 60


@click.command()
@click.argument("run", metavar="RUN")
@store_option
@json_option
@click.option("--all", "everything", is_flag=True, help="Every attempt, not only the notable ones.")
def tree(run: str, store: str, as_json: bool, everything: bool) -> None:
    """Show a run, its steps and attempts, and the runs they started: member, tokens, cost, time, verdict.

    The first line has the total; each dollar is in it once.
    """
    with found(run, store) as (archive, record):
        root = build_tree(archive, record, most=ALL if everything else SHOWN)
    if as_json:
        click.echo(msgspec.json.encode(tree_json(root)))
        return
    width = max(_LEAST, shutil.get_terminal_size((120, 24)).columns)
    click.echo(draw_tree(root, width, everything=everything))


@click.command()
@click.argument("run", metavar="RUN")
@click.argument("item", metavar="ITEM")
@store_option
@json_option
def show(run: str, item: str, store: str, as_json: bool) -> None:
    """Show one item of a run: input, prompt as sent, reply, verdict, attempts with cost and why.

    RUN is a run's id or name; ITEM is the item's id, as `status -v` has it.
    """
    with found(run, store) as (archive, record):
        views = find_item(archive, record, item)
        if as_json:
            click.echo(item_json(record, views))
        else:
            click.echo(item_text(record, views, columns()))
