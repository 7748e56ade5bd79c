"""Which items each step works on: those of the input, or those that an earlier step produced."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

import msgspec

from fanfold.errors import BadInput
from fanfold.plans.asking import Asking
from fanfold.plans.header import INPUT_KINDS, PlanHeader
from fanfold.plans.ready import Ready
from fanfold.work.task import Terms


class FieldRead(msgspec.Struct, frozen=True):
    """What a step reads of an item: the names of fields of which there must be one. `reader` is the
    field of the step that states it. `unwritten`: the name of one that states no prompt."""

    reader: str
    names: tuple[str, ...]
    line: int | None
    unwritten: str = ""


class FlowStep(Protocol):
    """A step as far as the flow of items is concerned; see `steps/kind.Step`."""

    @property
    def name(self) -> str: ...
    @property
    def line(self) -> int | None: ...
    @property
    def produced_by(self) -> str | None: ...
    @property
    def takes_items(self) -> bool: ...
    @property
    def gives_replies(self) -> bool: ...
    @property
    def folds_items(self) -> bool: ...

    def asks(self) -> Iterator[tuple[str, Asking]]: ...
    def item_terms(self, ready: Ready) -> list[Terms]: ...
    def check_flow(self, flow: Flow) -> None: ...


class Flow(msgspec.Struct):
    """What is in the flow before a step: are there items, who folded them, have they replies, and
    are they not those of the input."""

    plan: PlanHeader
    items: bool
    folded_by: str = ""
    replies: bool = False
    perhaps: str = ""  # the step that gives them, which may not be taken
    of_a_step: bool = False

    def bad(self, step: FlowStep, what: str) -> BadInput:
        return BadInput(what, file=self.plan.file, line=step.line)

    def through(self, steps: Sequence[FlowStep]) -> bool:
        """What is in the flow after these, each checked. Whether any works on the items before them."""
        used = False
        for step in steps:
            if step.produced_by is not None:
                self.items, self.folded_by, self.of_a_step = True, "", True
                self.replies, self.perhaps = False, ""
            elif step.takes_items:
                used = True
            step.check_flow(self)
            if step.gives_replies:
                unsure = step.name in self.plan.when and not self.replies
                self.replies, self.perhaps = True, step.name if unsure else ""
            if step.folds_items:
                self.folded_by, self.replies = step.name, False
        return used

    def need_replies(self, step: FlowStep) -> None:
        """Somebody gives them, whatever conditions hold."""
        when = self.plan.when
        if self.perhaps and when.get(step.name) != when[self.perhaps]:
            raise self.bad(
                step, f"`{self.perhaps}` may not be taken (`when`), so there may be no replies for"
                f" `{step.name}`; give it the same `when`, or put a step without one before it",
            )  # fmt: skip

    def need_items(self, step: FlowStep) -> None:
        if not self.items:
            raise self.bad(
                step, f"`{step.name}` has no items; name a file with --input, or state the plan's"
                f" `input`: one of {', '.join(INPUT_KINDS)}",
            )  # fmt: skip
        if self.folded_by:
            raise self.bad(
                step, f"`{self.folded_by}` already reduced the items; to work on its result, state"
                f" `over: steps.{self.folded_by}`",
            )  # fmt: skip


S = TypeVar("S", bound=FlowStep)


def leg(steps: Sequence[S], first: int) -> list[S]:
    """The steps that the items of the step at `first` go through, from there on."""
    found = [steps[first]]
    for step in steps[first + 1 :]:
        if step.produced_by is not None or found[-1].folds_items:
            break
        if step.takes_items:
            found.append(step)
    return found


def check_flow(plan: PlanHeader) -> None:
    """Every step that needs items has some, and what the input brings is used."""
    flow = Flow(plan, plan.input is not None)
    used = flow.through(plan.steps)
    if plan.input is not None and not used:
        raise BadInput("no step uses the `input`", file=plan.file, line=plan.input.line)
