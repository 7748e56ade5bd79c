"""All that is asked for in a plan, wherever it stands: in steps, stages, tasks, entries, judges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fanfold.plans.plan import (
    Asking,
    Conduct,
    Divide,
    Ensemble,
    Graph,
    Map,
    MapReduce,
    Once,
    Pipeline,
    Plan,
    Reduce,
    Scatter,
    Step,
    Write,
)
from fanfold.work.task import Who

_WHO = ("member", "members", "agent", "needs")  # where an entry may have its own


def askings(plan: Plan) -> Iterator[tuple[str, Asking]]:
    """Each with the name of its step, in the order of the plan."""
    for step in plan.steps:
        for name, asking in of_step(step):
            yield name, asking
            for judge in _judges(asking):
                yield f"{name}.judge", judge


def of_step(step: Step) -> Iterator[tuple[str, Asking]]:
    match step:
        case Map() | Once():
            yield step.name, step
        case Ensemble():
            yield step.name, step
            if step.judge is not None:
                yield f"{step.name}.judge", step.judge
        case MapReduce():
            yield step.map.name, step.map
            yield from of_step(step.reduce)
        case Pipeline():
            for stage in step.stages:
                yield from of_step(stage)
        case Divide():
            yield step.name, step
            yield from of_step(step.combine)
        case Scatter():
            yield from _of_scatter(step)
        case Conduct():
            yield step.name, step
            if step.synthesise is not None:
                yield from of_step(step.synthesise)
        case Graph():
            for task in step.tasks:
                yield f"{step.name}.{task.id}", task
        case Reduce():
            if step.vote is not None:
                yield from of_step(step.vote)
            elif step.ask is not None:
                yield step.name, step.ask
        case Write():
            pass


def _of_scatter(step: Scatter) -> Iterator[tuple[str, Asking]]:
    own = [entry for entry in step.over if entry.who or entry.prompt]
    if not step.over or len(own) < len(step.over):
        yield step.name, step
    for entry in own:
        asked = Asking(
            prompt=entry.prompt or step.prompt, who=entry.who or step.who, gate=step.gate,
            escalate=step.escalate, line=entry.line,
            lines={name: line for name, line in step.lines.items() if name not in _WHO},
        )  # fmt: skip
        yield f"{step.name}.{entry.id}", asked
    if step.synthesise is not None:
        yield from of_step(step.synthesise)


def _judges(asking: Asking) -> Iterator[Asking]:
    """The members that gates ask, at any depth, each with its line."""
    for place, given in judges_in(list(asking.gate or ())):
        members = [given["member"]] if "member" in given else given.get("members", [])
        needs = given.get("needs", [])
        line = asking.lines.get(f"gate{place}", asking.lines.get("gate", asking.line))
        who = Who(tuple(_listed(members)), tuple(_listed(needs)))
        yield Asking(prompt=str(given.get("prompt", "")), who=who, line=line)


def judges_in(gate: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Each `judge` in a gate as it is written, with the way to it: `[0].all_of[1].judge`."""
    if isinstance(gate, list):
        for n, one in enumerate(gate):
            yield from judges_in(one, f"{place}[{n}]")
    elif isinstance(gate, dict):
        for kind, given in gate.items():
            if kind == "judge" and isinstance(given, dict):
                yield f"{place}.judge", given
            elif kind in ("all_of", "any_of"):
                yield from judges_in(given, f"{place}.{kind}")


def _listed(said: str | list[str]) -> list[str]:
    return [said] if isinstance(said, str) else said
