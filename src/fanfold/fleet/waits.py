"""Why a worker that has not started waits, from what can be seen from outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from fanfold.fleet.run_plan import PlannedTask, RunPlan
from fanfold.fleet.worker_view import WorkerState, WorkerView
from fanfold.observe.amounts import duration, money

_OPEN: tuple[WorkerState, ...] = ("PENDING", "RUNNING")


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """What the waiting workers of a run depend on. `stopped`: why no worker is started any more; ""
    while some are. `free`: nano-dollars that are neither spent nor reserved; None without a limit.
    `resets`: by pool, when a quota that is used up is renewed."""

    now: float
    stopped: str = ""
    free: int | None = None
    resets: Mapping[str, float] = {}


class _Queue(msgspec.Struct, frozen=True):
    """Workers whose parents are done: how many are at work, when the last one started, which of them
    the free budget does not cover."""

    at_work: int
    began: float | None
    uncovered: tuple[str, ...]


def with_waits(views: Sequence[WorkerView], plan: RunPlan, run: Waiting) -> list[WorkerView]:
    """With the reason for each that is pending; all others stay as they are."""
    states = {one.id: one.state for one in views}
    tasks = {task.id: task for task in plan.tasks}
    why = {
        one.id: _blocked(one, tasks[one.id], plan, states, run)
        for one in views
        if one.state == "PENDING" and one.id in tasks
    }
    ready = [one for one in views if why.get(one.id) == ""]
    queue = _Queue(
        sum(one.state == "RUNNING" for one in views),
        max((one.began for one in views if one.began is not None), default=None),
        tuple(sorted(one.id for one in ready if _is_uncovered(one, plan, run))),
    )
    found = []
    for one in views:
        if one.id in why:
            text = why[one.id] or _queued(one, queue, plan, run)
            short = not why[one.id] and _short_of_budget(one, queue, plan)
            one = msgspec.structs.replace(one, waits=text, last=text, waits_for_budget=short)
        found.append(one)
    return found


def _blocked(
    one: WorkerView,
    task: PlannedTask,
    plan: RunPlan,
    states: Mapping[str, WorkerState],
    run: Waiting,
) -> str:
    """What keeps it out of the queue; "" when nothing does."""
    if run.stopped:
        return run.stopped
    if parents := _parents(task, states):
        return f"waits for {', '.join(parents)}"
    pool = plan.member(one.member).pool
    until = run.resets.get(pool, 0.0)
    if until > run.now:
        at = datetime.fromtimestamp(until, UTC).strftime("%H:%M UTC")
        return f"waits for the rate limit of {pool}, until {at}"
    return f"waits for a retry: {one.error}" if one.error else ""


def _parents(task: PlannedTask, states: Mapping[str, WorkerState]) -> list[str]:
    """The parents it still needs, with the state of those that ended otherwise: they have to be
    relaunched first."""
    found = {id: states.get(id, "PENDING") for id in task.depends_on}
    missing = {id: state for id, state in found.items() if state != "DONE"}
    if task.partial:
        return [id for id, state in missing.items() if state in _OPEN]
    return [id if state in _OPEN else f"{id} ({state.lower()})" for id, state in missing.items()]


def _is_uncovered(one: WorkerView, plan: RunPlan, run: Waiting) -> bool:
    most = plan.member(one.member).most
    return run.free is not None and most is not None and most > run.free


def _short_of_budget(one: WorkerView, queue: _Queue, plan: RunPlan) -> bool:
    """A slot is free, but no budget for it."""
    return queue.at_work < plan.slots and one.id in queue.uncovered


def _queued(one: WorkerView, queue: _Queue, plan: RunPlan, run: Waiting) -> str:
    """It waits for a slot, for budget, or for the pause between two starts."""
    if queue.at_work >= plan.slots:
        return f"waits for a slot: {queue.at_work} of {plan.slots} are at work"
    if _short_of_budget(one, queue, plan):
        most = money(plan.member(one.member).most or 0)
        return f"waits for budget: it may cost {most}, {money(max(0, run.free or 0))} is free"
    if queue.at_work + len(queue.uncovered) >= plan.slots:
        named = ", ".join(queue.uncovered[:3]) + (", …" if len(queue.uncovered) > 3 else "")
        return f"waits for a slot: others before it wait for budget ({named})"
    if queue.began is not None and 0 <= run.now - queue.began < plan.delay:
        return f"waits for its turn: {duration(plan.delay)} between two starts"
    return "is about to start"
