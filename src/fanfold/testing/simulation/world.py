"""What a simulation is of: runs, services and faults. A world follows from its seed, and is plain data: what
fails can be made smaller, printed and put into a test."""

from __future__ import annotations

import random
from functools import cache
from typing import Any, Literal, NamedTuple

import msgspec

from fanfold.testing.simulation.places import await_sites, reason_of
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
OF_AGENTS = ORDERS[-3:]
LATER_TOO = ("skip i0",) * 4  # drawn more often: what it did holds in the next process too
KINDS: tuple[ServiceKind, ...] = ("api", "batch", "agent", "workers", "free")
OPERATOR = 100  # the number of the one who gives orders to job 0, where processes are counted
WORKER = 200  # the number of the first worker
NAMES = ("one", "two", "three")
_replace = msgspec.structs.replace


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
    `crash_at`: where one of its tasks waits at a place that begins with `order` (a file of the run, or one
    await in it), for the `at`-th time that a process comes to one that it was not at before."""

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
    count = rng.choices((1, 2, 3, 4), (80, 15, 4, 1))[0]
    jobs = [_job(rng, "a")]
    for name in "bcd"[: count - 1]:
        jobs.append(_other_job(rng, jobs[0], name))
    services = [_service(rng, name) for name in NAMES[: rng.randint(1, 3)]]
    kind = rng.choice(("crash", "crash_at", "crash_at", "crash_before", "crash_after"))
    if kind == "crash_at":
        faults = _aimed(rng, jobs, services)
    else:
        faults = [_placed(rng, WorldFault(kind))]  # type: ignore[arg-type]
    for _ in range(rng.choices((0, 1, 2, 4), (40, 30, 20, 10))[0]):
        drawn = rng.choices(FAULTS, (4, 0, 2, 2, 2, 1, 1, 1, 1, 1, 1, 4, 0.5, 0.2, 0.2))[0]
        faults.append(_placed(rng, WorldFault(drawn, rng.randrange(count))))
        faults += _followed(rng, faults[-1])
    workers = rng.choice((1, 1, 2)) if any(one.kind == "workers" for one in services) else 0
    of_workers: tuple[FaultKind, ...] = ("crash", "stop", "cut_off")
    for n in range(workers):
        if rng.random() < 0.75:
            faults.append(_placed(rng, WorldFault(rng.choice(of_workers), WORKER + n)))
    leases, shuffle = rng.random() < 0.3, rng.random() < 0.8
    if workers and leases and rng.random() < 0.4:  # a run that waits for them sleeps past its lease
        faults.append(_replace(_placed(rng, WorldFault("stop")), amount=25.0))
    if (
        len(jobs) > 1 and not workers and rng.random() < 0.1
    ):  # both draw on the month of one service
        services = [_replace(services[0], kind="batch", monthly=0.004, cost=3.0)]
        jobs = [_replace(job, batch=True) for job in jobs]
    return World(seed, tuple(jobs), tuple(services), tuple(faults), leases, shuffle, workers)


def _followed(rng: random.Random, fault: WorldFault) -> list[WorldFault]:
    """A process dies soon after an order, or its next one begins on a disk that is full."""
    next_kind: dict[FaultKind, FaultKind] = {"order": "crash", "crash": "full"}
    if fault.kind not in next_kind or rng.random() < 0.5:
        return []
    soon = 20 + rng.randrange(60) if fault.kind == "order" else 1 + rng.randrange(20)
    amount = rng.choice((5.0, 25.0))
    return [WorldFault(next_kind[fault.kind], fault.job, fault.at + soon, amount)]


# ── a crash at a place ───────────────────────────────────────────────────────────────────────


class Needs(NamedTuple):
    """What a world must have for a file of the run to be reached: one of these services, these options of
    its job (one of several values), an order, an earlier crash, or another run with the same asks that
    dies."""

    kinds: tuple[ServiceKind, ...] = ()
    job: tuple[tuple[str, Any], ...] = ()
    order: bool = False
    again: bool = False
    twin: bool = False


NEEDS = {
    "adopt": Needs(("batch", "agent", "agent"), (("batch", True),), again=True),
    "batches": Needs(("batch",), (("batch", True), ("words", 0))),
    "submission": Needs(("batch",), (("batch", True), ("words", 0)), again=True),
    "queue_client": Needs(("workers",)),
    "remote": Needs(("workers",)),
    "worker": Needs(("workers",), (("hedge", (True, False)), ("batch", False))),
    "tools": Needs(job=(("tools", True), ("batch", False))),
    "govern": Needs(job=(("asking", True),)),
    "race": Needs(job=(("hedge", True), ("batch", False))),
    "judging": Needs(job=(("gate", ("judge", "python")),), again=True),
    "order_taker": Needs(("agent",), order=True, again=True),
    "executor": Needs(("agent",), order=True),
    "orders": Needs(order=True),
    "record": Needs(again=True),
    "carry": Needs(twin=True),
}


@cache
def _sites() -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Where to aim at, and how often: what takes something special is seldom reached without it."""
    sites = tuple(sorted(site for site in await_sites() if not reason_of(site)))
    return sites, tuple(3 if _file_of(site) in NEEDS else 1 for site in sites)


def _file_of(site: str) -> str:
    return site.removeprefix("run/").partition(".")[0]


def _aimed(
    rng: random.Random, jobs: list[WorldJob], services: list[SimulatedService]
) -> list[WorldFault]:
    """At any await of the run; jobs and services become such that it is reached, for the most part."""
    (site,) = rng.choices(*_sites())
    file = _file_of(site)
    needs = NEEDS.get(file, Needs())
    changed = {
        name: rng.choice(value) if isinstance(value, tuple) else value
        for name, value in (needs.job if rng.random() < 0.9 else ())
    }
    if needs.kinds and not any(one.kind in needs.kinds for one in services):
        if len(services) == 1:
            services.append(_service(rng, NAMES[1]))
        services[-1] = _replace(services[-1], kind=rng.choice(needs.kinds))
    first = _replace(jobs[0], items=max(1, jobs[0].items), **changed)
    jobs[:] = [first if one == jobs[0] else one for one in jobs]
    faults = [_placed(rng, WorldFault("order"))] if needs.order or rng.random() < 0.15 else []
    if needs.order and rng.random() < 0.5:  # of those that agents hear
        faults[0] = _replace(faults[0], order=rng.choice(OF_AGENTS))
    if needs.again and rng.random() < 0.7:
        faults.append(_placed(rng, WorldFault("crash_after")))
    if needs.twin and len(jobs) == 1 and rng.random() < 0.5:
        jobs.append(_replace(first, name="b"))
        faults.append(_placed(rng, WorldFault("crash", 1)))
    job = OPERATOR if file == "orders" else WORKER if file == "worker" else 0
    later = rng.choice((1, 1, 2, 3)) if needs.again else 1
    return [*faults, WorldFault("crash_at", job, later, order=site)]


def _placed(rng: random.Random, fault: WorldFault) -> WorldFault:
    most = 3.4 if fault.kind in OF_COMMITS else 6.2
    order = rng.choice((*ORDERS, *LATER_TOO)) if fault.kind == "order" else ""
    amount = rng.choice((0.3, 5.0, 25.0))
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
        items=rng.choice((0, 1, 1, 1, 2, 2, 3, 4)),
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


def _other_job(rng: random.Random, first: WorldJob, name: str) -> WorldJob:
    """The same run in another process, another run with the same asks, or something else. Of two with the
    same asks one is slower, for the most part: then the other has replies that it did not find before."""
    kind = rng.choices(("same", "twin", "other"), (15, 45, 40))[0]
    if kind == "same":
        return first
    slower = rng.choice((1, 1, first.concurrency))
    return _replace(first, name=name, concurrency=slower) if kind == "twin" else _job(rng, name)


def _service(rng: random.Random, name: str) -> SimulatedService:
    """One with batches refuses now and then to show the results: after it was given asks, and looked at."""
    kind = rng.choices(KINDS, (72, 10, 0 if name == "one" else 12, 5, 5))[0]
    script: list[Behaviour] = []
    if rng.random() < 0.8:
        wrong = rng.random() * 0.7
        for _ in range(rng.randrange(12)):
            one = "bad" if rng.random() < 0.2 else rng.choice(BEHAVIOURS[1:])
            script.append(one if rng.random() < wrong else "ok")
    if kind == "batch" and rng.random() < 0.35:
        script = [*["ok"] * rng.randint(2, 5), "quota"]  # type: ignore[list-item]
    return SimulatedService(
        name,
        tuple(script),
        kind=kind,
        seconds=rng.choice((0.0, 0.05, 1.0, 1.0, 4.0)),
        concurrency=rng.choice((1, 2, 4, 8)),
        rpm=rng.choice((None, None, None, 60)),
        monthly=rng.choice((0.004, 0.02)) if rng.random() < 0.15 else None,
        cost=rng.choice((0.5, 1.0, 3.0)),
    )
