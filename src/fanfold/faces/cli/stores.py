"""`fanfold store`: copy a store into another place, or check one."""

from __future__ import annotations

import click

from fanfold.faces.cli.store import opened
from fanfold.journal import copying
from fanfold.observe.amounts import money
from fanfold.observe.table import Column, aligned
from fanfold.run.loop import run_sync


@click.group()
def store() -> None:
    """Copy a store, or check one. A store is a folder or postgresql://…"""


@store.command()
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
def copy(source: str, target: str) -> None:
    """Copy all runs of a store into a new one. Either can be a folder or postgresql://…; replies, costs,
    the files of agents and inputs that can be read only once are copied too. FROM stays as it is."""
    _show(run_sync(copying.copy(source, target)))


@store.command()
@click.argument("place", metavar="STORE")
@click.pass_context
def check(context: click.Context, place: str) -> None:
    """Check that a store is undamaged: exit code 0, else 1."""
    with opened(place) as archive:
        found = copying.check(archive)
    _show(found)
    for problem in found.problems:
        click.echo(f"fanfold: {problem}", err=True)
    context.exit(1 if found.problems else 0)


def _show(found: copying.CheckedStore) -> None:
    rows, sums = zip(*found.tables.values(), strict=True)
    columns = (
        Column("TABLE", list(found.tables)),
        Column("ROWS", [str(many) for many in rows], right=True),
        Column("CHECKSUM", [f"{whole:08x}" for whole in sums]),
    )
    click.echo("\n".join(aligned(columns, 80)))
    click.echo(f"cost of all attempts: {money(found.cost)}")
