"""Crashes at a place that is drawn, and what a world must have for a process to come there."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from fanfold.testing.simulation.places import await_sites, reason_of, source_of
from fanfold.testing.simulation.services import ServiceKind, SimulatedService
from fanfold.testing.simulation.world import (
    NAMES,
    OF_COMMITS,
    OPERATOR,
    ORDERS,
    WORKER,
    World,
    WorldFault,
)

NOTHING: Mapping[str, Any] = MappingProxyType({})
_replace = msgspec.structs.replace


class Needs(NamedTuple):
    """What a world must have for a place to be reached: a service of one of these kinds (`only`: and no
    other), options of that service and of job 0 (a list: one of them), one of these orders, a crash before
    (`first`: a place too), faults (`at`: so many steps after the order), and another run that asks the same,
    or the like (`twin`: in what it differs). `weight`: how often it is aimed at."""

    kinds: tuple[ServiceKind, ...] = ()
    service: Mapping[str, Any] = NOTHING
    job: Mapping[str, Any] = NOTHING
    only: bool = False
    orders: tuple[str, ...] = ()
    first: str = ""
    faults: tuple[WorldFault, ...] = ()
    twin: Mapping[str, Any] | None = None
    weight: int = 1


PAUSE, TELL = ORDERS[0], next(one for one in ORDERS if one.startswith("tell"))
NOT_LASTING = ("pause", "resume", "approve", "stop")
BATCHED: dict[str, Any] = {"batch": True, "words": 0, "escalate": False, "hold": False}
PLAIN: dict[str, Any] = {"items": [1, 1, 2], "usd": None, "calls": None, "step_usd": None}
ASKED = "await ctx.executor.ask(name, request"
IN_BATCH = "self._wait(interval if left is None"
SUBMITTING = "await self._service.submit("
IN_QUEUE = "decode_answer(await waiting)"
PUTTING = "in await self.queue.put(asks)"
JUDGED = "_judged(task, reply, ask) if may"
STARTED_FIRST = WorldFault("crash_after", 1, 1, order="StartAttempt")
LATE_START = WorldFault("crash_before", 0, 1, order="AddRun")
OF_QUEUE = Needs(("workers",), {"seconds": 4.0}, PLAIN, only=True, first=IN_QUEUE)
TAKEN = OF_QUEUE._replace(
    service={"seconds": 4.0, "script": ("slow",) * 4},
    first="",
    faults=(WorldFault("crash", at=20),),
)
KILLED = Needs(
    ("batch",), {"seconds": 1.0, "script": ("slow",) * 9}, {**PLAIN, **BATCHED}, only=True,
    orders=("kill",), weight=2,
)  # fmt: skip
KILLED_AFTER = OF_QUEUE._replace(
    service={"seconds": 4.0, "script": ("slow",) * 4}, first="", weight=3,
    faults=(WorldFault("crash", at=20), WorldFault("order", at=40, order="kill")),
)  # fmt: skip
OF_AGENTS = Needs(
    ("agent",), {"seconds": 4.0, "script": ()}, {**PLAIN, "pattern": ["map", "pipeline", "scatter"],
                                                 "tools": False}, only=True,
)  # fmt: skip
OF_BATCHES = Needs(("batch",), {"seconds": 1.0}, {**PLAIN, **BATCHED}, only=True)
FREE = Needs(("free",), {"script": ("500", "invalid", "500", "defect")}, PLAIN, only=True)
HEDGED = {**PLAIN, "hedge": True, "batch": False, "escalate": False, "hold": False}
LATE = Needs(
    ("api",), {"seconds": 0.05, "script": ("ok", "slow") * 4, "concurrency": 8, "rpm": None},
    {**HEDGED, "items": 4, "concurrency": 4, "pattern": ["map", "pipeline"]}, only=True,
)  # fmt: skip
RIVALS = Needs(
    ("workers",), {"seconds": 4.0, "concurrency": 8, "rpm": None, "script": ("ok", "slow") * 4},
    {**HEDGED, "items": [3, 4], "concurrency": 4}, only=True, faults=(WorldFault("crash", at=60),),
)  # fmt: skip


def _batch(*script: str, **service: Any) -> Needs:
    return OF_BATCHES._replace(service={"seconds": 1.0, "script": script, **service})


NEEDS = {
    # taken over from a dead process: asks in the queue, agents, batches
    "self._ctx.executor.has_trace(": OF_QUEUE,
    "if await adoption.look()": OF_QUEUE,
    "self._of(member).has_trace(": OF_QUEUE,
    "[1].has_trace(": OF_QUEUE,
    "self.queue.has_trace(": OF_QUEUE,
    "run/queue_client.py await self.open()": TAKEN,
    "self.queue.own(owned)": TAKEN,
    "await adoption.never_began()": OF_QUEUE,
    "self._end(NOTHING, what)": OF_QUEUE,
    "run/adopt.py await self.never_began()": OF_BATCHES._replace(first=SUBMITTING),
    "run/adopt.py await self._fail(error)": OF_AGENTS._replace(
        service={"seconds": 1.0, "script": ("500", "invalid", "defect") * 2}, first=ASKED),
    "self._end(spent, EndAttempt(": OF_AGENTS._replace(
        service={"seconds": 1.0, "script": ("500", "invalid", "defect") * 2}, first=ASKED),
    "run/adopt.py await asyncio.gather(": KILLED_AFTER,
    "self._adopted.end(": KILLED_AFTER,
    "take_back(": RIVALS,
    "self.queue.own(wanted)": RIVALS,
    "self.queue.withdraw(wanted)": RIVALS._replace(weight=4),
    # batches
    "await self._unsent(NeverSubmitted(\"its": OF_BATCHES._replace(first=SUBMITTING),
    "self._note(\"unsent\")": OF_BATCHES._replace(first=SUBMITTING),
    "run/submission.py await self._wait(interval)": OF_BATCHES._replace(first=SUBMITTING),
    "self._id = await self._found() in _submit": _batch("lost_after", "ok", "500"),
    "await self._unsent(NeverSubmitted(str(error))": _batch("quota", "quota"),
    "min(SLOWEST_LOOK, max(2.0**again": _batch("500", "429", "500"),
    "await self._is_ours(": _batch("lost_after", concurrency=1, seconds=0.05),
    "self._told(lambda: self._service.results(id))": _batch("lost_after", concurrency=1, seconds=0.05),
    "run/submission.py await self._cancel()": _batch(concurrency=4, seconds=4.0)._replace(
        job={**PLAIN, **BATCHED, "asked": True}),
    "self._note(\"cancelling\")": _batch(concurrency=4, seconds=4.0)._replace(
        job={**PLAIN, **BATCHED, "asked": True}),
    "self._service.cancel(": _batch(concurrency=4, seconds=4.0)._replace(
        job={**PLAIN, **BATCHED, "asked": True}),
    "self._service.since(self._earliest, frozenset": _batch("ok", "quota"),
    "min(SLOWEST_LOOK, max(pause": _batch("ok", "500", "429", "500"),
    "asyncio.wait(tasks, timeout=CLOSING)": KILLED,
    "run/batches.py await one.close()": KILLED,
    "run/batches.py await self.batches.close()": KILLED,
    # orders
    "self._direct.deliver(": OF_AGENTS._replace(orders=(TELL,)),
    "self._agent(member).deliver(": OF_AGENTS._replace(orders=(TELL,)),
    "return await super().deliver(": OF_AGENTS._replace(orders=(TELL,)),
    "there = await self._delivered(": OF_AGENTS._replace(orders=(TELL,)),
    "await ctx.executor.deliver(": OF_AGENTS._replace(orders=(TELL,)),
    "\"tell\" and await self._delivered(": OF_AGENTS._replace(
        orders=(TELL,), first="after AnswerOrder"),
    "GiveOrder(run, now, \"a new process\"": Needs(
        orders=(PAUSE,), job={"items": [2, 4]}, service={"seconds": 4.0}, first="after AnswerOrder"),
    "AnswerOrder(order, now, \"done\")": Needs(
        orders=(PAUSE,), job={"items": [2, 4]}, service={"seconds": 4.0}, first="after AnswerOrder"),
    "await asyncio.sleep(LOOK / 5)": OF_AGENTS._replace(orders=("kill",)),
    "AnswerOrder(number, now, \"refused\", said)": Needs(
        orders=NOT_LASTING, faults=(WorldFault("crash"),)),
    # gates and approval
    "async with self._turn": Needs(
        job={**PLAIN, "gate": "python", "items": [2, 4], "concurrency": 4, "pattern": "map"},
        first=JUDGED, weight=3),
    "BeginJudging(self._run, self._session, (key,)": Needs(
        job={**PLAIN, "gate": "python", "pattern": ["map", "pipeline", "graph"]}, first=JUDGED),
    JUDGED: Needs(job={"gate": "python"}),
    "not await self._approved(": Needs(
        job={**PLAIN, "asking": True, "items": [3, 4], "pattern": ["divide", "rank", "group", "nested"],
             "asked": True}, weight=3),
    "bool(await said": Needs(
        job={**PLAIN, "asking": True, "items": [3, 4], "pattern": ["divide", "rank", "group", "nested"],
             "asked": True}, weight=3),
    # asks of workers
    "self.queue.cancel(cancelled)": Needs(
        ("workers",), {"seconds": 4.0, "script": ()}, {**HEDGED, "items": [2, 3]}),
    "self.queue.withdraw(tuple": Needs(
        ("workers",), {"seconds": 4.0, "concurrency": 8}, {**PLAIN, "items": [4], "concurrency": 4},
        only=True, faults=(WorldFault("interrupt"),)),
    # calls
    "asyncio.wait(left, timeout=GRACE)": LATE,
    "await self._over()": LATE,
    "await self.fail(error) in carry_out_free": FREE,
    "await ctx.store.recover(ctx.clock.now())": Needs(
        ("api",), {"monthly": 0.002, "cost": 1.0, "seconds": 4.0}, {**PLAIN, "words": 0}, only=True,
        twin={"words": 7}, faults=(STARTED_FIRST,)),
    "await store.recover(clock.now()) in start": Needs(
        ("api",), {"seconds": 4.0}, only=True, twin=NOTHING, faults=(STARTED_FIRST, LATE_START),
        weight=2),
    "await ctx.store.lose(": Needs(
        ("api",), {"seconds": 4.0}, PLAIN, only=True, twin=NOTHING, faults=(STARTED_FIRST,),
        weight=2),
    # ends of streams
    "self._fetched.wait()": Needs(
        ("api",), {"seconds": 0.0, "script": (), "rpm": None},
        {**PLAIN, "items": 14, "concurrency": 1, "pattern": ["pipeline", "scatter"], "words": 0,
         "gate": "standard", "shard": None}, only=True, twin={"concurrency": 4}, faults=(LATE_START,)),
    "_gone(tasks, lambda": Needs(job={"pattern": "scatter", "words": 2, "items": [2, 4]}),
    "run/pool.py await self.end()": Needs(
        job={**PLAIN, "pattern": ["ensemble", "nested", "conduct"], "gate": ["judge", "standard"]},
        service={"seconds": 1.0}, orders=("kill", "stop"), faults=(WorldFault("interrupt"),), weight=5),
    "async with aclosing(stream.outcomes())": Needs(
        job={**PLAIN, "pattern": "scatter", "words": 1, "items": 4, "concurrency": 4}),
    "await self._end(pool, finished) in drain": Needs(
        ("api",), {"seconds": 4.0}, {**PLAIN, "pattern": ["map", "group"], "items": 4}, only=True,
        orders=("kill",)),
    "await self._executor.close() in serve": Needs(("workers",), {"seconds": 0.05}, PLAIN, weight=2),
    # whole files
    "run/adopt.py": OF_AGENTS._replace(faults=(WorldFault("crash", at=10),)),
    "run/batches.py": Needs(("batch",), job=BATCHED),
    "run/submission.py": Needs(("batch",), job=BATCHED, first=IN_BATCH),
    "run/queue_client.py": Needs(("workers",)),
    "run/remote.py": Needs(("workers",)),
    "run/worker.py": Needs(("workers",), job={"hedge": [True, False], "batch": False}),
    "run/tools.py": Needs(job={"tools": True, "batch": False}),
    "run/govern.py": Needs(job={"asking": True}),
    "run/race.py": Needs(job={"hedge": True, "batch": False}),
    "run/judging.py": Needs(job={"gate": ["judge", "python"]}),
    "run/order_taker.py": Needs(("agent",), orders=ORDERS),
    "run/executor.py": Needs(("agent",), orders=ORDERS),
    "run/orders.py": Needs(orders=ORDERS),
    "run/carry.py": Needs(twin=NOTHING),
    # commits
    "GiveOrder": Needs(orders=ORDERS),
    "AdoptAttempts": OF_AGENTS._replace(first=ASKED),
    "SubmitBatch": OF_BATCHES,
    "NoteSubmission": OF_BATCHES,
    "RecordFailure": FREE,
    "ReleaseClaims": Needs(
        job={**PLAIN, "pattern": "scatter", "words": 1, "items": 6, "concurrency": 2},
        service={"seconds": 0.0, "script": ()}, weight=2),
    "LoseAttempts": Needs(first=ASKED),
}  # fmt: skip
"""By a part of the line that awaits, a file, or the name of a fact: the first that fits."""
FACTS = ("GiveOrder", "AdoptAttempts", "SubmitBatch", "NoteSubmission", "RecordFailure", "ReleaseClaims",
         "LoseAttempts")  # fmt: skip
"""That few commits have."""


@cache
def _aims() -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Where to aim at, and how often: what takes something special is seldom reached without it."""
    sites = sorted(site for site in await_sites() if not reason_of(site))
    aims = (*sites, *(f"{when} {fact}" for when in ("before", "after") for fact in FACTS))
    return aims, tuple(needs_of(aim).weight for aim in aims)


@cache
def needs_of(aim: str) -> Needs:
    said = source_of(aim) if ":" in aim else aim
    return next((needs for part, needs in NEEDS.items() if part in said), Needs())


@cache
def site_with(part: str) -> str:
    """The await whose line has this in it."""
    return min(site for site in await_sites() if part in source_of(site))


def aimed(rng: random.Random, world: World, at: str = "") -> World:
    """With a crash at any await of the run, or at a commit of some facts (`at`: that one); it becomes such
    that this is reached, for the most part."""
    aim = at or rng.choices(*_aims())[0]
    needs, moment = needs_of(aim), 15 + rng.randrange(60)
    first = _replace(world.jobs[0], items=max(1, world.jobs[0].items))
    first = _replace(first, **_drawn(rng, needs.job))
    jobs = tuple(first if one == world.jobs[0] else one for one in world.jobs)
    faults = (
        [WorldFault("order", 0, moment, order=rng.choice(needs.orders))] if needs.orders else []
    )
    if needs.first:
        faults.append(_crash_at(needs.first))
    for one in needs.faults:
        counted = one.kind in (*OF_COMMITS, "crash_at")
        faults.append(one if counted else _replace(one, at=moment + one.at))
    if needs.twin is not None:
        jobs = (first, _replace(first, name="b", **needs.twin))
    services = _services(rng, needs, world.services)
    return _replace(world, jobs=jobs, services=services, faults=(*faults, _crash_at(aim)))


def _crash_at(place: str) -> WorldFault:
    """An await, or a commit: of a run; but its operator gives the orders, and workers wait elsewhere."""
    when, _, fact = place.partition(" ")
    if when in ("before", "after"):
        job = OPERATOR if fact == "GiveOrder" else 0
        return WorldFault("crash_before" if when == "before" else "crash_after", job, 1, order=fact)
    site = place if place.startswith("run/") and ":" in place else site_with(place)
    file = site.partition(":")[0]
    job = {"run/orders.py": OPERATOR, "run/worker.py": WORKER}.get(file, 0)
    return WorldFault("crash_at", job, 1, order=site)


def _services(
    rng: random.Random, needs: Needs, services: tuple[SimulatedService, ...]
) -> tuple[SimulatedService, ...]:
    """One of the kinds is among them, with these options."""
    fitting = [n for n, one in enumerate(services) if not needs.kinds or one.kind in needs.kinds]
    chosen = services[fitting[0] if fitting else -1]
    kind = chosen.kind if fitting else rng.choice(needs.kinds)
    changed = _replace(chosen, kind=kind, **_drawn(rng, needs.service))
    if needs.only:
        return (_replace(changed, name=NAMES[0]),)
    if len(services) == 1 and needs.kinds:
        return (_replace(chosen, kind="api"), _replace(changed, name=NAMES[1]))
    return tuple(changed if one is chosen else one for one in services)


def _drawn(rng: random.Random, options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: rng.choice(value) if isinstance(value, list) else value
        for name, value in options.items()
    }
