"""`conduct`: the whole batch planned, asked at once, judged together, kicked back once, synthesised."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET

from fanfold.patterns.asked_reduce import synthesis
from fanfold.patterns.conductor import check_size, conduct_batch, over_all
from fanfold.plans.asking import Asking, written
from fanfold.plans.carry import PlanState
from fanfold.plans.drawing.describe import describe_kick_back, joined, many
from fanfold.plans.drawing.sketch import Sketch, gate_box, lanes, rows, title
from fanfold.plans.preview.estimate import Estimate, PartPreview
from fanfold.plans.preview.stations import MapStation
from fanfold.plans.reading import StepContext, read_target
from fanfold.plans.ready import Ready
from fanfold.plans.steps.kind import Step
from fanfold.plans.steps.reduce import IntoOneEntry, Reduce
from fanfold.plans.steps.scatter import preview_synthesis, read_synthesise
from fanfold.run.forecast import Note
from fanfold.work.document import Node
from fanfold.work.picture import Arrow, Box
from fanfold.work.reader import Count, Text
from fanfold.work.task import Terms


class Conduct(Asking, Step, frozen=True, omit_defaults=True, tag="conduct", kw_only=True):
    """Plan the whole batch, fan out, barrier, gate, one kick-back, synthesis of what passed.

    `over_all` is a check over all results together, `module:function`.
    """

    name: Text = "conduct"
    concurrency: Count = 7
    most: Count = 40
    over: Text | None = None
    over_all: Text | None = None
    synthesise: Reduce | None = None

    @classmethod
    def read(cls, node: Node, given: Any, reading: StepContext) -> Conduct:
        made = reading.asking(node, given)
        made["synthesise"] = read_synthesise(node, given, reading)
        if given.over_all is not None:
            made["over_all"] = read_target(node.child("over_all"), reading)
        return cls(**made, name=given.name, most=given.most)

    takes_items = True
    folds_items = True

    def asks(self) -> Iterator[tuple[str, Asking]]:
        yield self.name, self
        if self.synthesise is not None:
            yield from self.synthesise.asks()

    def plain_targets(self) -> Iterator[str]:
        return iter(()) if self.synthesise is None else self.synthesise.plain_targets()

    def item_asks(self) -> Iterator[tuple[str, Asking | str]]:
        yield self.name, self

    def item_terms(self, ready: Ready) -> list[Terms]:
        return [ready.terms(self, self.name)]

    def check_size(self, size: int) -> None:
        check_size(size, self.most)

    async def carry(self, state: PlanState) -> None:
        ready, run = state.ready, state.run
        (terms,), prompt = self.item_terms(ready), ready.prompt(self)
        into_one = None if self.synthesise is None else self.synthesise.into_one(ready)
        await state.govern_items(terms, prompt)
        await state.govern_reduce(into_one)
        whole = None if self.over_all is None else over_all(ready.resolve(self.over_all))
        outcomes = await conduct_batch(run, state.items(), terms, prompt, whole, state.say)
        state.result(self, await synthesis(run, outcomes, into_one))

    def preview(self, estimate: Estimate) -> PartPreview:
        size, context = estimate.sample.size, estimate.context
        if estimate.known and size is not None and size > self.most:
            what = f"{{}}: {size:,} items are more than `most` ({self.most}): it will be refused"
            estimate.notes.append(Note(what, self.name))
        terms, watched = context.ready.terms(self, self.name), self.over is not None
        mapped = MapStation(context, self, "conduct", terms, watched=watched)
        return preview_synthesis(estimate, self.name, mapped, self.synthesise)

    def draw(self, id: str, sketch: Sketch) -> Box:
        asks = lanes("ask", sketch.items)
        then = [[Box("barrier", "barrier", ("all have ended",), "fold")],
                [self._gate_box()]]  # fmt: skip
        if self.synthesise is not None:
            then.append([self.synthesise.box("synthesise", "synthesise", sketch)])
        inside = rows(asks, *then)
        if self.revise:
            back = Arrow("gate", asks[-1].id, describe_kick_back(self), "back")
            inside = msgspec.structs.replace(inside, arrows=(*inside.arrows, back))
        lines = (*sketch.asked(self), f"at most {many(self.most, 'task')}, planned first")
        return Box(id, title(self.name, "conduct"), lines, inside=inside)

    def _gate_box(self) -> Box:
        box = gate_box(self, kick=False)
        over_all = joined([f"over all: {self.over_all}" if self.over_all else ""])
        return msgspec.structs.replace(box, lines=(*box.lines, *over_all))


Conduct.written = written(
    Conduct, "a conduct", concurrency=(Count, 7), synthesise=(IntoOneEntry, UNSET)
)
