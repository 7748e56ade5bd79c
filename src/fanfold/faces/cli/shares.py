"""`--shares N`: a run that N processes of this machine carry out together, with others that join it."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial

import click
import msgspec

from fanfold.errors import AlreadyRunning
from fanfold.fleet.job import prepare_resume
from fanfold.plans.execute import Audience, Watch
from fanfold.plans.prepare import Job
from fanfold.plans.shares import (
    LEFT,
    Seat,
    other_budget,
    refuse_undivided,
    take_part,
    under_way,
)
from fanfold.run.loop import on_ending_signals, run_sync, signal_text
from fanfold.run.run import Run

Around = Callable[[Watch], Watch]
TURNS = 100  # how often one may join, or lead, before something must be wrong
KILLED = 3  # the exit code where a run was removed meanwhile

shares_option = click.option(
    "--shares", type=click.IntRange(1, 64), metavar="N",
    help="Divide the run among N processes; started again on another machine, more join it.",
)  # fmt: skip
join_option = click.option(
    "--join", "joining", is_flag=True, help="With --shares: only if the run is under way."
)


def perform_shared(
    job: Job,
    perform: Callable[..., int],
    audience: Audience,
    codes: dict[str, int],
    joining: bool = False,
) -> int:
    """Lead the run, or join the one of its name that is under way; and lead it when nobody does any more.
    `joining`: only if it is under way. `codes`: the exit code for each status."""
    refuse_undivided(job)
    calls = None  # made as one that another one led
    with _Children(job, ended=joining) as children, Seat() as seat:
        for _ in range(TURNS):
            there, status = under_way(job), None
            if there is not None:
                assert there.record is not None
                children.start(there.record.id)
                if calls is None and (said := other_budget(job, there.record)):
                    audience.warn(said)
                ended = run_sync(take_part(there, _listening(audience), seat))
                job, status, calls = there, ended.status, (calls or 0) + ended.calls
            if status is None and (joining or calls is not None):
                job, status = _left_behind(job)
            if status is not None:
                _say_ended(job, status, calls, audience)
                return 0 if calls is None or status == LEFT else codes.get(status, KILLED)
            try:
                return perform(job, around=partial(children.beside, seat=seat))
            except AlreadyRunning:  # another one was quicker
                continue
    raise AlreadyRunning(f"{job.name} is already running")


def _left_behind(job: Job) -> tuple[Job, str | None]:
    """A run that others carried out, to be taken over; or how it has ended meanwhile."""
    assert job.record is not None
    job = prepare_resume(job.record.id, job.options.taking_over())
    assert job.record is not None
    return job, None if job.record.status == "running" else job.record.status


def _say_ended(job: Job, status: str, calls: int | None, audience: Audience) -> None:
    assert job.record is not None
    if calls is not None:
        made = "1 call" if calls == 1 else f"{calls:,} calls"
        audience.say(f"{job.name} ({job.record.id}): {status}; this process made {made} of it")


class _Children:
    """The other processes of this machine: ordinary `fanfold resume --shares 1`. They outlive this one, as
    the run does: a signal to the terminal is not for them."""

    def __init__(self, job: Job, ended: bool) -> None:
        self._job, self._many = job, 0 if ended else (job.options.shares or 1) - 1
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, run: str) -> None:
        """Once."""
        many, self._many = self._many, 0
        for _ in range(many):
            child = subprocess.Popen(
                [sys.executable, "-P", "-m", "fanfold", *_words(self._job, run)],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            self._started.append(child)

    def beside(self, watch: Watch, seat: Seat) -> Watch:
        """They are started when the run is on record, and belongs to this process: it needs no seat then."""

        @asynccontextmanager
        async def watching(run: Run) -> AsyncIterator[None]:
            self.start(run.record.id)
            seat.leave()
            async with watch(run):
                yield

        return watching

    def __enter__(self) -> _Children:
        return self

    def __exit__(self, *error: object) -> None:
        """The run is over, or goes on without this process."""
        for child in self._started:
            with suppress(subprocess.TimeoutExpired):
                child.wait(60)


def _words(job: Job, run: str) -> list[str]:
    options = job.options
    words = ["resume", run, "--shares", "1", "--join", "--store", options.store, "--quiet"]
    if options.roster is not None:
        words += ["--roster", options.roster]
    if options.allow_paid:
        words.append("--allow-paid")
    if options.retry_in_doubt is None or options.retry_in_doubt:
        words += ["--retry-in-doubt", *sorted(options.retry_in_doubt or ())]
    return words


# ── as one that another leads ────────────────────────────────────────────────────────────────


def _listening(audience: Audience) -> Audience:
    """A signal is for this process alone: the others go on."""

    @asynccontextmanager
    async def watch(run: Run) -> AsyncIterator[None]:
        main = asyncio.current_task()
        assert main is not None and run.share is not None
        with _leaving(run, main):
            yield

    return msgspec.structs.replace(audience, watch=watch)


@contextmanager
def _leaving(run: Run, main: asyncio.Task[object]) -> Iterator[None]:
    def heard(number: signal.Signals) -> None:
        assert run.share is not None
        if run.stopping is None:
            run.share.go(signal_text(number), for_good=True)
        else:
            main.cancel()

    remove = on_ending_signals(heard, signal.SIGINT)
    try:
        yield
    finally:
        remove()
