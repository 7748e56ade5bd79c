"""`fanfold members`: the menu, and `members set`, which changes a member in its roster file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fanfold.faces.cli.look import members as menu
from fanfold.members.edit import edit_roster, parse_edit
from fanfold.members.roster import find_roster


@click.command("set")
@click.argument("id", metavar="ID")
@click.argument("fields", nargs=-1, required=True, metavar="FIELD=VALUE...")
@click.option("--roster", metavar="FILE", help="The roster to change.")
@click.pass_context
def set_fields(
    context: click.Context, id: str, fields: tuple[str, ...], roster: str | None
) -> None:
    """Change a member in the roster file; all other lines and all comments stay as they are.

    FIELD= takes a field away. Lists and mappings go in brackets: good_at=[legal, summaries].
    """
    above = context.parent.params.get("roster") if context.parent else None
    file = find_roster(roster or above, None, Path.cwd())
    changed = edit_roster(file, id, [parse_edit(word) for word in fields])
    for one in changed:
        click.echo(f"{file}:{one.line}: {one.sign} {one.text}")
    if not changed:
        click.echo(f"{file}: nothing to change")


@click.pass_context
def _menu(context: click.Context, /, **given: Any) -> None:
    if context.invoked_subcommand is None:
        context.invoke(menu, **given)


members = click.Group(
    "members", commands=[set_fields], callback=_menu, params=menu.params, help=menu.help,
    invoke_without_command=True, subcommand_metavar="[set ID FIELD=VALUE...]",
)  # fmt: skip
