"""What goes wrong in a simulation: at a step of a process, at a commit, or at a place in our code."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fanfold.journal.facts import CloseRun, Fact
from fanfold.testing.simulation.invariants import Invariants
from fanfold.testing.simulation.machine import ProcessKilled, SimulatedProcess
from fanfold.testing.simulation.places import awaits_of, places_of
from fanfold.testing.simulation.storage import SharedStore
from fanfold.testing.simulation.world import (
    OF_COMMITS,
    OF_POWER,
    OPERATOR,
    WORKER,
    World,
    WorldFault,
)

AT_COMMITS = ("crash_before", "crash_after")


def _is_at_place(fault: WorldFault) -> bool:
    return fault.kind == "crash_at" or (fault.kind == "stop" and fault.order != "")


@dataclass
class WorldReport:
    """What one world came to. `trace` is the same whenever the same world is carried out. `crashes`: between
    two steps (`await`), or at a commit; `commits`: the facts of these commits; `awaits`: where tasks waited
    that a crash ended."""

    seed: int
    trace: int = 0
    steps: int = 0
    crashes: Counter[str] = field(default_factory=Counter)
    commits: Counter[str] = field(default_factory=Counter)
    awaits: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    behaviours: Counter[str] = field(default_factory=Counter)
    statuses: list[str] = field(default_factory=list)


class WorldFaults:
    """Those of one world that are still to come. `start`: a new process for a job; `order`: what an operator
    wants of one."""

    start: Callable[[int], None]
    order: Callable[[int, str], None]

    def __init__(
        self, world: World, store: SharedStore, invariants: Invariants, report: WorldReport,
        rng: random.Random,
    ) -> None:  # fmt: skip
        self._store, self._invariants, self._report, self._rng = store, invariants, report, rng
        self._pending = list(world.faults)
        self._of_steps: dict[int, list[WorldFault]] = {}
        self._of_places: dict[int, list[WorldFault]] = {}
        for one in world.faults:
            if one.kind not in OF_COMMITS:
                of = self._of_places if _is_at_place(one) else self._of_steps
                of.setdefault(one.job, []).append(one)
        self._steps, self._commits = Counter[int](), Counter[int]()
        self._of_facts = Counter[tuple[int, str]]()  # commits that have one
        self._facts = {one.order for one in world.faults if one.kind in AT_COMMITS and one.order}
        self._seen: dict[WorldFault, set[tuple[SimulatedProcess, str]]] = {}
        self._log = b""  # of the disk, when the commit that is under way began
        store.before_commit, store.after_commit = self._committing, self._committed

    # ── at a step ──

    def stepped(self, process: SimulatedProcess) -> None:
        """After each step of a process: what is due."""
        slot = process.slot
        self._steps[slot] = step = self._steps[slot] + 1
        due: list[WorldFault] = []
        for one in self._of_steps.get(slot, ()):
            if one.at <= step:
                due.append(one)
        if slot in self._of_places and isinstance(task := process.ran, asyncio.Task):
            due += [one for one in self._of_places[slot] if self._there(one, process, task)]
        for fault in due:
            self._happen(fault, process)

    def _there(self, fault: WorldFault, process: SimulatedProcess, task: asyncio.Task[Any]) -> bool:
        """One of its tasks waits where none of its process did before, for the `at`-th time."""
        if not (found := places_of(task, fault.order)):
            return False
        seen = self._seen.setdefault(fault, set())
        seen.update((process, one) for one in found)
        return len(seen) >= fault.at

    def _happen(self, fault: WorldFault, process: SimulatedProcess) -> None:
        if not process.alive or process.ended:
            return
        self._pending.remove(fault)
        of = self._of_places if _is_at_place(fault) else self._of_steps
        of[fault.job].remove(fault)
        if not of[fault.job]:
            del of[fault.job]
        self._report.faults[fault.kind] += 1
        machine, store, seconds = process.machine, self._store, max(0.0, fault.amount)
        match fault.kind:
            case "crash" | "crash_at":
                self._crash(process, "await")
            case "stop":
                process.stop(seconds)
                machine.at(machine.now + seconds, partial(store.back, process, seconds))
            case "cut_off":
                process.cut_off(seconds)
                machine.at(machine.now + seconds, partial(store.back, process, seconds))
            case "jump":
                process.clock.offset += fault.amount
            case "blind":
                process.blind_until = machine.now + seconds
            case "full":
                store.full_until = machine.now + seconds
            case "busy":
                store.busy_until = machine.now + seconds
            case "interrupt":
                if process.run is not None:
                    process.loop.call_soon(process.run.pause, "interrupted")
            case "order":
                self.order(fault.job, fault.order)

    def _crash(self, process: SimulatedProcess, place: str) -> None:
        self._report.crashes[place] += 1
        self._report.awaits.update(awaits_of(process))
        process.kill()
        if not OPERATOR <= process.slot < WORKER:
            process.machine.at(process.machine.now + 1.0, partial(self.start, process.slot))

    # ── at a commit ──

    def _committing(self, process: SimulatedProcess, facts: Any) -> None:
        self._commits[process.slot] += 1
        if self._facts:
            of = {type(fact).__name__ for fact in facts} & self._facts
            self._of_facts.update((process.slot, name) for name in of)
        if self._store.disk is not None and self._power_fault(process) is not None:
            self._log = self._store.disk.log()
        self._commit_fault("crash_before", process, facts)

    def _committed(self, process: SimulatedProcess, facts: Any, answers: Any) -> None:
        machine = process.machine
        kinds = (len(fact.__struct_fields__) for fact in facts)
        machine.trace = hash((machine.trace, len(facts), *kinds))
        if (fault := self._power_fault(process)) is not None:
            self._lose_power(fault, process)
        self._invariants.committed(process, facts, answers)
        self._commit_fault("crash_after", process, facts)

    def _power_fault(self, process: SimulatedProcess) -> WorldFault | None:
        """The loss of power that is due at this commit."""
        number = self._commits[process.slot]
        for fault in self._pending if self._store.disk is not None else ():
            if fault.kind in OF_POWER and fault.job == process.slot and fault.at <= number:
                return fault
        return None

    def _lose_power(self, fault: WorldFault, process: SimulatedProcess) -> None:
        """In the middle of this commit. Every process ends; the machine comes back."""
        self._pending.remove(fault)
        self._report.faults[fault.kind] += 1
        kind: Any = fault.kind
        for one in tuple(process.machine.running):
            self._crash(one, "in mid-commit")
        self._store.lose_power(self._log, kind, self._rng)
        self._invariants.lost_power(kind)
        raise ProcessKilled

    def _commit_fault(self, kind: str, process: SimulatedProcess, facts: list[Fact]) -> None:
        """Where nothing was killed until job 0 closes, that commit is one of its kind."""
        slot = process.slot
        last = not self._report.crashes and slot == 0 and any(type(f) is CloseRun for f in facts)
        for fault in self._pending:
            if fault.kind == kind and fault.job == slot and (last or self._reached(fault, facts)):
                self._pending.remove(fault)
                break
        else:
            if not last or any(one.kind in AT_COMMITS and one.job == 0 for one in self._pending):
                return
        self._report.faults[kind] += 1
        where = kind.removeprefix("crash_")
        self._report.commits.update({f"{where} {type(fact).__name__}" for fact in facts})
        self._crash(process, f"{where} a commit")
        raise ProcessKilled

    def _reached(self, fault: WorldFault, facts: list[Fact]) -> bool:
        if not fault.order:
            return fault.at <= self._commits[fault.job]
        has = any(type(fact).__name__ == fault.order for fact in facts)
        return has and fault.at <= self._of_facts[fault.job, fault.order]
