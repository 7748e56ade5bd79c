"""The patterns as steps of a plan: ensemble, map_reduce, divide, scatter, graph, conduct, ask."""

from __future__ import annotations

from typing import Any

from fanfold.errors import BadInput
from fanfold.patterns.prompt import WithParents
from fanfold.plans.plan import (
    Conduct,
    Divide,
    Ensemble,
    Entry,
    Graph,
    MapReduce,
    Once,
    Scatter,
)
from fanfold.plans.plan import Node as Task
from fanfold.plans.steps.asking import (
    ASK_FIELDS,
    Reading,
    lines_of,
    read_keep,
    read_target,
    renamed,
)
from fanfold.plans.steps.reduces import read_into_one, read_reduce
from fanfold.plans.steps.singles import read_map, read_over
from fanfold.plans.steps.voting import VOTE_FIELDS, read_votes
from fanfold.work import dag
from fanfold.work.check import (
    Check,
    anything,
    at,
    elements,
    fields,
    flag,
    flag_or,
    mapping,
    number,
    one_or_many,
    text,
    whole,
)
from fanfold.work.document import Node
from fanfold.work.template import Template

_TASK_NAMES = ("parents", "missing", "steps", "task", "vars")
_ONCE_NAMES = ("steps", "task")
_SPLITS = ("items", "paragraphs")


def read_ensemble(node: Node, reading: Reading) -> Ensemble:
    stated = fields(node, _ENSEMBLE, "an ensemble")
    made = read_votes(node, stated, reading)
    if "over" in stated:
        made["over"] = read_over(node.child("over"), reading)
    return Ensemble(**made, **_own(stated, "name", "keep"))


def read_map_reduce(node: Node, reading: Reading) -> MapReduce:
    """`over` is where the item's list is: `item.files`, `steps.NAME`, `steps.NAME.parts`."""
    stated = fields(node, _MAP_REDUCE, "a map_reduce", required=("over", "map", "reduce"))
    name = stated.get("name", "map_reduce")
    inner = read_map(node.child("map"), reading)
    reduce = read_reduce(node.child("reduce"), reading)
    over = text(node.child("over"))
    root = over.partition(".")[0]
    if root not in ("item", "steps") or not over.partition(".")[2]:
        raise node.child("over").bad("`over` is a field such as item.files or steps.NAME")
    return MapReduce(
        name=name, over=over, map=renamed(inner, f"{name}.map"),
        reduce=renamed(reduce, f"{name}.reduce"), line=node.line, **_own(stated, "concurrency"),
    )  # fmt: skip


def read_divide(node: Node, reading: Reading) -> Divide:
    stated = fields(node, _DIVIDE, "a divide", required=("combine",))
    made = reading.asking(node, stated)
    combine = read_into_one(node.child("combine"), reading, "combine")
    name = stated.get("name", "divide")
    if "split" in stated and stated["split"] not in _SPLITS:
        read_target(node.child("split"), reading)
    return Divide(
        **made, name=name, combine=renamed(combine, f"{name}.combine"), **stated.get("fits", {}),
        **_own(stated, "split", "max_depth", "max_pieces"),
    )  # fmt: skip


def _read_fits(node: Node) -> dict[str, Any]:
    return fields(node, dict.fromkeys(("tokens", "items"), whole(least=1)), "fits")


def _read_split(node: Node) -> str:
    said = text(node)
    if said not in _SPLITS and ":" not in said:
        raise node.bad(f"`split` is items, paragraphs or module:function, not {said!r}")
    return said


# ── scatter, conduct ─────────────────────────────────────────────────────────────────────────


def read_scatter(node: Node, reading: Reading) -> Scatter:
    stated = fields(node, _SCATTER, "a scatter")
    name = stated.get("name", "scatter")
    made = reading.asking(node, stated)
    if "over" in stated:
        over = elements(node.child("over"))
        made["over"] = tuple(_read_entry(child, reading) for child in over)
        _check_entries(node, made["over"], stated.get("gather", {}))
    if "synthesise" in stated:
        synthesis = read_into_one(node.child("synthesise"), reading, "synthesise")
        made["synthesise"] = renamed(synthesis, f"{name}.synthesise")
    return Scatter(**made, **stated.get("gather", {}), name=name)


def _check_entries(node: Node, over: tuple[Entry, ...], gather: dict[str, Any]) -> None:
    if not over:
        raise node.child("over").bad("`over` is empty; list those whom the question is for")
    seen: dict[str, int | None] = {}
    for entry in over:
        if entry.id in seen:
            what = f"duplicate id {entry.id!r} in `over`; make ids unique"
            raise BadInput(what, file=node.file, line=entry.line)
        seen[entry.id] = entry.line
    if gather.get("first", 0) > len(over):
        what = f"`first` is {gather['first']}, but there are only {len(over)} entries"
        raise node.child("gather").bad(what)


def _read_entry(node: Node, reading: Reading) -> Entry:
    """Its own `member`, `members`, `needs` and `prompt` are for asking; the rest is its data."""
    whole_entry = mapping(node)
    if "id" not in whole_entry:
        raise node.bad("an entry of `over` needs the field `id`")
    id = whole_entry["id"]
    if isinstance(id, bool) or not isinstance(id, str | int):
        raise node.child("id").bad("`id` must be a text or a whole number")
    own = {
        field: ASK_FIELDS[field](node.child(field)) for field in _OF_ENTRY if field in whole_entry
    }
    made = reading.asking(node, own)
    data = {name: value for name, value in whole_entry.items() if name not in _OF_ENTRY}
    return Entry(str(id), data, made.get("who"), made.get("prompt"), node.line)


def _read_gather(node: Node) -> dict[str, Any]:
    """`all`, `{first: 3}` or `{within: 30}`."""
    if node.value == "all":
        return {}
    if not isinstance(node.value, dict):
        raise node.bad("`gather` is all, {first: 3} or {within: 30}")
    known: dict[str, Check] = {"first": whole(least=1), "within": number(above=0)}
    return fields(node, known, "gather")


def read_conduct(node: Node, reading: Reading) -> Conduct:
    stated = fields(node, _CONDUCT, "a conduct")
    name = stated.get("name", "conduct")
    made = reading.asking(node, stated)
    if "synthesise" in stated:
        synthesis = read_into_one(node.child("synthesise"), reading, "synthesise")
        made["synthesise"] = renamed(synthesis, f"{name}.synthesise")
    return Conduct(**made, **_own(stated, "most"), name=name)


def read_once(node: Node, reading: Reading) -> Once:
    stated = fields(node, _ONCE, "an ask")
    made = reading.asking(node, stated, _ONCE_NAMES)
    if "prompt" not in made:
        raise node.bad("an ask needs a `prompt`")
    return Once(**made, **_own(stated, "name"))


# ── graph ────────────────────────────────────────────────────────────────────────────────────


def read_graph(node: Node, reading: Reading) -> Graph:
    """What the graph states for all of its tasks holds where a task does not state its own."""
    stated = fields(node, _GRAPH, "a graph", required=("tasks",))
    shared = reading.asking(node, {k: v for k, v in stated.items() if k != "concurrency"})
    tasks = [_read_task(child, reading, shared) for child in elements(node.child("tasks"))]
    at(node.child("tasks"), lambda: dag.check(tasks))
    own = _own(stated, "name", "concurrency", "budget", "delay")
    return Graph(tasks=tuple(tasks), lines=lines_of(node), line=node.line, **own)


def _read_task(node: Node, reading: Reading, shared: dict[str, Any]) -> Task:
    stated = fields(node, _TASK, "a task of a graph", required=("id",))
    own = reading.asking(node, stated, _TASK_NAMES)
    lines = {**shared["lines"], **own["lines"]}
    own_words = _own(stated, "id", "depends_on", "partial", "weight", "sample")
    task = Task(**{**shared, **own, "lines": lines}, **own_words)
    if task.prompt is not None and "prompt" in own and task.verbatim is not True:
        for parent in sorted(_parents_read(task, task.prompt, node) - set(task.depends_on)):
            raise node.bad(
                f"the prompt of `{task.id}` reads parents.{parent}: add it to `depends_on`"
            )
    return task


def _parents_read(task: Task, prompt: str, node: Node) -> set[str]:
    if task.verbatim == "parents":
        return WithParents(prompt).fields("parents")
    return Template(prompt, name=node.file, known=_TASK_NAMES).fields("parents")


def _read_id(node: Node) -> str:
    if isinstance(node.value, int) and not isinstance(node.value, bool):
        return str(node.value)
    return text(node)


def _own(stated: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: stated[name] for name in names if name in stated}


_OF_ENTRY = ("member", "members", "needs", "prompt")
_ENSEMBLE: dict[str, Check] = {**ASK_FIELDS, **VOTE_FIELDS, "over": anything, "keep": read_keep}
_MAP_REDUCE: dict[str, Check] = {
    "name": text,
    "over": anything,
    "map": anything,
    "reduce": anything,
    "concurrency": whole(least=1),
}
_DIVIDE: dict[str, Check] = {
    **ASK_FIELDS,
    "fits": _read_fits,
    "split": _read_split,
    "combine": anything,
    "max_depth": whole(least=1),
    "max_pieces": whole(least=1),
}
_SCATTER: dict[str, Check] = {
    **ASK_FIELDS,
    "over": anything,
    "gather": _read_gather,
    "synthesise": anything,
}
_CONDUCT: dict[str, Check] = {**ASK_FIELDS, "most": whole(least=1), "synthesise": anything}
_GRAPH: dict[str, Check] = {
    **{name: check for name, check in ASK_FIELDS.items() if name not in ("prompt", "prompt_file")},
    "tasks": anything,
    "delay": number(least=0),
}
_TASK: dict[str, Check] = {
    **{
        name: check
        for name, check in ASK_FIELDS.items()
        if name not in ("name", "concurrency", "budget")
    },
    "id": _read_id,
    "depends_on": one_or_many(_read_id),
    "partial": flag_or("always"),
    "weight": number(above=0),
    "verbatim": flag_or("parents"),
    "sample": whole(least=0),
}
_ONCE: dict[str, Check] = {**ASK_FIELDS, "verbatim": flag}
