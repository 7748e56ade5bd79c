"""`sample`: some of the items, by lot; the others leave the flow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from fanfold.patterns.gathered import terms_of_nobody
from fanfold.patterns.sample import Sampling, sample_batch
from fanfold.plans.asking import Asking, written
from fanfold.plans.carry import PlanState
from fanfold.plans.drawing.describe import joined, many
from fanfold.plans.drawing.sketch import Sketch, title
from fanfold.plans.preview.estimate import Estimate, PartPreview
from fanfold.plans.preview.standin import NOTHING, Size
from fanfold.plans.preview.stations import PassingItem
from fanfold.plans.reading import StepContext
from fanfold.plans.ready import Ready
from fanfold.plans.steps.kind import Step
from fanfold.run.forecast import Note, StepPreview
from fanfold.work.blocking import item_names
from fanfold.work.document import Node
from fanfold.work.picture import Box
from fanfold.work.reader import Count, Text, Whole
from fanfold.work.task import Terms


class SampleStep(Step, msgspec.Struct, frozen=True, omit_defaults=True, tag="sample", kw_only=True):
    """Keep so many items by lot; with `by`, of each value of that field in proportion."""

    name: Text = "sample"
    items: Count
    by: Text | None = None
    seed: Whole = 0
    over: Text | None = None
    line: int | None = None

    @classmethod
    def read(cls, node: Node, given: Any, reading: StepContext) -> SampleStep:
        by = None if given.by is None else reading.item_field(node.child("by"))
        over = None if given.over is None else reading.over(node.child("over"))
        return cls(
            name=given.name, items=given.items, by=by, seed=given.seed, over=over, line=node.line
        )

    # ── items ──

    takes_items = True
    gives_replies = True
    asks_about_parts = True

    def item_asks(self) -> Iterator[tuple[str, Asking | str]]:
        yield self.name, f"{self.name} asks nobody"

    def item_fields(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        yield "by", item_names(self.by)

    def item_terms(self, ready: Ready) -> list[Terms]:
        return [terms_of_nobody(ready.named(self.name), self.name)]

    async def carry(self, state: PlanState) -> None:
        (terms,) = self.item_terms(state.ready)
        sampling = Sampling(self.items, self.by, self.seed)
        await sample_batch(state.run, state.items(), terms, sampling)
        state.went_through([terms])

    # ── preview and picture ──

    def preview(self, estimate: Estimate) -> PartPreview:
        size = estimate.sample.size if estimate.known else None
        if size is not None:
            what = f"{{}}: at most {min(self.items, size):,} of {size:,} items continue"
            estimate.notes.append(Note(what, self.name))
        station = SampleStation(self.name, 1.0 if not size else min(1.0, self.items / size))
        return PartPreview([station], flows=estimate.known)

    def draw(self, id: str, sketch: Sketch) -> Box:
        lines = joined([
            f"over {self.over}" if self.over else "", f"{many(self.items, 'item')} by lot",
            f"in proportion to {self.by}" if self.by else "", f"seed {self.seed}",
        ])  # fmt: skip
        return Box(id, title(self.name, "sample"), lines)


class SampleStation:
    """In a preview: a share of what comes, spread evenly. Which ones it will be follows from all."""

    def __init__(self, name: str, share: float) -> None:
        self._name, self._share, self._seen = name, share, 0

    @property
    def size(self) -> Size:
        return NOTHING

    def take(self, passing: Sequence[PassingItem], span: range) -> list[PassingItem]:
        found = []
        for one in passing:
            self._seen += 1
            if int(self._seen * self._share) > int((self._seen - 1) * self._share):
                found.append(one.onward(self._name, one.item.data))
        return found

    def rows(self, times: float | None) -> list[StepPreview]:
        return []


SampleStep.written = written(SampleStep, "a sample")
