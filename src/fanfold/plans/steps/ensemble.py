"""`ensemble`: the same ask to several members, or several samples of one; then a decision."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta

from fanfold.patterns.arguments import TaskHandler
from fanfold.patterns.ensemble import vote_batch, voters
from fanfold.patterns.pipeline import Stage
from fanfold.patterns.prompt import Prompt, make_task
from fanfold.patterns.vote_rules import (
    JUDGE_NAMES,
    PICK,
    RULES,
    UNDECIDED,
    WRITE,
    AskingOrder,
    VoteJudge,
    VoteOptions,
    VoteRules,
    vote_rules,
)
from fanfold.patterns.watching import watched
from fanfold.plans.asking import Asking, keep_fields, written
from fanfold.plans.carry import PlanState
from fanfold.plans.drawing.describe import (
    describe_options,
    describe_who,
    gate_line,
    joined,
    known_members,
)
from fanfold.plans.drawing.sketch import Sketch, lanes, rows, title
from fanfold.plans.flow import Flow
from fanfold.plans.preview.answers import VoteEstimate, rows_of
from fanfold.plans.preview.asks import PreviewContext
from fanfold.plans.preview.estimate import Estimate, PartPreview, Sample
from fanfold.plans.preview.standin import Size
from fanfold.plans.preview.stations import PassingItem
from fanfold.plans.preview.watch import watched_station
from fanfold.plans.reading import StepContext, read_target
from fanfold.plans.ready import Ready
from fanfold.plans.steps.kind import Step
from fanfold.plans.watch import check_watch, ready_watch, watch_asks
from fanfold.run.forecast import StepPreview
from fanfold.run.sources import Rows
from fanfold.work.document import Node
from fanfold.work.item import Item
from fanfold.work.nearest import quoted, remedy
from fanfold.work.picture import Box, Picture
from fanfold.work.reader import Count, NonNegative, Positive, Text
from fanfold.work.task import Terms
from fanfold.work.watch import WatchFields

_RULES = (*RULES, "judge")
_JUDGE_NAMES = tuple(sorted(JUDGE_NAMES))
QUESTION = Item("question", {})
"""What a plan without an input asks about."""
JudgeFields = written(Asking, "a judge", name=(Text, UNSET), picks=(bool, True))


class Ensemble(Asking, Step, frozen=True, omit_defaults=True, tag="ensemble", kw_only=True):
    """The same ask to several members, or several samples of one; then a decision.

    `decide` is majority, plurality, weighted, quorum, judge or `module:function`. `judge` says who
    and how, with `majority` and `quorum` only where these give no decision; it `picks` an answer, or
    else writes one.
    """

    name: Text = "ensemble"
    samples: Count | None = None
    decide: Text = "majority"
    weights: dict[str, NonNegative] = {}  # noqa: RUF012 (a record)
    order: AskingOrder | None = None
    quorum: Count | None = None
    stop_early: bool = False
    confidence: Annotated[Positive, Meta(description="A share of the votes, at most 1.")] | None = (
        None
    )
    field: Text | None = None
    judge: Asking | None = None
    picks: bool = True
    keep: Text | None = None
    over: Text | None = None
    watch: WatchFields | None = None

    @classmethod
    def read(cls, node: Node, given: Any, reading: StepContext) -> Ensemble:
        check_watch(node, given.watch, reading)
        made = cls.read_votes(node, given, reading, given.name)
        over = None if given.over is None else reading.over(node.child("over"))
        keep = None if given.keep is None else reading.keep(node.child("keep"))
        return msgspec.structs.replace(made, over=over, keep=keep, watch=given.watch)

    @classmethod
    def read_votes(
        cls,
        node: Node,
        given: Any,
        reading: StepContext,
        name: str,
        known: Collection[str] | None = None,
    ) -> Ensemble:
        """How many voters there are shows only with the roster. `known`: names in its prompt."""
        if given.fallback:
            what = "a voter has no `fallback`; `escalate` is for questions"
            raise node.child("fallback").bad(what)
        if given.confidence is not None and given.confidence > 1:
            what = f"`confidence` is a share of the votes, at most 1, not {given.confidence:g}"
            raise node.child("confidence").bad(what)
        if given.order is not None and not given.weights:
            what = "`order` goes with `weights`; without them voters are asked as they are listed"
            raise node.child("order").bad(what)
        made = reading.asking(node, given, known) | _decision(node, given, reading)
        same = ("samples", "weights", "order", "quorum", "stop_early", "confidence", "field")
        return cls(**made, **{field: getattr(given, field) for field in same}, name=name)

    # ── items ──

    takes_items = True
    gives_replies = True

    def asks(self) -> Iterator[tuple[str, Asking]]:
        yield self.name, self
        if self.judge is not None:
            yield f"{self.name}.judge", self.judge
        yield from watch_asks(self, self.name, self.watch)

    def item_asks(self) -> Iterator[tuple[str, Asking | str]]:
        yield self.name, self

    def plain_targets(self) -> Iterator[str]:
        if ":" in self.decide:
            yield self.decide

    def item_fields(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        judged = set() if self.judge is None else self.judge.fields_read("item") - {"steps"}
        yield from (("judge", (name,)) for name in sorted(judged))
        yield from keep_fields(self.keep)

    def item_terms(self, ready: Ready) -> list[Terms]:
        terms = ready.terms(self, self.name, self.keep)
        return [watched(terms, ready_watch(ready, self.name, self.watch), self.field)]

    def asks_each(self, ready: Ready) -> int:
        return len(self.rules(ready).voters)

    def check_flow(self, flow: Flow) -> None:
        """Without an input it is one question."""
        flow.items = True
        Step.check_flow(self, flow)

    # ── run ──

    def rules(self, ready: Ready) -> VoteRules:
        return self.rules_of(self._members(ready), ready)

    def rules_of(self, members: list[str], ready: Ready) -> VoteRules:
        return vote_rules(members, self._options(ready))

    def voters(self, ready: Ready) -> TaskHandler:
        return voters(self._members(ready), **self._options(ready))

    def _members(self, ready: Ready) -> list[str]:
        """Those who are named, or else all that fit."""
        assert ready.run is not None
        terms = msgspec.structs.replace(ready.terms(self, self.name), escalate=())
        return [traits.id for traits in ready.run.traits(terms)]

    def _options(self, ready: Ready) -> VoteOptions:
        decide: Any = ready.resolve(self.decide) if ":" in self.decide else self.decide
        judge: VoteJudge | None = None
        if self.judge is not None:
            prompt = ready.prompt(self.judge, JUDGE_NAMES)
            terms = ready.terms(self.judge, f"{self.name}.judge")
            judge = VoteJudge(prompt, terms, self.picks)
        if decide == "judge":
            decide, judge = judge, None
        return VoteOptions(
            samples=self.samples, decide=decide, weights=self.weights or None, order=self.order,
            quorum=self.quorum, stop_early=self.stop_early, confidence=self.confidence,
            field=self.field, judge=judge,
        )  # fmt: skip

    def stage(self, ready: Ready) -> Stage:
        return Stage(ready.prompt(self), self.item_terms(ready)[0], None, self.voters(ready))

    async def carry(self, state: PlanState) -> None:
        (terms,), prompt = self.item_terms(state.ready), state.ready.prompt(self)
        if self.over is None and state.batch is None:
            await state.start(Rows([QUESTION]), "input")
        rules = self.rules(state.ready)
        await state.govern_items(terms, prompt, len(rules.voters))
        records: dict[int, dict[str, Any]] = {}
        await vote_batch(state.run, state.items(), terms, prompt, rules, records.__setitem__)
        state.went_through([terms])
        state.show([records[at] for at in sorted(records)])

    # ── preview ──

    def votes(self, context: PreviewContext, prompt: Prompt, terms: Terms) -> VoteEstimate:
        return VoteEstimate(context, self, self.rules(context.ready), prompt, terms)

    def station(self, context: PreviewContext, *, watched: bool = False) -> VoteStation:
        return VoteStation(context, self, watched=watched)

    def preview(self, estimate: Estimate) -> PartPreview:
        if estimate.context.plan.input is None and estimate.known:
            estimate.sample = Sample(Rows([QUESTION]), 1)
        station = self.station(estimate.context, watched=self.over is not None)
        return estimate.through([watched_station(estimate.context, self, station)])

    # ── picture ──

    def decided_by(self) -> str:
        judge = ", else the judge" if self.judge is not None and self.decide != "judge" else ""
        return f"{'the judge' if self.decide == 'judge' else self.decide}{judge}"

    def draw(self, id: str, sketch: Sketch) -> Box:
        watch = "" if self.watch is None else self.watch.describe()
        keep = joined([f"keep {self.keep}" if self.keep else "", watch])
        lines = (*describe_options(self), *keep, *gate_line(self))
        return Box(id, title(self.name, "ensemble"), lines, inside=self.draw_votes(sketch))

    draw_stage = draw

    def draw_votes(self, sketch: Sketch) -> Picture:
        heading, *lines = self._described(sketch)
        decision = Box("decision", heading, tuple(lines), "fold")
        return rows(self._voter_boxes(sketch), [decision])

    def _voter_boxes(self, sketch: Sketch) -> list[Box]:
        members = known_members(self.who, sketch.roster)
        if self.samples is not None and len(members) <= 1:
            who = describe_who(self.who, sketch.roster)
            return [msgspec.structs.replace(box, lines=(who,)) if box.look == "ask" else box
                    for box in lanes("sample", self.samples)]  # fmt: skip
        if members:
            return [Box(f"voter {n}", id) for n, id in enumerate(members)]
        return lanes("voter", self.who.use)

    def _described(self, sketch: Sketch) -> tuple[str, ...]:
        """First how it is decided, then the options of that."""
        names = {
            "majority": "majority vote", "plurality": "plurality vote", "weighted": "weighted vote",
            "judge": "judge", "quorum": f"quorum of {self.quorum}",
        }  # fmt: skip
        judge = "" if self.judge is None else describe_who(self.judge.who, sketch.roster)
        judge = f"else judge {judge}" if judge and self.decide != "judge" else judge
        weights = ", ".join(f"{name} {weight:g}" for name, weight in self.weights.items())
        listed = "asked as listed" if self.order == "listed" else ""
        field = f"on {self.field}" if self.field else ""
        sure = f"confidence {self.confidence:g}" if self.confidence is not None else ""
        early = "stops early" if self.stop_early else ""
        heading = names.get(self.decide, f"decide by {self.decide}")
        return (heading, *joined([judge, weights, listed, field, early, sure]))


Ensemble.written = written(Ensemble, "an ensemble", "picks", judge=(JudgeFields, UNSET))


def _decision(node: Node, given: Any, reading: StepContext) -> dict[str, Any]:
    """`decide` and `judge`, which go together."""
    stated = node.value
    if given.judge is not UNSET:
        decide = stated.get("decide", "judge")
        if decide not in ("judge", *UNDECIDED):
            what = "`judge` goes with `decide: judge`, or with majority or quorum, to decide what"
            raise node.child("judge").bad(f"{what} these do not")
        return {"decide": decide, **_read_judge(node.child("judge"), given.judge, reading)}
    if "decide" in stated:
        _check_decide(node.child("decide"), given, reading)
    return {"decide": given.decide}


def _check_decide(node: Node, given: Any, reading: StepContext) -> None:
    said: str = given.decide
    if ":" in said:
        read_target(node, reading)
    elif said not in _RULES:
        raise node.bad(
            f"unknown decide {quoted(said)}: {remedy(said, _RULES)}; or give module:function"
        )
    elif said == "judge":
        raise node.bad("`decide: judge` needs a `judge: {member: …}`")
    elif said == "weighted" and not given.weights:
        raise node.bad("`decide: weighted` needs `weights: {member: 1.5, …}`")


def _read_judge(node: Node, given: Any, reading: StepContext) -> dict[str, Any]:
    judge = Asking(**reading.asking(node, given, _JUDGE_NAMES))
    if judge.prompt is None:
        judge = msgspec.structs.replace(judge, prompt=PICK if given.picks else WRITE)
    return {"judge": judge, "picks": given.picks}


class VoteStation:
    """In a preview: each item is put to the voters."""

    def __init__(self, context: PreviewContext, step: Ensemble, *, watched: bool = False) -> None:
        self._step, self._watched = step, watched
        (self._terms,) = step.item_terms(context.ready)
        self._prompt = context.ready.prompt(step)
        self._votes = step.votes(context, self._prompt, self._terms)
        self._tasks = 0

    @property
    def size(self) -> Size:
        return self._votes.size

    def take(self, passing: Sequence[PassingItem], span: range) -> list[PassingItem]:
        tasks = [make_task(self._prompt, one.seen(), self._terms, None) for one in passing]
        self._tasks += len(tasks)
        values = self._votes.take(tasks)
        found = zip(passing, values, strict=True)
        return [one.onward(self._step.name, value) for one, value in found if value is not None]

    def rows(self, times: float | None) -> list[StepPreview]:
        name, watched = self._step.name, self._watched
        return rows_of(name, "ensemble", self._votes, self._tasks, times, watched=watched)
