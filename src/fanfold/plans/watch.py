"""`watch` of a step that asks about items: read, checked, and made into what a run works with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET

from fanfold.errors import BadInput
from fanfold.gates.kinds import from_plan
from fanfold.plans.asking import Asking
from fanfold.plans.reading import StepContext, read_gate
from fanfold.plans.ready import Ready
from fanfold.work.budget import combined
from fanfold.work.document import Node
from fanfold.work.reader import listed
from fanfold.work.task import AnswerWatch, Who
from fanfold.work.truth import read_truth
from fanfold.work.watch import WatchFields, watch_of


def check_watch(node: Node, given: WatchFields | None, reading: StepContext) -> None:
    """What is wrong with it shows when the plan is read; its labels are there."""
    if given is None:
        return
    watch = node.child("watch")
    if reading.in_stage:
        raise watch.bad("`watch` is for a step of its own, not for a stage of a pipeline")
    read_gate(watch, reading)
    if given.truth is not UNSET:
        truth, folder = watch.child("truth"), str(reading.folder)
        try:
            read_truth(str(given.truth), "`truth`", folder)
        except BadInput as error:
            name = f"`truth` {given.truth}: " if error.file else ""
            raise truth.bad(f"{name}{error.what}") from None


def watch_asks(step: Asking, name: str, watch: WatchFields | None) -> Iterator[tuple[str, Asking]]:
    """Whom it asks: the one whose answers are taken as right, or who judges."""
    if watch is None or (watch.reference is None and watch.gate is UNSET):
        return
    own = {field: getattr(step, field) for field in Asking.__struct_fields__}
    who = step.who if watch.reference is None else Who(members=(watch.reference,))
    gate = step.gate if watch.gate is UNSET else listed(watch.gate)
    more: dict[str, Any] = {"who": who, "gate": gate, "escalate": (), "hedge": None, "batch": None}
    more |= {"budget": watch.own_budget, "lines": {}, "line": step.lines.get("watch", step.line)}
    yield f"{name}.watch", Asking(**{**own, **more})


def ready_watch(ready: Ready, name: str, watch: WatchFields | None) -> AnswerWatch | None:
    if watch is None:
        return None
    gate = None if watch.gate is UNSET else from_plan(list(listed(watch.gate)), ready.resolve)
    made = watch_of(watch, gate, ready.plan.folder)
    budget = combined(made.budget, ready.plan.step_budgets.get(f"{name}.watch"))
    return msgspec.structs.replace(made, budget=budget)
