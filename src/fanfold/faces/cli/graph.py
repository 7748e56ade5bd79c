"""`fanfold graph`: the picture of a plan, without asking anyone anything."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from fanfold.errors import BadInput
from fanfold.members.roster import find_roster, load_roster
from fanfold.observe.draw import WIDTH, draw
from fanfold.observe.mermaid import mermaid
from fanfold.observe.svg import svg
from fanfold.plans.drawing.picture import count_items, picture
from fanfold.plans.load import load_plan
from fanfold.work.picture import Picture

_LEAST = 60


@click.command()
@click.argument("plan", metavar="PLAN")
@click.option("--roster", metavar="FILE", help="The members to name where the plan says `needs`.")
@click.option("--mermaid", "as_mermaid", is_flag=True, help="As a Mermaid flowchart.")
@click.option("--svg", "as_svg", is_flag=True, help="As an SVG image.")
@click.option("--output", "-o", metavar="FILE", help="Into a file instead of the terminal.")
def graph(
    plan: str, roster: str | None, as_mermaid: bool, as_svg: bool, output: str | None
) -> None:
    """Draw a plan: its steps, who answers, the shape of each. Nothing is asked or written."""
    if as_mermaid and as_svg:
        raise click.UsageError("say --mermaid or --svg, not both")
    found = _pictured(plan, roster)
    if as_svg:
        text = svg(found)
    elif as_mermaid:
        text = mermaid(found)
    else:
        text = draw(found, _width() if output is None else WIDTH)
    _put(text, output)


def _pictured(path: str, roster: str | None) -> Picture:
    plan = load_plan(path)
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
