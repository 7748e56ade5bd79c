"""One server process: its run is opened, the endpoint is up until it is told to stop, the books
are closed."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from fanfold.errors import BadInput
from fanfold.faces.connections import bounds
from fanfold.faces.serve.answer import Service, Voting, usable, voting
from fanfold.faces.serve.http import Server, open_door
from fanfold.members.roster import DEFAULT_ROSTER, Roster, load_roster
from fanfold.observe.closing import interrupted
from fanfold.patterns.delegate import new_run
from fanfold.run.inherited import inherited
from fanfold.run.loop import on_ending_signals
from fanfold.run.open import Listed
from fanfold.run.run import Run
from fanfold.run.settings import Settings
from fanfold.work.outcome import Receipt
from fanfold.work.task import Budget


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be served, and how."""

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


class Up(NamedTuple):
    """The endpoint is up: where, for whom, in which run."""

    url: str
    models: list[str]
    run: Run

    def told(self) -> str:
        """For people, in two lines."""
        record, limit = self.run.record, self.run.settings.budget
        stated = {name: getattr(limit, name) for name in limit.__struct_fields__}
        bounds = [f"{name}={amount:g}" for name, amount in stated.items() if amount is not None]
        return (
            f"run {record.name} ({record.id}), models: {', '.join(self.models)}\n"
            f"budget: {', '.join(bounds) or 'none; set one with --budget'}"
        )


async def hold(wanted: Wanted, up: Callable[[Up], None], stop: asyncio.Event) -> Receipt:
    """Serve until `stop` is set; then those under way end. Cancelled: they are cancelled too.

    What is wrong (the roster, an ensemble, the port) shows before a run is on record.
    """
    roster = load_roster(wanted.roster)
    company, ensembles = _company(roster, wanted)
    settings = Settings(budget=wanted.budget, fresh=wanted.fresh, serving=True)
    parent, limits = inherited().parent, bounds(wanted.connections)
    door = open_door(wanted.port)
    opened: list[Run] = []
    try:
        async with new_run(wanted.name, company, settings, wanted.store, parent) as run:
            opened.append(run)
            service = Service(run, company, ensembles, wanted.concurrency)
            server = Server(service, wanted.key, run.clock.now, limits)
            await server.start(door)
            up(Up(f"http://127.0.0.1:{door.getsockname()[1]}/v1", service.models, run))
            await _until(stop, run, server)
    except asyncio.CancelledError:
        if not opened or opened[0].closing is None:
            raise
    finally:
        door.close()
    receipt = opened[0].closing
    assert receipt is not None
    return receipt


async def hold_until_signalled(
    wanted: Wanted, up: Callable[[Up], None], say: Callable[[str], None]
) -> Receipt:
    """As `hold`. The first signal: no new request, those under way end. The second cancels them."""
    stop, main = asyncio.Event(), asyncio.current_task()
    assert main is not None
    remove: list[Callable[[], None]] = []

    def listen(found: Up) -> None:
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
        return await hold(wanted, listen, stop)
    finally:
        for one in remove:
            one()


async def _until(stop: asyncio.Event, run: Run, server: Server) -> None:
    try:
        await stop.wait()
        await server.stop()
    except asyncio.CancelledError:
        run.kill("cancelled; calls under way may have been carried out")
        raise


def _company(roster: Roster, wanted: Wanted) -> tuple[Listed, dict[str, Voting]]:
    """Functions and commands are looked for beside the roster; those of fanfold's own, here."""
    folder = Path.cwd() if wanted.roster == DEFAULT_ROSTER else wanted.roster.parent
    company = Listed(roster, folder, allow_paid=wanted.allow_paid)
    if not usable(company):
        raise BadInput(
            f"{roster.called} has nobody who may be asked; enable a member, or --allow-paid"
        )
    return company, {name: voting(one) for name, one in roster.ensembles.items()}
