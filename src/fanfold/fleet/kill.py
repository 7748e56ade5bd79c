"""End one worker, or a whole run. Only the operator does that."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path

import msgspec

from fanfold.errors import AlreadyRunning, BadInput, FanfoldError
from fanfold.fleet.locks import acting
from fanfold.fleet.obey import KILLED
from fanfold.fleet.orders import Orders
from fanfold.fleet.workers import Worker, took_at_most, worker_of, workers_of
from fanfold.journal.apply import CloseRun
from fanfold.journal.facts import End, Lose, RunRecord
from fanfold.journal.journal import Archive, Journal
from fanfold.journal.store import Store
from fanfold.members.agents.processes import send
from fanfold.members.agents.worker import Process
from fanfold.run.loop import run_sync
from fanfold.run.open import unbooked
from fanfold.work.nearest import remedy
from fanfold.work.outcome import STATES

WITHIN = 10.0  # seconds in which everything has to be gone
PASSING = 40.0  # seconds in which whoever launches or relaunches it has done so
OBEYS = 20.0  # seconds for a supervisor to settle its agents and close the books
LOOK = 0.05
BETWEEN = 0.5  # seconds between two words to a run in the foreground: the second one cancels it
MOST = 1_000_000


class Killed(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. `over`: there was nothing to end, and `said` tells why. `left`: processes
    that could not be ended."""

    run: str
    name: str
    killed: tuple[str, ...] = ()
    over: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    said: str = ""


# ── one worker ───────────────────────────────────────────────────────────────────────────────


def kill_worker(store: str, record: RunRecord, id: str) -> Killed:
    """End one worker and all that it started. Its run goes on, and settles it as failed.

    BadInput for an id that is not there, and for work that has no process of its own.
    """
    archive = Archive(store)
    try:
        if not archive.read.items.has(record.no, id):
            known = archive.read.items.ids(record.no)
            raise BadInput(f"{record.name} has no worker {id!r}: {remedy(id, known)}")
        worker = _at_work(archive, record, id)
        said = _how_it_stands(archive, record, id)
    finally:
        archive.close()
    ended = [] if worker is None else asyncio.run(_end([worker]))
    found = _result(record, ended)
    if found.killed or found.left:
        return found
    return msgspec.structs.replace(found, over=(id,), said=said)


def _at_work(archive: Archive, record: RunRecord, id: str) -> Worker | None:
    """The worker of an attempt that is not settled; a dead supervisor's too, since it lives on."""
    for attempt in archive.read.newest(record.no, ("started", "in_doubt"), limit=10_000):
        if id not in attempt.ids:
            continue
        worker = worker_of(archive.store.folder, record, attempt)
        if worker is not None:
            return worker if worker.host.exit() is None else None
        if attempt.state == "started" and archive.store.alive(record.session):
            raise BadInput(
                f"{id} is done by {attempt.member}, which is no agent: only the whole run can be"
                f" killed: fanfold kill {record.name} all"
            )
    return None


def _how_it_stands(archive: Archive, record: RunRecord, id: str) -> str:
    ended = {one.id: one for one in archive.read.endings(record.no, STATES, limit=MOST)}
    one = ended.get(id)
    if one is not None:
        why = f": {one.reasons[0]}" if one.reasons else ""
        return f"{id} is not running, it ended {one.state}{why}"
    if record.status == "running" and archive.store.alive(record.session):
        return f"{id} has no worker of its own at work; only the whole run can be killed"
    return f"{id} is not running"


async def _end(workers: Iterable[Worker]) -> list[tuple[Worker, bool]]:
    """All at once; which of them are gone."""
    several = list(workers)
    gone = await asyncio.gather(*(one.host.killed("killed", KILLED, WITHIN) for one in several))
    return list(zip(several, gone, strict=True))


def _result(record: RunRecord, ended: list[tuple[Worker, bool]]) -> Killed:
    """Those that had ended by themselves in the meantime were not killed."""
    gone = [worker for worker, over in ended if over]
    exits = [(worker, worker.host.exit()) for worker in gone]
    return Killed(
        run=record.id,
        name=record.name,
        killed=tuple(w.id for w, exit in exits if exit is not None and exit.why == "killed"),
        left=tuple(f"{worker.id} in {worker.host.place}" for worker, over in ended if not over),
    )


# ── the whole run ────────────────────────────────────────────────────────────────────────────


def kill_all(store: str, record: RunRecord) -> Killed:
    """End every worker, stop whoever carries the run out, and close it as killed.

    A supervisor settles its agents by what they left. Without one the logs of those under way tell
    what they took at most, and a resumed run harvests them. One that is being launched or
    handed over right now is killed when that is done, or it would go on with the next supervisor.
    """
    with ExitStack() as stack:
        with suppress(AlreadyRunning):
            stack.enter_context(acting(store, record.name, PASSING))
        record = _now(store, record)
        began = time.time()
        ended = asyncio.run(_stop(store, record))
        if Store(Path(store)).alive(record.session):
            raise FanfoldError(f"the supervisor of {record.name} does not end; see its log")
        if record.status in ("running", "paused"):
            run_sync(_close(store, record))
        ended += _by_the_supervisor(store, record, ended, began)
        return _result(record, _in_planned_order(store, record, ended))


def _now(store: str, record: RunRecord) -> RunRecord:
    """Another process may carry it out by now."""
    archive = Archive(store)
    try:
        return archive.read.find(record.id) or record
    finally:
        archive.close()


def _in_planned_order(
    store: str, record: RunRecord, ended: list[tuple[Worker, bool]]
) -> list[tuple[Worker, bool]]:
    """As fleet.json lists them, whoever was ended first, and by whom."""
    archive = Archive(store)
    try:
        planned = {id: n for n, id in enumerate(archive.read.items.ids(record.no))}
    finally:
        archive.close()
    return sorted(ended, key=lambda one: (planned.get(one[0].id, len(planned)), one[0].attempt.no))


def _by_the_supervisor(
    store: str, record: RunRecord, known: Iterable[tuple[Worker, bool]], began: float
) -> list[tuple[Worker, bool]]:
    """Those that were quicker ended there than here."""
    spans = {worker.host.spec.span for worker, _ in known}
    archive = Archive(store)
    try:
        found = [w for w in workers_of(archive, record) if w.host.spec.span not in spans]
    finally:
        archive.close()
    exits = ((worker, worker.host.exit()) for worker in found)
    return [(worker, True) for worker, exit in exits if exit is not None and exit.at >= began]


async def _stop(store: str, record: RunRecord) -> list[tuple[Worker, bool]]:
    """Workers are looked for until the supervisor is gone, and once more: it may start one yet."""
    session = Store(Path(store))
    orders, told = Orders(Path(store), record.session), 0
    ended: dict[str, tuple[Worker, bool]] = {}
    orders.give("kill")
    deadline = time.monotonic() + OBEYS
    while session.alive(record.session) and time.monotonic() < deadline:
        if told < (1 if orders.heard else 2):
            tell(session, record.session, signal.SIGTERM)
            told += 1
        for one in await _sweep(store, record):
            ended[one[0].host.spec.span] = one
        await _gone(session, record.session)
    for one in await _sweep(store, record):
        ended[one[0].host.spec.span] = one
    return list(ended.values())


async def _sweep(store: str, record: RunRecord) -> list[tuple[Worker, bool]]:
    archive = Archive(store)
    try:
        left = [worker for worker in workers_of(archive, record) if worker.host.exit() is None]
    finally:
        archive.close()
    return await _end(left)


async def _gone(store: Store, session: str) -> None:
    """Wait a moment for the end of a session; a lock tells nobody that it was let go."""
    for _ in range(round(BETWEEN / LOOK)):
        if not store.alive(session):
            return
        await asyncio.sleep(LOOK)


def tell(store: Store, session: str, number: signal.Signals) -> bool:
    """A signal to the process that carries a session out, and to no other."""
    owner = store.owner(session)
    if owner is None:
        return False
    if owner.started:
        return send(Process(owner.pid, owner.started, owner.boot), number)
    with suppress(OSError):
        os.kill(owner.pid, number)
    return True


async def _settle(journal: Journal, record: RunRecord) -> None:
    """What the killed workers took by their logs, instead of all that was reserved for them. They stay
    in doubt, for a resumed run to harvest."""
    for attempt in journal.read.newest(record.no, ("in_doubt",), limit=MOST):
        worker = worker_of(journal.store.folder, record, attempt)
        took = None if worker is None or not attempt.bound else took_at_most(worker)
        if took is None or took.cost is None:
            continue
        await journal.write(
            End(run=record.no, attempt=attempt.no, state="in_doubt", usage=took.usage, bound=True,
                cost=took.cost, tokens=took.usage.total, at=time.time(), error=KILLED, monthly=True)
        )  # fmt: skip


async def _close(store: str, record: RunRecord) -> None:
    """Whoever carried it out did not close the books as killed: it had died, or only paused."""
    journal = Journal(store)
    try:
        now = journal.read.find(record.id)
        assert now is not None
        if now.status not in ("running", "paused"):
            return
        lost = [one.no for one in journal.read.newest(now.no, ("started",), limit=MOST)]
        if lost:
            await journal.write(Lose(tuple(lost), time.time()))
            await _settle(journal, now)
        active = unbooked(journal, now)
        await journal.write(
            CloseRun(run=now.no, status="killed", reason=KILLED, at=time.time(), active=active,
                     result=now.result, rest="cancelled", session=now.session)
        )  # fmt: skip
    finally:
        journal.close()
