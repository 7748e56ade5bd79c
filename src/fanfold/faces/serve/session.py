"""One server process: its run is opened, the endpoint serves until it is stopped, the run is
closed."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from fanfold.errors import BadInput
from fanfold.faces.connections import bounds
from fanfold.faces.serve.app import ServeEndpoint
from fanfold.faces.serve.service import ReadyEnsemble, Service, ready, usable
from fanfold.faces.web import listen
from fanfold.members.roster import DEFAULT_ROSTER, Roster, load_roster
from fanfold.observe.closing import interrupted
from fanfold.patterns.delegate import new_run
from fanfold.run.inherited import inherited
from fanfold.run.loop import on_ending_signals
from fanfold.run.member_sources import ListedMembers
from fanfold.run.run import Run
from fanfold.run.settings import Settings
from fanfold.work.outcome import Receipt
from fanfold.work.task import Budget


class ServeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `fanfold serve`."""

    roster: Path
    key: str
    port: int = 0
    budget: Budget = Budget()
    name: str = "serve"
    store: str = ".fanfold"
    fresh: bool = False
    allow_paid: bool = False
    concurrency: int = 64
    connections: int | None = None


class ServingInfo(NamedTuple):
    """The endpoint is up: where, for whom, in which run."""

    url: str
    models: list[str]
    run: Run

    def describe(self) -> str:
        """For people, in two lines."""
        record, limit = self.run.record, self.run.settings.budget
        stated = {name: getattr(limit, name) for name in limit.__struct_fields__}
        bounds = [f"{name}={amount:g}" for name, amount in stated.items() if amount is not None]
        return (
            f"run {record.name} ({record.id}), models: {', '.join(self.models)}\n"
            f"budget: {', '.join(bounds) or 'none; set one with --budget'}"
        )


async def serve(
    options: ServeOptions, up: Callable[[ServingInfo], None], stop: asyncio.Event
) -> Receipt:
    """Serve until `stop` is set; then those under way end. Cancelled: they are cancelled too.

    What is wrong (the roster, an ensemble, the port) shows before a run is on record.
    """
    roster = load_roster(options.roster)
    company, ensembles = _company(roster, options)
    settings = Settings(budget=options.budget, fresh=options.fresh, serving=True)
    parent, limits = inherited().parent, bounds(options.connections)
    listening = listen(options.port)
    opened: list[Run] = []
    try:
        async with new_run(options.name, company, settings, options.store, parent) as run:
            opened.append(run)
            service = Service(run, company, ensembles, options.concurrency)
            server = ServeEndpoint(service, options.key, run.clock.now, limits)
            server.start(listening)
            up(
                ServingInfo(
                    f"http://127.0.0.1:{listening.getsockname()[1]}/v1", service.models, run
                )
            )
            try:
                await stop.wait()
                await server.stop()
            except asyncio.CancelledError:
                run.kill("cancelled; calls under way may have been carried out")
                raise
    except asyncio.CancelledError:
        if not opened or opened[0].closing is None:
            raise
    finally:
        listening.close()
    receipt = opened[0].closing
    assert receipt is not None
    return receipt


async def serve_until_signalled(
    options: ServeOptions, up: Callable[[ServingInfo], None], say: Callable[[str], None]
) -> Receipt:
    """As `serve`. The first signal: no new request, those under way end. The second cancels them."""
    stop, main = asyncio.Event(), asyncio.current_task()
    assert main is not None
    remove: list[Callable[[], None]] = []

    def listen(found: ServingInfo) -> None:
        def on_signal(number: signal.Signals) -> None:
            if stop.is_set():
                main.cancel()
                return
            stop.set()
            stats = found.run.statistics()
            say(interrupted(stats, stats.reserved))

        remove.append(on_ending_signals(on_signal, signal.SIGINT))
        up(found)

    try:
        return await serve(options, listen, stop)
    finally:
        for one in remove:
            one()


def _company(
    roster: Roster, options: ServeOptions
) -> tuple[ListedMembers, dict[str, ReadyEnsemble]]:
    """Functions and commands are looked for beside the roster; those of fanfold's own, here."""
    folder = Path.cwd() if options.roster == DEFAULT_ROSTER else options.roster.parent
    company = ListedMembers(roster, folder, allow_paid=options.allow_paid)
    if not usable(company):
        raise BadInput(
            f"{roster.called} has nobody who may be asked; enable a member, or --allow-paid"
        )
    return company, {name: ready(one) for name, one in roster.ensembles.items()}
