"""What a simulation is of: runs, services and faults. A world follows from its seed, and is plain data: what
fails can be made smaller, printed and put into a test."""

from __future__ import annotations

from typing import Literal

import msgspec

from fanfold.testing.simulation.services import SimulatedService

Pattern = Literal[
    "map", "map_tree", "pipeline", "nested", "ensemble", "graph", "divide", "scatter", "conduct", "group",
    "rank", "resolve",
]  # fmt: skip
PATTERNS: tuple[Pattern, ...] = Pattern.__args__  # type: ignore[attr-defined]
GateKind = Literal["standard", "regex", "python", "judge"]
GATES: tuple[GateKind, ...] = GateKind.__args__  # type: ignore[attr-defined]
FaultKind = Literal[
    "crash", "crash_at", "crash_before", "crash_after", "stop", "cut_off", "jump", "blind", "full", "busy",
    "interrupt", "order", "power", "lost_tail", "flip",
]  # fmt: skip
FAULTS: tuple[FaultKind, ...] = FaultKind.__args__  # type: ignore[attr-defined]
OF_POWER = ("power", "lost_tail", "flip")
OF_COMMITS = ("crash_before", "crash_after", *OF_POWER)
ORDERS = (
    "pause", "resume", "approve", "skip i0", "skip i1", "skip nobody", "set budget=9",
    "set concurrency=2", "set one=off", "set one=on", "stop", "kill",
    'tell {"worker":"i0","text":"hurry"}', "continue i0", "kill i0",
)  # fmt: skip
OPERATOR = 100  # the number of the one who gives orders to job 0, where processes are counted
WORKER = 200  # the number of the first worker
NAMES = ("one", "two", "three")


class WorldJob(msgspec.Struct, frozen=True):
    """A run that a process carries out. `usd` and `calls`: its budget, which the operator doubles when
    it paused for lack of it. `words`: which of the items it has in common with others. `changes`: at this
    reading of its items, counted over all processes, the first is another."""

    name: str = "a"
    pattern: Pattern = "map"
    items: int = 3
    words: int = 0
    gate: GateKind = "standard"
    asked: bool = False
    shard: int | None = None
    revise: int = 1
    attempts: int = 4
    escalate: bool = False
    hedge: bool = False
    hold: bool = False
    on_failure: Literal["skip", "hold", "abort"] = "skip"
    concurrency: int = 4
    usd: float | None = None
    calls: int | None = None
    step_usd: float | None = None
    batch: bool = False
    tools: bool = False
    changes: int = 0
    asking: bool = False


class WorldFault(msgspec.Struct, frozen=True):
    """What goes wrong, and when: `at` is a step of the job (a commit, for those of commits), counted over
    all processes that carry it out. `amount`: seconds; `order`: what the operator wants of the job.
    `crash_at`, or a `stop` with an `order`: where one of its tasks waits at that place (a file of the run, or
    one await in it), for the `at`-th time that a process comes to one that it was not at before. A crash at a
    commit whose `order` is the name of a fact: at the `at`-th of its commits that have such a fact."""

    kind: FaultKind
    job: int = 0
    at: int = 0
    amount: float = 0.0
    order: str = ""


class World(msgspec.Struct, frozen=True):
    """`leases`: sessions end by the clock, as on a server. `shuffle`: ready callbacks run in any order.
    `workers`: how many there are, for services that workers ask; faults call the first of them job 200."""

    seed: int = 0
    jobs: tuple[WorldJob, ...] = (WorldJob(),)
    services: tuple[SimulatedService, ...] = (SimulatedService("one"),)
    faults: tuple[WorldFault, ...] = ()
    leases: bool = False
    shuffle: bool = True
    workers: int = 0

    @property
    def disk(self) -> bool:
        """Whether its store is in files: where power is lost."""
        return any(one.kind in OF_POWER for one in self.faults)
