"""All that is asked for in a plan, wherever it stands: in steps, stages, tasks, entries, judges."""

from __future__ import annotations

from collections.abc import Iterator

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
        yield (
            f"{step.name}.{entry.id}",
            Asking(prompt=entry.prompt or step.prompt, who=entry.who or step.who, line=entry.line),
        )
    if step.synthesise is not None:
        yield from of_step(step.synthesise)


def _judges(asking: Asking) -> Iterator[Asking]:
    """The members that gates ask."""
    for check in asking.gate or ():
        given = check.get("judge")
        if isinstance(given, dict):
            members = [given["member"]] if "member" in given else given.get("members", [])
            needs = given.get("needs", [])
            line = asking.lines.get("gate", asking.line)
            who = Who(tuple(_listed(members)), tuple(_listed(needs)))
            yield Asking(prompt=str(given.get("prompt", "")), who=who, line=line)


def _listed(said: str | list[str]) -> list[str]:
    return [said] if isinstance(said, str) else said
