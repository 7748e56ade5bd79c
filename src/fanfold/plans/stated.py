"""The steps of a plan file: map, reduce, write, and the short form of the map-reduce pattern."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fanfold.errors import BadInput
from fanfold.patterns import stated as reduces
from fanfold.plans.asking import (
    PARAM_FIELDS,
    WHO_FIELDS,
    read_budget,
    read_gate,
    read_keep,
    read_params,
    read_prompt,
    read_schema,
    read_who,
    resolver,
)
from fanfold.plans.plan import Input, Map, Reduce, Shard, Step, Write
from fanfold.work.check import (
    Check,
    anything,
    elements,
    fields,
    mapping,
    one_of,
    one_or_many,
    text,
    whole,
)
from fanfold.work.document import Node
from fanfold.work.nearest import remedy

_KINDS = ("list_files", "map", "reduce", "write")
_LATER = ("divide", "scatter", "pipeline", "ensemble", "graph", "ask", "command")


class Steps:
    """Reads the steps one after the other; what a step needs of the plan and of earlier ones."""

    def __init__(self, folder: Path, task: str | None) -> None:
        self._folder, self._task = folder, task
        self.steps: list[Step] = []
        self.input: Input | None = None

    def read(self, node: Node) -> None:
        for child in elements(node):
            self._read_one(child)
        if not self.steps:
            raise node.bad("`steps` is empty; a plan needs at least a `map`")

    def _read_one(self, node: Node) -> None:
        kind, inner = _single(node)
        match kind:
            case "list_files":
                self._list_files(inner)
            case "map":
                self._add(inner, self._map(inner))
            case "reduce":
                self._need_map(inner, "reduce")
                self._add(inner, self._reduce(inner))
            case _:
                self._need_map(inner, "write")
                self._add(inner, _write(inner, self._folder))

    def _names(self) -> list[str]:
        return [step.name for step in self.steps]

    def _add(self, node: Node, step: Step) -> None:
        if step.name in self._names():
            raise node.bad(f"a second step `{step.name}`; give it a `name` of its own")
        self.steps.append(step)

    def _need_map(self, node: Node, kind: str) -> None:
        if not any(isinstance(step, Map) for step in self.steps):
            raise node.bad(f"`{kind}` comes before any `map`; there is nothing to {kind} yet")

    # ── map ──────────────────────────────────────────────────────────────────────────────────

    def _map(self, node: Node) -> Map:
        stated = fields(node, _MAP, "a map")
        return Map(
            prompt=self._prompt(node, stated),
            schema=read_schema(node, self._folder),
            who=read_who(node, stated),
            gate=read_gate(node, self._folder),
            params=read_params(stated),
            lines=_lines(node),
            line=node.line,
            **{name: stated[name] for name in _SAME if name in stated},
        )

    def _prompt(self, node: Node, stated: dict[str, Any]) -> str | None:
        prompt = read_prompt(node, self._folder, self._names())
        if prompt is not None or self._task is None:
            return prompt
        return f"{_literally(self._task.strip())}\n\n{{{{ item.text }}}}"

    def _list_files(self, node: Node) -> None:
        if self.input is not None or self.steps:
            raise node.bad("`list_files` stands once, before all other steps")
        stated = fields(node, {"path": text, "pattern": text}, "list_files", required=("path",))
        pattern = (Path(stated["path"]) / stated.get("pattern", "**/*")).as_posix()
        self.input = Input("files", pattern, file=node.file, line=node.line)

    # ── reduce ───────────────────────────────────────────────────────────────────────────────

    def _reduce(self, node: Node) -> Reduce:
        if isinstance(node.value, str):
            node = Node({"kind": node.value}, node.file, {(): node.line, ("kind",): node.line})
        if "kind" not in mapping(node):
            raise node.bad(f"a reduce needs the field `kind`: one of {', '.join(_REDUCES)}")
        kind = one_of(*_REDUCES)(node.child("kind"))
        if kind == "ask":
            return self._asked_reduce(node)
        options = {name: value for name, value in node.value.items() if name not in _OWN}
        try:
            reduces.from_plan(kind, options, resolver(self._folder))
        except BadInput as error:
            raise _guilty(node, error.what).bad(error.what) from None
        name = text(node.child("name")) if "name" in node.value else "reduce"
        return Reduce(name=name, kind=kind, options=options, lines=_lines(node), line=node.line)

    def _asked_reduce(self, node: Node) -> Reduce:
        stated = fields(node, _ASKED, "an asked reduce")
        names = ("item", "items", "parts", "steps")
        prompt = read_prompt(node, self._folder, self._names(), names)
        if prompt is None:
            raise node.bad("an asked reduce needs a `prompt`")
        schema, who = read_schema(node, self._folder), read_who(node, stated)
        options: dict[str, Any] = {
            "prompt": prompt,
            "members": list(who.members),
            "needs": list(who.needs),
            "fan_in": stated.get("fan_in", 10),
            "revise": stated.get("revise", 1),
            "schema": schema.definition if schema else None,
            "gate": list(read_gate(node, self._folder) or ()) or None,
        }
        name = stated.get("name", "reduce")
        return Reduce(name=name, kind="ask", options=options, lines=_lines(node), line=node.line)


def _single(node: Node) -> tuple[str, Node]:
    """A step is a mapping with one key, its kind."""
    value = node.value
    if not isinstance(value, dict) or not value:
        raise node.bad("a step must be a mapping such as `map: {prompt: …}`")
    for name in value:
        if name in _LATER:
            raise node.child(name).bad(
                f"step `{name}` is not supported yet; there are map, reduce, write"
            )
        if name not in _KINDS and (len(value) == 1 or value[next(iter(value))] is not None):
            raise node.child(name).bad(f"unknown step `{name}`: {remedy(name, _KINDS)}")
    kind, *others = value
    if others:
        raise node.child(others[0]).bad(
            f"`{others[0]}` stands beside `{kind}`; indent what belongs to a step below its name"
        )
    return kind, node.child(kind)


def _literally(words: str) -> str:
    """A text that a template gives back as it is, braces and all."""
    return "{% raw %}" + words + "{% endraw %}" if "{" in words else words


def _lines(node: Node) -> dict[str, int]:
    return {name: node.child(name).line for name in node.value}


def _guilty(node: Node, what: str) -> Node:
    """The field an error text speaks of, for its line; else the step itself."""
    named = (name for name in node.value if name != "kind" and f"`{name}`" in what)
    name = next(named, None)
    return node if name is None else node.child(name)


def _write(node: Node, folder: Path) -> Write:
    child = node.child("path") if isinstance(node.value, dict) and "path" in node.value else node
    if child is not node:
        fields(node, {"path": text}, "a write")
    path = text(child)
    if path.endswith("/") or (folder / path).is_dir():
        raise child.bad(f"`write` must name a file; {path} is a directory")
    blocked = next((p for p in (folder / path).parents if p.is_file()), None)
    if blocked is not None:
        raise child.bad(f"`write` {path}: {blocked.name} is a file, not a folder")
    return Write(path=path, line=node.line)


def _read_shard(node: Node) -> Shard:
    stated = fields(node, dict.fromkeys(("items", "tokens"), whole(least=1)), "a shard")
    if not stated:
        raise node.bad("`shard` needs `items` or `tokens`")
    return Shard(**stated)


_REDUCES = (*reduces.KINDS, "ask")
_OWN = ("kind", "name")
_SAME = (
    "name", "shard", "concurrency", "budget", "keep", "revise", "escalate", "on_failure", "in_doubt",
)  # fmt: skip
_ASK_FIELDS: dict[str, Check] = {
    "name": text,
    "prompt": anything,
    "prompt_file": anything,
    "schema": anything,
    "schema_file": anything,
    "gate": anything,
    "revise": whole(least=0),
    **WHO_FIELDS,
}
_ASKED: dict[str, Check] = {**_ASK_FIELDS, "kind": text, "fan_in": whole(least=2)}
_MAP: dict[str, Check] = {
    **_ASK_FIELDS,
    **PARAM_FIELDS,
    "over": one_of("files", "items"),
    "shard": _read_shard,
    "concurrency": whole(least=1),
    "budget": read_budget,
    "keep": read_keep,
    "escalate": one_or_many(text),
    "on_failure": one_of("skip", "abort", "hold"),
    "in_doubt": one_of("retry", "hold"),
}
