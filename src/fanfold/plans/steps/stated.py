"""The steps of a plan file, in their order: which there are, and what each needs of the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from fanfold.plans.flow import ItemStep, produced
from fanfold.plans.places import PATH_NAMES, fixed_folder
from fanfold.plans.plan import Input, Map, Pipeline, Stage, Step, Write
from fanfold.plans.steps.asking import Reading, check_inside, renamed
from fanfold.plans.steps.reduces import read_reduce
from fanfold.plans.steps.shapes import (
    read_conduct,
    read_divide,
    read_ensemble,
    read_graph,
    read_map_reduce,
    read_once,
    read_scatter,
)
from fanfold.plans.steps.singles import read_command, read_map
from fanfold.plans.variables import check_reads, filled
from fanfold.plans.write import RECORDS
from fanfold.work.check import Check, anything, at, elements, fields, one_of, text
from fanfold.work.document import Node
from fanfold.work.nearest import remedy
from fanfold.work.task import Who
from fanfold.work.template import Template

Read: TypeAlias = Callable[[Node, Reading], Any]

_MOST_STAGES = 20
_STAGES: dict[str, Read] = {
    "map": read_map,
    "command": read_command,
    "ensemble": read_ensemble,
    "map_reduce": read_map_reduce,
}
_OTHERS: dict[str, Read] = {
    "divide": read_divide,
    "scatter": read_scatter,
    "graph": read_graph,
    "conduct": read_conduct,
    "ask": read_once,
    "reduce": read_reduce,
}
_KINDS = ("list_files", *_STAGES, "pipeline", *_OTHERS, "write")


class Steps:
    """Reads the steps one after the other."""

    def __init__(
        self, folder: Path, task: str | None, values: dict[str, Any], *, allow_outside: bool = False
    ) -> None:
        self._folder, self._task, self._vars = folder, task, values
        self._allow_outside = allow_outside
        self._replies: list[str] = []
        self._results: list[str] = []
        self.steps: list[Step] = []
        self.targets: dict[str, int] = {}
        self.input: Input | None = None

    def read(self, node: Node) -> None:
        for child in elements(node):
            self._read_one(child)
        if not self.steps:
            raise node.bad("`steps` is empty; a plan needs at least a `map`")

    def _read_one(self, node: Node) -> None:
        kind, inner = _single(node, _KINDS)
        match kind:
            case "list_files":
                self._list_files(inner)
            case "pipeline":
                self._add(inner, self._pipeline(inner))
            case "write":
                if not self.steps:
                    raise inner.bad(
                        "`write` comes before any other step; there is nothing to write"
                    )
                self._add(inner, _write(inner, self._reading(False)))
            case _:
                read = _STAGES.get(kind) or _OTHERS[kind]
                self._add(inner, read(inner, self._reading(_starts_anew(kind, inner))))

    def _reading(self, anew: bool, stages: tuple[str, ...] = ()) -> Reading:
        """Items of its own, or of a produced list, have no replies of earlier steps yet."""
        replies = () if anew else (*self._replies, *stages)
        results = [*self._results, *self._replies] if anew else self._results
        return Reading(
            self._folder,
            self._task,
            replies,
            results,
            self.targets,
            self._allow_outside,
            self._vars,
        )

    def _names(self) -> list[str]:
        names = []
        for step in self.steps:
            names += [stage.name for stage in step.stages] if isinstance(step, Pipeline) else []
            names.append(step.name)
        return names

    def _add(self, node: Node, step: Step) -> None:
        taken = self._names()
        stages = [stage.name for stage in step.stages] if isinstance(step, Pipeline) else []
        for name in (*stages, step.name):
            if name in taken:
                raise node.bad(f"a second step `{name}`; give it a `name` of its own")
            taken.append(name)
        self.steps.append(_with_own_member(step))
        self._note(step, stages)

    def _note(self, step: Step, stages: list[str]) -> None:
        """Which names later prompts may read, and in which way."""
        if produced(step) is not None:
            self._replies = []
        if isinstance(step, Pipeline):
            self._replies += stages
        elif isinstance(step, ItemStep):
            self._replies.append(step.name)
        elif not isinstance(step, Write):
            self._results.append(step.name)

    def _list_files(self, node: Node) -> None:
        if self.input is not None or self.steps:
            raise node.bad("`list_files` stands once, before all other steps")
        stated = fields(node, {"path": text, "pattern": text}, "list_files", required=("path",))
        pattern = (Path(stated["path"]) / stated.get("pattern", "**/*")).as_posix()
        pattern = filled(node, pattern, self._vars)
        self.input = Input("files", pattern, file=node.file, line=node.line)

    def _pipeline(self, node: Node) -> Pipeline:
        stated = fields(node, _PIPELINE, "a pipeline", required=("stages",))
        stages: list[Stage] = []
        for number, child in enumerate(elements(node.child("stages")), 1):
            kind, inner = _single(child, tuple(_STAGES))
            names = tuple(stage.name for stage in stages)
            stage = _STAGES[kind](inner, self._reading(False, names))
            if isinstance(inner.value, dict) and "name" not in inner.value:
                stage = renamed(stage, f"stage{number}")
            if isinstance(stage, Map) and stage.over is not None:
                raise inner.child("over").bad("`over` has no use in a stage; use `map_reduce`")
            stages.append(stage)
        if not 1 <= len(stages) <= _MOST_STAGES:
            raise node.child("stages").bad(f"a pipeline has 1 to {_MOST_STAGES} stages")
        given = {name: stated[name] for name in ("name", "mode") if name in stated}
        return Pipeline(stages=tuple(stages), line=node.line, **given)


_PIPELINE: dict[str, Check] = {
    "name": text,
    "mode": one_of("streaming", "batch"),
    "stages": anything,
}


def _with_own_member(step: Any) -> Any:
    """A command step asks the member that it is: that of its own name."""
    if isinstance(step, Pipeline):
        stages = tuple(_with_own_member(stage) for stage in step.stages)
        return msgspec.structs.replace(step, stages=stages)
    if isinstance(step, Map) and step.command is not None:
        return msgspec.structs.replace(step, who=Who(members=(step.name,)))
    return step


def _starts_anew(kind: str, node: Node) -> bool:
    over = node.value.get("over") if isinstance(node.value, dict) else None
    return (kind == "scatter" and over is not None) or (
        kind in ("map", "ensemble") and isinstance(over, str) and over.startswith("steps.")
    )


def _single(node: Node, kinds: tuple[str, ...]) -> tuple[str, Node]:
    """A step is a mapping with one key, its kind."""
    value = node.value
    if not isinstance(value, dict) or not value:
        raise node.bad("a step must be a mapping such as `map: {prompt: …}`")
    for name in value:
        if name not in kinds and (len(value) == 1 or value[next(iter(value))] is not None):
            what = f"`{name}` cannot be a stage" if name in _KINDS else f"unknown step `{name}`"
            raise node.child(name).bad(f"{what}: {remedy(name, kinds)}")
    kind, *others = value
    if others:
        raise node.child(others[0]).bad(
            f"`{others[0]}` is beside `{kind}`; indent what belongs to a step below its name"
        )
    return kind, node.child(kind)


def _write(node: Node, reading: Reading) -> Write:
    child = node.child("path") if isinstance(node.value, dict) and "path" in node.value else node
    stated = {} if child is node else fields(node, _WRITE, "a write")
    each, with_input = "each" in stated, "with" in stated
    if each and with_input:
        raise node.child("with").bad("state `each` or `with`, not both")
    path = text(child)
    if each:
        _check_each(child, path, reading)
    else:
        path = _filled(child, path, reading)
    _check_place(child, f"{fixed_folder(path)}/x".lstrip("/") if each else path, reading)
    if with_input and Path(path).suffix.lower() not in RECORDS:
        raise child.bad(f"`with: input` makes records: {path} must end in {_or(sorted(RECORDS))}")
    name = stated.get("name", "write")
    return Write(name=name, path=path, each=each, with_input=with_input, line=node.line)


_WRITE: dict[str, Check] = {
    "name": text, "path": text, "each": one_of("item"), "with": one_of("input"),
}  # fmt: skip


def _check_place(node: Node, path: str, reading: Reading) -> None:
    """As far as it can be seen without writing; a run tries it out before it asks anybody."""
    folder = reading.folder
    if path.endswith("/") or (folder / path).is_dir():
        raise node.bad(f"`write` must name a file; {path} is a directory")
    blocked = next((p for p in (folder / path).parents if p.is_file()), None)
    if blocked is not None:
        raise node.bad(f"`write` {path}: {blocked.name} is a file, not a folder")
    check_inside(node, path, reading)


def _filled(node: Node, path: str, reading: Reading) -> str:
    """With the values of variables. Fields of an item are known only where there is a file of each."""
    if "item" in path and "{" in path:
        template = at(node, lambda: Template(path, name=node.file, known=PATH_NAMES))
        if template.uses("item"):
            raise node.bad(f"a file for each item is `write: {{path: {path!r}, each: item}}`")
    return filled(node, path, reading.vars)


def _check_each(node: Node, path: str, reading: Reading) -> None:
    template = at(node, lambda: Template(path, name=node.file, known=PATH_NAMES))
    check_reads(template, reading.vars, node, "`path`")
    if not template.uses("item"):
        raise node.bad("with `each: item` the path names the item, such as out/{{ item.id }}.md")


def _or(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"
