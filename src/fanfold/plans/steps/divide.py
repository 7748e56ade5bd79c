"""`divide`: split until a piece fits, solve the pieces, combine them bottom-up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from fanfold.errors import BadInput, FanfoldError
from fanfold.gates.default import standard
from fanfold.patterns.asked_reduce import SourcedPart, ask_about_parts
from fanfold.patterns.divide import DividedItem, Division, cutting, divide_batch
from fanfold.patterns.pipeline import Stage
from fanfold.patterns.prompt import Prompt
from fanfold.plans.asking import Asking, written
from fanfold.plans.carry import PlanState
from fanfold.plans.drawing.describe import many
from fanfold.plans.drawing.sketch import Sketch, gate_box, lanes, rows, title
from fanfold.plans.preview.answers import UNKNOWN, judges_of, rows_of
from fanfold.plans.preview.asks import AskEstimate, PreviewContext
from fanfold.plans.preview.estimate import Estimate, PartPreview
from fanfold.plans.preview.standin import Size, StandIn, holds_stand_in
from fanfold.plans.preview.stations import PassingItem
from fanfold.plans.reading import StepContext, read_target
from fanfold.plans.ready import Ready
from fanfold.plans.steps.kind import Step
from fanfold.plans.steps.reduce import IntoOneEntry, Reduce
from fanfold.run.forecast import Forecast, Note, StepPreview
from fanfold.run.meter import forecast
from fanfold.run.remaining import RemainingAsks
from fanfold.work.ask import Ask, Message
from fanfold.work.document import Node
from fanfold.work.item import Item
from fanfold.work.neighbours import AFTER, BEFORE, Around, Neighbours
from fanfold.work.picture import Box
from fanfold.work.pieces import Fits, Leaf, Piece, Tree, contents, grouped, leaves_of
from fanfold.work.reader import Count, Misfit, Text
from fanfold.work.task import Task, Terms

_encode = msgspec.json.Encoder().encode
_AROUND_AN_ITEM = 64  # bytes that a prompt may write around it: its id, a heading
_SPLITS = ("items", "paragraphs")


class FitsFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How large a piece may be, as it is written."""

    called = "fits"
    tokens: Count | None = None
    items: Count | None = None


class ContextFields(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How much of the text beside a piece goes with it; one of the two is stated."""

    called = "a context"
    tokens: Count | None = None
    paragraphs: Count | None = None

    def __post_init__(self) -> None:
        if (self.tokens is None) == (self.paragraphs is None):
            raise Misfit("a context is {tokens: 200} or {paragraphs: 1}")

    def __str__(self) -> str:
        return (
            many(self.tokens, "token") if self.tokens else many(self.paragraphs or 0, "paragraph")
        )


class Divide(Asking, Step, frozen=True, omit_defaults=True, tag="divide", kw_only=True):
    """Split until a piece fits, solve the pieces, combine them bottom-up.

    A piece fits when it has at most so many tokens or items; without either, when it fits the
    context of those who may answer. `split` is items, paragraphs or `module:function`.
    """

    name: Text = "divide"
    over: Text | None = None
    tokens: int | None = None
    items: int | None = None
    split: Text = "items"
    combine: Reduce
    max_depth: Count = 8
    max_pieces: Count = 1000
    context_before: ContextFields | None = None
    context_after: ContextFields | None = None

    @classmethod
    def read(cls, node: Node, given: Any, reading: StepContext) -> Divide:
        made = reading.asking(node, given)
        combine = Reduce.read(node.child("combine"), given.combine, reading, "combine")
        fits = FitsFields() if given.fits is UNSET else given.fits
        if given.split not in _SPLITS:
            if ":" not in given.split:
                what = f"`split` is items, paragraphs or module:function, not {given.split!r}"
                raise node.child("split").bad(what)
            read_target(node.child("split"), reading)
        for field in ("context_before", "context_after"):
            if field in node.value and given.split != "paragraphs":
                raise node.child(field).bad(f"`{field}` needs `split: paragraphs`")
        return cls(
            **made, name=given.name, tokens=fits.tokens, items=fits.items, split=given.split,
            combine=msgspec.structs.replace(combine, name=f"{given.name}.combine"),
            max_depth=given.max_depth, max_pieces=given.max_pieces,
            context_before=given.context_before, context_after=given.context_after,
        )  # fmt: skip

    takes_items = True
    folds_items = True

    @property
    def fields_added(self) -> tuple[str, ...]:
        return (BEFORE, AFTER) if self.context_before or self.context_after else ()

    def asks(self) -> Iterator[tuple[str, Asking]]:
        yield self.name, self
        yield from self.combine.asks()

    def plain_targets(self) -> Iterator[str]:
        if ":" in self.split:
            yield self.split
        yield from self.combine.plain_targets()

    def item_terms(self, ready: Ready) -> list[Terms]:
        return [ready.terms(self, self.name)]

    def division(self, ready: Ready) -> Division:
        split = ready.resolve(self.split) if ":" in self.split else self.split
        fits = Fits(self.tokens, self.items)
        into_one = self.combine.into_one(ready)
        around = Around(_neighbours(self.context_before), _neighbours(self.context_after))
        return Division(into_one, fits, split, self.max_depth, self.max_pieces, around)

    def stage(self, ready: Ready) -> Stage:
        """Each item by itself. The gate is for pieces; of the whole only the default is asked."""
        (terms,) = self.item_terms(ready)
        by = DividedItem(ready.prompt(self), terms, self.division(ready))
        whole = msgspec.structs.replace(terms, gate=standard(None, None), revise=0, escalate=())
        return Stage(Prompt(), whole, None, by)

    async def carry(self, state: PlanState) -> None:
        ready, (terms,) = state.ready, self.item_terms(state.ready)
        prompt, division = ready.prompt(self), self.division(ready)
        made = await divide_batch(state.run, state.items(), terms, prompt, division)
        state.result(self, made)

    def preview(self, estimate: Estimate) -> PartPreview:
        return estimate.into_one(self.name, [DivideStation(estimate.context, self)])

    def station(self, context: PreviewContext, *, watched: bool = False) -> DivideStation:
        return DivideStation(context, self, each=True)

    def draw(self, id: str, sketch: Sketch) -> Box:
        sizes = [many(self.items, "item") if self.items else "",
                 f"{self.tokens:,} tokens" if self.tokens else ""]  # fmt: skip
        fits = " and ".join(size for size in sizes if size) or "the member's context"
        caps = f"at most {self.max_depth} deep, {many(self.max_pieces, 'piece')}"
        beside = [
            f"with {one} {side} it"
            for one, side in ((self.context_before, "before"), (self.context_after, "after"))
            if one is not None
        ]
        lines = (f"until a piece fits {fits}", caps, *beside)
        split = Box("split", f"split by {self.split}", lines, "fold")
        combine = self.combine.box("combine", "combine", sketch)
        inside = rows([split], lanes("piece", None), [gate_box(self)], [combine])
        return Box(id, title(self.name, "divide"), sketch.asked(self), inside=inside)

    draw_stage = draw


Divide.written = written(
    Divide, "a divide", "tokens", "items", fits=(FitsFields, UNSET), combine=IntoOneEntry
)


def _neighbours(stated: ContextFields | None) -> Neighbours | None:
    return None if stated is None else Neighbours(stated.tokens, stated.paragraphs)


class DivideStation:
    """In a preview: the items are cut into pieces, as the run will do it; `each` by itself in a stage.

    Only bounds are known where a function of the user's cuts, where the length of replies decides, or
    where some items stand for more: pieces share what is to be divided, so together they hold all of
    it once; and each answer goes into one combine.
    """

    def __init__(self, context: PreviewContext, step: Divide, *, each: bool = False) -> None:
        self._context, self._step, self._items = context, step, list[Item]()
        self._each = each
        self._waits = False  # replies that do not exist yet are part of its items
        terms, prompt = context.ready.terms(step, step.name), context.ready.prompt(step)
        self._prompt = prompt
        self._estimate = AskEstimate(context, terms, prompt, judges=judges_of(context, step))
        source = "" if prompt.user is None else prompt.user.source
        frame = (*prompt.opening, Message("user", source))
        self._frame = Ask(frame, schema=prompt.schema, params=prompt.params)
        self._shows_steps = prompt.shows("steps")
        combine = step.combine
        self._combine = combine.station(context, 0, "combine") if combine.is_asked else None
        self._bytes = 0
        self._made: StandIn | None = None

    @property
    def size(self) -> Size:
        return self._estimate.size if self._combine is None else self._combine.size

    def take(self, passing: Sequence[PassingItem], span: range) -> list[PassingItem]:
        for one in passing:
            self._items.append(one.seen())
            self._waits = self._waits or holds_stand_in(self._items[-1].data)
            self._bytes += len(_encode(one.item.view())) + len(one.item.id) + _AROUND_AN_ITEM
        if not self._each:
            return []
        self._made = self._made or self._context.stand_ins.make(self.size)
        return [one.onward(self._step.name, self._made) for one in passing]

    def rows(self, times: float | None) -> list[StepPreview]:
        step, most = self._step, self._step.max_pieces
        if self._each:
            most *= round(len(self._items) * (times or 1)) or 1
        known = None if self._shows_steps else times
        by_number = step.items is not None and step.tokens is None
        whole = known == 1 or (known is not None and self._each)
        if whole and ":" not in step.split and (by_number or not self._waits):
            try:
                return self._cut(known or 1)
            except BadInput as error:
                note = Note(f"{{}}: it will be refused: {error}", step.name)
                rows = self._bounds(known, most)
                refused = msgspec.structs.replace(rows[0].forecast, notes=(note,))
                return [msgspec.structs.replace(rows[0], forecast=refused), *rows[1:]]
        return self._bounds(known, most)

    def _cut(self, times: float) -> list[StepPreview]:
        """The pieces and the combines of the run, each measured. BadInput where it would be refused."""
        wholes = [[one] for one in self._items] if self._each else [self._items]
        pieces = sum(self._cut_whole(list(enumerate(items))) for items in wholes)
        rows = rows_of(self._step.name, "divide", self._estimate, pieces, times, watched=True)
        more = [] if self._combine is None else self._combine.rows(times)
        return rows + [msgspec.structs.replace(row, watched=True) for row in more]

    def _cut_whole(self, items: list[tuple[int, Item]]) -> int:
        """Into how many pieces."""
        step = self._step
        division = step.division(self._context.ready)
        cutter, ask = cutting(self._context, self._estimate.terms, self._prompt, division)
        tree = cutter.whole(items)
        leaves = [] if tree is None else list(leaves_of(tree))
        parts: list[SourcedPart | None] = []
        for leaf, held in zip(leaves, contents(leaves, iter(items)), strict=True):
            own = tuple(item for _, item in held)
            ids = tuple(item.id for item in own) if leaf.origin is None else (leaf.origin,)
            value = None if leaf.flaw else self._taken(leaf.id, ask(Piece(leaf.id, own)))
            parts.append(None if value is None else SourcedPart(leaf.id, ids, value))
        if self._combine is not None and tree is not None:
            self._combined_in(grouped(tree, self._combine.asked.fan_in), iter(parts))
        return len(leaves)

    def _taken(self, id: str, ask: Ask) -> Any:
        (value,) = self._estimate.take([Task(id, ask, self._estimate.terms)])
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
        pieces = UNKNOWN if known is None else self._pieces(known, most)
        rows = [self._bounded(step.name, "divide", self._estimate.who, most, pieces)]
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

    def _pieces(self, times: float, most: int) -> Forecast:
        share = -(-round(self._bytes * times) // most)
        left = RemainingAsks(self._frame, self._frame, self._step.revise, most=share)
        return forecast([left], self._estimate.cast).scaled(most)

    def _combined(self, most: int) -> Forecast:
        """Each makes one of two or more, so there is one less than pieces; most have two parts."""
        combine = self._combine
        if combine is None or not isinstance(combine.answers, AskEstimate):
            return UNKNOWN
        parts = [SourcedPart("", (), combine.answers.reply)] * 2
        estimated, size = combine.answers, max(self._estimate.size.most, combine.size.most)
        try:
            ask = ask_about_parts(combine.asked, parts)
        except FanfoldError:
            return UNKNOWN
        left = RemainingAsks(ask, ask, estimated.terms.revise, most=2 * (size + _AROUND_AN_ITEM))
        return forecast([left], estimated.cast).scaled(most)
