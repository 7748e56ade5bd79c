"""`pipeline`: items go through stages one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, TypeAlias

import msgspec
from msgspec import Meta

from fanfold.patterns.pipeline import Mode
from fanfold.plans.asking import Asking, written
from fanfold.plans.carry import PlanState
from fanfold.plans.drawing.sketch import Sketch, rows, title
from fanfold.plans.flow import FieldRead
from fanfold.plans.preview.estimate import Estimate, PartPreview
from fanfold.plans.reading import StepContext
from fanfold.plans.ready import Ready
from fanfold.plans.steps.command import Command
from fanfold.plans.steps.divide import Divide
from fanfold.plans.steps.ensemble import Ensemble
from fanfold.plans.steps.kind import Step, StepEntry
from fanfold.plans.steps.map import Map
from fanfold.plans.steps.map_reduce import MapReduce
from fanfold.work.document import Node
from fanfold.work.picture import Box
from fanfold.work.reader import Text
from fanfold.work.task import Terms

_MOST_STAGES = 20
_HOW = {
    "streaming": "streaming: an item goes on as soon as it is ready",
    "batch": "batch: a stage waits for all of the one before",
}

StageStep: TypeAlias = Map | Ensemble | MapReduce | Divide


class StageEntry(StepEntry):
    """A stage as it is written."""

    kinds: ClassVar[dict[str, Any]] = {
        "map": Map, "command": Command, "ensemble": Ensemble, "map_reduce": MapReduce,
        "divide": Divide,
    }  # fmt: skip
    unknown = "{} cannot be a stage"


def _on_parts(node: Node, stage: Map, given: Any, before: list[StageStep]) -> MapReduce:
    last = before[-1] if before else None
    if not isinstance(last, Map) or last.shard is not None or last.command is not None:
        what = "`stream` needs a `map` without `shard` as the stage before it"
        raise node.child("stream").bad(
            f"{what}: only a reply that is asked for alone comes in parts"
        )
    if stage.shard is not None or stage.keep is not None:
        field = "shard" if stage.shard is not None else "keep"
        raise node.child(field).bad(f"a stage with `stream` has no `{field}`")
    return MapReduce.on_parts(stage, given, last.name)


class Pipeline(Step, msgspec.Struct, frozen=True, omit_defaults=True, tag="pipeline", kw_only=True):
    """Stages one after the other; `streaming`: each item goes on as soon as it is ready."""

    name: Text = "pipeline"
    over: Text | None = None
    mode: Annotated[Mode, Meta(description="batch: a stage waits for all items.")] = "streaming"
    stages: tuple[StageStep, ...]
    line: int | None = None

    @classmethod
    def read(cls, node: Node, given: Any, reading: StepContext) -> Pipeline:
        listed, stages = node.child("stages"), list[StageStep]()
        over = None if given.over is None else reading.over(node.child("over"))
        if not 1 <= len(given.stages) <= _MOST_STAGES:
            raise listed.bad(f"a pipeline has 1 to {_MOST_STAGES} stages")
        for n, entry in enumerate(given.stages):
            inner = listed.child(n).child(entry.kind)
            seen = (*reading.replies, *(stage.name for stage in stages))
            around = msgspec.structs.replace(reading, replies=seen, in_stage=True)
            stage = entry.kinds[entry.kind].read(inner, entry.given, around)
            if "name" not in inner.value:
                stage = msgspec.structs.replace(stage, name=f"stage{n + 1}")
            if stage.produced_by is not None:
                raise inner.child("over").bad("`over` has no use in a stage; use `map_reduce`")
            if "stream" in inner.value:
                stage = _on_parts(inner, stage, entry.given, stages)
            stages.append(stage)
        return cls(
            name=given.name, over=over, mode=given.mode, stages=tuple(stages), line=node.line
        )

    def settled(self) -> Pipeline:
        stages = tuple(stage.settled() for stage in self.stages)
        return msgspec.structs.replace(self, stages=stages)

    # ── items ──

    takes_items = True
    gives_replies = True

    @property
    def names(self) -> tuple[str, ...]:
        return (*(stage.name for stage in self.stages), self.name)

    def item_reads(self) -> Iterator[FieldRead]:
        for stage in self.stages:
            yield from stage.item_reads()

    def plain_targets(self) -> Iterator[str]:
        for stage in self.stages:
            yield from stage.plain_targets()

    def asks(self) -> Iterator[tuple[str, Asking]]:
        for stage in self.stages:
            yield from stage.asks()

    def budgets(self) -> Iterator[str]:
        for stage in self.stages:
            yield from stage.budgets()

    def item_asks(self) -> Iterator[tuple[str, Asking | str]]:
        for stage in self.stages:
            yield from stage.item_asks()

    def item_terms(self, ready: Ready) -> list[Terms]:
        return [terms for stage in self.stages for terms in stage.item_terms(ready)]

    def lists_read(self) -> set[str]:
        return super().lists_read().union(*(stage.lists_read() for stage in self.stages))

    # ── run, preview, picture ──

    async def carry(self, state: PlanState) -> None:
        stages = [stage.stage(state.ready) for stage in self.stages]
        await state.through_stages(stages, self.mode)

    def preview(self, estimate: Estimate) -> PartPreview:
        watched = self.over is not None
        stations = [stage.station(estimate.context, watched=watched) for stage in self.stages]
        return estimate.through(stations, side_by_side=self.mode == "streaming")

    def draw(self, id: str, sketch: Sketch) -> Box:
        stages = [[stage.draw_stage(f"stage {n}", sketch)] for n, stage in enumerate(self.stages)]
        return Box(id, title(self.name, "pipeline"), (_HOW[self.mode],), inside=rows(*stages))


Pipeline.written = written(Pipeline, "a pipeline", stages=tuple[StageEntry, ...])
