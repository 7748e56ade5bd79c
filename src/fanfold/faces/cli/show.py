"""`fanfold show`: one item of a run. It only looks, and runs no code."""

from __future__ import annotations

import click

from fanfold.faces.cli.screen import columns
from fanfold.faces.cli.store import found, store_option
from fanfold.observe.item import item_json, item_text
from fanfold.plans.item import find_item


@click.command()
@click.argument("run", metavar="RUN")
@click.argument("item", metavar="ITEM")
@store_option
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def show(run: str, item: str, store: str, as_json: bool) -> None:
    """One item of a run: input, prompt as sent, reply, verdict, attempts with cost and why.

    RUN is a run's id or name; ITEM is the item's id, as `status -v` has it.
    """
    with found(run, store) as (archive, record):
        views = find_item(archive, record, item)
        if as_json:
            click.echo(item_json(record, views))
        else:
            click.echo(item_text(record, views, columns()))
