"""`rank`: the items in order, by comparing a few of them at a time in the rounds of a tournament."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any

from msgspec import Meta

from fanfold.patterns.rank import (
    RankingWay,
    check_window,
    compared_item,
    rank_batch,
    rank_prompt,
    rank_terms,
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
from fanfold.work.check import at
from fanfold.work.document import Node
from fanfold.work.item import Item
from fanfold.work.picture import Box
from fanfold.work.ranking import planned_windows
from fanfold.work.reader import Count, Text, Whole


class Rank(Comparing, Asking, Step, frozen=True, omit_defaults=True, tag="rank", kw_only=True):
    """Put the items in order, the best first."""

    compares = "several items at a time"
    name: Text = "rank"
    window: Annotated[int, Meta(ge=2, description="So many items in one ask.")] = 2
    rounds: Count | None = None
    seed: Whole = 0
    over: Text | None = None

    @classmethod
    def read(cls, node: Node, given: Any, reading: StepContext) -> Rank:
        made = reading.asking(node, given)
        if "prompt" in made:
            made["prompt"] = rank_prompt(made["prompt"])
        if "window" in node.value:
            at(node.child("window"), lambda: check_window(given.window))
        return cls(
            **made, name=given.name, window=given.window, rounds=given.rounds, seed=given.seed
        )

    # ── items ──

    def asks(self) -> Iterator[tuple[str, Asking]]:
        yield f"{self.name}.compare", self

    # ── run ──

    def way(self, ready: Ready) -> RankingWay:
        (items,) = self.item_terms(ready)
        terms = rank_terms(ready.terms(self, f"{self.name}.compare"))
        return RankingWay(items, terms, ready.prompt(self), self.window, self.rounds, self.seed)

    async def carry(self, state: PlanState) -> None:
        way = self.way(state.ready)
        value = await rank_batch(state.run, state.items(), way, govern=state.unforeseen)
        state.went_through([way.items])
        state.result(self, value)

    # ── preview and picture ──

    def preview(self, estimate: Estimate) -> PartPreview:
        way, context = self.way(estimate.context.ready), estimate.context
        station = ComparedStation(context, self.name, self, way.terms, way.prompt)

        def compared(items: Sequence[Item], known: bool) -> Iterable[Item]:
            """Who meets whom from the second round on is not known, but how many asks there are."""
            planned = planned_windows(len(items), self.window, way.rounds_of(len(items)))
            return (compared_item(items, one, f"{n}.1") for n, one in enumerate(planned))

        context.record(self.name, station.size)
        return estimate.through([station.over(compared)])

    def draw(self, id: str, sketch: Sketch) -> Box:
        at_once = "pairs" if self.window == 2 else f"windows of {self.window}"
        rounds = many(self.rounds, "round") if self.rounds else "rounds by the number of items"
        inside = rows(
            lanes("comparison", None), [gate_box(self)], [Box("order", "order", (), "fold")]
        )
        over = f"over {self.over}" if self.over else ""
        lines = (*sketch.asked(self), *joined([over, at_once, rounds]))
        return Box(id, title(self.name, "rank"), lines, inside=inside)


Rank.written = written(Rank, "a rank")
