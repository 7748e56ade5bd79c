"""What steps that ask have in common: prompt, schema, gate, members, budget; read and checked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from fanfold.errors import BadInput
from fanfold.gates import checks
from fanfold.gates.stated import from_plan
from fanfold.members.target import resolve_target
from fanfold.members.unloaded import look_for
from fanfold.plans.variables import NAME as VARS
from fanfold.plans.variables import check_reads
from fanfold.work.ask import Params, Schema
from fanfold.work.check import (
    Check,
    anything,
    at,
    elements,
    mapping,
    number,
    one_or_many,
    text,
    whole,
)
from fanfold.work.document import Node, read, read_text
from fanfold.work.files import is_inside
from fanfold.work.options import TERMS, WHO, read_who
from fanfold.work.template import Template

T = TypeVar("T")

KNOWN_NAMES = ("item", "items", "steps", "task")
_KEEP_NAMES = ("item", "reply", VARS)

WHO_FIELDS: dict[str, Check] = {**WHO, "agent": text}
PARAM_FIELDS: dict[str, Check] = {
    "temperature": number(least=0),
    "top_p": number(above=0),
    "max_tokens": whole(least=1),
    "seed": whole(),
    "stop": one_or_many(text),
}
_WHO = ("member", "members", "agent", "needs", "use", "fallback")
_SAME = (
    "concurrency", "budget", "revise", "escalate", "on_failure", "in_doubt", "hedge", "verbatim",
)  # fmt: skip


class Reading(msgspec.Struct, frozen=True):
    """What a step needs of the plan around it: where files are, the task, the steps before it.

    `targets` are noted here with their lines: reading a plan imports none of them.
    `replies` are the steps that gave each item in the flow a reply, `results` those that made one
    result. Prompts about items see both under `steps`, others only results.
    """

    folder: Path
    task: str | None = None
    replies: Sequence[str] = ()
    results: Sequence[str] = ()
    targets: dict[str, int] = {}
    allow_outside: bool = False
    vars: dict[str, Any] = {}

    @property
    def earlier(self) -> list[str]:
        return [*self.replies, *self.results]

    def asking(
        self, node: Node, stated: dict[str, Any], known: Collection[str] | None = None
    ) -> dict[str, Any]:
        """The fields of an `Asking` that the step states, and its lines. `known` are the names in
        its prompt, when it is not about items."""
        made = {name: stated[name] for name in _SAME if name in stated}
        seen = self.earlier if known is None else list(self.results)
        if stated.get("verbatim"):
            prompt = read_verbatim(node, self)
        else:
            prompt = read_prompt(node, self, seen, known or KNOWN_NAMES)
        if prompt is not None:
            made["prompt"] = prompt
        if (schema := read_schema(node, self)) is not None:
            made["schema"] = schema
        if (gate := read_gate(node, self)) is not None:
            made["gate"] = gate
        if "keep" in stated:
            keep = node.child("keep")
            check_reads(keep_template(keep.value, node.file), self.vars, keep, "`keep`")
        if any(name in stated for name in _WHO):
            made["who"] = read_who(node, stated)
        if any(name in stated for name in PARAM_FIELDS):
            made["params"] = read_params(stated)
        return {**made, "lines": lines_of(node), "line": node.line}


def lines_of(node: Node) -> dict[str, int]:
    """The lines of a step's fields, and those of the members that its gate asks."""
    lines = {name: node.child(name).line for name in node.value}
    if "gate" in node.value:
        lines |= _lines_of_judges(node.child("gate"))
    return lines


def _lines_of_judges(node: Node, place: str = "gate") -> dict[str, int]:
    """By the way to each: `gate[0].all_of[1].judge`. A single check is the first of a list."""
    if isinstance(node.value, list):
        found = [_lines_of_judges(one, f"{place}[{n}]") for n, one in enumerate(elements(node))]
        return {name: line for lines in found for name, line in lines.items()}
    if not isinstance(node.value, dict):
        return {}
    place = "gate[0]" if place == "gate" else place
    lines: dict[str, int] = {}
    for kind in node.value:
        child = node.child(kind)
        if kind == "judge" and isinstance(child.value, dict):
            who = next((name for name in WHO if name in child.value), None)
            lines[f"{place}.judge"] = child.line if who is None else child.child(who).line
        elif kind in ("all_of", "any_of"):
            lines |= _lines_of_judges(child, f"{place}.{kind}")
    return lines


def renamed(step: Any, name: str) -> Any:
    return msgspec.structs.replace(step, name=name)


def resolver(folder: Path) -> Callable[[str], Any]:
    """For a run: what a target names is imported."""
    return lambda target: resolve_target(target, folder)


def onlooker(folder: Path) -> Callable[[str], Any]:
    """For those who only look: nothing is imported."""
    return lambda target: look_for(target, folder)


def noting(node: Node, reading: Reading) -> Callable[[str], Any]:
    """The same, and the run knows then where it stands."""

    def look(target: str) -> Any:
        found = look_for(target, reading.folder)
        reading.targets.setdefault(target, node.line)
        return found

    return look


def read_params(stated: dict[str, Any]) -> Params:
    return Params(**{name: stated[name] for name in PARAM_FIELDS if name in stated})


def read_prompt(
    node: Node, reading: Reading, earlier: Collection[str], known: Collection[str] = KNOWN_NAMES
) -> str | None:
    """The step's `prompt` or the text of its `prompt_file`, checked for names nobody defines."""
    child, known = _one_way(node, "prompt", "prompt_file"), (*known, VARS)
    if child is None:
        return None
    if child.place[-1] == "prompt":
        source, template = text(child), _inline_template(child, known)
    else:
        source = _file_text(child, reading)
        template = Template(source, name=str(reading.folder / child.value), known=known)
    for step in sorted(template.fields("steps") - set(earlier)):
        there = f"there are {', '.join(earlier)}" if earlier else "there is none"
        raise child.bad(
            f"the prompt reads `steps.{step}`, but it cannot see an earlier step of that name; {there}"
        )
    check_reads(template, reading.vars, child, "the prompt")
    return source


def read_verbatim(node: Node, reading: Reading) -> str | None:
    """The same text, but no template: nothing in it is looked at."""
    child = _one_way(node, "prompt", "prompt_file")
    if child is None:
        raise node.child("verbatim").bad("`verbatim` needs a `prompt` or a `prompt_file`")
    return text(child) if child.place[-1] == "prompt" else _file_text(child, reading)


def _inline_template(node: Node, known: Collection[str]) -> Template:
    """In a block text the very line of a mistake is known; else that of the field has to do."""
    source, first = text(node), node.line_in_text(1)
    if first == node.line:
        return at(node, lambda: Template(source, name=node.file, known=known))
    return Template(source, name=node.file, known=known, line=first)


def keep_template(expression: str, file: str) -> Template:
    """`reply.relevant` as a template that is empty where the expression is false."""
    return Template("{% if " + expression + " %}1{% endif %}", name=file, known=_KEEP_NAMES)


def read_keep(node: Node) -> str:
    """A filter's expression over the reply and the item, tried out so that mistakes show now."""
    expression = text(node)
    if expression == "prompts":
        raise node.bad(
            "`keep` of a step is a filter; to store prompts, state `keep: prompts` at the top of the plan"
        )
    at(node, lambda: keep_template(expression, node.file))
    return expression


def read_schema(node: Node, reading: Reading) -> Schema | None:
    """The step's `schema`, or that of its `schema_file`; what is no JSON Schema is refused."""
    child = _one_way(node, "schema", "schema_file")
    if child is None:
        return None
    if child.place[-1] == "schema":
        found = child
    else:
        _file_text(child, reading)
        found = read(reading.folder / text(child))
    definition = mapping(found)
    at(found, lambda: checks.schema(definition))
    return Schema.of(definition)


def _one_way(node: Node, inline: str, in_file: str) -> Node | None:
    if inline in node.value and in_file in node.value:
        raise node.child(in_file).bad(f"state `{inline}` or `{in_file}`, not both")
    name = next((name for name in (inline, in_file) if name in node.value), None)
    return None if name is None else node.child(name)


def check_inside(node: Node, path: str, reading: Reading) -> None:
    """A plan may come from somebody else: what it writes, and reads to send, lies in its folder."""
    if not reading.allow_outside and not is_inside(reading.folder, path):
        what = f"`{node.name}` {path} leads out of the plan's folder"
        raise node.bad(f"{what}; if that is meant, allow it with --allow-outside")


def _file_text(node: Node, reading: Reading) -> str:
    name = text(node)
    check_inside(node, name, reading)
    try:
        found = read_text(reading.folder / name)
    except BadInput as error:
        raise node.bad(f"`{node.name}` {name}: {error.what}") from None
    if not found.strip():
        raise node.bad(f"`{node.name}` {name}: is empty")
    return found


def read_gate(node: Node, reading: Reading) -> tuple[dict[str, Any], ...] | None:
    """The step's `gate` as it is written, each check tried out so that mistakes show now."""
    if "gate" not in node.value:
        return None
    gate = node.child("gate")
    listed = list(elements(gate)) if isinstance(gate.value, list) else [gate]
    for child in listed:
        _try_out(child, reading)
    if not listed:
        raise gate.bad("`gate` states no check: give one, such as `require: [a]`, or leave it out")
    return tuple(child.value for child in listed)


def read_target(node: Node, reading: Reading) -> str:
    """`module:attribute` that can be found from the plan's folder."""
    target = text(node)
    at(node, lambda: noting(node, reading)(target))
    return target


def _try_out(check: Node, reading: Reading) -> None:
    at(check, lambda: from_plan(check.value, noting(check, reading)))


ASK_FIELDS: dict[str, Check] = {
    **dict.fromkeys(("prompt", "prompt_file", "schema", "schema_file", "gate"), anything),
    **WHO_FIELDS,
    **PARAM_FIELDS,
    **TERMS,
    "name": text,
}
