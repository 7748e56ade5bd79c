"""A plan as records: all that a run needs, prompts and schemas included, so it can be stored."""

from __future__ import annotations

import shlex
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from fanfold.run.govern import Govern
from fanfold.work.ask import Params, Schema
from fanfold.work.task import Budget, Hedge, InDoubt, OnFailure, Who

InputKind = Literal[
    "jsonl", "json", "csv", "tsv", "lines", "files", "list", "count", "command", "http"
]
INPUT_KINDS: tuple[InputKind, ...] = get_args(InputKind)


class Input(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where the items come from. `id` names the field that holds an item's id, when stated."""

    kind: InputKind
    value: Any
    id: str | None = None
    limit: int | None = None
    file: str | None = None
    line: int | None = None


class Shard(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many items go into one ask; one of the two is stated."""

    items: int | None = None
    tokens: int | None = None


class Asking(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What every step that asks can state. Without a prompt only functions and replay can answer.

    `verbatim`: the prompt is no template, it is sent as it stands; `parents`: but for the places of
    parents' answers. `gate` is as written in the plan;
    None is the default gate alone. `line` is the step's, `lines` those of its fields.
    """

    prompt: str | None = None
    verbatim: bool | Literal["parents"] = False
    schema: Schema | None = None
    who: Who = Who()
    concurrency: int = 8
    budget: Budget = Budget()
    gate: tuple[dict[str, Any], ...] | None = None
    revise: int = 1
    escalate: tuple[str, ...] = ()
    on_failure: OnFailure = "skip"
    in_doubt: InDoubt | None = None
    hedge: Hedge | None = None
    params: Params = Params()
    lines: dict[str, int] = {}
    line: int | None = None


class Map(Asking, frozen=True, omit_defaults=True, tag="map", kw_only=True):
    """Ask once per item (or shard).

    `over` is a produced list, `steps.NAME`: the result of that step, or the lists that its replies
    are. `command` is a member of the step's own.
    """

    name: str = "map"
    shard: Shard | None = None
    keep: str | None = None
    over: str | None = None
    command: dict[str, Any] | None = None


class Ensemble(Asking, frozen=True, omit_defaults=True, tag="ensemble", kw_only=True):
    """The same ask to several members, or several samples of one; then a decision.

    `decide` is majority, weighted, quorum, judge or `module:function`. `judge` says who and how; it
    `picks` an answer, or else writes one.
    """

    name: str = "ensemble"
    samples: int | None = None
    decide: str = "majority"
    weights: dict[str, float] = {}
    quorum: int | None = None
    stop_early: bool = False
    confidence: float | None = None
    field: str | None = None
    judge: Asking | None = None
    picks: bool = True
    keep: str | None = None
    over: str | None = None


class Reduce(msgspec.Struct, frozen=True, omit_defaults=True, tag="reduce", kw_only=True):
    """Many into one: the passed replies, the answers of a scatter, the parts of a divided whole.

    For the kind `ask`, `ask` says who writes it how; for `ensemble` it is `vote`. `fan_in`: in a
    tree, so many at a time.
    """

    name: str = "reduce"
    kind: str
    options: dict[str, Any] = {}
    ask: Asking | None = None
    vote: Ensemble | None = None
    fan_in: int | None = None
    lines: dict[str, int] = {}
    line: int | None = None


class MapReduce(msgspec.Struct, frozen=True, omit_defaults=True, tag="map_reduce", kw_only=True):
    """For each item a map and a reduce of its own, over the list at `over` (`item.files`, say)."""

    name: str = "map_reduce"
    over: str
    map: Map
    reduce: Reduce
    concurrency: int = 8
    line: int | None = None


Stage: TypeAlias = Map | Ensemble | MapReduce


class Pipeline(msgspec.Struct, frozen=True, omit_defaults=True, tag="pipeline", kw_only=True):
    """Stages one after the other; `streaming`: each item goes on as soon as it is ready."""

    name: str = "pipeline"
    mode: Literal["streaming", "batch"] = "streaming"
    stages: tuple[Stage, ...]
    line: int | None = None


class Divide(Asking, frozen=True, omit_defaults=True, tag="divide", kw_only=True):
    """Split until a piece fits, solve the pieces, combine them bottom-up.

    A piece fits when it has at most so many tokens or items; without either, when it fits the
    context of those who may answer. `split` is items, paragraphs or `module:function`.
    """

    name: str = "divide"
    tokens: int | None = None
    items: int | None = None
    split: str = "items"
    combine: Reduce
    max_depth: int = 8
    max_pieces: int = 1000


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of those a question goes to: its own fields, and its own member or prompt if it has."""

    id: str
    data: dict[str, Any]
    who: Who | None = None
    prompt: str | None = None
    line: int | None = None


class Scatter(Asking, frozen=True, omit_defaults=True, tag="scatter", kw_only=True):
    """Questions to several at once. Gathered are all, the `first` so many, or those `within` so
    many seconds. Without `over`, the items in the flow."""

    name: str = "scatter"
    over: tuple[Entry, ...] = ()
    first: int | None = None
    within: float | None = None
    synthesise: Reduce | None = None


class Node(Asking, frozen=True, omit_defaults=True, kw_only=True):
    """A task of a graph. `partial`: it can do with the answers of some of its parents, or `always`.

    `weight` is about how long it takes, against the others; for the order when slots are scarce.
    `sample` is part of the key: another number, another ask.
    """

    id: str
    depends_on: tuple[str, ...] = ()
    partial: bool | Literal["always"] = False
    weight: float = 1.0
    sample: int = 0


class Graph(msgspec.Struct, frozen=True, omit_defaults=True, tag="graph", kw_only=True):
    """Tasks that depend on one another; at least `delay` seconds between two starts."""

    name: str = "graph"
    tasks: tuple[Node, ...]
    concurrency: int = 8
    delay: float = 0.0
    budget: Budget = Budget()
    lines: dict[str, int] = {}
    line: int | None = None


class Conduct(Asking, frozen=True, omit_defaults=True, tag="conduct", kw_only=True):
    """Plan the whole batch, fan out, barrier, gate, one kick-back, synthesis of what passed."""

    name: str = "conduct"
    concurrency: int = 7
    most: int = 40
    synthesise: Reduce | None = None


class Once(Asking, frozen=True, omit_defaults=True, tag="ask", kw_only=True):
    """One ask, with the results so far under `steps`."""

    name: str = "ask"


class Write(msgspec.Struct, frozen=True, omit_defaults=True, tag="write", kw_only=True):
    """Put the result into a file, named relative to the plan's folder.

    `each`: a file for each item that passed, and `path` is a template. `with_input`: all items, with
    their own fields and those of their replies.
    """

    name: str = "write"
    path: str
    each: bool = False
    with_input: bool = False
    line: int | None = None


Step: TypeAlias = (
    Map
    | Ensemble
    | MapReduce
    | Pipeline
    | Divide
    | Scatter
    | Graph
    | Conduct
    | Once
    | Reduce
    | Write
)


class Overrides(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What the operator says in place of the plan: only so many items, another input, values of
    variables, calls of each step at once. Part of the plan, so that a resume goes by it too."""

    limit: int | None = None
    input: str | None = None
    vars: dict[str, str] = {}
    concurrency: int | None = None

    def words(self) -> list[str]:
        """As they are typed."""
        said = [("--limit", self.limit), ("--input", self.input), ("-j", self.concurrency)]
        said += [("--set", f"{name}={value}") for name, value in self.vars.items()]
        return [str(word) for pair in said if pair[1] is not None for word in pair]


class Plan(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """`file` is the plan as it was named, `folder` the absolute folder its paths start from.

    `targets`: the Python functions that its own text names, with their lines; imported by the run.
    `step_budgets`: by the name of a step, what the operator allows it instead of its own `budget`.
    `allow_outside`: it may write, and read prompts, beyond its folder.
    `vars`: what prompts and paths know as `vars`. `overrides` are worked in already.
    `keep: prompts`: what is sent is stored with the run, so that it can always be shown.
    """

    name: str
    file: str
    folder: str
    roster: str | None = None
    budget: Budget = Budget()
    task: str | None = None
    vars: dict[str, Any] = {}
    overrides: Overrides = Overrides()
    input: Input | None = None
    govern: Govern = Govern()
    targets: dict[str, int] = {}
    step_budgets: dict[str, Budget] = {}
    allow_outside: bool = False
    keep: Literal["prompts"] | None = None
    steps: tuple[Step, ...]


def run_command(plan: Plan) -> str:
    """How a run of it is started, with what the operator says in its place."""
    return shlex.join(["fanfold", "run", plan.file, *plan.overrides.words()])


NO_PLACE: dict[str, Any] = {"line": None, "lines": {}}


def without_lines(value: Any) -> Any:
    """A plan, or a part of one, without the lines on which it is written."""
    if isinstance(value, tuple):
        return tuple(without_lines(one) for one in value)
    if not isinstance(value, msgspec.Struct):
        return value
    names = value.__struct_fields__
    parts = {n: NO_PLACE[n] if n in NO_PLACE else without_lines(getattr(value, n)) for n in names}
    return msgspec.structs.replace(value, **parts)


def comparable(plan: Plan) -> Plan:
    """The plan without the name under which its file was given and without places in it, in the
    form it is stored in: a comment is no change."""
    given = None if plan.input is None else msgspec.structs.replace(plan.input, file=None)
    steps = tuple(_bare_graph(step) if isinstance(step, Graph) else step for step in plan.steps)
    operators: dict[str, Any] = {"targets": {}, "step_budgets": {}}
    bare = msgspec.structs.replace(plan, file="", input=given, steps=steps, **operators)
    return msgspec.json.decode(msgspec.json.encode(without_lines(bare)), type=Plan)


def _bare_graph(step: Graph) -> Graph:
    """Tasks that were relaunched have another sample."""
    tasks = tuple(msgspec.structs.replace(task, sample=0) for task in step.tasks)
    return msgspec.structs.replace(step, tasks=tasks)


def with_concurrency(value: Any, many: int) -> Any:
    """A plan, or a part of one, with so many calls at once in each of its steps."""
    if isinstance(value, tuple):
        return tuple(with_concurrency(one, many) for one in value)
    if not isinstance(value, msgspec.Struct) or isinstance(value, Overrides):
        return value
    parts = {
        name: many if name == "concurrency" else with_concurrency(getattr(value, name), many)
        for name in value.__struct_fields__
    }
    return msgspec.structs.replace(value, **parts)


def combined(stated: Budget, more: Budget | None) -> Budget:
    """What the command line says counts, amount by amount."""
    if more is None:
        return stated
    said = {name: getattr(more, name) for name in more.__struct_fields__}
    return msgspec.structs.replace(stated, **{k: v for k, v in said.items() if v is not None})
