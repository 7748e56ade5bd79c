"""What a job of a simulation does: one function for each pattern, over the run alone."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from functools import cache
from typing import Any

from fanfold.gates.checks import predicate, regex
from fanfold.gates.default import standard
from fanfold.gates.judge import judge
from fanfold.patterns.arguments import Folded
from fanfold.patterns.asked_reduce import AskedReduce, asked
from fanfold.patterns.conductor import conduct
from fanfold.patterns.divide import divide_and_conquer
from fanfold.patterns.ensemble import ensemble, voters
from fanfold.patterns.fold import collect, concat
from fanfold.patterns.graph import graph
from fanfold.patterns.group import group
from fanfold.patterns.map_reduce import map_reduce
from fanfold.patterns.pipeline import pipeline, stage
from fanfold.patterns.rank import rank
from fanfold.patterns.resolve import resolve
from fanfold.patterns.scatter import scatter_gather
from fanfold.run.run import Run
from fanfold.run.sources import Rows
from fanfold.testing.simulation.services import BAD
from fanfold.testing.simulation.world import GateKind, Pattern, World, WorldJob
from fanfold.work.item import Item
from fanfold.work.pieces import Fits
from fanfold.work.task import Budget, Gate, Hedge

SAY = "Say {{ item.text }}"


def items_of(job: WorldJob) -> list[dict[str, Any]]:
    return [
        {"id": f"i{n}", "text": f"word {n + job.words}", "kind": "ab"[n % 2]}
        for n in range(job.items)
    ]


class ChangingItems:
    """Items whose first is another from one reading on, as long as this process lives; `read` counts
    readings over all processes."""

    def __init__(self, job: WorldJob, read: Counter[str]) -> None:
        self._job, self._read, self._rows = job, read, items_of(job)

    def _now(self) -> Rows:
        self._read[self._job.name] += 1
        if self._read[self._job.name] == self._job.changes and self._rows:
            self._rows[0]["text"] = "changed"
        return Rows(self._rows)

    def walk(self, skip: bytes | bytearray = b"") -> Iterator[tuple[int, Item]]:
        return self._now().walk(skip)

    def fingerprint(self) -> str:
        return self._now().fingerprint()


async def look_up(word: str) -> str:
    """What a word means."""
    await asyncio.sleep(0.01)
    return f"{word} means good"


async def _is_good(value: Any) -> bool:
    """Takes a moment."""
    await asyncio.sleep(0.01)
    return BAD not in str(value)


@cache
def gate_of(kind: GateKind, step: str, judging: str, attempts: int) -> Gate:
    """All but the usual one let nothing pass that is not good."""
    match kind:
        case "regex":
            return regex("(?i)good|same|order|pass")
        case "python":
            return predicate(_is_good, f"{BAD} is not good")
        case "judge":
            return judge(
                "Is {{ reply }} good?", step=f"{step} judge", member=judging, revise=0,
                attempts=attempts,
            )  # fmt: skip
    return standard(None, None)


class Shape:
    """A job, and the services that there are. `more`: so many times its budgets; `read`: how often the
    items of jobs were read."""

    def __init__(
        self, run: Run, job: WorldJob, more: int, world: World, read: Counter[str]
    ) -> None:
        self.run, self.job, self.more = run, job, more
        self.members = tuple(one.name for one in world.services)
        self.kinds = tuple(one.kind for one in world.services)
        self.items: Any = ChangingItems(job, read) if job.changes else items_of(job)
        if job.pattern not in ("map", "map_tree", "pipeline", "nested", "ensemble"):
            self.items = items_of(job)

    @property
    def by_batch(self) -> bool:
        """Whether its asks go to batch services."""
        first = self.kinds[:1] if self.job.escalate and len(self.kinds) > 1 else self.kinds
        return self.job.batch and "batch" in first

    @property
    def shard(self) -> int | None:
        return None if self.by_batch or self.uses_tools else self.job.shard

    @property
    def uses_tools(self) -> bool:
        """Nobody waits for a batch with each result of a tool: a step has one or the other."""
        return self.job.tools and not self.by_batch and "agent" not in self.kinds

    def how(self, step: str) -> dict[str, Any]:
        """The options that all patterns have in common."""
        job, who = self.job, self.members
        found: dict[str, Any] = {
            "step": step, "gate": self.gate(step), "revise": job.revise, "attempts": job.attempts,
            "on_failure": job.on_failure, "concurrency": job.concurrency,
        }  # fmt: skip
        if job.escalate and len(who) > 1:
            found |= {"member": who[0], "escalate": who[1:]}
        if self.by_batch:
            times = {"auto": True} if job.words else {"within": 30.0 if job.asked else 3600.0}
            found["batch"] = {**times, "most": 5}
        elif job.hedge:
            found["hedge"] = Hedge(extra=0.5, after=0.7)
        if self.uses_tools:
            found["tools"] = [look_up]
        if job.hold:
            found["in_doubt"] = "hold"
        if job.step_usd is not None:
            found["budget"] = Budget(usd=job.step_usd * self.more)
        return found

    def gate(self, step: str) -> Gate:
        return gate_of(self.job.gate, step, self.members[-1], self.job.attempts)

    @property
    def join(self) -> AskedReduce:
        return asked("Join {{ parts }}", step="join", fan_in=2, gate=self.gate("join"))

    @property
    def reduce(self) -> Any:
        return self.join if self.job.asked else collect()


async def _map(shape: Shape) -> Folded:
    return await map_reduce(
        shape.run, shape.items, prompt=SAY, reduce=shape.reduce, shard=shape.shard, **shape.how("map")
    )  # fmt: skip


async def _map_tree(shape: Shape) -> Folded:
    return await map_reduce(
        shape.run, shape.items, prompt=SAY, reduce=shape.join, **shape.how("map")
    )


async def _pipeline(shape: Shape) -> Folded:
    return await pipeline(
        shape.run, shape.items,
        stage(SAY, shard=shape.shard, **shape.how("one")),
        stage("Now {{ steps.one }}", **shape.how("two")),
        mode="batch" if shape.job.words else "streaming", reduce=shape.reduce,
    )  # fmt: skip


async def _nested(shape: Shape) -> Folded:
    """A vote as the second stage."""
    how = shape.how("two")
    for name in ("hedge", "batch"):
        how.pop(name, None)
    return await pipeline(
        shape.run, shape.items, stage(SAY, **shape.how("one")),
        stage("Choose {{ steps.one }}", by=voters(shape.members[:2], samples=2), **how),
        reduce=shape.reduce,
    )  # fmt: skip


async def _ensemble(shape: Shape) -> Folded:
    how = shape.how("vote")
    for name in ("member", "escalate", "batch"):
        how.pop(name, None)
    return await ensemble(
        shape.run, shape.items, prompt=SAY, members=shape.members[:2], samples=2, decide="plurality",
        reduce=collect(), **how,
    )  # fmt: skip


async def _graph(shape: Shape) -> Folded:
    tasks = [
        {
            "id": one["id"], "prompt": f"{one['text']} {{{{ parents }}}}",
            "depends_on": [f"i{n // 2}"] if n and shape.job.words else [],
        }
        for n, one in enumerate(shape.items)
    ]  # fmt: skip
    return await graph(shape.run, tasks, **shape.how("graph"))


async def _divide(shape: Shape) -> Folded:
    combine = shape.join if shape.job.asked else concat(" ")
    prompt = "Say {% for one in items %}{{ one.text }} {% endfor %}"
    return await divide_and_conquer(
        shape.run, shape.items, combine=combine, prompt=prompt, fits=Fits(items=2), **shape.how("divide")
    )  # fmt: skip


async def _scatter(shape: Shape) -> Folded:
    limits: dict[str, Any] = {"first": 2} if shape.job.words == 1 and shape.job.items > 1 else {}
    if shape.job.words == 2:
        limits = {"within": 30.0}
    return await scatter_gather(
        shape.run, shape.items, prompt=SAY, synthesise=shape.reduce, **limits, **shape.how("scatter")
    )  # fmt: skip


async def _conduct(shape: Shape) -> Folded:
    how = shape.how("conduct")
    at_once = how.pop("concurrency")
    return await conduct(
        shape.run, shape.items, prompt=SAY, synthesise=shape.reduce, at_once=at_once,
        say=lambda line: None, **how,
    )  # fmt: skip


async def _group(shape: Shape) -> Folded:
    await map_reduce(shape.run, shape.items, prompt=SAY, **shape.how("map"))
    return await group(shape.run, shape.items, by="kind", reduce=shape.reduce)


async def _rank(shape: Shape) -> Folded:
    return await rank(
        shape.run, shape.items, prompt="Which is best?", rounds=1, **shape.how("rank")
    )


async def _resolve(shape: Shape) -> Folded:
    return await resolve(shape.run, shape.items, **shape.how("resolve"))


SHAPES: dict[Pattern, Callable[[Shape], Awaitable[Folded]]] = {
    "map": _map, "map_tree": _map_tree, "pipeline": _pipeline, "nested": _nested,
    "ensemble": _ensemble, "graph": _graph, "divide": _divide, "scatter": _scatter,
    "conduct": _conduct, "group": _group, "rank": _rank, "resolve": _resolve,
}  # fmt: skip


async def carry_job(shape: Shape) -> Folded:
    return await SHAPES[shape.job.pattern](shape)
