"""End one worker, or a whole run. Only the operator does that."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from typing import Literal

import msgspec

from fanfold.errors import AlreadyRunning, BadInput, FanfoldError, StoreError
from fanfold.fleet.detach import run_lock
from fanfold.fleet.runs import find_record, may_live, may_run, reading, signal_process
from fanfold.fleet.worker_view import FleetWorker, cost_at_most, place_of, worker_of, workers_of
from fanfold.journal import opening
from fanfold.journal.answers import AttemptRecord
from fanfold.journal.contract import Store, StoreView
from fanfold.journal.facts import AnswerOrder, CloseRun, EndAttempt, LoseAttempts, RunRecord
from fanfold.journal.opening import open_store
from fanfold.run.loop import run_sync
from fanfold.run.orders import KILLED, give
from fanfold.run.record import unbooked
from fanfold.work.nearest import remedy
from fanfold.work.outcome import STATES

WORKER_ENDS = 10.0  # seconds for a worker and all that it started
STARTS = 60.0  # seconds for one that is just being started to have files
LAUNCH_ENDS = 40.0  # seconds for another process to finish launching or relaunching the run
SUPERVISOR_ENDS = 20.0  # seconds for a supervisor to settle its agents and close the run
TAKEN_WITHIN = 10.0  # seconds for a process that lives to take the order up; a busy machine is slow
POLL = 0.05
BETWEEN = 0.5  # seconds between two signals to a run in the foreground: the second one cancels it
MOST = 1_000_000
TAKEN_OVER = (
    10  # how often a run goes on with another of its processes before something must be wrong
)


Taken = Literal["done", "refused", ""]
"""What the process of a run made of an order; "": nothing, it did not take it up."""


class KillResult(msgspec.Struct, frozen=True, kw_only=True):
    """`over`: workers that had ended before, and `said` is how. `left`: what could not be ended, and why
    where that is known."""

    run: str
    name: str
    killed: tuple[str, ...] = ()
    over: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    said: str = ""


# ── one worker ───────────────────────────────────────────────────────────────────────────────


def kill_worker(store: str, record: RunRecord, id: str, by: str) -> KillResult:
    """End one worker and all that it started. Its run continues, and settles it as failed.

    BadInput for an id that is not there, and for work that has no process of its own.
    """
    with reading(store) as archive:
        if not archive.read.has_item(record.no, id):
            known = archive.read.item_ids(record.no)
            raise BadInput(f"{record.name} has no worker {id!r}: {remedy(id, known)}")
        worker = _at_work(archive, record, id)
        state = _state_text(archive, record, id)
    if isinstance(worker, AttemptRecord):
        return asyncio.run(_end_elsewhere(store, record, worker, id, by))
    ended = [] if worker is None else asyncio.run(_end_one(store, record, worker, by))
    found = _result(record, ended)
    if found.killed or found.left:
        return found
    return msgspec.structs.replace(found, over=(id,), said=state)


def _at_work(archive: StoreView, record: RunRecord, id: str) -> FleetWorker | AttemptRecord | None:
    """The worker of an attempt that is not settled; also when its supervisor died, since it lives on. The
    attempt, where its files are not on this machine."""
    for attempt in archive.read.newest(record.no, ("started", "in_doubt"), limit=10_000):
        if id not in attempt.ids:
            continue
        worker = worker_of(archive.files, record, attempt)
        if worker is not None:
            return worker if worker.host.exit() is None else None
        if attempt.state == "started" and may_live(archive.place, record.session):
            return attempt
    return None


async def _end_elsewhere(
    store: str, record: RunRecord, attempt: AttemptRecord, id: str, by: str
) -> KillResult:
    """By its run, which has the worker on its machine end it, and settles it when all of it is gone. One that
    is just being started here is ended as soon as it has files."""
    taken = await _order(store, record, by, id, elsewhere=True)
    if taken == "refused":
        raise BadInput(
            f"{id} is done by {attempt.member}, which is not an agent: only the whole run can be"
            f" killed: fanfold kill {record.name} all"
        )
    if taken != "done":
        raise FanfoldError(
            f"the process of {record.name} does not answer, and only that can end {id}; try again, or end all"
            f" of it: fanfold kill {record.name} all"
        )
    with reading(store) as archive:
        starting = place_of(archive.files, record, attempt) is None
    until = time.monotonic() + 2 * WORKER_ENDS + (STARTS if starting else 0.0)
    while time.monotonic() < until:
        with reading(store) as archive:
            if archive.read.attempt_state(attempt.no) != "started":
                return KillResult(run=record.id, name=record.name, killed=(id,))
            worker = worker_of(archive.files, record, attempt)
        if worker is not None:
            return _result(record, await _end([worker]))
        await asyncio.sleep(BETWEEN)
    return KillResult(run=record.id, name=record.name, left=(f"{id} on another machine",))


def _state_text(archive: StoreView, record: RunRecord, id: str) -> str:
    ended = {one.id: one for one in archive.read.endings(record.no, STATES, limit=MOST)}
    one = ended.get(id)
    if one is not None:
        why = f": {one.reasons[0]}" if one.reasons else ""
        return f"{id} is not running, it ended {one.state}{why}"
    if may_run(archive.place, record):
        return f"{id} has no worker of its own at work; only the whole run can be killed"
    return f"{id} is not running"


async def _end_one(
    store: str, record: RunRecord, worker: FleetWorker, by: str
) -> list[tuple[FleetWorker, bool]]:
    """By its run, where that is under way; all the same it is waited for here until all is gone."""
    await _order(store, record, by, worker.id)
    return await _end([worker])


async def _order(
    store: str, record: RunRecord, by: str, worker: str = "", *, elsewhere: bool = False
) -> Taken:
    """On record; whether the process of the run carries it out. Where none does it is done here, as also
    when the store takes nothing: on a full disk, say. `elsewhere`: it cannot be done here."""
    if record.status not in ("running", "paused"):
        return ""
    with suppress(StoreError, TimeoutError):
        async with asyncio.timeout(2 * TAKEN_WITHIN):
            journal = open_store(store)
            try:
                order = await give(journal, record, by, "kill", worker, TAKEN_WITHIN)
                if order.state != "given":
                    return "done" if order.state == "done" else "refused"
                answer = AnswerOrder(order.no, time.time(), "done", "by whoever gave it")
                if elsewhere:
                    answer = AnswerOrder(order.no, time.time(), "refused", "nobody took it up")
                return "" if await journal.write(answer) else "done"
            finally:
                journal.close()
    return ""


async def _end(workers: Iterable[FleetWorker]) -> list[tuple[FleetWorker, bool]]:
    """All at once; with each, whether all of it has ended."""
    several = list(workers)
    over = await asyncio.gather(
        *(one.host.killed("killed", KILLED, WORKER_ENDS) for one in several)
    )
    return list(zip(several, over, strict=True))


def _result(record: RunRecord, ended: list[tuple[FleetWorker, bool]]) -> KillResult:
    """Workers that had ended by themselves in the meantime were not killed."""
    exits = [(worker, worker.host.exit()) for worker, over in ended if over]
    return KillResult(
        run=record.id,
        name=record.name,
        killed=tuple(w.id for w, exit in exits if exit is not None and exit.why == "killed"),
        left=tuple(
            one.host.unseen() or f"{one.id} in {one.host.place}" for one, over in ended if not over
        ),
    )


# ── the whole run ────────────────────────────────────────────────────────────────────────────


def kill_all(store: str, record: RunRecord, by: str) -> KillResult:
    """End every worker, stop the process of the run, and close the run as killed.

    A supervisor settles its agents by what they left. Without one their logs say what they cost at
    most, and a resumed run takes their replies over. A run that is being launched or handed over right
    now is killed when that is done, or it would continue with the next supervisor.
    """
    with ExitStack() as stack:
        with suppress(AlreadyRunning):
            stack.enter_context(run_lock(str(opening.files(store)), record.name, LAUNCH_ENDS))
        began, ended = time.time(), list[tuple[FleetWorker, bool]]()
        for _ in range(TAKEN_OVER):  # another process may run it by now, or take it over meanwhile
            record = find_record(store, record.id) or record
            ended += asyncio.run(_stop(store, record, by))
            if may_live(store, record.session):
                raise FanfoldError(f"the supervisor of {record.name} does not exit; see its log")
            if record.status in ("running", "paused"):
                run_sync(_close(store, record))
            if not may_run(store, find_record(store, record.id) or record):
                break
        return _result(record, _all_ended(store, record, ended, began))


def _all_ended(
    store: str, record: RunRecord, known: list[tuple[FleetWorker, bool]], began: float
) -> list[tuple[FleetWorker, bool]]:
    """With those that the supervisor ended, all in planned order."""
    spans = {worker.host.spec.span for worker, _ in known}
    with reading(store) as archive:
        others = [one for one in workers_of(archive, record) if one.host.spec.span not in spans]
        planned = {id: n for n, id in enumerate(archive.read.item_ids(record.no))}
    exits = ((worker, worker.host.exit()) for worker in others)
    ended = [(worker, True) for worker, exit in exits if exit is not None and exit.at >= began]
    return sorted(
        [*known, *ended],
        key=lambda one: (planned.get(one[0].id, len(planned)), one[0].attempt.no),
    )


async def _stop(store: str, record: RunRecord, by: str) -> list[tuple[FleetWorker, bool]]:
    """End workers until the process of the run has ended, and once more: it may start one yet. A process
    that does not take the order up gets signals."""
    signals = 0 if await _order(store, record, by) == "done" else 2
    ended: dict[str, tuple[FleetWorker, bool]] = {}
    deadline = time.monotonic() + SUPERVISOR_ENDS
    while may_live(store, record.session) and time.monotonic() < deadline:
        if signals:
            signal_process(store, record.session, signal.SIGTERM)
            signals -= 1
        ended.update(await _end_workers(store, record))
        await _process_ends(store, record.session)
    ended.update(await _end_workers(store, record))
    return list(ended.values())


async def _end_workers(store: str, record: RunRecord) -> dict[str, tuple[FleetWorker, bool]]:
    """All that have not ended, by span."""
    with reading(store) as archive:
        workers = [one for one in workers_of(archive, record) if one.host.exit() is None]
    return {one[0].host.spec.span: one for one in await _end(workers)}


async def _process_ends(store: str, session: str) -> None:
    """Wait a moment for its end; nothing notifies when a lock is released."""
    for _ in range(round(BETWEEN / POLL)):
        if not may_live(store, session):
            return
        await asyncio.sleep(POLL)


async def _settle(journal: Store, record: RunRecord) -> None:
    """What the killed workers cost by their logs, instead of all that was reserved for them. They stay
    in doubt, for a resumed run to take over."""
    for attempt in journal.read.newest(record.no, ("in_doubt",), limit=MOST):
        worker = worker_of(journal.files, record, attempt)
        most = None if worker is None or not attempt.bound else cost_at_most(worker)
        if most is None or most.cost is None:
            continue
        await journal.write(
            EndAttempt(run=record.no, attempt=attempt.no, state="in_doubt", usage=most.usage, bound=True,
                cost=most.cost, tokens=most.usage.total, at=time.time(), error=KILLED, monthly=True)
        )  # fmt: skip


async def _close(store: str, record: RunRecord) -> None:
    """Where its process did not close it as killed: it had died, or only paused."""
    journal = open_store(store)
    try:
        now = journal.read.find(record.id)
        assert now is not None
        if now.status not in ("running", "paused"):
            return
        lost = [one.no for one in journal.read.newest(now.no, ("started",), limit=MOST)]
        if lost:
            await journal.write(LoseAttempts(tuple(lost), time.time()))
            await _settle(journal, now)
        active = unbooked(journal, now)
        await journal.write(
            CloseRun(run=now.no, status="killed", reason=KILLED, at=time.time(), active=active,
                     result=now.result, rest="cancelled", session=now.session)
        )  # fmt: skip
    finally:
        journal.close()
