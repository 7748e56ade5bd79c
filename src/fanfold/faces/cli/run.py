"""`fanfold run` and `fanfold resume`: progress, signals, receipt."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec
from click.core import ParameterSource

from fanfold.clock import RealClock
from fanfold.errors import BadInput
from fanfold.faces.cli.launch import show_launched
from fanfold.faces.cli.options import (
    governed,
    notify_option,
    options_of,
    otel_option,
    outside_option,
    overriding,
    refuse_overrides,
    tag_option,
)
from fanfold.faces.cli.orders import operator, resume_held
from fanfold.faces.cli.preview import show_preview
from fanfold.faces.cli.report import writable, write_report
from fanfold.faces.cli.shares import Around, join_option, perform_shared, shares_option
from fanfold.faces.cli.store import located
from fanfold.faces.cli.store import store_option as _store
from fanfold.faces.cli.terminal import raw
from fanfold.faces.cli.ui import show_page, start_page, ui_option
from fanfold.fleet.job import prepare_fleet, prepare_resume, store_of
from fanfold.fleet.launch import resume_detached, retry_options, starting
from fanfold.fleet.load import is_fleet
from fanfold.fleet.relaunch import continue_all
from fanfold.observe.closing import again_command, closing, interrupted, resume_command
from fanfold.observe.detail import receipt_json
from fanfold.observe.html.account import result_page
from fanfold.observe.notify import notifying
from fanfold.observe.progress import NoProgress, Progress, watched
from fanfold.observe.status import may_resume
from fanfold.observe.traces import trace
from fanfold.plans.execute import Audience, Watch, execute
from fanfold.plans.prepare import Job, Options, prepare
from fanfold.run.forecast import Forecast
from fanfold.run.govern import told
from fanfold.run.inherited import named_store, store_words
from fanfold.run.loop import no_interrupts_for, on_ending_signals, run_sync, signal_text
from fanfold.run.run import Run
from fanfold.run.settings import Approve
from fanfold.work.outcome import Receipt

CLOSES_WITHIN = 5.0  # seconds that a run which was stopped has for its last lines
EXIT = {"complete": 0, "flagged": 1, "aborted": 3, "killed": 3, "paused": 4, "running": 4}

_roster = click.option("--roster", metavar="FILE", help="The members to use.")
_json = click.option(
    "--json", "as_json", is_flag=True, help="Print the receipt as one JSON object."
)
_quiet = click.option("--quiet", is_flag=True, help="No progress.")
_report = click.option(
    "--report", metavar="FILE", help="Write a report when the run has ended: .html or .md."
)
_paid = click.option("--allow-paid", is_flag=True, help="Members of tier paid may be used.")


@click.command()
@click.argument("plan", metavar="PLAN")
@overriding
@_roster
@click.option("--budget", metavar="USD", help="5, or usd=5,calls=900,tokens=…,seconds=….")
@click.option("--name", help="The run's name; the plan's by default.")
@_store
@click.option("--fresh", is_flag=True, help="Do not reuse replies of earlier runs.")
@click.option("--dry-run", is_flag=True, help="Show what it would do and cost; ask nobody.")
@click.option(
    "--read-input", is_flag=True, help="With --dry-run: run or fetch an input to count it."
)
@governed
@_paid
@otel_option
@notify_option
@tag_option
@outside_option
@shares_option
@_report
@ui_option
@_json
@_quiet
def run(plan: str, dry_run: bool, read_input: bool, with_page: bool, **given: Any) -> int:
    """Run a plan or a fleet: PLAN is a file, or a folder with a fleet.json."""
    output = _output_options(given)
    if read_input and not dry_run:
        raise click.UsageError("--read-input goes with --dry-run: a run reads its input anyway")
    options = options_of(given)
    fleet = is_fleet(plan) or Path(plan).is_dir()
    if fleet:
        refuse_overrides(options)
        if options.shares is not None:
            raise BadInput("--shares is for plans; a fleet is carried out by one process")
    job = prepare_fleet(plan, _in_fleet(plan, options)) if fleet else prepare(plan, options)
    for line in job.warnings:
        click.echo(f"warning: {line}", err=True)
    if dry_run:
        return show_preview(job, as_json=output.as_json, read_input=read_input)
    with ExitStack() as alone:
        if fleet:
            alone.enter_context(starting(job, force=options.fresh))
        if with_page:
            show_page(start_page(job.options.store))
        return _performed(job, output, alone)


@click.command()
@click.argument("run", metavar="RUN")
@_roster
@click.option("--budget", metavar="TOTAL", help="A new total: 5, or usd=5,calls=900.")
@click.option("--retry-in-doubt", is_flag=True, help="Repeat attempts in doubt: all, or these IDs.")
@click.option("--continue", "continued", is_flag=True,
              help="Agents continue in their sessions; those in doubt too.")  # fmt: skip
@click.argument("ids", nargs=-1, metavar="[ID]...")
@_store
@governed
@_paid
@otel_option
@notify_option
@click.option("--detach", is_flag=True, help="In the background, as launch does.")
@shares_option
@join_option
@_report
@_json
@_quiet
def resume(
    run: str, ids: tuple[str, ...], retry_in_doubt: bool, continued: bool, **given: Any
) -> int:
    """Continue a run after a crash, a pause, a kill or an exhausted budget. RUN is a run's id or name,
    or the folder of a fleet."""
    if ids and not retry_in_doubt:
        raise click.UsageError(f"item ids require --retry-in-doubt: {ids[0]!r}")
    repeat = (frozenset(ids) or None) if retry_in_doubt else frozenset[str]()
    detach, joining, output = given.pop("detach"), given.pop("joining"), _output_options(given)
    if detach and given["shares"] is not None:
        raise click.UsageError("--shares goes without --detach")
    if joining and given["shares"] is None:
        raise click.UsageError("--join goes with --shares: how many processes join")
    if detach and output.report:
        raise click.UsageError(
            "--report goes without --detach: use fanfold report when it has ended"
        )
    where = located(run, given.pop("store"))
    if not joining and resume_held(where.store, where.run) and given["shares"] is None:
        return 0
    options = msgspec.structs.replace(options_of(given), retry_in_doubt=repeat, store=where.store)
    job = prepare_resume(where.run, options)
    if continued:
        job = continue_all(job, operator())
    if not detach:
        return _performed(job, output, joining=joining)
    launched = resume_detached(job)
    show_launched(launched, "resumed", as_json=output.as_json)
    return 0


@click.command()
@click.argument("run", metavar="RUN")
@click.argument("items", nargs=-1, required=True, metavar="ITEM...")
@_store
@_paid
@_json
@_quiet
def retry(run: str, items: tuple[str, ...], store: str, **given: Any) -> int:
    """Run these items again, whatever their outcome, and no others. Their attempts in doubt are repeated;
    replies on record are used again and cost nothing. A function without a `version` is called again."""
    where = located(run, store)
    options = retry_options(where.store, where.run, items)
    options = msgspec.structs.replace(options, allow_paid=given["allow_paid"])
    output = OutputOptions(given["as_json"], given["quiet"])
    return perform(prepare_resume(where.run, options), output)


def _in_fleet(path: str, options: Options) -> Options:
    """A fleet's runs are kept beside its fleet.json, unless a store is named on the command line."""
    source = click.get_current_context().get_parameter_source("store")
    if source is ParameterSource.COMMANDLINE:
        return options
    return msgspec.structs.replace(options, store=store_of(path), parent=None)


class OutputOptions(NamedTuple):
    """How a run is reported: one object or lines, with or without progress, and its report in a file."""

    as_json: bool = False
    quiet: bool = False
    report: Path | None = None


def _output_options(given: dict[str, Any]) -> OutputOptions:
    as_json, quiet, report = (given.pop(name) for name in ("as_json", "quiet", "report"))
    return OutputOptions(as_json, quiet, None if report is None else writable(report))


def _performed(
    job: Job, output: OutputOptions, alone: ExitStack | None = None, joining: bool = False
) -> int:
    """By this process, or by several."""
    if job.options.shares is None:
        return perform(job, output, alone)
    audience = _audience(job, output, alone)
    return perform_shared(
        job, partial(perform, output=output, alone=alone), audience, EXIT, joining
    )


def _audience(job: Job, output: OutputOptions, alone: ExitStack | None) -> Audience:
    watch = _watch(output.quiet, alone or ExitStack(), job.options.notify)
    return Audience(watch, _say(output.quiet, output.as_json), _approver(), result_page, _warn)


def perform(
    job: Job, output: OutputOptions, alone: ExitStack | None = None, around: Around | None = None
) -> int:
    """Run a job in the foreground and print how it ended; the exit code. `alone` is closed once
    the run is on record. `around`: what is beside it as long as it is watched."""
    as_json, audience = output.as_json, _audience(job, output, alone)
    if around is not None:
        audience = msgspec.structs.replace(audience, watch=around(audience.watch))
    receipt = run_sync(execute(job, audience))
    report, store = output.report, job.options.store
    written = report is not None and write_account(receipt.run, store, report)
    with suppress(BrokenPipeError):  # the run ended as it did, whoever reads of it
        click.echo(_ending(job, receipt, as_json))
        if written:
            click.echo(f"report: {report}", err=as_json)
    return EXIT[receipt.status]


def write_account(run: str, store: str, path: Path) -> bool:
    """Write a run's account. It has ended as it did: a page that cannot be written is no failure."""
    try:
        write_report(run, store, path)
    except BadInput as error:
        click.echo(
            f"fanfold: {error}; to try again: fanfold report {run}{store_words(store)}", err=True
        )
        return False
    return True


def _ending(job: Job, receipt: Receipt, as_json: bool) -> str:
    """The last lines, or one object; with the command that continues the run, where there is
    something to do."""
    store = named_store(job.options.store)
    command = resume_command(receipt, store) if may_resume(receipt) else None
    if job.stored.kind == "fleet" and receipt.status == "flagged":
        command = again_command(receipt, store)
    if as_json:
        return receipt_json(receipt, command, store).decode()
    return closing(receipt, command, store)


def _say(quiet: bool, as_json: bool) -> Callable[[str], None]:
    """What a step tells while it goes on, such as what a gate caught. Where that cannot be written,
    the run goes on."""

    def say(line: str) -> None:
        with suppress(OSError):
            if not quiet:
                click.echo(line, err=as_json)

    return say


def _warn(line: str) -> None:
    click.echo(f"fanfold: warning: {line}", err=True)


def _approver() -> Approve | None:
    """Asks on the terminal, when there is one; the run's calls go on meanwhile."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None

    async def approve(stage: Forecast) -> bool:
        click.echo(f"{told(stage)}. Continue? [y/N]: ", err=True, nl=False)
        return (await _typed()).strip().lower() in ("y", "yes")

    return approve


async def _typed() -> str:
    """A line from the terminal. Not read in a thread: that could not be called off."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(sys.stdin.fileno())
    return sys.stdin.readline()


def _watch(quiet: bool, alone: ExitStack, notify: str | None) -> Watch:
    @asynccontextmanager
    async def watch(run: Run) -> AsyncIterator[None]:
        alone.close()
        main = asyncio.current_task()
        assert main is not None
        progress = Progress(run, raw(sys.stderr), live=sys.stderr.isatty(), clock=RealClock())
        run.store.when_waiting(progress.say)
        trace(run)
        heard: list[signal.Signals] = []

        def on(number: signal.Signals) -> None:
            heard.append(number)
            _on_signal(run, main, number, progress)

        remove = on_ending_signals(on, signal.SIGINT)
        try:
            async with watched(NoProgress() if quiet else progress), notifying(run, notify, _warn):
                yield
        finally:
            if heard:
                no_interrupts_for(CLOSES_WITHIN)
            remove()

    return watch


def _on_signal(
    run: Run, main: asyncio.Task[Any], number: signal.Signals, progress: Progress
) -> None:
    """The first: no new call, wait for what is under way. The second: cancel."""
    if run.stopping is None:
        run.pause(signal_text(number))
        stats = run.statistics()
        progress.say(interrupted(stats, stats.reserved))
    else:
        main.cancel()
