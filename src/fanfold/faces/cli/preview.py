"""`fanfold run --dry-run` and `fanfold graph`: what a plan would do and take; `fanfold schema`: what may be
written in a file. Nothing is asked or paid."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import msgspec

from fanfold.errors import BadInput, FanfoldError
from fanfold.faces.cli.options import outside_option, overrides_of, overriding
from fanfold.fleet.draw import layered, mermaid_of
from fanfold.fleet.load import is_fleet, outline
from fanfold.fleet.records import fleet_schema
from fanfold.journal import opening
from fanfold.members.roster import find_roster, load_roster, roster_schema
from fanfold.observe.amounts import count
from fanfold.observe.draw import WIDTH, draw, mermaid
from fanfold.observe.item import message_lines
from fanfold.observe.preview import preview_json, preview_text
from fanfold.observe.table import one_line
from fanfold.plans.attached import check_attached
from fanfold.plans.carry import check_fields
from fanfold.plans.drawing.picture import count_items, picture
from fanfold.plans.file import plan_schema
from fanfold.plans.item import first_prompt
from fanfold.plans.load import load_plan
from fanfold.plans.places import check_names
from fanfold.plans.prepare import Job
from fanfold.plans.preview.asks import Premises
from fanfold.plans.preview.estimate import estimate, readable_input
from fanfold.run.forecast import Preview
from fanfold.work.ask import Message
from fanfold.work.excerpt import excerpt
from fanfold.work.item import Source
from fanfold.work.text import visible

_PREVIEW_WIDTH = 100
MOST_LINES = 30  # of the first prompt
SHOWN = 800  # bytes of each message before its last


def show_preview(job: Job, *, as_json: bool, read_input: bool = False) -> int:
    """`read_input`: also an input for which a program has to be run, or an address asked."""
    with TemporaryDirectory(prefix="fanfold-") as spool:
        source = readable_input(job.stored.plan, Path(spool), also=read_input)
        if source is not None:  # as the run does before it starts
            check_fields(job.stored.plan, source.walk())
            check_attached(job.stored.plan, job.roster, source.walk())
            check_names(job.stored.plan, source)
        found = _preview(job, source)
        if as_json:
            click.echo(preview_json(found))
            return 0
        width = max(60, min(_PREVIEW_WIDTH, shutil.get_terminal_size((_PREVIEW_WIDTH, 24)).columns))
        click.echo(_picture_of(job, source, width))
        prompt = _first_prompt(job, source)
    click.echo("")
    if prompt:
        click.echo(f"{visible(prompt)}\n")
    click.echo(preview_text(found, width))
    return 0


def _first_prompt(job: Job, source: Source | None) -> str:
    """What would be sent first: a mistake in a template is seen before it is paid. What all asks share
    is shown in part where it is long."""
    try:
        found = first_prompt(job.stored.plan, source)
    except FanfoldError as error:
        return f"the first prompt cannot be rendered: {error}"
    if found is None or not found[2].messages:
        return ""
    step, item, ask = found
    several = len(ask.messages) > 1
    *opening, last = ask.messages
    shown = [Message(one.role, excerpt(one.shown(), SHOWN)) for one in opening]
    said = [line for message in (*shown, last) for line in message_lines(message, several)]
    more = len(said) - MOST_LINES
    said[MOST_LINES:] = [f"  … and {count(more, 'more line')}"] if more > 0 else []
    return "\n".join([f"the first prompt (step {step}, item {one_line(item.id)}):", *said])


def _picture_of(job: Job, source: Source | None, width: int) -> str:
    plan = msgspec.structs.replace(job.stored.plan, budget=job.budget)
    if job.stored.kind == "fleet":
        return layered(outline(plan.folder), width)
    items = None if plan.input is None else count_items(plan.input, plan.folder)
    if items is None and source is not None:
        items = sum(1 for _ in source.walk())
    return draw(picture(plan, items=items, roster=job.roster), width)


def _preview(job: Job, source: Source | None) -> Preview:
    """With what is on record, when there is a store; one that is not there is not made."""
    premises = Premises(
        budget=job.budget, allow_paid=job.options.allow_paid, fresh=job.options.fresh
    )
    plan = job.stored.plan
    archive = opening.look(job.options.store) if opening.exists(job.options.store) else None
    try:
        return estimate(plan, job.roster, source, archive, premises)
    finally:
        if archive is not None:
            archive.close()


_LEAST = 60
_TEXTS = ("", ".txt", ".text", ".md", ".markdown", ".mmd", ".mermaid")
_IMAGE = "; for an image, give the .mmd of --mermaid to `mmdc`"
_NO_SVG = "--svg was removed; use --mermaid, which Markdown pages show and `mmdc` turns into SVG"


@click.command()
@click.argument("plan", metavar="PLAN")
@overriding
@click.option("--roster", metavar="FILE", help="The members to name where the plan says `needs`.")
@click.option("--mermaid", "as_mermaid", is_flag=True, help="As a Mermaid flowchart.")
@click.option("--svg", "as_svg", is_flag=True, hidden=True)
@click.option("--output", "-o", metavar="FILE", help="Write it to a file instead of the terminal.")
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
    if output is not None and Path(output).suffix.lower() not in _TEXTS:
        raise BadInput(f"--output {output}: name a file that ends with .txt, .md or .mmd{_IMAGE}")
    width = _width() if output is None else WIDTH
    if is_fleet(plan) or Path(plan).is_dir():
        # The prompts need not be written yet
        fleet = outline(plan)
        text = mermaid_of(fleet) if as_mermaid else layered(fleet, width)
    else:
        loaded = load_plan(plan, allow_outside=allow_outside, overrides=overrides_of(given))
        file = find_roster(roster, loaded.roster, loaded.folder)
        items = None if loaded.input is None else count_items(loaded.input, loaded.folder)
        pictured = picture(loaded, items=items, roster=load_roster(file))
        text = mermaid(pictured) if as_mermaid else draw(pictured, width)
    _put(text, output)


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


# ── `fanfold schema` ─────────────────────────────────────────────────────────────────────────

SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "plan": plan_schema,
    "roster": roster_schema,
    "fleet": fleet_schema,
}
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


@click.command()
@click.argument("file", type=click.Choice(list(SCHEMAS)))
def schema(file: str) -> None:
    """Print the JSON Schema of plan, roster or fleet files. An editor that knows it completes and
    checks what you write."""
    whole = {"$schema": _DIALECT, "title": f"fanfold {file}", **SCHEMAS[file]()}
    click.echo(msgspec.json.format(msgspec.json.encode(whole), indent=2).decode())
