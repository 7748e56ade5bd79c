"""`write`: put the result, or the replies of the items, into files."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec
from msgspec import UNSET

from fanfold.plans.carry import PlanState
from fanfold.plans.drawing.sketch import Sketch, title
from fanfold.plans.flow import Flow
from fanfold.plans.places import PATH_NAMES, WriteStep, fixed_folder
from fanfold.plans.reading import StepContext, check_inside
from fanfold.plans.steps.kind import Step
from fanfold.plans.variables import check_reads, filled
from fanfold.plans.write import RECORDS
from fanfold.work.check import at
from fanfold.work.document import Node
from fanfold.work.picture import Box
from fanfold.work.reader import Stated, Text
from fanfold.work.template import Template


class WriteFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What may be written below `write`, beside a path alone."""

    called = "a write"
    name: Text = "write"
    path: Text
    each: Stated[Literal["item"]] = UNSET
    with_: Stated[Literal["input"]] = msgspec.field(default=UNSET, name="with")


class Write(WriteStep, Step, frozen=True, omit_defaults=True, tag="write", kw_only=True):
    """Put the result into a file, named relative to the plan's folder."""

    written = Text | WriteFields

    @classmethod
    def read(cls, node: Node, given: str | WriteFields, reading: StepContext) -> Write:
        if isinstance(given, str):
            return cls(path=_read_path(node, given, reading), line=node.line)
        child, each, with_input = (
            node.child("path"),
            given.each is not UNSET,
            given.with_ is not UNSET,
        )
        if each and with_input:
            raise node.child("with").bad("state `each` or `with`, not both")
        path = _read_path(child, given.path, reading, each=each)
        if with_input and Path(path).suffix.lower() not in RECORDS:
            *others, last = sorted(RECORDS)
            known = f"{', '.join(others)} or {last}"
            raise child.bad(f"`with: input` makes records: {path} must end in {known}")
        return cls(name=given.name, path=path, each=each, with_input=with_input, line=node.line)

    gives_result = False

    def check_flow(self, flow: Flow) -> None:
        """What is written for each item needs replies of the items."""
        field = "each: item" if self.each else "with: input"
        if (self.each or self.with_input) and not flow.replies:
            what = f"`{field}` needs a step before it that gives each item a reply, such as `map`"
            raise flow.bad(self, what)
        if self.with_input and (flow.plan.input is None or flow.of_a_step):
            why = "there is no `input`"
            if flow.plan.input is not None:
                why = "the items here are not those of the input"
            raise flow.bad(self, f"`{field}`: {why}")

    async def carry(self, state: PlanState) -> None:
        """A step that gave no result has nothing that could be written."""
        output, batch = state.output, state.batch
        passed = state.passed[-1] if batch is not None and state.passed else None
        if self.with_input:
            if state.of_input is not None:
                output.with_input(self, *state.of_input)
        elif self.each:
            if batch is not None and passed is not None:
                output.each(self, batch, passed)
        elif state.folded:
            if state.value is not None:
                of = None if batch is None or passed is None else (batch, passed)
                output.value(self, state.value, of)
        elif batch is not None and passed is not None:
            output.parts(self, batch, passed)

    def draw(self, id: str, sketch: Sketch) -> Box:
        lines: tuple[str, ...] = (self.path,)
        if self.each:
            lines = (self.path, "a file for each item")
        elif self.with_input:
            lines = (self.path, "with the input's fields")
        return Box(id, title(self.name, "write"), lines, "file")


def _read_path(node: Node, path: str, reading: StepContext, *, each: bool = False) -> str:
    if each:
        _check_each(node, path, reading)
        _check_place(node, f"{fixed_folder(path)}/x".lstrip("/"), reading)
        return path
    path = _filled(node, path, reading)
    _check_place(node, path, reading)
    return path


def _check_place(node: Node, path: str, reading: StepContext) -> None:
    """As far as it can be seen without writing; a run tries it out before it asks anybody."""
    folder = reading.folder
    if path.endswith("/") or (folder / path).is_dir():
        raise node.bad(f"`write` must name a file; {path} is a directory")
    blocked = next((p for p in (folder / path).parents if p.is_file()), None)
    if blocked is not None:
        raise node.bad(f"`write` {path}: {blocked.name} is a file, not a folder")
    check_inside(node, path, reading)


def _filled(node: Node, path: str, reading: StepContext) -> str:
    """With the values of variables. Fields of an item are known only where there is a file of each."""
    if "item" in path and "{" in path:
        template = at(node, lambda: Template(path, name=node.file, known=PATH_NAMES))
        if template.uses("item"):
            raise node.bad(f"a file for each item is `write: {{path: {path!r}, each: item}}`")
    return filled(node, path, reading.vars)


def _check_each(node: Node, path: str, reading: StepContext) -> None:
    template = at(node, lambda: Template(path, name=node.file, known=PATH_NAMES))
    check_reads(template, reading.vars, node, "`path`")
    if not template.uses("item"):
        raise node.bad("with `each: item` the path names the item, such as out/{{ item.id }}.md")
