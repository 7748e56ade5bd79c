"""Options that several commands share, and what they state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from fanfold.errors import BadInput
from fanfold.observe.notify import check_hook
from fanfold.observe.traces import switch_on
from fanfold.plans.header import Overrides
from fanfold.plans.inputs import is_stream_name
from fanfold.plans.prepare import Options
from fanfold.plans.variables import parse_vars
from fanfold.run.inherited import inherited
from fanfold.work.files import expanded
from fanfold.work.options import parse_batch, parse_budgets
from fanfold.work.tags import check_tags

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
_AMOUNT = click.FloatRange(min=0)


_MANY = click.IntRange(min=0)


_SOME = click.IntRange(min=1)


outside_option = click.option(
    "--allow-outside", is_flag=True,
    help="Allow writing, and reading prompts and schemas, outside the plan's folder.",
)  # fmt: skip


def _switch_on(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted:
        switch_on()


otel_option = click.option(
    "--otel", is_flag=True, expose_value=False, callback=_switch_on,
    help="Export OpenTelemetry traces and metrics to where the OTEL_* variables say.",
)  # fmt: skip


def _checked_hook(
    context: click.Context, option: click.Parameter, target: str | None
) -> str | None:
    return None if target is None else check_hook(target)


notify_option = click.option(
    "--notify", metavar="CMD|URL", callback=_checked_hook,
    help="Give CMD, or post to URL, a JSON message at the end, at pauses and at 50, 80 and 100 % of the"
    " budget.",
)  # fmt: skip


def _checked_tags(
    context: click.Context, option: click.Parameter, given: tuple[str, ...]
) -> tuple[str, ...]:
    return check_tags(given, "--tag")


tag_option = click.option(
    "--tag", "tags", multiple=True, metavar="TAG", callback=_checked_tags,
    help="Label the run, such as by project or customer; may be repeated.",
)  # fmt: skip


def governed(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options for stages whose size was not known when the run was started."""
    for option in (
        click.option(
            "--cap", type=_MANY, metavar="N", help="At most N asks beyond those of the preview."
        ),
        click.option(
            "--approve-over", type=_AMOUNT, metavar="USD", help="Ask for approval above that cost."
        ),
        click.option(
            "--max-tasks",
            type=_MANY,
            metavar="N",
            help="Ask for approval above N tasks.",
        ),
        click.option("--yes", is_flag=True, help="Approve stages of a size not known before."),
    ):
        command = option(command)
    return command


def overriding(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options that override what a plan states."""
    for option in (
        click.option(
            "--concurrency", "-j", type=_SOME, metavar="N", help="Concurrent calls of each step."
        ),
        click.option(
            "--set", "vars", multiple=True, metavar="NAME=VALUE", help="A variable of the plan."
        ),
        click.option(
            "--input", metavar="FILE", help="Read this instead of the plan's input; `-` is stdin."
        ),
        click.option(
            "--batch",
            is_flag=False,
            flag_value="auto",
            metavar="[WITHIN]",
            help="Use batch services, at their price: within WITHIN, such as 6h; without it within a day, and"
            " only for many asks at once.",
        ),
        click.option("--limit", type=_SOME, metavar="N", help="Only the first N items."),
    ):
        command = option(command)
    return command


def options_of(given: dict[str, Any]) -> Options:
    said = given.pop("budget", None)
    budget, steps = (None, {}) if said is None else parse_budgets(said)
    overrides = overrides_of(given)
    stated = {name: v for name, v in given.items() if v is not None}
    return Options(
        budget=budget, step_budgets=steps, parent=inherited().parent, overrides=overrides, **stated
    )


def overrides_of(given: dict[str, Any]) -> Overrides:
    """Taken out of `given`. A file is named from the current folder, whoever reads it later."""
    said = {name: given.pop(name, None) for name in ("limit", "input", "concurrency", "batch")}
    if said["batch"] is not None:
        parse_batch(said["batch"])
    if said["input"] is not None and not is_stream_name(said["input"]):
        said["input"] = str(expanded(said["input"]).absolute())
    return Overrides(vars=parse_vars(given.pop("vars", ())), **said)


def refuse_overrides(options: Options) -> None:
    """A fleet has no input, no variables, and its own number of workers at once."""
    if options.overrides != Overrides():
        raise BadInput(
            "--limit, --input, --set, --batch and -j are for plans; a fleet states all of it itself"
        )
