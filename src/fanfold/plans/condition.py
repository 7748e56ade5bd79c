"""Conditions in a plan, `when` and `until`: expressions over earlier results and counts of items."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from fanfold.plans.header import PlanHeader
from fanfold.plans.reading import StepContext
from fanfold.plans.variables import NAME as VARS
from fanfold.plans.variables import check_reads
from fanfold.work.check import at
from fanfold.work.document import Node
from fanfold.work.nearest import remedy
from fanfold.work.outcome import STATES
from fanfold.work.template import Template

STEPS, COUNTS = "steps", "counts"
COUNTED = ("planned", *STATES)
_NAMES = (STEPS, COUNTS, VARS, "task", "round")


def read_condition(node: Node, reading: StepContext, seen: Collection[str]) -> str:
    """The expression as it is written. BadInput for what is none, or reads a step that is not there;
    `seen` are those that have been carried out by then."""
    if not isinstance(node.value, str) or not node.value.strip():
        raise node.bad(f"`{node.name}` must be an expression such as `steps.check.open > 0`")
    template = at(node, lambda: condition(node.value, node.file))
    what = f"`{node.name}`"
    check_reads(template, reading.vars, node, what)
    for name in (STEPS, COUNTS):
        for step in sorted(template.fields(name) - set(seen)):
            there = remedy(step, seen) if seen else "there is none before it"
            raise node.bad(
                f"{what} reads `{name}.{step}`, but no earlier step has that name: {there}"
            )
    for step in sorted(template.fields(COUNTS)):
        for field in sorted(template.fields(f"{COUNTS}.{step}") - set(COUNTED)):
            raise node.bad(f"{what} reads `{COUNTS}.{step}.{field}`: {remedy(field, COUNTED)}")
    return str(node.value)


def condition(expression: str, file: str) -> Template:
    """As a template that is empty where the expression is false."""
    return Template("{% if " + expression + " %}1{% endif %}", name=file, known=_NAMES)


def reads_steps(template: Template) -> bool:
    """Whether it is decided only while the run goes on."""
    return any(template.uses(name) for name in (STEPS, COUNTS, "round"))


def holds(template: Template, plan: PlanHeader, **names: Any) -> bool:
    return bool(template.render(**{"task": plan.task or "", VARS: plan.vars}, **names))
