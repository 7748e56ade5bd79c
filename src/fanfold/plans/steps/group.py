"""`group`: the items by a key, and one value made of each group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from fanfold.patterns.asked_reduce import SourcedPart
from fanfold.patterns.gathered import terms_of_nobody
from fanfold.patterns.group import GroupingWay, Groups, group_batch, group_way
from fanfold.plans.asking import Asking, written
from fanfold.plans.carry import PlanState
from fanfold.plans.drawing.describe import joined
from fanfold.plans.drawing.sketch import Sketch, lanes, rows, title
from fanfold.plans.preview.asks import PreviewContext
from fanfold.plans.preview.compared import awaits_reply
from fanfold.plans.preview.estimate import Estimate, PartPreview
from fanfold.plans.preview.standin import Size
from fanfold.plans.preview.stations import PassingItem
from fanfold.plans.reading import StepContext
from fanfold.plans.ready import Ready
from fanfold.plans.steps.kind import Step
from fanfold.plans.steps.reduce import Reduce, ReduceEntry
from fanfold.run.forecast import StepPreview
from fanfold.work.blocking import item_names
from fanfold.work.document import Node
from fanfold.work.picture import Box
from fanfold.work.reader import Count, Text
from fanfold.work.task import NOBODY, Terms


class Group(Step, msgspec.Struct, frozen=True, omit_defaults=True, tag="group", kw_only=True):
    """Put the items into groups by a field, and make one value of each."""

    name: Text = "group"
    by: Text
    reduce: Reduce
    concurrency: Count = 8
    over: Text | None = None
    line: int | None = None

    @classmethod
    def read(cls, node: Node, given: Any, reading: StepContext) -> Group:
        reduce = Reduce.read(node.child("reduce"), given.reduce, reading)
        over = None if given.over is None else reading.over(node.child("over"))
        return cls(
            name=given.name, by=reading.item_field(node.child("by")), line=node.line, over=over,
            reduce=msgspec.structs.replace(reduce, name=f"{given.name}.reduce"),
            concurrency=given.concurrency,
        )  # fmt: skip

    # ── items ──

    takes_items = True
    folds_items = True
    asks_about_parts = True

    def asks(self) -> Iterator[tuple[str, Asking]]:
        yield from self.reduce.asks()

    def item_asks(self) -> Iterator[tuple[str, Asking | str]]:
        yield self.name, f"{self.name} asks about groups of items"

    def plain_targets(self) -> Iterator[str]:
        return self.reduce.plain_targets()

    def item_fields(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        yield "by", item_names(self.by)

    def item_terms(self, ready: Ready) -> list[Terms]:
        return [terms_of_nobody(f"{ready.named(self.name)}.key")]

    # ── run ──

    def way(self, ready: Ready) -> GroupingWay:
        whole = Asking(who=NOBODY, concurrency=self.concurrency)
        return group_way(self.by, self.reduce.as_reducing(ready), ready.terms(whole, self.name))

    async def carry(self, state: PlanState) -> None:
        """The parts are the replies of the last step that gave some, else the items themselves."""
        of = state.passed[-1].seen_as if state.passed else None
        way = self.way(state.ready)
        govern = state.unforeseen or self.by.startswith("steps.")
        found = await group_batch(state.run, state.items(), way, of=of, govern=govern)
        state.result(self, found)

    # ── preview and picture ──

    def preview(self, estimate: Estimate) -> PartPreview:
        station = GroupStation(estimate.context, self)
        estimate.context.record(self.name, station.size.times(estimate.sample.size or 1))
        return PartPreview([station], flows=estimate.known)

    def draw(self, id: str, sketch: Sketch) -> Box:
        lines = joined([f"over {self.over}" if self.over else "", f"by {self.by}"])
        inside = rows(lanes("group", None), [self.reduce.box("reduce", "reduce", sketch)])
        return Box(id, title(self.name, "group"), lines, inside=inside)


class GroupStation:
    """In a preview: the groups as far as their keys are known; else how many there are is not."""

    def __init__(self, context: PreviewContext, step: Group) -> None:
        self._step = step
        self._reduce = step.reduce.station(context, 0) if step.reduce.is_asked else None
        self._groups = Groups(step.by)
        self._steps: dict[str, Any] = {}
        self._known = True

    @property
    def size(self) -> Size:
        return Size(200, 4000) if self._reduce is None else self._reduce.size

    def take(self, passing: Sequence[PassingItem], span: range) -> list[PassingItem]:
        for one in passing:
            item = one.seen()
            self._known = self._known and not awaits_reply(item, self._step.by)
            if self._known:
                self._groups.add((one.at, item))
            self._steps[one.item.id] = list(one.steps.values())[-1] if one.steps else one.item.data
        return []

    def rows(self, times: float | None) -> list[StepPreview]:
        if self._reduce is None:
            return []
        for group in self._groups.found.values() if self._known else ():
            self._reduce.again(len(group.parts))
            for at, part in enumerate(group.parts):
                self._reduce.land(at, SourcedPart(part.id, (part.id,), self._steps[part.id]))
        rows = self._reduce.rows(times if self._known else None)
        return [msgspec.structs.replace(row, watched=not self._known) for row in rows]


Group.written = written(Group, "a group", reduce=ReduceEntry)
