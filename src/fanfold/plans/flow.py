"""Which items each step works on: those of the input, or those that an earlier step produced."""

from __future__ import annotations

from fanfold.errors import BadInput
from fanfold.plans.plan import (
    INPUT_KINDS,
    Conduct,
    Divide,
    Ensemble,
    Map,
    MapReduce,
    Pipeline,
    Plan,
    Reduce,
    Scatter,
    Step,
    Write,
)

ItemStep = Map | Ensemble | MapReduce | Pipeline
"""Steps that give each item a reply of its own; it goes on from there."""


def produced(step: Step) -> str | None:
    """`steps.NAME`, when the step works on what that step produced."""
    return step.over if isinstance(step, Map | Ensemble) else None


def takes_items(step: Step) -> bool:
    """Whether the step works on the items that are in the flow."""
    match step:
        case Map() | Ensemble() | MapReduce() | Pipeline() | Divide() | Conduct():
            return True
        case Scatter():
            return not step.over
        case _:
            return False


def ends_flow(step: Step) -> bool:
    """Whether the items are folded into one there, so that no later step sees them."""
    return isinstance(step, Divide | Conduct) or (isinstance(step, Scatter) and not step.over)


def leg(steps: tuple[Step, ...], first: int) -> list[Step]:
    """The steps that the items of the step at `first` go through, from there on."""
    found = [steps[first]]
    for step in steps[first + 1 :]:
        if produced(step) is not None or ends_flow(found[-1]):
            break
        if takes_items(step):
            found.append(step)
    return found


def check_flow(plan: Plan) -> None:
    """Every step that needs items has some, and what the input brings is used."""
    there, folded, replies, used = plan.input is not None, "", False, False
    anew = False
    for step in plan.steps:
        if produced(step) is not None:
            there, folded, anew = True, "", True
        elif takes_items(step):
            there = there or isinstance(step, Ensemble)
            _need_items(plan, step, there, folded)
            used = True
        if isinstance(step, Reduce) and (not replies or folded):
            raise _bad(
                plan, step, f"`{step.name}` comes before any `map`; there is nothing to reduce yet"
            )
        if isinstance(step, Write):
            _check_write(plan, step, replies, anew)
        if isinstance(step, ItemStep):
            replies = True
        if ends_flow(step):
            folded, replies = step.name, False
    if plan.input is not None and not used:
        raise BadInput("no step uses the `input`", file=plan.file, line=plan.input.line)


def _check_write(plan: Plan, step: Write, replies: bool, anew: bool) -> None:
    """What is written for each item needs replies of the items."""
    field = "each: item" if step.each else "with: input"
    if (step.each or step.with_input) and not replies:
        what = f"`{field}` needs a step before it that gives each item a reply, such as `map`"
        raise _bad(plan, step, what)
    if step.with_input and (plan.input is None or anew):
        why = "the items here are not those of the input" if plan.input else "there is no `input`"
        raise _bad(plan, step, f"`{field}`: {why}")


def _need_items(plan: Plan, step: Step, there: bool, folded: str) -> None:
    if not there:
        raise _bad(
            plan, step, f"`{step.name}` has no items; name a file with --input, or state the plan's"
            f" `input`: one of {', '.join(INPUT_KINDS)}",
        )  # fmt: skip
    if folded:
        raise _bad(
            plan, step, f"`{folded}` has made one of all items; for what it gave, state"
            f" `over: steps.{folded}`",
        )  # fmt: skip


def _bad(plan: Plan, step: Step, what: str) -> BadInput:
    return BadInput(what, file=plan.file, line=step.line)
