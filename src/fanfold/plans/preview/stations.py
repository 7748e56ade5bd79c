"""What items pass in a preview: maps and trees of reduces; and several asks as one line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, Protocol

import msgspec

from fanfold.errors import FanfoldError
from fanfold.patterns.asked_reduce import AskedReduce, SourcedPart, ask_about_parts
from fanfold.patterns.prompt import make_task
from fanfold.plans.asking import Asking
from fanfold.plans.preview.answers import AnswerEstimate, judges_of, rows_of
from fanfold.plans.preview.asks import AskEstimate, PreviewContext
from fanfold.plans.preview.standin import Size
from fanfold.run.forecast import StepPreview, at_once
from fanfold.run.remaining import RemainingAsks
from fanfold.work.ask import Ask
from fanfold.work.item import Item
from fanfold.work.shard import Filling, ShardSize
from fanfold.work.split import inputs_together, shard_ask
from fanfold.work.task import Place, Task, Terms
from fanfold.work.tree import ReduceTree


class PassingItem(msgspec.Struct, frozen=True):
    """An item with its replies so far. `at`: which of the measured ones."""

    at: int
    item: Item
    steps: dict[str, Any] = {}

    def seen(self) -> Item:
        """As the next step sees it."""
        if not self.steps:
            return self.item
        return Item(self.item.id, {**self.item.view(), "steps": self.steps})

    def onward(self, step: str, value: Any) -> PassingItem:
        return PassingItem(self.at, self.item, {**self.steps, step: value})


class Station(Protocol):
    """`take` what comes, a few dozen at a time, and give what goes on; `rows` when all have passed.

    `span` are the numbers that came in, of which some may have left before. `times`: so many items
    are represented by each that was measured; None: no item is known.
    """

    def take(self, passing: Sequence[PassingItem], span: range) -> list[PassingItem]: ...

    def rows(self, times: float | None) -> list[StepPreview]: ...

    @property
    def size(self) -> Size: ...


# ── stations ─────────────────────────────────────────────────────────────────────────────────


class MapStation:
    """One ask for each item, or for a shard of them."""

    def __init__(
        self,
        context: PreviewContext,
        step: Asking,
        kind: str,
        terms: Terms,
        *,
        watched: bool = False,
    ) -> None:
        self._name, self._watched = terms.step, watched
        self._kind, self._terms = kind, terms
        judges = judges_of(context, step)
        self._estimate = AskEstimate(context, terms, context.ready.prompt(step), judges=judges)
        self._tasks = 0
        self._filling: Filling[tuple[Task, RemainingAsks]] | None = None

    def in_shards(self, size: ShardSize, many: int, of: int) -> MapStation:
        """These go into one ask. Where only `many` of them are measured, there are fewer shards."""
        if size.count is not None and of:
            size = msgspec.structs.replace(size, count=max(1, round(size.count * many / of)))
        self._filling = Filling(size, many, itemgetter(0))
        return self

    @property
    def size(self) -> Size:
        return self._estimate.size

    def take(self, passing: Sequence[PassingItem], span: range) -> list[PassingItem]:
        self._tasks += len(passing)
        estimated = self._estimate
        tasks = [
            make_task(estimated.prompt, one.seen(), self._terms, Place(0, one.at))
            for one in passing
        ]
        lefts = estimated.left(tasks)
        for task, left in zip(tasks, lefts, strict=True):
            self._count(task, left)
        values = [estimated.value(left) for left in lefts]
        found = zip(passing, values, strict=True)
        return [one.onward(self._name, value) for one, value in found if value is not None]

    def _count(self, task: Task, left: RemainingAsks) -> None:
        if self._filling is None or not left.asks:
            return self._estimate.count(task, left)
        self._estimate.count_judges(task, left)
        try:
            full = self._filling.add((task, left))
        except FanfoldError:  # it will fail, or a reply that is not there yet says where it belongs
            return self._estimate.count(task, left)
        for shard in full:
            self._count_shard(shard)
        return None

    def _count_shard(self, shard: Sequence[tuple[Task, RemainingAsks]]) -> None:
        if len(shard) == 1:
            return self._estimate.count(*shard[0])
        asks = [(task.id, task.ask) for task, _ in shard]
        items = tuple(item for _, ask in asks for item in ask.items)
        if all(one.traits.kind == "embedding" for one in self._estimate.cast.members):
            together = inputs_together(asks)
        else:
            together = shard_ask(asks, self._estimate.prompt.rendered_together(items))
        return self._estimate.count_shard([left for _, left in shard], together)

    def rows(self, times: float | None) -> list[StepPreview]:
        for shard in () if self._filling is None else self._filling.rest():
            self._count_shard(shard)
        return rows_of(
            self._name, self._kind, self._estimate, self._tasks, times, watched=self._watched
        )


class ReduceStation:
    """An asked reduce: a tree of asks over what comes, which goes on as it is."""

    def __init__(
        self, name: str, kind: str, asked: AskedReduce, answers: AnswerEstimate, size: int
    ) -> None:
        self._name, self._kind, self.asked, self.answers = name, kind, asked, answers
        self._tree: ReduceTree[SourcedPart] = ReduceTree(size, asked.fan_in)
        self._nodes = 0

    @property
    def size(self) -> Size:
        return self.answers.size

    def take(self, passing: Sequence[PassingItem], span: range) -> list[PassingItem]:
        here = {one.at: one for one in passing}
        for at in span:
            one = here.get(at)
            value = None if one is None else list(one.steps.values())[-1]
            self.land(at, None if one is None else SourcedPart(one.item.id, (one.item.id,), value))
        return list(passing)

    def land(self, at: int, part: SourcedPart | None) -> None:
        node = self._tree.land(at, part)
        while node is not None:
            node = self._tree.reduced(node, self.made(node.name, node.parts))

    def again(self, size: int) -> None:
        """A tree of its own for each item."""
        self._tree = ReduceTree(size, self.asked.fan_in)

    @property
    def result(self) -> Any:
        return None if self._tree.result is None else self._tree.result.value

    def made(self, name: str, parts: Sequence[SourcedPart]) -> SourcedPart | None:
        """One of these parts, by one ask."""
        self._nodes += 1
        try:
            task = Task(name, ask_about_parts(self.asked, parts), self.asked.terms)
        except FanfoldError as error:
            given = Item(name, {"steps": {n: part.value for n, part in enumerate(parts)}})
            task = Task(name, Ask(items=(given,)), self.asked.terms, flaw=str(error))
        (value,) = self.answers.take([task])
        if value is None:
            return None
        return SourcedPart(
            name, tuple(dict.fromkeys(id for part in parts for id in part.ids)), value
        )

    def rows(self, times: float | None) -> list[StepPreview]:
        return rows_of(self._name, self._kind, self.answers, self._nodes, times)


# ── several at once ──────────────────────────────────────────────────────────────────────────


def sum_of(sizes: Iterable[Size]) -> Size:
    found = list(sizes)
    return Size(sum(one.typical for one in found), sum(one.most for one in found))


def as_one(name: str, kind: str, estimates: Sequence[AskEstimate], tasks: int) -> list[StepPreview]:
    """One line for several that are asked at once, and those who judge their replies."""
    rows = [line for estimated in estimates for line in rows_of(name, kind, estimated, tasks, 1)]
    own = [line for line in rows if line.kind == kind]
    who = tuple(dict.fromkeys(id for line in own for id in line.who))
    made = at_once(line.forecast for line in own)
    first = StepPreview(name=name, kind=kind, who=who, tasks=tasks, forecast=made)
    return [first, *(line for line in rows if line.kind != kind)]


def task_about(estimated: AskEstimate, made: Item, sample: int = 0) -> Task:
    try:
        ask = msgspec.structs.replace(estimated.prompt.about(made), sample=sample)
        return Task(made.id, ask, estimated.terms)
    except FanfoldError as error:
        return Task(made.id, Ask(items=(made,)), estimated.terms, flaw=str(error))
