"""`resolve`: which items are about one thing? Similar pairs are asked about, and the answers joined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from fanfold.patterns.pairs import PairSource, pair_prompt, pair_terms
from fanfold.patterns.resolve import (
    Naming,
    ResolvingWay,
    named_entity,
    resolve_batch,
    similar_pairs,
)
from fanfold.plans.asking import Asking, written
from fanfold.plans.carry import PlanState
from fanfold.plans.drawing.describe import joined, many
from fanfold.plans.drawing.sketch import Sketch, gate_box, lanes, rows, title
from fanfold.plans.preview.compared import ComparedStation
from fanfold.plans.preview.estimate import Estimate, PartPreview
from fanfold.plans.reading import StepContext
from fanfold.plans.ready import Ready
from fanfold.plans.steps.kind import Comparing, Step
from fanfold.run.forecast import Note
from fanfold.work.blocking import Block, Blocked, CandidatePair, item_names
from fanfold.work.check import at
from fanfold.work.cluster import Closure
from fanfold.work.document import Node
from fanfold.work.item import Item
from fanfold.work.picture import Box
from fanfold.work.reader import Count, Stated, Text, Texts, stated_in
from fanfold.work.task import Who

_RECORDS = ("item", "items", "steps", "task")


class BlockFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which pairs are asked about."""

    called = "a block"
    on: Stated[Texts] = UNSET
    key: Stated[Text] = UNSET
    vector: Stated[Text] = UNSET
    neighbours: Stated[Count] = UNSET
    at_most: Stated[Count] = UNSET


def read_block(node: Node, given: Any, reading: StepContext) -> Block:
    """`reading` knows the replies that a field may be of."""
    if given is UNSET:
        return Block()
    node = node.child("block")
    said = stated_in(given)
    for name in ("key", "vector"):
        if name in said:
            reading.item_field(node.child(name))
    if "on" in said:
        on = node.child("on")
        fields = [on.child(n) for n in range(len(on.value))] if isinstance(on.value, list) else [on]
        said["on"] = tuple(reading.item_field(field) for field in fields)
    return at(node, lambda: Block(**said))


def describe_block(block: Block) -> str:
    by = f"near by {block.vector}" if block.vector else "shared words and n-grams"
    on = f" in {', '.join(block.on)}" if block.on and not block.vector else ""
    key = f", same {block.key}" if block.key else ""
    return f"{by}{on}{key} · {many(block.neighbours, 'neighbour')}"


class CanonicalName(Asking, frozen=True, omit_defaults=True, kw_only=True):
    """How an entity is called: by what most of its records say in `field`; with a prompt or a member,
    one is asked about each entity of several records."""

    field: Text | None = None

    @property
    def is_asked(self) -> bool:
        return self.prompt is not None or self.who != Who()


class Resolve(
    Comparing, Asking, Step, frozen=True, omit_defaults=True, tag="resolve", kw_only=True
):
    """Find the items that are about one thing."""

    compares = "pairs of items"
    name: Text = "resolve"
    block: Block = Block()
    closure: Closure = "strict"
    canonical: CanonicalName | None = None
    over: Text | None = None

    @classmethod
    def read(cls, node: Node, given: Any, reading: StepContext) -> Resolve:
        made = reading.asking(node, given)
        made["prompt"] = pair_prompt(made.get("prompt"), "a", "b")
        if given.canonical is not UNSET:
            child = node.child("canonical")
            field = given.canonical.field
            if field is not None:
                reading.item_field(child.child("field"))
            own = reading.asking(child, given.canonical)
            made["canonical"] = CanonicalName(**own, field=field)
        block = read_block(node, given.block, reading)
        return cls(**made, name=given.name, block=block, closure=given.closure)

    # ── items ──

    def asks(self) -> Iterator[tuple[str, Asking]]:
        yield f"{self.name}.pairs", self
        if self.canonical is not None and self.canonical.is_asked:
            yield f"{self.name}.canonical", self.canonical

    def item_fields(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        block = self.block
        for names in (block.on, (block.key,), (block.vector,)):
            yield "block", item_names(*names)
        if self.canonical is not None:
            yield "canonical", item_names(self.canonical.field)

    # ── run ──

    def way(self, ready: Ready) -> ResolvingWay:
        (items,) = self.item_terms(ready)
        terms = pair_terms(ready.terms(self, f"{self.name}.pairs"))
        prompt = ready.prompt(self, _RECORDS)
        return ResolvingWay(items, terms, prompt, self.block, self.closure, self._naming(ready))

    def _naming(self, ready: Ready) -> Naming:
        name = self.canonical
        if name is None:
            return Naming(self.block.on[0] if len(self.block.on) == 1 else None)
        if not name.is_asked:
            return Naming(name.field)
        return Naming(name.field, ready.prompt(name), ready.terms(name, f"{self.name}.canonical"))

    async def carry(self, state: PlanState) -> None:
        way = self.way(state.ready)
        value = await resolve_batch(state.run, state.items(), way, govern=state.unforeseen)
        state.went_through([way.items])
        many = {"entities": len(value["entities"]), "pairs asked": value["asked"],
                "conflicts": len(value["conflicts"]), "bridges": len(value["bridges"])}  # fmt: skip
        state.say(f"{self.name}: {', '.join(_many(n, what) for what, n in many.items())}")
        state.result(self, value)

    # ── preview and picture ──

    def preview(self, estimate: Estimate) -> PartPreview:
        way, context = self.way(estimate.context.ready), estimate.context
        station = ComparedStation(context, self.name, self, way.terms, way.prompt)
        note_bound(estimate, self.name, self.block, estimate.sample.size)

        def pairs(items: Sequence[Item], known: bool) -> Iterable[Item]:
            source = (
                similar_pairs(items, self.block)[1] if known else neighbouring(items, self.block)
            )
            return (item for _, item in source.walk())

        context.record(self.name, station.size)
        # whatever it goes by: records that are equal in all fields are one
        stations = [station.over(pairs, None), *self._preview_names(estimate, way)]
        return estimate.through(stations)

    def _preview_names(self, estimate: Estimate, way: ResolvingWay) -> list[ComparedStation]:
        """There are at most half as many entities of several records as there are records."""
        naming = way.naming
        if self.canonical is None or naming.prompt is None or naming.terms is None:
            return []
        station = ComparedStation(
            estimate.context, self.name, self.canonical, naming.terms, naming.prompt
        )

        def named(items: Sequence[Item], known: bool) -> Iterable[Item]:
            return (
                named_entity(items, (n, n + 1), way.naming.field)
                for n in range(0, len(items) - 1, 2)
            )

        return [station.over(named, bound=True)]

    def draw(self, id: str, sketch: Sketch) -> Box:
        merged = "no merge against an answer" if self.closure == "strict" else "all that is linked"
        then = [[Box("closure", f"closure: {self.closure}", (merged,), "fold")]]
        if self.canonical is not None and self.canonical.is_asked:
            then.append([sketch.leaf("canonical", "canonical name", self.canonical)])
        inside = rows(lanes("pair", None), [gate_box(self)], *then)
        over = joined([f"over {self.over}" if self.over else ""])
        lines = (*sketch.asked(self), *over, describe_block(self.block))
        return Box(id, title(self.name, "resolve"), lines, inside=inside)


def note_bound(estimate: Estimate, name: str, block: Block, records: int | None) -> None:
    """How many pairs there are at most is said also where they can be counted."""
    if records is not None and estimate.known:
        what = (
            f"{{}}: at most {block.bound(records):,} pairs of {records:,} records are asked about"
        )
        estimate.notes.append(Note(what, name))


def neighbouring(items: Sequence[Item], block: Block) -> PairSource:
    """As many pairs as there can be, of items whose fields are not known yet."""
    many = len(items)
    pairs = [
        CandidatePair(a, b, 0.0)
        for a in range(many) for b in range(a + 1, min(many, a + 1 + block.neighbours))
    ]  # fmt: skip
    return PairSource(items, items, Blocked(pairs[: block.at_most], 0), ("a", "b"))


_CANONICAL = written(CanonicalName, "a canonical name")
Resolve.written = written(
    Resolve, "a resolve", block=(BlockFields, UNSET), canonical=(_CANONICAL, UNSET),
)  # fmt: skip


def _many(n: int, what: str) -> str:
    """`1 pair asked`, `2 entities`."""
    one = {"entities": "entity", "pairs asked": "pair asked"}.get(what, what[:-1])
    return f"{n:,} {one if n == 1 else what}"
