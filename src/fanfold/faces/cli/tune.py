"""`fanfold tune`: who should be asked, in which order, and what that costs; from a plan with labelled
items, or from replies that are recorded already."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec

from fanfold.errors import BadInput, RunStopped
from fanfold.faces.cli.main import PAUSED
from fanfold.faces.cli.options import options_of, outside_option, overriding
from fanfold.faces.cli.store import store_option
from fanfold.observe.script import run_sync
from fanfold.plans.prepare import Job, prepare
from fanfold.tune.choose import Goal, checked_halves
from fanfold.tune.choose import tune as tuned
from fanfold.tune.drift import DriftOptions, watch_fields
from fanfold.tune.replies import read_replies, replies_table
from fanfold.tune.sample import AskedSample, SampleOptions, ask_about, sample_of
from fanfold.tune.show import advice, asked_text, plot, tuning_text
from fanfold.tune.tuned_plan import learned_route, tuned_plan
from fanfold.work.files import replacing, resolved

_WIDTH = 120
_AGAIN = "to continue: the same again with a larger --budget, or later; nothing is asked twice"
_file = click.Path(path_type=Path)


@click.command()
@click.argument("source", metavar="PLAN|REPLIES.csv")
@click.option(
    "--target",
    metavar="SHARE",
    type=click.FloatRange(0, 1),
    help="Share of the items to get right.",
)
@click.option(
    "--max-usd-per-1000",
    metavar="USD",
    type=click.FloatRange(0),
    help="Spend at most this on 1,000 items.",
)
@click.option("--as-good-as", metavar="MEMBER", help="Be right as often as this member.")
@click.option(
    "--truth", metavar="WHAT", help="What is right: labels.csv, item.FIELD, gate, or member:ID."
)
@click.option("--members", metavar="ID,…", default="", help="Only these members are tried.")
@click.option("--step", metavar="NAME", help="The step to tune; the first that asks by default.")
@click.option("--field", metavar="NAME", help="The field of replies that is compared.")
@click.option(
    "--sample",
    metavar="N",
    type=click.IntRange(80),
    default=400,
    show_default=True,
    help="Items to try on.",
)
@click.option("--prompts", metavar="FILE,…", help="Try these prompts in place of the step's own.")
@click.option("--revise", metavar="N,…", help="Try these numbers of kick-backs.")
@click.option("--shards", metavar="N,…", help="Try these numbers of items in one ask.")
@click.option("--budget", metavar="USD", help="For tuning itself: 5, or usd=5,calls=900.")
@click.option("--roster", metavar="FILE", help="The members to use.")
@click.option("--allow-paid", is_flag=True, help="Members of tier paid may be used.")
@overriding
@outside_option
@store_option
@click.option("--out", metavar="FILE", type=_file, help="Write the tuned plan, to run as it is.")
@click.option(
    "--watch",
    "against",
    metavar="WHAT",
    help="How runs of the tuned plan are checked: as --truth, or none.",
)
@click.option(
    "--watch-rate",
    "rate",
    metavar="SHARE",
    type=click.FloatRange(0, 1, min_open=True),
    help="Share of the items that is checked.",
)
@click.option(
    "--watch-usd",
    "usd",
    metavar="USD",
    type=click.FloatRange(0, min_open=True),
    help="Spend at most this on the checks.",
)
@click.option(
    "--on-drift",
    type=click.Choice(["warn", "pause"]),
    default="warn",
    show_default=True,
    help="What a run of the tuned plan does when too few checked answers are right.",
)
@click.option(
    "--learned",
    metavar="FILE",
    type=_file,
    help="Write which member gets which items, for `route: learned`.",
)
@click.option(
    "--replies",
    "table",
    metavar="FILE",
    type=_file,
    help="Write the replies by member, as REPLIES.csv.",
)
@click.option("--plot", "picture", metavar="FILE", type=_file, help="Write the frontier as SVG.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def tune(source: str, **given: Any) -> int:
    """Find the cheapest way to answers that are good enough. For a PLAN whose items have labels
    (--truth), members are asked about a sample, each content once. REPLIES.csv has recorded replies, a
    row for each item and member (item, member, answer, truth or right, usd, seconds), and nobody is
    asked. Half of the items chooses, the other half reports."""
    goal = _goal(given)
    files = {name: given.pop(name) for name in ("table", "picture", "out", "learned")}
    as_json = given.pop("as_json")
    about = SampleOptions(**{name: given.pop(name) for name in SampleOptions.__struct_fields__})
    drift = DriftOptions(*(given.pop(name) for name in DriftOptions.__struct_fields__))
    if source.endswith(".csv"):
        asked, job = _recorded(Path(source), about, files["out"]), None
    else:
        job = prepare(source, options_of(given))
        _check_place(files["out"], job)
        sample = sample_of(job, about, kept=(goal.as_good_as or "", drift.reference))
        drift.check(sample)
        goal.check(sample.asked(sample.sizes))
        checked_halves(sample.items)
        try:
            asked = run_sync(ask_about(sample, job))
        except RunStopped as stopped:
            click.echo(f"fanfold: {stopped.args[0].partition(';')[0]}; {_AGAIN}", err=True)
            return PAUSED
    found = tuned(asked.items, goal)
    texts = {
        "table": lambda: replies_table(asked.items),
        "picture": lambda: plot(found),
        "learned": lambda: learned_route(asked, found, advice(found, goal)),
    }
    if job is not None:
        watch = watch_fields(drift, asked, found, goal, Path(job.stored.plan.folder))
        texts["out"] = lambda: tuned_plan(job, asked, found, advice(found, goal), watch)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=1).decode())
    else:
        width = max(80, min(_WIDTH, shutil.get_terminal_size((_WIDTH, 24)).columns))
        click.echo("\n".join([*asked_text(asked), tuning_text(found, goal, width)]))
    _write(files, texts)
    return 0


def _goal(given: dict[str, Any]) -> Goal:
    goal = Goal(given.pop("target"), given.pop("max_usd_per_1000"), given.pop("as_good_as"))
    if sum(one is not None for one in msgspec.structs.astuple(goal)) > 1:
        raise BadInput("state one of --target, --max-usd-per-1000 and --as-good-as")
    return goal


def _recorded(file: Path, about: SampleOptions, out: Path | None) -> AskedSample:
    if about.truth or out:
        raise BadInput("--truth and --out are for a PLAN; replies have their own column `truth`")
    if about.prompts or about.revise or about.shards:
        raise BadInput("--prompts, --revise and --shards are for a PLAN: they ask anew")
    return AskedSample(read_replies(file))


def _check_place(out: Path | None, job: Job) -> None:
    if out is not None and resolved(out).parent != Path(job.stored.plan.folder):
        raise BadInput("--out must be in the plan's folder, where its paths start", file=str(out))


def _write(files: dict[str, Path | None], texts: dict[str, Callable[[], str]]) -> None:
    for name, path in files.items():
        if path is None:
            continue
        text = texts[name]()
        try:
            with replacing(path) as stream:
                stream.write(text.encode())
        except OSError as error:
            raise BadInput(f"cannot be written: {error.strerror}", file=str(path)) from None
