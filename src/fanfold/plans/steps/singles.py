"""Steps that ask once per item: map, and command, which brings its own member."""

from __future__ import annotations

import re
from typing import Any

from fanfold.members.entry import read_entry
from fanfold.plans.plan import Map, Shard
from fanfold.plans.steps.asking import ASK_FIELDS, Reading, read_keep
from fanfold.work.check import Check, anything, fields, text, whole
from fanfold.work.document import Lines, Node

_OVER = re.compile(r"steps\.([A-Za-z_][A-Za-z0-9_]*)")
_FLOW = ("files", "items")


def read_map(node: Node, reading: Reading) -> Map:
    stated = fields(node, _MAP, "a map")
    made = reading.asking(node, stated)
    if "prompt" not in made and reading.task is not None:
        made["prompt"] = f"{_literally(reading.task.strip())}\n\n{{{{ item.text }}}}"
    if "over" in stated:
        made["over"] = read_over(node.child("over"), reading)
    same = {name: stated[name] for name in ("name", "shard", "keep") if name in stated}
    return Map(**made, **same)


def read_over(node: Node, reading: Reading) -> str | None:
    """`files` and `items` are those in the flow; `steps.NAME` is what an earlier step produced."""
    said = text(node)
    if said in _FLOW:
        return None
    found = _OVER.fullmatch(said)
    if found is None:
        raise node.bad(f"`over` is items, files or steps.NAME of an earlier step, not {said!r}")
    if found[1] not in reading.earlier:
        there = f"there are {', '.join(reading.earlier)}" if reading.earlier else "there is none"
        raise node.bad(f"`over` names `{said}`, but no earlier step has that name; {there}")
    return said


def read_command(node: Node, reading: Reading) -> Map:
    """A map answered by a program of the step's own, which gets the prompt on its stdin.

    Without a prompt it gets the reply of the step before, or the item's text.
    """
    stated = fields(node, _COMMAND, "a command", required=("cmd",))
    made = reading.asking(node, stated)
    made.setdefault("prompt", _handed_on(reading))
    same = {field: stated[field] for field in ("name", "keep") if field in stated}
    same.setdefault("name", "command")
    return Map(**made, **same, command=_member(node))


def _member(node: Node) -> dict[str, Any]:
    """What the step says of its program, tried out as a member so that mistakes show now."""
    own = {field: node.value[field] for field in _OF_MEMBER if field in node.value}
    read_entry(own_member(node.file, node.line, "command", own, node))
    return own


def own_member(file: str, line: int, id: str, own: dict[str, Any], at: Node | None = None) -> Node:
    """A command of a step as it would stand in a roster."""
    place = () if at is None else at.place
    lines: Lines = {} if at is None else dict(at.lines)
    lines |= {place: line, (*place, "id"): line, (*place, "kind"): line}
    return Node({"id": id, "kind": "command", **own}, file, lines, place)


def _handed_on(reading: Reading) -> str:
    if reading.replies:
        return f"{{{{ steps[{reading.replies[-1]!r}] }}}}"
    return "{{ item.text }}"


def _literally(words: str) -> str:
    """A text that a template gives back as it is, braces and all."""
    return "{% raw %}" + words + "{% endraw %}" if "{" in words else words


def _read_shard(node: Node) -> Shard:
    stated = fields(node, dict.fromkeys(("items", "tokens"), whole(least=1)), "a shard")
    if not stated:
        raise node.bad("`shard` needs `items` or `tokens`")
    return Shard(**stated)


_OF_MEMBER = ("cmd", "price", "effects", "version", "timeout", "limits")
_WHO = ("member", "members", "agent", "needs", "use")
_MAP: dict[str, Check] = {**ASK_FIELDS, "over": anything, "shard": _read_shard, "keep": read_keep}
_COMMAND: dict[str, Check] = {
    **{name: check for name, check in ASK_FIELDS.items() if name not in _WHO},
    **dict.fromkeys(_OF_MEMBER, anything),
    "keep": read_keep,
}
