"""Steps that do not go item by item, in a plan that is only looked at: divide, scatter, graph, ask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from fanfold.errors import BadInput, FanfoldError
from fanfold.patterns.asked_reduce import SourcedPart, ask_about_parts
from fanfold.patterns.divide import cutting
from fanfold.patterns.graph import GraphNode
from fanfold.patterns.prompt import make_task
from fanfold.plans.plan import Divide, Graph, Once, Scatter
from fanfold.plans.preview.answers import UNKNOWN, judges_of, rows_of
from fanfold.plans.preview.askers import Asker, Desk
from fanfold.plans.preview.standin import Size, holds_stand_in
from fanfold.plans.preview.stations import Passing, Reduced
from fanfold.run.forecast import Forecast, Note, StepPreview, at_once
from fanfold.run.left import Left
from fanfold.run.meter import forecast
from fanfold.work.ask import Ask, Message
from fanfold.work.item import Item
from fanfold.work.pieces import Leaf, Piece, Tree, contents, grouped, leaves_of
from fanfold.work.task import Task, Who

_encode = msgspec.json.Encoder().encode
_AROUND_AN_ITEM = 64  # bytes that a prompt may write around it: its id, a heading


class Divided:
    """A divide: its items are cut into pieces, as the run will do it.

    Only bounds are known where a function of the user's cuts, where the length of replies decides, or
    where some items stand for more: pieces share what is to be divided, so together they hold all of
    it once; and each answer goes into one combine.
    """

    def __init__(self, desk: Desk, step: Divide) -> None:
        self._desk, self._step, self._items = desk, step, list[Item]()
        self._waits = False  # replies that do not exist yet are part of its items
        terms, prompt = desk.ready.terms(step, step.name), desk.ready.prompt(step)
        self._prompt = prompt
        self._asker = Asker(desk, terms, prompt, judges=judges_of(desk, step))
        source = "" if prompt.user is None else prompt.user.source
        self._frame = Ask((Message("user", source),), schema=prompt.schema, params=prompt.params)
        self._shows_steps = prompt.shows("steps")
        asked = step.combine.ask or step.combine.vote
        self._combine = Reduced(desk, step.combine, 0, "combine") if asked else None
        self._bytes = 0

    @property
    def size(self) -> Size:
        return self._asker.size if self._combine is None else self._combine.size

    def take(self, passing: Sequence[Passing], span: range) -> list[Passing]:
        for one in passing:
            self._items.append(one.seen())
            self._waits = self._waits or holds_stand_in(self._items[-1].data)
            self._bytes += len(_encode(one.item.view())) + len(one.item.id) + _AROUND_AN_ITEM
        return []

    def rows(self, times: float | None) -> list[StepPreview]:
        step, most = self._step, self._step.max_pieces
        known = None if self._shows_steps else times
        by_number = step.items is not None and step.tokens is None
        if known == 1 and ":" not in step.split and (by_number or not self._waits):
            try:
                return self._cut()
            except BadInput as error:
                note = Note(f"{{}}: it will be refused: {error}", step.name)
                rows = self._bounds(known, most)
                refused = msgspec.structs.replace(rows[0].forecast, notes=(note,))
                return [msgspec.structs.replace(rows[0], forecast=refused), *rows[1:]]
        return self._bounds(known, most)

    def _cut(self) -> list[StepPreview]:
        """The pieces and the combines of the run, each measured. BadInput where it would be refused."""
        step, items = self._step, list(enumerate(self._items))
        division = self._desk.ready.division(step)
        cutter, ask = cutting(self._desk, self._asker.terms, self._prompt, division)
        tree = cutter.whole(items)
        leaves = [] if tree is None else list(leaves_of(tree))
        parts: list[SourcedPart | None] = []
        for leaf, held in zip(leaves, contents(leaves, iter(items)), strict=True):
            own = tuple(item for _, item in held)
            ids = tuple(item.id for item in own) if leaf.origin is None else (leaf.origin,)
            value = None if leaf.flaw else self._taken(leaf.id, ask(Piece(leaf.id, own)))
            parts.append(None if value is None else SourcedPart(leaf.id, ids, value))
        rows = rows_of(step.name, "divide", self._asker, len(leaves), 1, watched=True)
        if self._combine is not None:
            if tree is not None:
                self._combined_in(grouped(tree, self._combine.way.fan_in), iter(parts))
            more = self._combine.rows(1)
            rows += [msgspec.structs.replace(row, watched=True) for row in more]
        return rows

    def _taken(self, id: str, ask: Ask) -> Any:
        (value,) = self._asker.take([Task(id, ask, self._asker.terms)])
        return value

    def _combined_in(self, tree: Tree, parts: Iterator[SourcedPart | None]) -> SourcedPart | None:
        """Bottom-up: what a branch comes to."""
        assert self._combine is not None
        if isinstance(tree, Leaf):
            return next(parts)
        below = [self._combined_in(part, parts) for part in tree.parts]
        made = [one for one in below if one is not None]
        return self._combine.made(tree.id, made) if made else None

    def _bounds(self, known: float | None, most: int) -> list[StepPreview]:
        step = self._step
        pieces = UNKNOWN if known is None else self._pieces(known)
        rows = [self._bounded(step.name, "divide", self._asker.who, most, pieces)]
        if self._combine is not None:
            who, made = self._combine.answers.who, self._combined(most - 1)
            rows.append(self._bounded(step.combine.name, "combine", who, most - 1, made))
        return rows

    def _bounded(
        self, name: str, kind: str, who: tuple[str, ...], most: int, made: Forecast
    ) -> StepPreview:
        bounds = Forecast(
            step=name, worst=made.worst, most_calls=made.most_calls, most_tokens=made.most_tokens
        )
        return StepPreview(
            name=name, kind=kind, who=who, tasks=None, most=most, forecast=bounds, watched=True
        )

    def _pieces(self, times: float) -> Forecast:
        most = self._step.max_pieces
        share = -(-round(self._bytes * times) // most)
        left = Left(self._frame, self._frame, self._step.revise, most=share)
        return forecast([left], self._asker.cast).scaled(most)

    def _combined(self, most: int) -> Forecast:
        """Each makes one of two or more, so there is one less than pieces; most have two parts."""
        combine = self._combine
        if combine is None or not isinstance(combine.answers, Asker):
            return UNKNOWN
        parts = [SourcedPart("", (), combine.answers.reply)] * 2
        asker, size = combine.answers, max(self._asker.size.most, combine.size.most)
        try:
            ask = ask_about_parts(combine.way, parts)
        except FanfoldError:
            return UNKNOWN
        left = Left(ask, ask, asker.terms.revise, most=2 * (size + _AROUND_AN_ITEM))
        return forecast([left], asker.cast).scaled(most)


def scattered(desk: Desk, step: Scatter) -> tuple[list[StepPreview], Size]:
    """Entries that the plan states: all are asked at once, then one answer is made of theirs."""
    terms, prompt = desk.ready.terms(step, step.name), desk.ready.prompt(step)
    askers: dict[Who, Asker] = {}
    parts = []
    for one in desk.ready.questions(step, prompt, terms):
        asker = askers.get(one.terms.who)
        if asker is None:
            asker = askers[one.terms.who] = Asker(
                desk, one.terms, one.prompt, judges=judges_of(desk, step)
            )
        (value,) = asker.take([make_task(one.prompt, one.item, one.terms, None)])
        parts.append(None if value is None else SourcedPart(one.item.id, (one.item.id,), value))
    rows = _as_one(step.name, "scatter", list(askers.values()), len(parts))
    way = step.synthesise
    if way is None or not (way.ask or way.vote):
        return rows, _sum(asker.size for asker in askers.values()).times(len(parts))
    reduced = Reduced(desk, way, len(parts), "synthesise")
    for at, part in enumerate(parts):
        reduced.land(at, part)
    return rows + reduced.rows(1), reduced.size


def _sum(sizes: Iterable[Size]) -> Size:
    found = list(sizes)
    return Size(sum(one.typical for one in found), sum(one.most for one in found))


def _as_one(name: str, kind: str, askers: Sequence[Asker], tasks: int) -> list[StepPreview]:
    """One line for several that are asked at once, and those who judge their replies."""
    rows = [line for asker in askers for line in rows_of(name, kind, asker, tasks, 1)]
    own = [line for line in rows if line.kind == kind]
    who = tuple(dict.fromkeys(id for line in own for id in line.who))
    made = at_once(line.forecast for line in own)
    first = StepPreview(name=name, kind=kind, who=who, tasks=tasks, forecast=made)
    return [first, *(line for line in rows if line.kind != kind)]


def graphed(desk: Desk, step: Graph) -> tuple[list[StepPreview], Size]:
    """One line for all tasks; the time is that of the longest way through."""
    stated = {task.id: task for task in step.tasks}
    values: dict[str, Any] = {}
    ends: dict[str, float] = {}
    askers: list[Asker] = []
    for one in _parents_first(desk.ready.nodes(step)):
        asker = Asker(desk, one.terms, one.prompt, judges=judges_of(desk, stated[one.id]))
        parents = {p: values[p] for p in one.depends_on if values[p] is not None}
        made = Item(one.id, {**one.fields(), "parents": parents, "missing": []})
        (values[one.id],) = asker.take([_about(asker, made, one.sample)])
        begins = max((ends[p] for p in one.depends_on), default=0.0)
        ends[one.id] = begins + (asker.forecast().seconds or 0.0)
        askers.append(asker)
    own, *judges = _as_one(step.name, "graph", askers, len(values))
    work = sum(asker.forecast().seconds or 0.0 for asker in askers) / step.concurrency
    if own.forecast.seconds is not None:
        apart = step.delay * sum(asker.forecast().most_calls != 0 for asker in askers[1:])
        seconds = max(work, apart, *ends.values())
        timed = msgspec.structs.replace(own.forecast, seconds=seconds)
        own = msgspec.structs.replace(own, forecast=timed)
    return [own, *judges], _sum(asker.size for asker in askers)


def _parents_first(nodes: Sequence[GraphNode]) -> Iterator[GraphNode]:
    waiting, done = list(nodes), set[str]()
    while waiting:
        one = next(one for one in waiting if done.issuperset(one.depends_on))
        waiting.remove(one)
        done.add(one.id)
        yield one


def asked_once(desk: Desk, step: Once) -> tuple[list[StepPreview], Size]:
    terms, prompt = desk.ready.terms(step, step.name), desk.ready.prompt(step, ("steps", "task"))
    asker = Asker(desk, terms, prompt, judges=judges_of(desk, step))
    asker.take([_about(asker, Item(step.name, {}))])
    return rows_of(step.name, "ask", asker, 1, 1), asker.size


def _about(asker: Asker, made: Item, sample: int = 0) -> Task:
    try:
        ask = msgspec.structs.replace(asker.prompt.about(made), sample=sample)
        return Task(made.id, ask, asker.terms)
    except FanfoldError as error:
        return Task(made.id, Ask(items=(made,)), asker.terms, flaw=str(error))
