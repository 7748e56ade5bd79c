"""`fanfold run --dry-run`: what a plan would do and take. Nothing is asked, paid or written."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import msgspec

from fanfold.errors import FanfoldError
from fanfold.fleet.draw import layered
from fanfold.fleet.load import outline
from fanfold.journal import opening
from fanfold.observe.amounts import count
from fanfold.observe.draw import draw
from fanfold.observe.item import message_lines
from fanfold.observe.preview import preview_json, preview_text
from fanfold.observe.table import one_line
from fanfold.plans.drawing.picture import count_items, picture
from fanfold.plans.execute import Job
from fanfold.plans.item import first_prompt
from fanfold.plans.preview.askers import Premises
from fanfold.plans.preview.estimate import estimate, readable_input
from fanfold.run.forecast import Preview
from fanfold.work.item import Source
from fanfold.work.text import visible

_WIDTH = 100
MOST_LINES = 30  # of the first prompt


def show_preview(job: Job, *, as_json: bool, read_input: bool = False) -> int:
    """`read_input`: also an input for which a program has to be run, or an address asked."""
    with TemporaryDirectory(prefix="fanfold-") as spool:
        source = readable_input(job.stored.plan, Path(spool), also=read_input)
        found = _preview(job, source)
        if as_json:
            click.echo(preview_json(found))
            return 0
        width = max(60, min(_WIDTH, shutil.get_terminal_size((_WIDTH, 24)).columns))
        click.echo(_drawn(job, source, width))
        prompt = _first_prompt(job, source)
    click.echo("")
    if prompt:
        click.echo(f"{visible(prompt)}\n")
    click.echo(preview_text(found, width))
    return 0


def _first_prompt(job: Job, source: Source | None) -> str:
    """What would be sent first, word for word: a mistake in a template is seen before it is paid."""
    try:
        found = first_prompt(job.stored.plan, source)
    except FanfoldError as error:
        return f"the first prompt cannot be rendered: {error}"
    if found is None or not found[2].messages:
        return ""
    step, item, ask = found
    several = len(ask.messages) > 1
    said = [line for message in ask.messages for line in message_lines(message, several)]
    more = len(said) - MOST_LINES
    said[MOST_LINES:] = [f"  … and {count(more, 'more line')}"] if more > 0 else []
    return "\n".join([f"the first prompt (step {step}, item {one_line(item.id)}):", *said])


def _drawn(job: Job, source: Source | None, width: int) -> str:
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
