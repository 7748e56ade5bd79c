"""`map`: ask once for each item, or for each shard of items."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta

from fanfold.patterns.map_reduce import fold_batch, map_batch
from fanfold.patterns.pipeline import Stage
from fanfold.patterns.reduce import Reducing
from fanfold.patterns.streamed import WAITING
from fanfold.patterns.watching import watched
from fanfold.plans.asking import Asking, keep_fields, written
from fanfold.plans.carry import PlanState
from fanfold.plans.drawing.describe import gate_line, joined
from fanfold.plans.drawing.sketch import Sketch, gate_box, lanes, rows, title
from fanfold.plans.preview.asks import PreviewContext
from fanfold.plans.preview.estimate import Estimate, PartPreview
from fanfold.plans.preview.stations import MapStation
from fanfold.plans.preview.watch import watched_station
from fanfold.plans.reading import StepContext
from fanfold.plans.ready import Ready
from fanfold.plans.steps.kind import Step
from fanfold.plans.steps.reduce import Reduce
from fanfold.plans.watch import check_watch, ready_watch, watch_asks
from fanfold.work.batch import SHARD_AND_BATCH
from fanfold.work.blocking import item_names
from fanfold.work.document import Node
from fanfold.work.features import DERIVED
from fanfold.work.parts import PartKind
from fanfold.work.picture import Box
from fanfold.work.reader import Count, Text, Word
from fanfold.work.routed import Route, read_route
from fanfold.work.shard import ShardSize
from fanfold.work.task import Terms, Who
from fanfold.work.watch import WatchFields

RouteField = Annotated[
    Route | Word,
    Meta(
        description="Who answers goes by the item: {by, to, else}, {rules, else}, or learned.",
        extra={"expected": "a mapping such as {by: …, to: …, else: …}, or the text learned"},
    ),
]


class Map(Asking, Step, frozen=True, omit_defaults=True, tag="map", kw_only=True):
    """Ask once per item (or shard).

    `over` is a produced list, `steps.NAME`: the result of that step, or the lists that its replies
    are. `command` is a member of the step's own.
    """

    name: Text = "map"
    shard: ShardSize | None = None
    keep: Text | None = None
    over: Text | None = None
    command: dict[str, Any] | None = None
    route: Route | None = None
    watch: WatchFields | None = None

    @classmethod
    def read(cls, node: Node, given: Any, reading: StepContext) -> Map:
        made = reading.asking(node, given)
        check_watch(node, given.watch, reading)
        for field in ("stream", "waiting"):
            if field in node.value and not reading.in_stage:
                what = f"`{field}` is for a stage of a pipeline, after another one"
                raise node.child(field).bad(what)
        if "prompt" not in made and reading.task is not None:
            shown = "File: {{ item.path }}\n\n" if reading.lists_files else ""
            made["prompt"] = f"{_literally(reading.task.strip())}\n\n{shown}{{{{ item.text }}}}"
        if given.keep is not None:
            made["keep"] = reading.keep(node.child("keep"))
        for field in ("hash", "range") if given.shard is not None else ():
            if getattr(given.shard, field):
                reading.item_field(node.child("shard").child(field))
        if given.shard is not None and (made["inputs"] or made["outputs"]):
            what = "`shard` asks about several items at once; files go with one"
            raise node.child("shard").bad(what)
        if given.shard is not None and "batch" in made:
            raise node.child("batch").bad(SHARD_AND_BATCH)
        if given.route is not UNSET:
            made |= _routed(node, made.get("who", Who()), reading)
        own = {field: getattr(given, field) for field in ("name", "shard", "watch")}
        return cls(**made, **own)

    def settled(self) -> Map:
        """A command asks the member that it is: that of its own name."""
        if self.command is None:
            return self
        return msgspec.structs.replace(self, who=Who(members=(self.name,)))

    def item_fields(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        if self.shard is not None:
            yield "shard", item_names(self.shard.hash, self.shard.range)
        if self.route is not None:
            fields = [item_names(one) for one in self.route.fields if one not in DERIVED]
            yield from (("route", one) for one in fields)
        yield from keep_fields(self.keep)

    # ── items ──

    takes_items = True
    gives_replies = True

    def asks(self) -> Iterator[tuple[str, Asking]]:
        yield self.name, self
        yield from watch_asks(self, self.name, self.watch)

    def item_asks(self) -> Iterator[tuple[str, Asking | str]]:
        yield self.name, self

    def item_terms(self, ready: Ready) -> list[Terms]:
        terms = ready.terms(self, self.name, self.keep)
        terms = terms if self.route is None else msgspec.structs.replace(terms, route=self.route)
        if self.shard is not None:  # `--batch` is not for it: a line of a batch is about one item
            terms = msgspec.structs.replace(terms, batch=None)
        return [watched(terms, ready_watch(ready, self.name, self.watch), None)]

    @property
    def divides(self) -> bool:
        by_all = self.shard is not None and (self.shard.divides or self.shard.hash is not None)
        return not (self.batch or self.tools or self.watch or by_all)

    # ── run ──

    def stage(self, ready: Ready) -> Stage:
        return Stage(ready.prompt(self), self.item_terms(ready)[0], self.shard)

    async def carry(self, state: PlanState) -> None:
        """A reduce in a tree that follows grows while the map goes on."""
        ready, (terms,) = state.ready, self.item_terms(state.ready)
        prompt, shard = ready.prompt(self), self.shard
        await state.govern_items(terms, prompt)
        following = state.following
        reduction = following.as_reducing(ready) if isinstance(following, Reduce) else Reducing()
        await state.govern_reduce(reduction.how)
        if self.divides and state.is_divided(self):
            unit = 1 if shard is None else shard.items or 1
            async with state.dividing(self, terms, unit):
                await map_batch(state.run, state.items(), terms, prompt, shard)
            state.went_through([terms])
            return
        if not isinstance(following, Reduce) or reduction.fan_in is None:
            await map_batch(state.run, state.items(), terms, prompt, shard)
            state.went_through([terms])
            return
        folding = fold_batch(state.run, state.items(), terms, prompt, shard, reduction)
        value = await state.or_flag(following.name, folding)
        state.went_through([terms])
        state.result(following, value)
        state.skip_following()

    # ── preview ──

    def station(self, context: PreviewContext, *, watched: bool = False) -> MapStation:
        kind = "map" if self.command is None else "command"
        mapped = MapStation(context, self, kind, self.item_terms(context.ready)[0], watched=watched)
        return mapped if self.shard is None else mapped.in_shards(self.shard, *context.sample)

    def preview(self, estimate: Estimate) -> PartPreview:
        station = self.station(estimate.context, watched=self.over is not None)
        return estimate.through([watched_station(estimate.context, self, station)])

    # ── picture ──

    def draw(self, id: str, sketch: Sketch) -> Box:
        fan = lanes("ask", self._how_many(sketch.items))
        inside = rows(fan, [gate_box(self)])
        return Box(id, title(self.name, "map"), self.described(sketch), inside=inside)

    def draw_stage(self, id: str, sketch: Sketch) -> Box:
        """An item passes it as one ask, so no lanes are drawn."""
        return Box(id, title(self.name, "map"), (*self.described(sketch), *gate_line(self)))

    def described(self, sketch: Sketch) -> tuple[str, ...]:
        who, *options = sketch.asked(self)
        who = who if self.route is None else self.route.describe()
        if self.command is not None:
            who = f"command {' '.join(map(str, self.command.get('cmd', ())))}"
        shard = "" if self.shard is None else self.shard.describe()
        watch = "" if self.watch is None else self.watch.describe()
        keep = f"keep {self.keep}" if self.keep else ""
        return (who, *options, *joined([shard, keep, watch]))

    def _how_many(self, items: int | None) -> int | None:
        """Asks at most."""
        if self.shard is None or items is None:
            return items
        if self.shard.most is not None:
            return min(items, self.shard.most)
        size = None if self.shard.divides else self.shard.items
        return None if size is None else math.ceil(items / size)


def _routed(node: Node, who: Who, reading: StepContext) -> dict[str, Any]:
    """A route that was learned may go with `needs`: then all whom it names are good at it."""
    learned = isinstance(node.value["route"], str)
    for field in ("member", "members", "agent", "needs", "shard"):
        if field in node.value and not (learned and field == "needs"):
            raise node.child(field).bad(f"state `route` or `{field}`, not both")
    route = read_route(node.child("route"), reading.folder)
    if not learned and route.by is not UNSET:
        reading.item_field(node.child("route").child("by"))
    made = Who(members=route.members, needs=who.needs, fallback=who.fallback)
    return {"route": route, "who": made}


def _literally(words: str) -> str:
    """A text that a template gives back unchanged, braces and all."""
    return "{% raw %}" + words + "{% endraw %}" if "{" in words else words


Map.written = written(
    Map, "a map", "command", route=(RouteField, UNSET),
    stream=(Annotated[PartKind, Meta(description="Start on parts of the reply before.")], UNSET),
    waiting=(Count, WAITING),
)  # fmt: skip
