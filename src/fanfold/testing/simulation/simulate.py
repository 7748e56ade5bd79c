"""Carry a world out: every process of it, with the real run and journal, until all its jobs are done."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fanfold.errors import FanfoldError, RunStopped
from fanfold.journal.contract import Store
from fanfold.journal.facts import CloseRun, Fact, GiveOrder
from fanfold.run.member_sources import GivenMembers
from fanfold.run.open import carried_out, record_of
from fanfold.run.record import RESUMABLE
from fanfold.run.run import Run
from fanfold.run.settings import Govern, Settings
from fanfold.testing.simulation.invariants import Invariants
from fanfold.testing.simulation.machine import Machine, ProcessKilled, SimulatedProcess
from fanfold.testing.simulation.places import awaits_of
from fanfold.testing.simulation.services import Books, SimulatedMember
from fanfold.testing.simulation.shapes import carry_job
from fanfold.testing.simulation.storage import Database, SharedStore, empty, new_database, opened
from fanfold.testing.simulation.world import OF_COMMITS, World, WorldFault
from fanfold.work.task import Budget

MOST_STEPS = 25_000
MOST_TIME = 100_000.0
MOST_STARTS = 30  # of one job, its crashes included
OPERATOR = 100  # the number of the one who gives orders to job 0
OVER = ("complete", "flagged")
UNDONE = {"pause": "resume", "set one=off": "set one=on"}


@dataclass
class WorldReport:
    """What one world came to. `trace` is the same whenever the same world is carried out. `crashes`: by
    the commit that they were at, or `await`; `awaits`: where tasks waited that a crash ended."""

    seed: int
    trace: int = 0
    steps: int = 0
    crashes: Counter[str] = field(default_factory=Counter)
    awaits: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    behaviours: Counter[str] = field(default_factory=Counter)
    statuses: list[str] = field(default_factory=list)


def simulate(world: World, db: Database | None = None) -> WorldReport:
    """Raises Violation (or another AssertionError) when a promise is broken. `db`: one that was used
    before, which saves most of the time."""
    return Simulation(world, db or new_database()).carry_out()


class Simulation:
    """One world under way."""

    def __init__(self, world: World, db: Database) -> None:
        self.world, self.rng = world, random.Random(world.seed ^ 0x5EED)
        self.machine = Machine(self.rng, shuffle=world.shuffle)
        self.store = SharedStore(empty(db), leases=world.leases)
        self.store.before_commit, self.store.after_commit = self._committing, self._committed
        self.books = Books(world.services)
        self.invariants = Invariants(world, self.store, self.books)
        self.books.arrived = self.invariants.arrived
        self.report = WorldReport(world.seed)
        self._steps, self._commits = Counter[int](), Counter[int]()
        self._starts, self._budgets = Counter[int](), self.invariants.more
        self._pending = list(world.faults)
        self._over: dict[int, str] = {}

    def carry_out(self) -> WorldReport:
        for slot in range(len(self.world.jobs)):
            self._start(slot)
        try:
            self.machine.run(self._watch, MOST_STEPS, MOST_TIME)
            self.invariants.at_end(self._over)
        finally:
            for process in self.machine.processes:
                process.bury()
        self.report.trace, self.report.steps = self.machine.trace, self.machine.steps
        self.report.behaviours.update(call.did for call in self.books.calls)
        self.report.statuses = [self._over[slot] for slot in sorted(self._over)]
        return self.report

    # ── processes ──

    def _start(self, slot: int) -> None:
        self._starts[slot] += 1
        if self._starts[slot] > MOST_STARTS:
            self.invariants.broken(f"job {slot} is started again and again: {self._last(slot)}")
        process = SimulatedProcess(self.machine, slot, random.Random(self.rng.getrandbits(64)))
        self.machine.processes.append(process)
        process.start(self._main(process))

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
        members = [SimulatedMember(one, self.books, process, more) for one in self.world.services]
        budget = Budget.of(
            usd=None if job.usd is None else job.usd * more,
            calls=None if job.calls is None else job.calls * more,
        )
        process.may_repeat = self._starts[process.slot] > 2 or not job.hold
        settings = Settings(
            budget=budget, seed=self.world.seed, govern=Govern(yes=True),
            retry_in_doubt=None if process.may_repeat else frozenset(),
        )  # fmt: skip
        record = await record_of(store, job.name, budget, process.clock)
        process.run = run = Run(store, record, GivenMembers(*members), settings, process.clock)
        async with carried_out(run):
            await carry_job(run, job, more, tuple(one.name for one in self.world.services))

    def _watch(self, process: SimulatedProcess) -> None:
        """After each step: faults that are due, and a new process for a job whose own has ended."""
        self.invariants.raise_if_broken()
        slot = process.slot
        self._steps[slot] += 1
        for fault in [one for one in self._pending if self._due(one, slot, self._steps[slot])]:
            self._happen(fault, process)
        if process.ended and process.alive and process.main is not None:
            error = process.main.exception()
            if error is not None:
                raise AssertionError(f"job {slot}: {error!r}") from error
            if process.loop.failures:
                raise AssertionError(f"job {slot}: {process.loop.failures[0]}")
            if slot < OPERATOR:
                self._ended(process)

    def _ended(self, process: SimulatedProcess) -> None:
        slot, run = process.slot, process.run
        status = run.closing.status if run is not None and run.closing is not None else "refused"
        if status in OVER:
            self._over[slot] = status
            return
        if run is not None and run.stopping is not None and run.stopping.rest == "unfunded":
            self._budgets[slot] += 1
        if run is not None and run.closing is not None and run.closing.unfunded:
            self._budgets[slot] += 1
        wait = min(600.0, 5.0 * 2 ** self._starts[slot])
        self.machine.at(self.machine.now + wait, partial(self._start, slot))

    def _last(self, slot: int) -> str:
        said = [one.said for one in self.machine.processes if one.slot == slot]
        return " | ".join(said[-3:])

    # ── faults ──

    def _due(self, fault: WorldFault, slot: int, step: int) -> bool:
        return fault.job == slot and fault.kind not in OF_COMMITS and fault.at <= step

    def _happen(self, fault: WorldFault, process: SimulatedProcess) -> None:
        if not process.alive or process.ended:
            return
        self._pending.remove(fault)
        self.report.faults[fault.kind] += 1
        machine, seconds = self.machine, max(0.0, fault.amount)
        match fault.kind:
            case "crash":
                self._crash(process, "await")
            case "stop":
                process.stop(seconds)
                machine.at(machine.now + seconds, partial(self.store.back, process, seconds))
            case "cut_off":
                process.cut_off(seconds)
                machine.at(machine.now + seconds, partial(self.store.back, process, seconds))
            case "jump":
                process.clock.offset += fault.amount
            case "blind":
                process.blind_until = machine.now + seconds
            case "full":
                self.store.full_until = machine.now + seconds
            case "busy":
                self.store.busy_until = machine.now + seconds
            case "interrupt":
                if process.run is not None:
                    process.loop.call_soon(process.run.pause, "interrupted")
            case "order":
                self._order(fault.job, fault.order)

    def _crash(self, process: SimulatedProcess, place: str) -> None:
        self.report.crashes[place] += 1
        self.report.awaits.update(awaits_of(process))
        process.kill()
        self.machine.at(self.machine.now + 1.0, partial(self._start, process.slot))

    def _order(self, job: int, order: str) -> None:
        """By another process, which has the store open too. Whoever paused a run, or switched a member
        off, says when it goes on."""
        if job in self._over:
            return
        operator = SimulatedProcess(
            self.machine, OPERATOR + job, random.Random(self.rng.getrandbits(64))
        )
        self.machine.processes.append(operator)
        operator.start(self._give(operator, self.world.jobs[job].name, order))
        undone = UNDONE.get(order, order)
        if undone in UNDONE.values():
            self.machine.at(self.machine.now + 120.0, partial(self._order, job, undone))

    async def _give(self, operator: SimulatedProcess, name: str, order: str) -> None:
        what, _, value = order.partition(" ")
        try:
            store = opened(self.store, operator)
        except FanfoldError:
            return
        try:
            run = store.read.find(name)
            if run is not None and run.status in RESUMABLE:
                now = operator.clock.now()
                await store.write(GiveOrder(run.no, now, "operator", what, value))
        except FanfoldError as error:
            operator.said = str(error)
        finally:
            store.close()

    def _committing(self, process: SimulatedProcess, facts: Any) -> None:
        self._commits[process.slot] += 1
        self._commit_fault("crash_before", process, facts)

    def _committed(self, process: SimulatedProcess, facts: Any, answers: Any) -> None:
        self.machine.trace = hash(
            (self.machine.trace, len(facts), *(len(f.__struct_fields__) for f in facts))
        )
        self.invariants.committed(process, facts, answers)
        self._commit_fault("crash_after", process, facts)

    def _commit_fault(self, kind: str, process: SimulatedProcess, facts: list[Fact]) -> None:
        slot, number = process.slot, self._commits[process.slot]
        last = not self.report.crashes and slot == 0 and any(type(f) is CloseRun for f in facts)
        for fault in self._pending:
            if fault.kind == kind and fault.job == slot and (fault.at <= number or last):
                self._pending.remove(fault)
                break
        else:
            if not last or any(one.kind in OF_COMMITS and one.job == 0 for one in self._pending):
                return
        names = "+".join(sorted({type(fact).__name__ for fact in facts}))
        self.report.faults[kind] += 1
        self._crash(process, f"{kind.removeprefix('crash_')} commit of {names}")
        raise ProcessKilled


__all__ = ["RunStopped", "Simulation", "WorldReport", "simulate"]
