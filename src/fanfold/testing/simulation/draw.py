"""The world of a seed."""

from __future__ import annotations

import random

import msgspec

from fanfold.testing.simulation.aims import PUTTING, aimed, site_with
from fanfold.testing.simulation.services import (
    BEHAVIOURS,
    Behaviour,
    ServiceKind,
    SimulatedService,
)
from fanfold.testing.simulation.world import (
    FAULTS,
    GATES,
    NAMES,
    OF_COMMITS,
    ORDERS,
    PATTERNS,
    WORKER,
    FaultKind,
    Pattern,
    World,
    WorldFault,
    WorldJob,
)

FEW: dict[Pattern, int] = {"nested": 1, "ensemble": 1, "pipeline": 2, "map_tree": 3, "group": 3}
"""Items, where each is asked for often."""
LATER_TOO = ("skip i0",) * 4  # drawn more often: what it did holds in the next process too
KINDS: tuple[ServiceKind, ...] = ("api", "batch", "agent", "workers", "free")
_replace = msgspec.structs.replace


def world_of(seed: int) -> World:
    """At least one crash is in it; if it comes too late to happen, the last commit of job 0 crashes."""
    rng = random.Random(seed)
    count = rng.choices((1, 2, 3, 4), (91, 7, 1.5, 0.5))[0]
    jobs = [_job(rng, "a")]
    for name in "bcd"[: count - 1]:
        jobs.append(_other_job(rng, jobs[0], name))
    services = [_service(rng, name) for name in NAMES[: rng.randint(1, 3)]]
    kind = rng.choices(("crash", "crash_at", "crash_before", "crash_after"), (24, 30, 23, 23))[0]
    if kind == "crash_at":
        made = aimed(rng, World(seed, tuple(jobs), tuple(services)))
        jobs, services, faults = list(made.jobs), list(made.services), list(made.faults)
        count = len(jobs)
    else:
        faults = [_placed(rng, WorldFault(kind))]  # type: ignore[arg-type]
        faults += _followed(rng, faults[0]) if rng.random() < 0.4 else []
    more = (80, 15, 5, 0) if kind == "crash_at" else (62, 25, 10, 3)
    for _ in range(rng.choices((0, 1, 2, 4), more)[0]):
        drawn = rng.choices(FAULTS, (4, 0, 2, 2, 2, 1, 1, 1, 1, 1, 1, 7, 0.5, 0.2, 0.2))[0]
        faults.append(_placed(rng, WorldFault(drawn, rng.randrange(count))))
        faults += _followed(rng, faults[-1])
    workers = rng.choice((1, 1, 2)) if any(one.kind == "workers" for one in services) else 0
    of_workers: tuple[FaultKind, ...] = ("crash", "stop", "cut_off")
    for n in range(workers):
        if rng.random() < 0.75:
            faults.append(_placed(rng, WorldFault(rng.choice(of_workers), WORKER + n)))
    leases, shuffle = rng.random() < 0.3, rng.random() < 0.8
    if workers and leases and rng.random() < 0.7:  # a run that waits for them sleeps past its lease
        place, at = rng.choice((("", 15 + rng.randrange(40)), (site_with(PUTTING), 1)))
        faults.append(WorldFault("stop", at=at, amount=25.0, order=place))
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
    soon = 20 + rng.randrange(60) if fault.kind == "order" else 1 + rng.randrange(8)
    amount = rng.choice((5.0, 25.0, 25.0))
    return [WorldFault(next_kind[fault.kind], fault.job, fault.at + soon, amount)]


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
    pattern, items = rng.choice(PATTERNS), rng.choice((0, *[1] * 11, 2, 3, 4))
    return WorldJob(
        name=name,
        pattern=pattern,
        items=min(items, FEW.get(pattern, items)),
        words=rng.randrange(3),
        gate=rng.choices(GATES, (26, 27, 27, 20))[0],  # the last asks for each reply
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
    if kind == "batch" and rng.random() < 0.6:
        script = [*["ok"] * rng.randint(2, 5), "quota"]  # type: ignore[list-item]
    return SimulatedService(
        name,
        tuple(script),
        kind=kind,
        seconds=rng.choice((0.0, 0.05, 0.3, 1.0, 4.0)),
        concurrency=rng.choice((1, 2, 4, 8)),
        rpm=rng.choice((None, None, None, 60)),
        monthly=rng.choice((0.004, 0.02)) if rng.random() < 0.15 else None,
        cost=rng.choice((0.5, 1.0, 3.0)),
    )
