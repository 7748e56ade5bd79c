"""A plan as a record: all that a run needs, prompts and schemas included, so it can be stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from fanfold.plans.asking import Asking, judges_in
from fanfold.plans.header import Overrides, PlanHeader
from fanfold.plans.steps.plan_entry import AnyStep
from fanfold.work.reader import listed
from fanfold.work.task import Who


class Plan(PlanHeader, frozen=True, omit_defaults=True, kw_only=True):
    """With steps of the kinds that there are."""

    steps: tuple[AnyStep, ...]


def askings(plan: Plan) -> Iterator[tuple[str, Asking]]:
    """All that is asked for in a plan, judges of gates included; each with the name of its step."""
    for step in plan.steps:
        for name, asking in step.asks():
            yield name, asking
            for judge in _judges(asking):
                yield f"{name}.judge", judge


def budget_names(plan: Plan) -> list[str]:
    """Under which names the budgets of its steps can be stated anew: what `--budget` takes, and what a
    pause for lack of one advises."""
    return [name for step in plan.steps for name in step.budgets()]


def _judges(asking: Asking) -> Iterator[Asking]:
    """The members that gates ask, at any depth, each with its line."""
    for place, given in judges_in(list(asking.gate or ())):
        members = [given["member"]] if "member" in given else given.get("members", [])
        needs = given.get("needs", [])
        line = asking.lines.get(f"gate{place}", asking.lines.get("gate", asking.line))
        who = Who(listed(members), listed(needs))
        yield Asking(prompt=str(given.get("prompt", "")), who=who, line=line)


_PLACE: dict[str, Any] = {"file": "", "line": None, "lines": {}}
_HERE: dict[str, Any] = {**_PLACE, "folder": "", "roster": None}


def without_places(value: Any, place: dict[str, Any] = _PLACE) -> Any:
    """A plan, or a part of one, without where it is written: the name under which its file was given,
    and lines in it."""
    if isinstance(value, tuple):
        return tuple(without_places(one, place) for one in value)
    if not isinstance(value, msgspec.Struct):
        return value
    names = value.__struct_fields__
    parts = {n: place[n] if n in place else without_places(getattr(value, n), place) for n in names}
    return msgspec.structs.replace(value, **parts)


def comparable(plan: Plan, *, anywhere: bool = False) -> Plan:
    """The plan without places, in the form it is stored in: a comment is no change. `anywhere`: nor with
    what another machine may have in another folder."""
    steps = tuple(step.comparable() for step in plan.steps)
    operators: dict[str, Any] = {"targets": {}, "step_budgets": {}, "tags": ()}
    bare = msgspec.structs.replace(plan, steps=steps, **operators)
    bare = without_places(bare, _HERE if anywhere else _PLACE)
    return msgspec.json.decode(msgspec.json.encode(bare), type=Plan)


def with_concurrency(value: Any, many: int) -> Any:
    """A plan, or a part of one, with so many calls at once in each of its steps."""
    if isinstance(value, tuple):
        return tuple(with_concurrency(one, many) for one in value)
    if not isinstance(value, msgspec.Struct) or isinstance(value, Overrides):
        return value
    parts = {
        name: many if name == "concurrency" else with_concurrency(getattr(value, name), many)
        for name in value.__struct_fields__
    }
    return msgspec.structs.replace(value, **parts)
