"""`join`: which items are the same as which of a second input? Similar pairs are asked about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import UNSET

from fanfold.patterns.join import SIDES, JoiningWay, join_batch, pairs_of_both, right_records
from fanfold.patterns.pairs import PairSource, pair_prompt, pair_terms
from fanfold.plans.asking import Asking, written
from fanfold.plans.carry import PlanState
from fanfold.plans.drawing.describe import describe_input
from fanfold.plans.drawing.sketch import Sketch, gate_box, lanes, rows, title
from fanfold.plans.header import Input, InputFields
from fanfold.plans.inputs import is_stream, open_input, read_input
from fanfold.plans.preview.compared import ComparedStation
from fanfold.plans.preview.estimate import Estimate, PartPreview
from fanfold.plans.reading import StepContext
from fanfold.plans.ready import Ready
from fanfold.plans.steps.kind import Comparing, Step
from fanfold.plans.steps.resolve import BlockFields, describe_block, note_bound, read_block
from fanfold.work.blocking import Block, Blocked, CandidatePair, item_names
from fanfold.work.document import Node
from fanfold.work.item import Item
from fanfold.work.picture import Box
from fanfold.work.reader import Text

_RECORDS = ("item", "items", "steps", "task")
_ONCE = ("command", "http")


class Join(Comparing, Asking, Step, frozen=True, omit_defaults=True, tag="join", kw_only=True):
    """Find the records of `right` that are the same as an item."""

    compares = "pairs of records"
    name: Text = "join"
    right: Input
    block: Block = Block()
    over: Text | None = None

    @classmethod
    def read(cls, node: Node, given: Any, reading: StepContext) -> Join:
        made = reading.asking(node, given)
        made["prompt"] = pair_prompt(made.get("prompt"), *SIDES)
        right = read_input(node.child("right"), given.right, reading.vars)
        if right.kind in _ONCE or is_stream(right):
            raise node.child("right").bad(
                "`right` must be files or a list, which can be read again"
            )
        return cls(
            **made, name=given.name, right=right, block=read_block(node, given.block, reading)
        )

    # ── items ──

    def asks(self) -> Iterator[tuple[str, Asking]]:
        yield f"{self.name}.pairs", self

    def item_fields(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        block = self.block
        return (
            ("block", item_names(*names)) for names in (block.on, (block.key,), (block.vector,))
        )

    # ── run ──

    def way(self, ready: Ready) -> JoiningWay:
        (items,) = self.item_terms(ready)
        terms = pair_terms(ready.terms(self, f"{self.name}.pairs"))
        return JoiningWay(items, terms, ready.prompt(self, _RECORDS), self.block)

    def records(self, ready: Ready) -> list[Item]:
        return right_records(open_input(self.right, ready.plan.folder))

    async def carry(self, state: PlanState) -> None:
        way, right = self.way(state.ready), self.records(state.ready)
        value = await join_batch(state.run, state.items(), right, way, govern=state.unforeseen)
        state.went_through([way.items])
        state.result(self, value)

    # ── preview and picture ──

    def preview(self, estimate: Estimate) -> PartPreview:
        context = estimate.context
        way, right = self.way(context.ready), self.records(context.ready)
        station = ComparedStation(context, self.name, self, way.terms, way.prompt)
        size = estimate.sample.size
        note_bound(estimate, self.name, self.block, None if size is None else size + len(right))

        def pairs(items: Sequence[Item], known: bool) -> Iterable[Item]:
            source = pairs_of_both(items, right, self.block) if known else self._bound(items, right)
            return (item for _, item in source.walk())

        context.record(self.name, station.size)
        return estimate.through([station.over(pairs, self.block.fields or None)])

    def _bound(self, left: Sequence[Item], right: Sequence[Item]) -> PairSource:
        """As many pairs as there can be, of items whose fields are not known yet."""
        most = min(self.block.bound(len(left) + len(right)), len(left) * len(right))
        pairs = [CandidatePair(n % len(left), n % len(right), 0.0) for n in range(most)]
        return PairSource(left, right, Blocked(pairs, 0), SIDES)

    def draw(self, id: str, sketch: Sketch) -> Box:
        inside = rows(lanes("pair", None), [gate_box(self)])
        lines = (*sketch.asked(self), *describe_input(self.right, None), describe_block(self.block))
        return Box(id, title(self.name, "join"), lines, inside=inside)


Join.written = written(Join, "a join", right=InputFields, block=(BlockFields, UNSET))
