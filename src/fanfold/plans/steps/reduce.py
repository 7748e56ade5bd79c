"""`reduce`: many into one; also the `combine` and `synthesise` of other kinds."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta

from fanfold.errors import BadInput
from fanfold.patterns import fold as reduces
from fanfold.patterns.arguments import TaskHandler, ask_member
from fanfold.patterns.asked_reduce import PART_NAMES, AskedReduce
from fanfold.patterns.reduce import Reducing, reduce_batch, reducing
from fanfold.plans.asking import Asking, written
from fanfold.plans.carry import PlanState
from fanfold.plans.drawing.describe import describe_value, describe_who, gate_line, joined
from fanfold.plans.drawing.sketch import Sketch, title
from fanfold.plans.flow import Flow
from fanfold.plans.preview.answers import AnswerEstimate, judges_of
from fanfold.plans.preview.asks import AskEstimate, PreviewContext
from fanfold.plans.preview.estimate import Estimate, PartPreview
from fanfold.plans.preview.standin import Size
from fanfold.plans.preview.stations import ReduceStation
from fanfold.plans.reading import StepContext, lines_of, noting_resolver
from fanfold.plans.ready import Ready
from fanfold.plans.steps.ensemble import Ensemble, JudgeFields
from fanfold.plans.steps.kind import Step
from fanfold.work.document import Lines, Node
from fanfold.work.nearest import quoted, remedy
from fanfold.work.picture import Box
from fanfold.work.reader import Misfit, Text, read_part
from fanfold.work.task import OnFailure, Reducer

KINDS = (*reduces.KINDS, "ask", "ensemble")
_OWN = ("kind", "name", "fan_in")
_NAMES = tuple(sorted(PART_NAMES))
_SILENT = ("prompt", "schema", "members", "needs")
_ONE_PART = ("sum", "count", "vote", "best")
_USUAL_FAN_IN = 10
_FILE_TITLE = "## {id}"  # of each file in the short form


class Reduce(Step, msgspec.Struct, frozen=True, omit_defaults=True, tag="reduce", kw_only=True):
    """Many into one: the passed replies, the answers of a scatter, the parts of a divided whole.

    For the kind `ask`, `ask` says who writes it how; for `ensemble` it is `vote`. `fan_in`: in a
    tree, so many at a time. `partial`: a node of it that fails is done without.
    """

    name: str = "reduce"
    kind: str
    options: dict[str, Any] = {}
    ask: Asking | None = None
    vote: Ensemble | None = None
    fan_in: int | None = None
    partial: bool = False
    lines: dict[str, int] = {}
    line: int | None = None

    @classmethod
    def read(
        cls, node: Node, given: ReduceEntry, reading: StepContext, name: str = "reduce"
    ) -> Reduce:
        """`name`: how it is called if it does not say so itself."""
        if not isinstance(node.value, dict):
            node = _spelled_out(node, "target" if given.kind == "python" else "kind")
        if given.kind == "ask":
            return _read_asked(node, given.given, reading, name)
        if given.kind == "ensemble":
            return _read_voted(node, given.given, reading, name)
        return _read_pure(node, given, reading, name)

    def asks(self) -> Iterator[tuple[str, Asking]]:
        if (vote := self._named_vote()) is not None:
            yield from vote.asks()
        elif self.ask is not None:
            yield self.name, self.ask

    def plain_targets(self) -> Iterator[str]:
        if self.kind == "python":
            yield self.options["target"]
        if self.vote is not None:
            yield from self.vote.plain_targets()

    # ── flow and run ──

    needs_flow = True

    def check_flow(self, flow: Flow) -> None:
        if not flow.replies or flow.folded_by:
            what = f"`{self.name}` comes before any `map`; there is nothing to reduce yet"
            raise flow.bad(self, what)
        flow.need_replies(self)

    def into_one(self, ready: Ready) -> Reducer | AskedReduce:
        if (vote := self._named_vote()) is not None:
            return self._asked(ready, vote, vote.voters(ready))
        if self.ask is not None:
            return self._asked(ready, self.ask, ask_member)
        return reduces.from_plan(self.kind, self.options, ready.resolve)

    def _named_vote(self) -> Ensemble | None:
        """It goes by the name of the reduce, which may be that of a part of another step."""
        return self.vote and msgspec.structs.replace(self.vote, name=self.name)

    def _asked(self, ready: Ready, asking: Asking, by: TaskHandler) -> AskedReduce:
        terms = ready.terms(asking, self.name)
        return AskedReduce(
            ready.prompt(asking, PART_NAMES), terms, self.fan_in or _USUAL_FAN_IN, by, self.partial
        )

    @property
    def tree_of(self) -> int | None:
        """So many at a time; None is all at once."""
        return self.fan_in or (None if self.ask is None and self.vote is None else _USUAL_FAN_IN)

    def as_reducing(self, ready: Ready) -> Reducing:
        return reducing(self.into_one(ready), self.fan_in)

    async def carry(self, state: PlanState) -> None:
        assert state.batch is not None
        reduction = self.as_reducing(state.ready)
        await state.govern_reduce(reduction.how)
        reducing = reduce_batch(state.run, state.batch, state.passed[-1], reduction)
        state.result(self, await state.or_flag(self.name, reducing))

    # ── preview and picture ──

    @property
    def is_asked(self) -> bool:
        return self.ask is not None or self.vote is not None

    def station(self, context: PreviewContext, size: int, kind: str = "reduce") -> ReduceStation:
        """Of an asked one, over so many parts."""
        reduction = self.into_one(context.ready)
        assert isinstance(reduction, AskedReduce)
        answers: AnswerEstimate
        if (vote := self._named_vote()) is not None:
            answers = vote.votes(context, reduction.prompt, reduction.terms)
        else:
            judges = [] if self.ask is None else judges_of(context, self.ask)
            answers = AskEstimate(context, reduction.terms, reduction.prompt, judges=judges)
        return ReduceStation(self.name, kind, reduction, answers, size)

    def preview(self, estimate: Estimate) -> PartPreview:
        if self.is_asked:
            station = self.station(estimate.context, estimate.sample.many)
            return estimate.into_one(self.name, [station])
        many = (estimate.sample.size or 1) if estimate.known else 1
        estimate.context.record(self.name, self.result_size(estimate.last, many))
        return PartPreview()

    def result_size(self, each: Size, many: int) -> Size:
        """Of what a pure one makes: some give one of the parts or less, the others at most all."""
        if self.kind in _ONE_PART:
            return each
        if self.kind == "top":
            many = min(many, ceil(self.options.get("n", many)))
        return each.times(max(1, many))

    def draw(self, id: str, sketch: Sketch) -> Box:
        return self.box(id, title(self.name, "reduce"), sketch)

    def box(self, id: str, heading: str, sketch: Sketch) -> Box:
        lines = self._described(sketch)
        inside = None if self.vote is None else self.vote.draw_votes(sketch)
        return Box(id, heading, lines, "fold", inside=inside)

    def _described(self, sketch: Sketch) -> tuple[str, ...]:
        options = [
            f"{name} {value!r}" if name == "sep" else f"{name} {describe_value(value)}"
            for name, value in self.options.items() if name not in _SILENT
        ]  # fmt: skip
        tree = f"tree of {self.fan_in}" if self.fan_in else ""
        partial = "on failure: partial" if self.partial else ""
        if self.ask is None:
            return joined([self.kind, *options, tree])
        said = joined([f"asked: {describe_who(self.ask.who, sketch.roster)}", tree, partial])
        return (*said, *gate_line(self.ask))


# ── reading ──────────────────────────────────────────────────────────────────────────────────

FanIn: TypeAlias = Annotated[int, Meta(ge=2, le=10**12)]
ReduceFailure = Annotated[
    OnFailure | Literal["partial"],
    Meta(description="Without a reply of it the run pauses, or does without (partial)."),
]
_TREE: dict[str, Any] = {
    "name": (Text, ""), "fan_in": (FanIn, _USUAL_FAN_IN), "on_failure": (ReduceFailure, "skip"),
}  # fmt: skip
AskedReduceFields = written(Asking, "an asked reduce", kind=(Literal["ask"], "ask"), **_TREE)
VotedReduceFields = written(
    Ensemble, "a reduce by an ensemble", "keep", "over", "picks", "watch", prompt=Text,
    kind=(Literal["ensemble"], "ensemble"), judge=(JudgeFields, UNSET), **_TREE,
)  # fmt: skip


class TreeFields(msgspec.Struct, frozen=True):
    """What every reduce may state, beside the fields of its kind."""

    name: Text = ""
    fan_in: FanIn | None = None


class ReduceEntry:
    """A reduce as it is written: a word is its kind; else a mapping, whose kind says what it has."""

    required: ClassVar[list[str]] = ["kind"]

    def __init__(self, kind: str, given: Any) -> None:
        self.kind, self.given = kind, given

    @classmethod
    def from_value(cls, value: Any) -> ReduceEntry:
        if isinstance(value, str):
            value = {"kind": value}
        elif not isinstance(value, dict):
            raise Misfit("a reduce is a kind such as `concat`, or a mapping with a `kind`")
        kind = value.get("kind") or cls.usual_kind(value)
        if kind not in KINDS:
            raise Misfit(f"unknown kind {quoted(str(kind))}: {remedy(str(kind), KINDS)}", "kind")
        return cls(kind, read_part(value, _FORMS.get(kind, TreeFields)))

    @classmethod
    def usual_kind(cls, value: dict[str, Any]) -> str:
        raise Misfit(f"a reduce needs the field `kind`: one of {', '.join(KINDS)}")

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        pure = {"type": "object", "required": ["kind"],
                "properties": {"kind": {"enum": list(reduces.KINDS)}}}  # fmt: skip
        asked = [
            {"$ref": f"#/$defs/{form.__name__}", "required": cls.required}
            for form in _FORMS.values()
        ]
        return {"anyOf": [{"enum": list(KINDS)}, pure, *asked]}


class IntoOneEntry(ReduceEntry):
    """`combine` and `synthesise`: an ask, when there is a prompt; else a kind, as in a reduce, or
    `module:function`."""

    required: ClassVar[list[str]] = []

    @classmethod
    def from_value(cls, value: Any) -> ReduceEntry:
        if isinstance(value, str) and ":" in value:
            value = {"target": value}
        return super().from_value(value)

    @classmethod
    def usual_kind(cls, value: dict[str, Any]) -> str:
        return "python" if "target" in value else "ask"

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        target = {"type": "object", "required": ["target"]}
        return {"anyOf": [{"type": "string"}, target, *super().json_schema()["anyOf"]]}


_FORMS = {"ask": AskedReduceFields, "ensemble": VotedReduceFields}
FORMS = tuple(_FORMS.values())
Reduce.written = ReduceEntry


def _spelled_out(node: Node, field: str) -> Node:
    lines: Lines = {(): node.line, (field,): node.line}
    return Node({field: node.value}, node.file, lines)


def _read_pure(node: Node, given: ReduceEntry, reading: StepContext, name: str) -> Reduce:
    options = {field: value for field, value in node.value.items() if field not in _OWN}
    if given.kind == "concat" and reading.lists_files and reading.task is not None:
        options = {"title": _FILE_TITLE, **options}
    try:
        reduces.from_plan(given.kind, options, noting_resolver(node, reading))
    except BadInput as error:
        named = (field for field in options if f"`{field}`" in error.what)
        field = next(named, None)
        raise (node if field is None else node.child(field)).bad(error.what) from None
    return Reduce(
        name=given.given.name or name, kind=given.kind, options=options,
        fan_in=given.given.fan_in, lines=lines_of(node), line=node.line,
    )  # fmt: skip


def _read_asked(node: Node, given: Any, reading: StepContext, name: str) -> Reduce:
    made = reading.asking(node, given, _NAMES)
    if "prompt" not in made and not made.get("who"):
        raise node.bad("an asked reduce needs a `prompt`")
    if partial := given.on_failure == "partial":
        del made["on_failure"]
    return Reduce(
        name=given.name or name, kind="ask", ask=Asking(**made), fan_in=given.fan_in,
        partial=partial, lines=lines_of(node), line=node.line,
    )  # fmt: skip


def _read_voted(node: Node, given: Any, reading: StepContext, name: str) -> Reduce:
    vote = Ensemble.read_votes(node, given, reading, given.name or name, _NAMES)
    if partial := given.on_failure == "partial":
        vote = msgspec.structs.replace(vote, on_failure="skip")
    return Reduce(
        name=vote.name, kind="ensemble", vote=vote, fan_in=given.fan_in, partial=partial,
        lines=lines_of(node), line=node.line,
    )  # fmt: skip
