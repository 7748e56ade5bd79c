"""Carry a world out: every process of it, with the real run and journal, until all its jobs are done."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from functools import partial
from typing import Any

from fanfold.errors import FanfoldError
from fanfold.journal.contract import Store
from fanfold.run.member_sources import QueuedMembers
from fanfold.run.open import carried_out, record_of
from fanfold.run.orders import NewOrder, give_by
from fanfold.run.record import RESUMABLE
from fanfold.run.run import Run
from fanfold.run.settings import Govern, Settings
from fanfold.run.worker import Worker, WorkerOptions
from fanfold.testing.simulation.disk import SimulatedDisk
from fanfold.testing.simulation.faults import WorldFaults, WorldReport
from fanfold.testing.simulation.invariants import Invariants
from fanfold.testing.simulation.machine import Machine, SimulatedProcess
from fanfold.testing.simulation.outside import member_of
from fanfold.testing.simulation.queueing import PLACE, ProcessQueue, SharedQueue
from fanfold.testing.simulation.services import Books
from fanfold.testing.simulation.shapes import Shape, carry_job
from fanfold.testing.simulation.storage import (
    LEASE,
    SharedStore,
    WorldDatabase,
    new_database,
    opened,
)
from fanfold.testing.simulation.world import OPERATOR, WORKER, World
from fanfold.work.task import Budget

MOST_STEPS = 25_000
MOST_TIME = 100_000.0
MOST_STARTS = 30  # of one job, its crashes included
OVER = ("complete", "flagged")
UNDONE = {"pause": "resume", "set one=off": "set one=on"}


def simulate(world: World, db: WorldDatabase | None = None) -> WorldReport:
    """Raises Violation (or another AssertionError) when a promise is broken. `db`: one that was used
    before, which saves most of the time."""
    return Simulation(world, db or new_database()).carry_out()


class Simulation:
    """One world under way."""

    def __init__(self, world: World, db: WorldDatabase) -> None:
        self.world, self.rng = world, random.Random(world.seed ^ 0x5EED)
        self.machine = Machine(self.rng, shuffle=world.shuffle)
        self.store = SharedStore(db.journal(), leases=world.leases)
        self.store.disk = SimulatedDisk() if world.disk else None
        self.books = Books(world.services)
        self.queue, self._read = SharedQueue(self.store, db, self.books.taken), Counter[str]()
        self.invariants = Invariants(world, self.store, self.books)
        self.books.arrived = self.invariants.arrived
        self.report = WorldReport(world.seed)
        self._faults = WorldFaults(world, self.store, self.invariants, self.report, self.rng)
        self._faults.start, self._faults.order = self._start, self._order
        self._starts, self._budgets = Counter[int](), self.invariants.more
        self._over: dict[int, str] = {}

    def carry_out(self) -> WorldReport:
        asked = any(one.kind == "workers" for one in self.world.services)
        workers = range(WORKER, WORKER + self.world.workers if asked else WORKER)
        for slot in (*range(len(self.world.jobs)), *workers):
            self._start(slot)
        try:
            self.machine.run(self._watch, MOST_STEPS, MOST_TIME)
            self.invariants.at_end(self._over)
        finally:
            for process in self.machine.processes:
                process.bury()
            if self.store.disk is not None:
                self.store.disk.close()
        self.report.trace, self.report.steps = self.machine.trace, self.machine.steps
        self.report.behaviours.update(call.did for call in self.books.calls)
        self.report.statuses = [self._over[slot] for slot in sorted(self._over)]
        return self.report

    # ── processes ──

    def _start(self, slot: int) -> None:
        if slot >= WORKER and len(self._over) == len(self.world.jobs):
            return
        self._starts[slot] += 1
        if self._starts[slot] > MOST_STARTS:
            self.invariants.broken(f"job {slot} is started again and again: {self._last(slot)}")
        process = SimulatedProcess(self.machine, slot, random.Random(self.rng.getrandbits(64)))
        process.start(self._main(process) if slot < OPERATOR else self._work(process))

    async def _main(self, process: SimulatedProcess) -> None:
        """What a script does: open the store, carry the run out, close it."""
        try:
            store = opened(self.store, process)
        except FanfoldError as error:
            process.said = f"{type(error).__name__}: {error}"
            return
        try:
            await self._carry_out(process, store)
        except FanfoldError as error:
            process.said = f"{type(error).__name__}: {error}"
        finally:
            store.close()
        if process.run is not None and process.run.closing is not None:
            self.invariants.closed(self.world.jobs[process.slot], process.run)

    async def _carry_out(self, process: SimulatedProcess, store: Store) -> None:
        job = self.world.jobs[process.slot]
        more = 2 ** self._budgets[process.slot]
        members = [
            member_of(one, self.books, process, more, in_worker=False)
            for one in self.world.services
        ]
        budget = Budget.of(
            usd=None if job.usd is None else job.usd * more,
            calls=None if job.calls is None else job.calls * more,
        )
        process.may_repeat = self._starts[process.slot] > 2 or not job.hold
        settings = Settings(
            budget=budget, seed=self.world.seed,
            govern=Govern(max_tasks=1) if job.asking else Govern(yes=True),
            approve=_approve if job.asking else None,
            retry_in_doubt=None if process.may_repeat else frozenset(),
        )  # fmt: skip
        name = self._left_over(store, process.slot) or job.name
        record = await record_of(store, name, budget, process.clock)
        source = QueuedMembers(partial(ProcessQueue, self.queue, process), *members)
        process.run = run = Run(store, record, source, settings, process.clock)
        async with carried_out(run):
            await carry_job(Shape(run, job, more, self.world, self._read))

    def _left_over(self, store: Store, slot: int) -> str:
        """Two processes that begin at once make two runs of one name. What the earlier has left at a
        service, only that one can collect: whoever is told so resumes it, by its id."""
        name = self.world.jobs[slot].name
        if self._starts[slot] < 4 or sum(job.name == name for job in self.world.jobs) < 2:
            return ""
        left = [one.id for one in store.read.runs() if one.name == name and one.status in RESUMABLE]
        return left[self._starts[slot] % len(left)] if len(left) > 1 else ""

    async def _work(self, process: SimulatedProcess) -> None:
        """What a worker does: take asks out of the queue, until it is stopped."""
        if len(self._over) == len(self.world.jobs):
            return  # the last job ended before its first step: nobody could tell it to stop
        members = [
            member_of(one, self.books, process, 1, in_worker=True)
            for one in self.world.services
            if one.kind == "workers"
        ]
        source = QueuedMembers(partial(ProcessQueue, self.queue, process), *members)
        options = WorkerOptions(queue=str(PLACE), slots=2)
        process.worker = Worker(source, options, lambda line: None)
        try:
            await process.worker.serve()
        except FanfoldError as error:
            process.said = f"{type(error).__name__}: {error}"

    def _watch(self, process: SimulatedProcess) -> None:
        """After each step: faults that are due, and a new process for a job whose own has ended."""
        self.invariants.raise_if_broken()
        slot = process.slot
        self._faults.stepped(process)
        if process.ended and process.alive and process.main is not None:
            if process.main.cancelled():
                raise AssertionError(f"job {slot} was cancelled by nobody outside it")
            if (error := process.main.exception()) is not None:
                raise AssertionError(f"job {slot}: {error!r}") from error
            if process.loop.failures:
                raise AssertionError(f"job {slot}: {process.loop.failures[0]}")
            if slot < OPERATOR:
                self._ended(process)
            elif slot >= WORKER:
                self.machine.at(self.machine.now + 5.0, partial(self._start, slot))

    def _ended(self, process: SimulatedProcess) -> None:
        slot, run = process.slot, process.run
        status = run.closing.status if run is not None and run.closing is not None else "refused"
        if self.invariants.damaged and process.said.startswith("Store"):
            status = OVER[1]  # the store is refused, and says so
        if status in OVER:
            self._over[slot] = status
            self._stop_workers()
            return
        if run is not None and run.stopping is not None and run.stopping.rest == "unfunded":
            self._budgets[slot] += 1
        if run is not None and run.closing is not None and run.closing.unfunded:
            self._budgets[slot] += 1
        if process.said.startswith("BadInput") and "budget_usd_month" in process.said:
            self._budgets[slot] += 1
        self.machine.at(self.machine.now + self._until_next(process), partial(self._start, slot))

    def _until_next(self, process: SimulatedProcess) -> float:
        """Whoever is told that it runs already comes again when the lease of a dead one has ended."""
        if process.said.startswith("AlreadyRunning") and self.world.leases:
            return LEASE
        return min(20.0, float(2 ** self._starts[process.slot]))

    def _stop_workers(self) -> None:
        """When there is nothing more to do for them."""
        for one in self.machine.running if len(self._over) == len(self.world.jobs) else ():
            if one.worker is not None:
                one.loop.call_soon(one.worker.stop)

    def _last(self, slot: int) -> str:
        said = [one.said for one in self.machine.processes if one.slot == slot]
        return " | ".join(said[-3:])

    # ── the operator ──

    def _order(self, job: int, order: str) -> None:
        """By another process, which has the store open too. Whoever paused a run, or switched a member
        off, says when it goes on: also when another job of that name carries it out."""
        name, undoes = self.world.jobs[job].name, order in UNDONE.values()
        same = [slot for slot, one in enumerate(self.world.jobs) if one.name == name]
        if all(slot in self._over for slot in (same if undoes else (job,))):
            return
        operator = SimulatedProcess(
            self.machine, OPERATOR + job, random.Random(self.rng.getrandbits(64))
        )
        operator.start(self._give(operator, name, order))
        undone = UNDONE.get(order, order)
        if undone in UNDONE.values():
            self.machine.at(self.machine.now + 10.0, partial(self._order, job, undone))

    async def _give(self, operator: SimulatedProcess, name: str, order: str) -> None:
        """To the newest run of that name; but all of them go on, whichever it was."""
        what, _, value = order.partition(" ")
        try:
            store = opened(self.store, operator)
        except FanfoldError:
            return
        try:
            runs = [store.read.find(name)]
            if order in UNDONE.values():
                runs = [
                    one for one in store.read.runs() if one.name == name and one.status in RESUMABLE
                ]
            wanted = NewOrder("operator", what, value, within=5.0)  # type: ignore[arg-type]
            for run in filter(None, runs):
                await give_by(operator.clock, store, run, wanted)
        except FanfoldError as error:
            operator.said = str(error)
        finally:
            store.close()


async def _approve(stage: Any) -> bool:
    """Somebody who is asked takes a moment."""
    await asyncio.sleep(0.2)
    return True


__all__ = ["Simulation", "WorldReport", "simulate"]
