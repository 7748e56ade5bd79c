"""Whether the budget of a run lets its workers start: known before anything is started."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fanfold.errors import BadInput
from fanfold.members.agents.agent import least_of
from fanfold.members.agents.dialects import DIALECTS
from fanfold.members.entry import Entry
from fanfold.plans.execute import Job
from fanfold.plans.plan import Graph, Node
from fanfold.price import dollars, nanos
from fanfold.work import dag


class Need(msgspec.Struct, frozen=True):
    """What is reserved for a worker, in nano-dollars: `most` for its budget and a last call above it;
    with less than `least` it is not started. `last` is that call's part."""

    task: Node
    cap: float
    most: int
    least: int

    @property
    def last(self) -> int:
        return self.most - nanos(self.cap)


def needs_of(job: Job) -> list[Need]:
    """Of the tasks that one agent with a budget of its own is to do."""
    found = []
    for task in _tasks(job):
        entry = job.roster.entries.get(task.who.members[0]) if len(task.who.members) == 1 else None
        if entry is not None and entry.traits.agent and not task.who.fallback:
            found += _need(task, entry)
    return found


def _tasks(job: Job) -> Iterator[Node]:
    for step in job.stored.plan.steps:
        if isinstance(step, Graph):
            yield from step.tasks


def _need(task: Node, entry: Entry) -> list[Need]:
    cap, most = entry.setup.max_budget_usd, None
    if entry.traits.kind in DIALECTS:
        most = DIALECTS[entry.traits.kind].most(entry.traits, entry.setup)
    if cap is None or most is None:
        return []
    return [Need(task, cap, most, least_of(cap, most))]


def refuse_unaffordable(job: Job) -> None:
    """A worker that the budget of the run never lets start is refused, with the total that would do."""
    budget = job.budget.usd
    for one in needs_of(job) if budget is not None else ():
        if one.least > nanos(budget or 0.0):
            raise BadInput(_never(job, one, budget or 0.0), file=_file(job), line=one.task.line)


def _never(job: Job, one: Need, budget: float) -> str:
    """One line: what, and what to do."""
    fleet = job.stored.kind == "fleet"
    last = f" and ${dollars(one.last):.2f} for its last call" if one.last else ""
    what = f"worker `{one.task.id}` needs ${one.cap:.2f}{last}, but the budget is ${budget:.2f}"
    total = max(need.most for need in needs_of(job))
    where = "`max_budget_fleet`" if fleet else "the budget"
    ways = [f"raise {where} to ${_up(total):.2f}", "lower its `max_budget_usd`"]
    if one.last:
        allow = '"overrun": "allow" in `config`' if fleet else "`overrun: allow` in the roster"
        ways.append(f"write {allow}, to reserve no more than that")
    return f"{what}: it would never start; {', or '.join(ways)}"


def _up(amount: int) -> float:
    """To whole cents, never less."""
    return -(-amount // 10_000_000) / 100


def _file(job: Job) -> str | None:
    return job.stored.plan.file or None


def wait_warnings(job: Job) -> tuple[str, ...]:
    """Said before the start: those that could begin together have to wait for one another."""
    budget, found = job.budget.usd, needs_of(job)
    if budget is None or not found:
        return ()
    layer = dag.layers(list(_tasks(job)))
    first = sum(one.most for one in found if not layer[one.task.id])
    if first <= nanos(budget):
        return ()
    allow = any(one.last for one in found)
    hint = '; or allow an overrun: "overrun": "allow"' if allow else ""
    return (
        f"those who start first may take ${_up(first):.2f} with their last calls, but the budget is"
        f" ${budget:.2f}: some will wait for money, or start with less{hint}",
    )
