"""`map_reduce`: for each item a map and a reduce of its own, over a list in the item."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from fanfold.errors import FanfoldError
from fanfold.patterns.arguments import TaskHandler
from fanfold.patterns.nested import NestedMapReduce, map_reduce_inside
from fanfold.patterns.pipeline import Stage
from fanfold.patterns.prompt import Prompt
from fanfold.patterns.streamed import WAITING, OnParts, reply_parts
from fanfold.plans.asking import Asking, written
from fanfold.plans.carry import PlanState
from fanfold.plans.drawing.describe import joined
from fanfold.plans.drawing.sketch import Sketch, gate_box, lanes, rows, title
from fanfold.plans.preview.asks import PreviewContext
from fanfold.plans.preview.estimate import Estimate, PartPreview
from fanfold.plans.preview.standin import Size, StandIn
from fanfold.plans.preview.stations import PassingItem
from fanfold.plans.reading import StepContext
from fanfold.plans.ready import Ready
from fanfold.plans.steps.kind import Step
from fanfold.plans.steps.map import Map
from fanfold.plans.steps.reduce import Reduce, ReduceEntry
from fanfold.run.forecast import StepPreview
from fanfold.run.sources import as_item
from fanfold.work.document import Node
from fanfold.work.item import Item
from fanfold.work.parts import PartKind
from fanfold.work.picture import Box
from fanfold.work.reader import Count, Text
from fanfold.work.task import Terms


class MapReduce(
    Step, msgspec.Struct, frozen=True, omit_defaults=True, tag="map_reduce", kw_only=True
):
    """For each item a map and a reduce of its own, over the list at `over` (`item.files`, say). With
    `stream` that is what a stage is that starts on parts of the reply before."""

    name: Text = "map_reduce"
    over: Text
    map: Map
    reduce: Reduce
    concurrency: Count = 8
    stream: PartKind | None = None
    waiting: Count = WAITING
    line: int | None = None

    @classmethod
    def read(cls, node: Node, given: Any, reading: StepContext) -> MapReduce:
        """`over` is where the item's list is: `item.files`, `steps.NAME`, `steps.NAME.parts`."""
        reading = msgspec.structs.replace(reading, in_stage=False)
        inner = Map.read(node.child("map"), given.map, reading)
        if inner.shard is not None:
            what = "the parts of an item are asked about one by one; leave `shard` out"
            raise node.child("map").child("shard").bad(what)
        if inner.watch is not None:
            raise node.child("map").child("watch").bad("the parts of an item cannot be watched")
        reduce = Reduce.read(node.child("reduce"), given.reduce, reading)
        root, _, rest = given.over.partition(".")
        if root not in ("item", "steps") or not rest:
            raise node.child("over").bad("`over` is a field such as item.files or steps.NAME")
        return cls(
            name=given.name, over=given.over, concurrency=given.concurrency, line=node.line,
            map=msgspec.structs.replace(inner, name=f"{given.name}.map"),
            reduce=msgspec.structs.replace(reduce, name=f"{given.name}.reduce"),
        )  # fmt: skip

    @classmethod
    def on_parts(cls, stage: Map, given: Any, before: str) -> MapReduce:
        """Of a map that starts on the parts of the reply of the stage `before`."""
        return cls(
            name=stage.name, over=f"steps.{before}", stream=given.stream, waiting=given.waiting,
            map=msgspec.structs.replace(stage, name=f"{stage.name}.map"),
            reduce=Reduce(name=f"{stage.name}.reduce", kind="collect"), line=stage.line,
        )  # fmt: skip

    # ── items ──

    takes_items = True
    gives_replies = True
    asks_about_parts = True
    produced_by = None  # `over` is a list in each item of the flow

    @classmethod
    def starts_anew(cls, given: Any) -> bool:
        return False

    def asks(self) -> Iterator[tuple[str, Asking]]:
        yield self.map.name, self.map
        yield from self.reduce.asks()

    def plain_targets(self) -> Iterator[str]:
        return self.reduce.plain_targets()

    def item_terms(self, ready: Ready) -> list[Terms]:
        whole = Asking(who=self.map.who, concurrency=self.concurrency, revise=0)
        return [ready.terms(whole, self.name)]

    def lists_read(self) -> set[str]:
        root, name, *_ = self.over.split(".")
        return {name} if root == "steps" else set()

    # ── run ──

    def stage(self, ready: Ready) -> Stage:
        return Stage(Prompt(), self.item_terms(ready)[0], None, self._inside(ready))

    def _inside(self, ready: Ready) -> TaskHandler:
        (terms,) = self.map.item_terms(ready)
        into_one = self.reduce.into_one(ready)
        prompt = ready.prompt(self.map)
        if self.stream is not None:
            over = reply_parts(self.stream)
            inner = NestedMapReduce(over, prompt, terms, self.reduce.as_reducing(ready))
            return OnParts(inner, self.stream, self.waiting)
        return map_reduce_inside(_list_at(self.over), prompt, terms, into_one, self.reduce.fan_in)

    async def carry(self, state: PlanState) -> None:
        await state.through_stages([self.stage(state.ready)], "streaming")

    # ── preview and picture ──

    def station(self, context: PreviewContext, *, watched: bool = False) -> MapReduceStation:
        return MapReduceStation(context, self)

    def preview(self, estimate: Estimate) -> PartPreview:
        return estimate.through([self.station(estimate.context)])

    def draw(self, id: str, sketch: Sketch) -> Box:
        at_once = f"{self.concurrency} of them at once"
        lines = joined([f"for each item, over {self.over}", at_once])
        if self.stream is not None:
            early = f"starts on its {self.stream} as they come, at most {self.waiting} ahead"
            lines = (*lines, early)
        fold = self.reduce.box("reduce", "reduce", sketch)
        inside = rows(lanes("ask", None), [gate_box(self.map)], [fold])
        heading = title(self.name, "map_reduce")
        return Box(id, heading, (*lines, *self.map.described(sketch)), inside=inside)

    draw_stage = draw


MapReduce.written = written(
    MapReduce, "a map_reduce", "stream", "waiting", map=Map.written, reduce=ReduceEntry
)


def _list_at(path: str) -> Callable[[dict[str, Any]], list[Any]]:
    """`item.files` or `steps.NAME.parts`: the list there, in an item as a stage receives it."""
    root, *rest = path.split(".")
    names = ["steps", *rest] if root == "steps" else rest

    def found(data: dict[str, Any]) -> Any:
        value: Any = data
        for name in names:
            if not isinstance(value, dict) or name not in value:
                raise FanfoldError(f"there is no {path}")
            value = value[name]
        return value

    return found


class MapReduceStation:
    """In a preview: for each item a map over a list of its own, and a reduce."""

    def __init__(self, context: PreviewContext, step: MapReduce) -> None:
        self._context, self._step = context, step
        self._map = step.map.station(context, watched=True)
        self._reduce = step.reduce.station(context, 0) if step.reduce.is_asked else None
        self._made: dict[int, StandIn] = {}
        self._unknown = False

    @property
    def size(self) -> Size:
        return self._map.size if self._reduce is None else self._reduce.size

    def take(self, passing: Sequence[PassingItem], span: range) -> list[PassingItem]:
        return [one.onward(self._step.name, self._value(one)) for one in passing]

    def _value(self, one: PassingItem) -> Any:
        found = _at(self._step.over, one.seen().view())
        if isinstance(found, StandIn) or not isinstance(found, list):
            self._unknown = self._unknown or isinstance(found, StandIn)
            return self._stand_in(1)
        parts = [as_item(row, at) for at, row in enumerate(found)]
        passing = [
            PassingItem(at, Item(f"{one.item.id}/{part.id}", part.data))
            for at, part in enumerate(parts)
        ]
        span = range(len(parts))
        passed = self._map.take(passing, span)
        if self._reduce is None:
            return self._stand_in(len(parts))
        self._reduce.again(len(parts))
        self._reduce.take(passed, span)
        return self._reduce.result or self._stand_in(1)

    def _stand_in(self, parts: int) -> StandIn:
        if parts not in self._made:
            size = self.size if self._reduce else self._step.reduce.result_size(self.size, parts)
            self._made[parts] = self._context.stand_ins.make(size)
        return self._made[parts]

    def rows(self, times: float | None) -> list[StepPreview]:
        """Lists that replies are to bring are not there yet."""
        known = None if self._unknown else times
        more = [] if self._reduce is None else self._reduce.rows(known)
        return [*self._map.rows(known), *more]


def _at(path: str, view: dict[str, Any]) -> Any:
    """What is at `item.files` or `steps.NAME.parts`; None when there is nothing."""
    root, *names = path.split(".")
    value: Any = view.get("steps", {}) if root == "steps" else view
    for name in names:
        if isinstance(value, StandIn):
            return value
        value = value.get(name) if isinstance(value, dict) else None
    return value
