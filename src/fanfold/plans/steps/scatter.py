"""`scatter`: questions to several at once, gathered, and one answer made of theirs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta

from fanfold.errors import BadInput
from fanfold.patterns.asked_reduce import SourcedPart, synthesis
from fanfold.patterns.prompt import Prompt, make_task
from fanfold.patterns.scatter import Question, Reach, gather
from fanfold.plans.asking import Asking, written
from fanfold.plans.carry import PlanState
from fanfold.plans.drawing.describe import describe_who, gate_line, joined
from fanfold.plans.drawing.sketch import MOST_TASKS, Sketch, lanes, rows, title
from fanfold.plans.preview.answers import judges_of
from fanfold.plans.preview.asks import AskEstimate
from fanfold.plans.preview.estimate import Estimate, PartPreview
from fanfold.plans.preview.stations import MapStation, as_one, sum_of
from fanfold.plans.reading import KNOWN_NAMES, StepContext, read_prompt, who_of
from fanfold.plans.ready import Ready
from fanfold.plans.steps.kind import OwnItem, Step
from fanfold.plans.steps.reduce import IntoOneEntry, Reduce
from fanfold.run.sources import Rows
from fanfold.work.document import Node
from fanfold.work.item import Item
from fanfold.work.picture import Box
from fanfold.work.reader import Count, Positive, Stated, Text, Texts, Word
from fanfold.work.task import Terms, Who

_OF_ENTRY = ("member", "members", "needs", "prompt")
_WHO = ("member", "members", "agent", "needs")  # where an entry may have its own


class ScatterEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of those a question goes to: its own fields, and its own member or prompt if it has."""

    id: str
    data: dict[str, Any]
    who: Who | None = None
    prompt: str | None = None
    line: int | None = None


class EntryFields(msgspec.Struct, frozen=True):
    """The same as it is written; what is not for asking is its data."""

    called = "an entry of `over`"
    id: Annotated[Text | int, Meta(extra={"expected": "a text or a whole number"})]
    member: Stated[Text] = UNSET
    members: Stated[Texts] = UNSET
    needs: Stated[Texts] = UNSET
    prompt: Stated[Text] = UNSET


class GatherFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When to stop waiting, as it is written."""

    called = "gather"
    first: Count | None = None
    within: Positive | None = None


class Scatter(Asking, Step, frozen=True, omit_defaults=True, tag="scatter", kw_only=True):
    """Questions to several at once. Gathered are all, the `first` so many, or those `within` so
    many seconds. `over` are entries of its own, or `steps.NAME`; without it, the items in the flow."""

    name: Text = "scatter"
    over: tuple[ScatterEntry, ...] | str = ()
    first: int | None = None
    within: float | None = None
    synthesise: Reduce | None = None

    @classmethod
    def read(cls, node: Node, given: Any, reading: StepContext) -> Scatter:
        made = reading.asking(node, given)
        gather = given.gather if isinstance(given.gather, GatherFields) else GatherFields()
        if isinstance(given.over, tuple):
            over = node.child("over")
            made["over"] = tuple(
                _read_entry(over.child(n), one, reading) for n, one in enumerate(given.over)
            )
            _check_entries(node, made["over"], gather)
        made["synthesise"] = read_synthesise(node, given, reading)
        return cls(**made, name=given.name, first=gather.first, within=gather.within)

    @classmethod
    def starts_anew(cls, given: Any) -> bool:
        return isinstance(given.over, tuple) or super().starts_anew(given)

    # ── items ──

    @property
    def entries(self) -> tuple[ScatterEntry, ...]:
        """Those of its own."""
        return self.over if isinstance(self.over, tuple) else ()

    @property
    def takes_items(self) -> bool:
        return not self.entries

    @property
    def folds_items(self) -> bool:
        return not self.entries

    def asks(self) -> Iterator[tuple[str, Asking]]:
        own = [entry for entry in self.entries if entry.who or entry.prompt]
        if not self.entries or len(own) < len(self.entries):
            yield self.name, self
        for entry in own:
            yield f"{self.name}.{entry.id}", self._asked_of(entry)
        if self.synthesise is not None:
            yield from self.synthesise.asks()

    def budgets(self) -> Iterator[str]:
        """Its entries share one."""
        yield self.name
        if self.synthesise is not None:
            yield from self.synthesise.budgets()

    def _asked_of(self, entry: ScatterEntry) -> Asking:
        return Asking(
            prompt=entry.prompt or self.prompt, who=entry.who or self.who, gate=self.gate,
            escalate=self.escalate, opening=self.opening, tools=self.tools, line=entry.line,
            lines={name: line for name, line in self.lines.items() if name not in _WHO},
        )  # fmt: skip

    def plain_targets(self) -> Iterator[str]:
        return iter(()) if self.synthesise is None else self.synthesise.plain_targets()

    def item_asks(self) -> Iterator[tuple[str, Asking | str]]:
        yield self.name, self

    def own_items(self) -> Iterator[OwnItem]:
        for one in self.entries:
            yield OwnItem(one.id, one.data, self._with_prompt(one))

    def _with_prompt(self, entry: ScatterEntry) -> Asking:
        return self if entry.prompt is None else msgspec.structs.replace(self, prompt=entry.prompt)

    def item_terms(self, ready: Ready) -> list[Terms]:
        return [ready.terms(self, self.name)]

    def all_terms(self, ready: Ready) -> list[Terms]:
        common = ready.terms(self, self.name)
        whos = [entry.who or self.who for entry in self.entries] or [self.who]
        own = [msgspec.structs.replace(common, who=who) for who in dict.fromkeys(whos)]
        return own + ([] if self.synthesise is None else self.synthesise.all_terms(ready))

    # ── run ──

    def questions(self, ready: Ready, prompt: Prompt, terms: Terms) -> list[Question]:
        made = []
        for at, entry in enumerate(self.entries):
            own, asked = terms, prompt
            if entry.who is not None:
                own = msgspec.structs.replace(terms, who=entry.who)
            if entry.prompt is not None:
                asked = ready.prompt(self._with_prompt(entry))
            made.append(Question(at, Item(entry.id, entry.data), asked, own))
        return made

    async def carry(self, state: PlanState) -> None:
        ready, run, first = state.ready, state.run, self.first
        (terms,), prompt = self.item_terms(ready), ready.prompt(self)
        into_one = None if self.synthesise is None else self.synthesise.into_one(ready)
        if self.entries:
            questions = self.questions(ready, prompt, terms)
            source = Rows([question.item for question in questions])
            batch = await run.plan(source, questions[0].terms, name=ready.named(self.name))
        else:
            batch = state.items()
            questions = [Question(at, item, prompt, terms) for at, item in batch.source.walk()]
            first = None if first is None else min(first, len(questions))
            await state.govern_items(terms, prompt)
            await state.govern_reduce(into_one)
        reach = Reach(first or None, self.within)
        reach.check(len(questions))
        outcomes = await gather(run, batch, questions, reach)
        state.result(self, await synthesis(run, outcomes, into_one))

    # ── preview ──

    def preview(self, estimate: Estimate) -> PartPreview:
        if self.entries:
            return self._preview_entries(estimate)
        context, watched = estimate.context, self.produced_by is not None
        terms = context.ready.terms(self, self.name)
        mapped = MapStation(context, self, "scatter", terms, watched=watched)
        return preview_synthesis(estimate, self.name, mapped, self.synthesise)

    def _preview_entries(self, estimate: Estimate) -> PartPreview:
        """All are asked at once, then one answer is made of theirs."""
        context, estimates, parts = (
            estimate.context,
            dict[Who, AskEstimate](),
            list[SourcedPart | None](),
        )
        terms, prompt = context.ready.terms(self, self.name), context.ready.prompt(self)
        for one in self.questions(context.ready, prompt, terms):
            estimated = estimates.get(one.terms.who)
            if estimated is None:
                judges = judges_of(context, self)
                estimated = estimates[one.terms.who] = AskEstimate(
                    context, one.terms, one.prompt, judges=judges
                )
            (value,) = estimated.take([make_task(one.prompt, one.item, one.terms, None)])
            parts.append(None if value is None else SourcedPart(one.item.id, (one.item.id,), value))
        lines = as_one(self.name, "scatter", list(estimates.values()), len(parts))
        if self.synthesise is None or not self.synthesise.is_asked:
            size = sum_of(estimated.size for estimated in estimates.values()).times(len(parts))
            return estimate.at_once(self.name, lines, size)
        reduced = self.synthesise.station(context, len(parts), "synthesise")
        for at, part in enumerate(parts):
            reduced.land(at, part)
        return estimate.at_once(self.name, [*lines, *reduced.rows(1)], reduced.size)

    # ── picture ──

    def draw(self, id: str, sketch: Sketch) -> Box:
        entries = self._entry_boxes(sketch) if self.entries else lanes("ask", sketch.items)
        then = [[Box("gather", self._gathered(), look="fold")]]
        if self.synthesise is not None:
            then.append([self.synthesise.box("synthesise", "synthesise", sketch)])
        own = self.entries
        lines = sketch.asked(self)[bool(own) and all(one.who for one in own) :]
        inside = rows(entries, *then)
        return Box(id, title(self.name, "scatter"), (*lines, *gate_line(self)), inside=inside)

    def _entry_boxes(self, sketch: Sketch) -> list[Box]:
        if len(self.entries) > MOST_TASKS:
            return lanes("question", len(self.entries))
        boxes = []
        for n, entry in enumerate(self.entries):
            who = "" if entry.who is None else describe_who(entry.who, sketch.roster)
            lines = joined([who, "own prompt" if entry.prompt else ""])
            boxes.append(Box(f"entry {n}", entry.id, lines))
        return boxes

    def _gathered(self) -> str:
        if self.first is not None:
            return f"gather the first {self.first}"
        return "gather all" if self.within is None else f"gather within {self.within:g} s"


Scatter.written = written(
    Scatter, "a scatter", "first", "within", over=(Word | tuple[EntryFields, ...], UNSET),
    gather=(Annotated[Literal["all"] | GatherFields, Meta(
        extra={"expected": "all, {first: 3} or {within: 30}"})], "all"),
    synthesise=(IntoOneEntry, UNSET),
)  # fmt: skip


def read_synthesise(node: Node, given: Any, reading: StepContext) -> Reduce | None:
    """`synthesise` of a scatter or a conduct."""
    if given.synthesise is UNSET:
        return None
    made = Reduce.read(node.child("synthesise"), given.synthesise, reading, "synthesise")
    return msgspec.structs.replace(made, name=f"{given.name}.synthesise")


def preview_synthesis(
    estimate: Estimate, name: str, first: MapStation, synthesise: Reduce | None
) -> PartPreview:
    if synthesise is None or not synthesise.is_asked:
        return estimate.into_one(name, [first])
    reduced = synthesise.station(estimate.context, estimate.sample.many, "synthesise")
    return estimate.into_one(name, [first, reduced])


def _read_entry(node: Node, given: EntryFields, reading: StepContext) -> ScatterEntry:
    """Its own `member`, `members`, `needs` and `prompt` are for asking; the rest is its data."""
    prompt = read_prompt(node, reading, reading.earlier, KNOWN_NAMES)
    data = {name: value for name, value in node.value.items() if name not in _OF_ENTRY}
    return ScatterEntry(str(given.id), data, who_of(node, given), prompt, node.line)


def _check_entries(node: Node, over: tuple[ScatterEntry, ...], gather: GatherFields) -> None:
    if not over:
        raise node.child("over").bad("`over` is empty; list those whom the question is for")
    seen: dict[str, int | None] = {}
    for entry in over:
        if entry.id in seen:
            what = f"duplicate id {entry.id!r} in `over`; make ids unique"
            raise BadInput(what, file=node.file, line=entry.line)
        seen[entry.id] = entry.line
    if (gather.first or 0) > len(over):
        what = f"`first` is {gather.first}, but there are only {len(over)} entries"
        raise node.child("gather").bad(what)
