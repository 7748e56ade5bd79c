"""`ask`: one ask, about the results so far."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from fanfold.patterns.asked_reduce import value_or_flag, value_or_pause
from fanfold.patterns.prompt import Prompt
from fanfold.plans.asking import Asking, written
from fanfold.plans.carry import PlanState
from fanfold.plans.drawing.sketch import Sketch, title
from fanfold.plans.preview.answers import judges_of, rows_of
from fanfold.plans.preview.asks import AskEstimate
from fanfold.plans.preview.estimate import Estimate, PartPreview
from fanfold.plans.preview.stations import task_about
from fanfold.plans.reading import StepContext
from fanfold.plans.ready import Ready
from fanfold.plans.steps.kind import Step
from fanfold.plans.steps.reduce import ReduceFailure
from fanfold.work.document import Node
from fanfold.work.item import Item
from fanfold.work.picture import Box
from fanfold.work.reader import Text
from fanfold.work.task import Task

_NAMES = ("steps", "task")


class Once(Asking, Step, frozen=True, omit_defaults=True, tag="ask", kw_only=True):
    """One ask, with the results so far under `steps`. `partial`: the run can do without a reply."""

    name: Text = "ask"
    partial: bool = False

    @classmethod
    def read(cls, node: Node, given: Any, reading: StepContext) -> Once:
        made = reading.asking(node, given, _NAMES)
        if "prompt" not in made:
            raise node.bad("an ask needs a `prompt`")
        if partial := given.on_failure == "partial":
            del made["on_failure"]
        return cls(**made, name=given.name, partial=partial)

    def asks(self) -> Iterator[tuple[str, Asking]]:
        yield self.name, self

    def _prompt(self, ready: Ready) -> Prompt:
        """It is asked once: nobody would read what a service keeps of it, unless that is stated."""
        prompt = ready.prompt(self, _NAMES)
        return msgspec.structs.replace(prompt, cache=self.opening.cache or "off")

    async def carry(self, state: PlanState) -> None:
        item = Item(self.name, {"steps": dict(state.results)})
        ask = self._prompt(state.ready).about(item)
        outcome = await state.run.do(Task(self.name, ask, state.ready.terms(self, self.name)))
        value_of = value_or_flag if self.partial else value_or_pause
        state.result(self, value_of(state.run, self.name, outcome))

    def preview(self, estimate: Estimate) -> PartPreview:
        context = estimate.context
        terms, prompt = context.ready.terms(self, self.name), self._prompt(context.ready)
        estimated = AskEstimate(context, terms, prompt, judges=judges_of(context, self))
        estimated.take([task_about(estimated, Item(self.name, {}))])
        return estimate.at_once(
            self.name, rows_of(self.name, "ask", estimated, 1, 1), estimated.size
        )

    def draw(self, id: str, sketch: Sketch) -> Box:
        box = sketch.leaf(id, title(self.name, "ask"), self)
        more = ("on failure: partial",) if self.partial else ()
        return msgspec.structs.replace(box, lines=(*box.lines, *more))


Once.written = written(
    Once, "an ask", "partial", verbatim=(bool, False), on_failure=(ReduceFailure, "skip")
)
