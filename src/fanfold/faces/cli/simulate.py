"""`fanfold simulate`: what a plan would cost, take and come to, as distributions; nothing is asked."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import msgspec

from fanfold.errors import BadInput
from fanfold.faces.cli.options import json_option, options_of, outside_option, overriding
from fanfold.faces.cli.store import store_option
from fanfold.fleet.load import is_fleet
from fanfold.journal import opening
from fanfold.plans.attached import check_attached
from fanfold.plans.carry import check_fields
from fanfold.plans.prepare import Job, prepare
from fanfold.plans.preview.estimate import readable_input
from fanfold.simulate.behaviour import parse_members
from fanfold.simulate.history import CallRecords
from fanfold.simulate.report import PlanSimulation, simulation
from fanfold.simulate.runs import Simulator
from fanfold.simulate.sample import sampled_items
from fanfold.simulate.show import picture, simulation_text
from fanfold.simulate.stand_in import Premise
from fanfold.simulate.what_if import Scenario, parse_what_ifs
from fanfold.work.files import replacing
from fanfold.work.item import Source

_WIDTH = 110


@click.command()
@click.argument("plan", metavar="PLAN")
@click.option(
    "--member", "members", multiple=True, metavar="NAME:latency=2s,…",
    help="How a member behaves, in place of what is on record; may be repeated.",
)  # fmt: skip
@click.option(
    "--what-if", "what_ifs", multiple=True, metavar="KIND=…",
    help="Try concurrency=8,16, budget=5, rpm=ada:60 or outage=ada:10m; may be repeated.",
)  # fmt: skip
@click.option(
    "--runs", metavar="N", type=click.IntRange(3, 1000), help="Simulated runs; 5 to 20 by default."
)
@click.option(
    "--seed",
    metavar="N",
    type=click.IntRange(0, 10**9),
    default=0,
    help="Seed of the random choices.",
)
@click.option(
    "--sample", metavar="N", type=click.IntRange(20), default=200, show_default=True,
    help="Simulate N items of a larger input.",
)  # fmt: skip
@click.option(
    "--picture",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write a picture, as SVG.",
)
@click.option("--budget", metavar="USD", help="Budget of the run: 5, or usd=5,calls=900.")
@click.option("--roster", metavar="FILE", help="The members to use.")
@click.option("--allow-paid", is_flag=True, help="Members of tier paid may be used.")
@click.option(
    "--read-input", is_flag=True, help="Run or fetch an input that is a program or a URL."
)
@overriding
@outside_option
@store_option
@json_option
def simulate(plan: str, **given: Any) -> int:
    """Simulate a plan many times: its cost, time and outcomes as distributions, and what other limits
    would do. The real engine runs it on a virtual clock, with stand-ins for members that behave as their
    calls on record did, or as --member says. Nothing is asked, paid or written, no code of yours is run,
    and the store is only read."""
    if is_fleet(plan) or Path(plan).is_dir():
        raise BadInput("a fleet is not simulated; see it with: fanfold run --dry-run", file=plan)
    said = {name: given.pop(name) for name in ("members", "what_ifs", "runs", "seed", "sample")}
    file, as_json, read_input = (given.pop(name) for name in ("file", "as_json", "read_input"))
    job = prepare(plan, options_of(given))
    if file is not None and not file.absolute().parent.is_dir():
        raise BadInput("cannot be written: there is no such folder", file=str(file))
    names = list(job.roster.entries)
    tried = parse_what_ifs(said["what_ifs"], names)
    stated = parse_members(said["members"], names)
    with TemporaryDirectory(prefix="fanfold-") as spool:
        source = _input(job, Path(spool), read_input)
        found = _simulated(job, source, tried, stated, said)
    _write(file, found)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=1).decode())
        return 0
    width = max(80, min(_WIDTH, shutil.get_terminal_size((_WIDTH, 24)).columns))
    click.echo(simulation_text(found, width))
    return 0


def _input(job: Job, spool: Path, read_input: bool) -> Source | None:
    """As the run checks it before it starts."""
    plan = job.stored.plan
    source = readable_input(plan, spool, also=read_input)
    if source is None:
        if plan.input is not None:
            what = f"its input of kind {plan.input.kind} is read only with --read-input"
            raise BadInput(what, file=plan.file, line=plan.input.line)
        return None
    check_fields(plan, source.walk())
    check_attached(plan, job.roster, source.walk())
    return source


def _simulated(
    job: Job, source: Source | None, tried: list[Scenario], stated: Any, said: dict[str, Any]
) -> PlanSimulation:
    store, plan = job.options.store, job.stored.plan
    view = opening.look(store) if opening.exists(store) else None
    try:
        records = CallRecords(view)
        premise = Premise(job.roster, Path(plan.folder), job.options.allow_paid, records, stated)
        items, whole = sampled_items(plan, source, said["sample"], tried)
        simulator = Simulator(job, premise, items, whole, said["seed"])
        return simulation(simulator, tried, said["runs"], said["seed"])
    finally:
        if view is not None:
            view.close()


def _write(file: Path | None, found: PlanSimulation) -> None:
    if file is None:
        return
    try:
        with replacing(file) as stream:
            stream.write(picture(found).encode())
    except OSError as error:
        raise BadInput(f"cannot be written: {error.strerror}", file=str(file)) from None
