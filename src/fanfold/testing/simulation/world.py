"""What a simulation is of: runs, services and faults. A world follows from its seed, and is plain data: what
fails can be made smaller, printed and put into a test."""

from __future__ import annotations

import random
from typing import Literal

import msgspec

from fanfold.testing.simulation.services import (
    BEHAVIOURS,
    Behaviour,
    ServiceKind,
    SimulatedService,
)

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
KINDS: tuple[ServiceKind, ...] = ("api", "batch", "agent", "workers", "free")
OPERATOR = 100  # the number of the one who gives orders to job 0, where processes are counted
WORKER = 200  # the number of the first worker


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
    `crash_at`: where one of its tasks waits at a place that is the `at`-th new one of the file `order`."""

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


def world_of(seed: int) -> World:
    """At least one crash is in it; if it comes too late to happen, the last commit of job 0 crashes."""
    rng = random.Random(seed)
    count = rng.choices((1, 2, 3, 4), (74, 19, 5, 2))[0]
    jobs = [_job(rng, "a")]
    for name in "bcd"[: count - 1]:  # the same run in two processes, or another
        jobs.append(jobs[0] if rng.random() < 0.15 else _job(rng, name))
    services = tuple(_service(rng, name) for name in ("one", "two", "three")[: rng.randint(1, 3)])
    workers = rng.choice((1, 2)) if any(one.kind == "workers" for one in services) else 0
    crash = WorldFault(rng.choice(("crash", "crash_at", "crash_before", "crash_after")), 0, 0)
    if crash.kind == "crash_at":
        crash = _aimed(rng, {one.kind for one in services})
    more = rng.choices((0, 1, 2, 4), (40, 30, 20, 10))[0]
    faults = [crash if crash.kind == "crash_at" else _placed(rng, crash)]
    for _ in range(more):
        kind = rng.choices(FAULTS, (4, 0, 2, 2, 2, 1, 1, 1, 1, 1, 1, 4, 0.5, 0.2, 0.2))[0]
        faults.append(_placed(rng, WorldFault(kind, rng.randrange(count))))
    of_workers: tuple[FaultKind, ...] = ("crash", "stop", "cut_off")
    for n in range(workers):
        if rng.random() < 0.75:
            faults.append(_placed(rng, WorldFault(rng.choice(of_workers), WORKER + n)))
    return World(
        seed, tuple(jobs), services, tuple(faults), rng.random() < 0.3, rng.random() < 0.8, workers
    )


AIMS = (
    "attempt", "carry", "dispatch", "govern", "judging", "open", "order_taker", "orders", "planning", "pool",
    "race", "record", "run", "stopping", "stream", "task_state", "tools", "executor",
)  # fmt: skip
AIMS_AT: dict[str, tuple[str, ...]] = {
    "batch": ("submission", "submission", "batches", "adopt"),
    "workers": ("queue_client", "worker", "remote", "adopt"),
    "agent": ("adopt", "executor", "order_taker", "batches"),
    "free": ("attempt",),
}


def _aimed(rng: random.Random, kinds: set[ServiceKind]) -> WorldFault:
    """At a file that is reached in this world, for the most part."""
    special = [name for kind in sorted(kinds) for name in AIMS_AT.get(kind, ())]
    file = rng.choice(special if special and rng.random() < 0.7 else AIMS)
    job = OPERATOR if file == "orders" else WORKER if file == "worker" else 0
    return WorldFault("crash_at", job, int(2.718 ** (rng.random() * 3.2)), order=f"run/{file}.py")


def _placed(rng: random.Random, fault: WorldFault) -> WorldFault:
    most = 3.4 if fault.kind in OF_COMMITS else 6.2
    order = rng.choice(ORDERS) if fault.kind == "order" else ""
    amount = rng.choice((0.3, 5.0, 25.0, 60.0))
    if fault.kind == "jump":
        amount = rng.choice((-7200.0, -30.0, 30.0, 40 * 86400.0))
    at = int(2.718 ** (rng.random() * most))
    return WorldFault(fault.kind, fault.job, at, amount, order)


def _job(rng: random.Random, name: str) -> WorldJob:
    often = rng.random
    usd = rng.choice((0.002, 0.005, 0.02)) if often() < 0.35 else None
    return WorldJob(
        name=name,
        pattern=rng.choice(PATTERNS),
        items=rng.choice((0, 1, 1, 2, 2, 3, 3, 4)),
        words=rng.randrange(3),
        gate=rng.choice(GATES),
        asked=often() < 0.3,
        shard=rng.choice((2, 3)) if often() < 0.15 else None,
        revise=rng.choice((0, 1, 1, 2)),
        attempts=rng.choice((1, 2, 4, 4)),
        escalate=often() < 0.2,
        hedge=often() < 0.25,
        hold=often() < 0.15,
        on_failure=rng.choice(("skip", "skip", "skip", "hold", "abort")),
        concurrency=rng.choice((1, 2, 2, 4)),
        usd=usd,
        calls=rng.choice((2, 5, 9)) if often() < 0.1 else None,
        step_usd=rng.choice((0.002, 0.004)) if often() < 0.1 else None,
        batch=often() < 0.6,
        tools=often() < 0.08,
        changes=rng.choice((2, 3, 5)) if often() < 0.05 else 0,
        asking=often() < 0.3,
    )


def _service(rng: random.Random, name: str) -> SimulatedService:
    script: list[Behaviour] = []
    if rng.random() < 0.8:
        wrong = rng.random() * 0.7
        for _ in range(rng.randrange(12)):
            one = "bad" if rng.random() < 0.2 else rng.choice(BEHAVIOURS[1:])
            script.append(one if rng.random() < wrong else "ok")
    return SimulatedService(
        name,
        tuple(script),
        kind=rng.choices(KINDS, (70, 10, 0 if name == "one" else 12, 8, 5))[0],
        seconds=rng.choice((0.0, 0.05, 1.0, 1.0, 8.0)),
        concurrency=rng.choice((1, 2, 4, 8)),
        rpm=rng.choice((None, None, None, 30)),
        monthly=rng.choice((0.004, 0.02)) if rng.random() < 0.15 else None,
        cost=rng.choice((0.5, 1.0, 3.0)),
    )
