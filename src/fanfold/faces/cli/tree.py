"""`fanfold tree`: which run, step and attempt started what, at which cost."""

from __future__ import annotations

import shutil

import click
import msgspec

from fanfold.faces.cli.store import found, store_option
from fanfold.observe.tree import ALL, SHOWN
from fanfold.observe.tree import tree as build_tree
from fanfold.observe.tree_view import draw_tree, tree_json

_LEAST = 60


@click.command()
@click.argument("run", metavar="RUN")
@store_option
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.option("--all", "everything", is_flag=True, help="Every attempt, not only the notable ones.")
def tree(run: str, store: str, as_json: bool, everything: bool) -> None:
    """A run, its steps and attempts, and the runs they started: member, tokens, cost, time, verdict.

    The first line has the total; each dollar is in it once.
    """
    with found(run, store) as (archive, record):
        root = build_tree(archive, record, most=ALL if everything else SHOWN)
    if as_json:
        click.echo(msgspec.json.encode(tree_json(root)))
        return
    width = max(_LEAST, shutil.get_terminal_size((120, 24)).columns)
    click.echo(draw_tree(root, width, everything=everything))
