"""Where items would pass in a plan that is only looked at: maps, votes, trees of reduces."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any, Protocol

import msgspec

from fanfold.errors import FanfoldError
from fanfold.patterns.asked_reduce import AskedReduce, SourcedPart, ask_about_parts
from fanfold.patterns.prompt import make_task
from fanfold.plans.plan import Conduct, Ensemble, Map, MapReduce, Reduce, Scatter
from fanfold.plans.preview.answers import Answers, Votes, judges_of, rows_of
from fanfold.plans.preview.askers import Asker, Desk
from fanfold.plans.preview.standin import Size, StandIn
from fanfold.run.forecast import StepPreview
from fanfold.run.left import Left
from fanfold.run.sources import as_item
from fanfold.work.ask import Ask
from fanfold.work.item import Item
from fanfold.work.split import Filling, estimate_tokens, shard_ask
from fanfold.work.task import Task
from fanfold.work.tree import ReduceTree


class Passing(msgspec.Struct, frozen=True):
    """An item on its way, with what it was answered so far. `at`: which of the measured ones."""

    at: int
    item: Item
    steps: dict[str, Any] = {}

    def seen(self) -> Item:
        """As the next step sees it."""
        if not self.steps:
            return self.item
        return Item(self.item.id, {**self.item.view(), "steps": self.steps})

    def onward(self, step: str, value: Any) -> Passing:
        return Passing(self.at, self.item, {**self.steps, step: value})


class Station(Protocol):
    """`take` what comes, a few dozen at a time, and give what goes on; `rows` when all have passed.

    `span` are the numbers that came in, of which some may have left before. `times`: so many items
    stand behind each that was measured; None: no item is known.
    """

    def take(self, passing: Sequence[Passing], span: range) -> list[Passing]: ...

    def rows(self, times: float | None) -> list[StepPreview]: ...

    @property
    def size(self) -> Size: ...


# ── stations ─────────────────────────────────────────────────────────────────────────────────


class Mapped:
    """One ask for each item, or for a shard of them."""

    def __init__(self, desk: Desk, step: Map | Conduct | Scatter, *, watched: bool = False) -> None:
        self._name, self._watched = step.name, watched
        keep, shard, own = None, None, None
        if isinstance(step, Map):
            keep, shard, own = step.keep, step.shard, step.command
        self._kind = type(step).__name__.lower() if own is None else "command"
        self._terms = desk.ready.terms(step, step.name, keep)
        judges = judges_of(desk, step)
        self._asker = Asker(desk, self._terms, desk.ready.prompt(step), judges=judges)
        self._tasks = 0
        self._filling: Filling[tuple[Task, Left]] | None = None
        if shard is not None:
            self._filling = Filling(shard.items, shard.tokens, lambda one: _size(one[0].ask))

    @property
    def size(self) -> Size:
        return self._asker.size

    def take(self, passing: Sequence[Passing], span: range) -> list[Passing]:
        self._tasks += len(passing)
        asker = self._asker
        tasks = [make_task(asker.prompt, one.seen(), self._terms, None) for one in passing]
        lefts = asker.left(tasks)
        for task, left in zip(tasks, lefts, strict=True):
            self._count(task, left)
        values = [asker.value(left) for left in lefts]
        found = zip(passing, values, strict=True)
        return [one.onward(self._name, value) for one, value in found if value is not None]

    def _count(self, task: Task, left: Left) -> None:
        if self._filling is None or not left.asks:
            return self._asker.count(task, left)
        self._asker.count_judges(task, left)
        if full := self._filling.add((task, left)):
            self._count_shard(full)
        return None

    def _count_shard(self, shard: Sequence[tuple[Task, Left]]) -> None:
        if len(shard) == 1:
            return self._asker.count(*shard[0])
        asks = [(task.id, task.ask) for task, _ in shard]
        items = tuple(item for _, ask in asks for item in ask.items)
        together = shard_ask(asks, self._asker.prompt.rendered_together(items))
        return self._asker.count_shard([left for _, left in shard], together)

    def rows(self, times: float | None) -> list[StepPreview]:
        if self._filling is not None and (rest := self._filling.rest()):
            self._count_shard(rest)
        return rows_of(
            self._name, self._kind, self._asker, self._tasks, times, watched=self._watched
        )


def _size(ask: Ask) -> int:
    return sum(estimate_tokens(message.content) for message in ask.messages) or 1


class Voted:
    """An ensemble: each item is put to the voters."""

    def __init__(self, desk: Desk, step: Ensemble, *, watched: bool = False) -> None:
        self._step, self._watched = step, watched
        self._terms = desk.ready.terms(step, step.name, step.keep)
        self._prompt = desk.ready.prompt(step)
        self._votes = Votes(desk, step, self._prompt, self._terms)
        self._tasks = 0

    @property
    def size(self) -> Size:
        return self._votes.size

    def take(self, passing: Sequence[Passing], span: range) -> list[Passing]:
        tasks = [make_task(self._prompt, one.seen(), self._terms, None) for one in passing]
        self._tasks += len(tasks)
        values = self._votes.take(tasks)
        found = zip(passing, values, strict=True)
        return [one.onward(self._step.name, value) for one, value in found if value is not None]

    def rows(self, times: float | None) -> list[StepPreview]:
        name, watched = self._step.name, self._watched
        return rows_of(name, "ensemble", self._votes, self._tasks, times, watched=watched)


class Reduced:
    """An asked reduce: a tree of asks over what comes, which goes on as it is."""

    def __init__(self, desk: Desk, step: Reduce, size: int, kind: str = "reduce") -> None:
        made = desk.ready.into_one(step)
        assert isinstance(made, AskedReduce)
        self._step, self.way, self._kind = step, made, kind
        self.answers: Answers
        if step.vote is not None:
            self.answers = Votes(desk, step.vote, made.prompt, made.terms)
        else:
            judges = [] if step.ask is None else judges_of(desk, step.ask)
            self.answers = Asker(desk, made.terms, made.prompt, judges=judges)
        self._tree: ReduceTree[SourcedPart] = ReduceTree(size, made.fan_in)
        self._nodes = 0

    @property
    def size(self) -> Size:
        return self.answers.size

    def take(self, passing: Sequence[Passing], span: range) -> list[Passing]:
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
        self._tree = ReduceTree(size, self.way.fan_in)

    @property
    def result(self) -> Any:
        return None if self._tree.result is None else self._tree.result.value

    def made(self, name: str, parts: Sequence[SourcedPart]) -> SourcedPart | None:
        """One of these parts, by one ask."""
        self._nodes += 1
        try:
            task = Task(name, ask_about_parts(self.way, parts), self.way.terms)
        except FanfoldError as error:
            given = Item(name, {"steps": {n: part.value for n, part in enumerate(parts)}})
            task = Task(name, Ask(items=(given,)), self.way.terms, flaw=str(error))
        (value,) = self.answers.take([task])
        if value is None:
            return None
        return SourcedPart(
            name, tuple(dict.fromkeys(id for part in parts for id in part.ids)), value
        )

    def rows(self, times: float | None) -> list[StepPreview]:
        return rows_of(self._step.name, self._kind, self.answers, self._nodes, times)


class Inside:
    """For each item a map over a list of its own, and a reduce."""

    def __init__(self, desk: Desk, step: MapReduce) -> None:
        self._desk, self._step = desk, step
        self._map = Mapped(desk, step.map, watched=True)
        asked = step.reduce.ask or step.reduce.vote
        self._reduce = Reduced(desk, step.reduce, 0) if asked else None
        self._made: dict[int, StandIn] = {}
        self._unknown = False

    @property
    def size(self) -> Size:
        return self._map.size if self._reduce is None else self._reduce.size

    def take(self, passing: Sequence[Passing], span: range) -> list[Passing]:
        return [one.onward(self._step.name, self._value(one)) for one in passing]

    def _value(self, one: Passing) -> Any:
        found = _at(self._step.over, one.seen().view())
        if isinstance(found, StandIn) or not isinstance(found, list):
            self._unknown = self._unknown or isinstance(found, StandIn)
            return self._stand_in(1)
        parts = [as_item(row, at) for at, row in enumerate(found)]
        passing = [
            Passing(at, Item(f"{one.item.id}/{part.id}", part.data))
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
            size = self.size if self._reduce else result_size(self._step.reduce, self.size, parts)
            self._made[parts] = self._desk.stand_ins.make(size)
        return self._made[parts]

    def rows(self, times: float | None) -> list[StepPreview]:
        """Lists that replies are to bring are not there yet."""
        known = None if self._unknown else times
        more = [] if self._reduce is None else self._reduce.rows(known)
        return [*self._map.rows(known), *more]


def _at(path: str, view: dict[str, Any]) -> Any:
    """What stands at `item.files` or `steps.NAME.parts`; None when there is nothing."""
    root, *names = path.split(".")
    value: Any = view.get("steps", {}) if root == "steps" else view
    for name in names:
        if isinstance(value, StandIn):
            return value
        value = value.get(name) if isinstance(value, dict) else None
    return value


def result_size(step: Reduce, each: Size, many: int) -> Size:
    """Of what a pure reduce makes: some give one of its parts or less, the others at most all."""
    if step.kind in ("sum", "count", "vote", "best"):
        return each
    if step.kind == "top":
        many = min(many, ceil(step.options.get("n", many)))
    return each.times(max(1, many))
