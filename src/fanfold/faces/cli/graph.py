"""`fanfold graph`: the picture of a plan, without asking anyone anything."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import click

from fanfold.errors import BadInput
from fanfold.faces.cli.carry import outside_option, overrides_of, overriding
from fanfold.fleet.draw import layered, mermaid_of
from fanfold.fleet.load import is_fleet, outline
from fanfold.members.roster import find_roster, load_roster
from fanfold.observe.draw import WIDTH, draw, mermaid
from fanfold.plans.drawing.picture import count_items, picture
from fanfold.plans.load import load_plan
from fanfold.plans.plan import Plan
from fanfold.work.picture import Picture

_LEAST = 60
_NO_SVG = "--svg was removed; use --mermaid, which Markdown pages show and `mmdc` turns into SVG"


@click.command()
@click.argument("plan", metavar="PLAN")
@overriding
@click.option("--roster", metavar="FILE", help="The members to name where the plan says `needs`.")
@click.option("--mermaid", "as_mermaid", is_flag=True, help="As a Mermaid flowchart.")
@click.option("--svg", "as_svg", is_flag=True, hidden=True)
@click.option("--output", "-o", metavar="FILE", help="Into a file instead of the terminal.")
@outside_option
def graph(
    plan: str,
    roster: str | None,
    as_mermaid: bool,
    as_svg: bool,
    output: str | None,
    allow_outside: bool,
    **given: Any,
) -> None:
    """Draw a plan: its steps, who answers, the shape of each; or a fleet, layer by layer. Nothing is
    asked or written."""
    if as_svg:
        raise click.UsageError(_NO_SVG)
    width = _width() if output is None else WIDTH
    if is_fleet(plan) or Path(plan).is_dir():
        text = _fleet(plan, as_mermaid, width)
    else:
        loaded = load_plan(plan, allow_outside=allow_outside, overrides=overrides_of(given))
        pictured = _pictured(loaded, roster)
        text = mermaid(pictured) if as_mermaid else draw(pictured, width)
    _put(text, output)


def _fleet(path: str, as_mermaid: bool, width: int) -> str:
    """The prompts need not be written yet."""
    fleet = outline(path)
    return mermaid_of(fleet) if as_mermaid else layered(fleet, width)


def _pictured(plan: Plan, roster: str | None) -> Picture:
    file = find_roster(roster, plan.roster, plan.folder)
    items = None if plan.input is None else count_items(plan.input, plan.folder)
    return picture(plan, items=items, roster=load_roster(file))


def _width() -> int:
    return max(_LEAST, min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns))


def _put(text: str, output: str | None) -> None:
    if output is None:
        click.echo(text)
        return
    try:
        Path(output).write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{output}: cannot be written: {error.strerror}") from error
