"""TangleBrain's roster: a list of entries with `invoke`, read without a change.

What it calls openai-compat, cli and api are our kinds openai, command and openai; its tiers sub and
api are subscription and paid; where its tools are allowed to a command line, ours are. Our own
fields (`price`, `limits`, `pool`, `timeout`, `context`, `max_tokens`, `version`, `effects`) may be
added to an entry.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from fanfold.members.entry import MemberEntry, read_entry
from fanfold.members.keys import check_reference
from fanfold.members.kinds import MemberFields
from fanfold.work.check import Check, anything, entries, fields, one_of, text
from fanfold.work.document import Lines, Node
from fanfold.work.reader import Misfit

_SECONDS = 300.0  # how long its command line adapter waits
_FREE = re.compile(r"\s*(free\b|\$?0(\.0+)?\s*$)", re.IGNORECASE)
_TOOL = re.compile(r"mcp__tanglebrain[-_]delegate(__\w+)?(,mcp__tanglebrain[-_]delegate(__\w+)?)*")
_TOOLS = ",".join(
    f"mcp__fanfold__{tool}" for tool in ("menu", "delegate", "delegate_many", "reduce")
)
_PROGRAMS_ONLY = ("version", "effects")  # fields that mean nothing for a model over HTTP


class _Invoke(NamedTuple):
    """One of its kinds: ours, and which fields it has and needs."""

    kind: str
    known: tuple[str, ...]
    needs: tuple[str, ...]


_KINDS = {
    "openai-compat": _Invoke("openai", ("base_url", "model", "key_ref"), ("base_url", "model")),
    "cli": _Invoke("command", ("cmd", "parse", "scrub_env", "delegate_args"), ("cmd",)),
    "api": _Invoke(
        "openai", ("base_url", "model", "key_ref"), ("base_url", "model", "key_ref")
    ),
}  # fmt: skip
_ENTRY: dict[str, Check] = {
    **dict.fromkeys((*MemberFields.__struct_fields__, *_PROGRAMS_ONLY, "max_bytes"), anything),
    "invoke": anything,
    "cost": text,
}


def read_tangle_entry(node: Node) -> MemberEntry:
    """One element of the list, as one of our members: it is put into our words, then read."""
    top = dict(entries(node, "a member"))
    if "invoke" not in top and "kind" in top:
        raise node.bad("a list of members belongs under `members:`; write that above it")
    stated = fields(node, _ENTRY, "an entry", required=("id", "tier", "invoke"))
    invoke = node.child("invoke")
    if "kind" not in dict(entries(invoke)):
        raise invoke.bad(f"`invoke` needs the field `kind`: one of {', '.join(_KINDS)}")
    word: str = one_of(*_KINDS)(invoke.child("kind"))
    kind, known, needs = _KINDS[word]
    called = fields(
        invoke, dict.fromkeys(("kind", *known), anything), f"an invoke of kind {word}",
        required=needs,
    )  # fmt: skip
    ours = _translated(kind, {**stated, **called}, invoke)
    usual = {"can_delegate": stated["tier"] == "local"}
    if kind == "command":
        usual |= {"timeout": _SECONDS, "prompt": "argument"}
    if _FREE.match(stated.get("cost", "")):
        usual["price"] = {"call": 0}
    entry = read_entry(_placed({**usual, **ours, "kind": kind}, node, invoke))
    traits = msgspec.structs.replace(entry.traits, cost_text=stated.get("cost", ""))
    return msgspec.structs.replace(entry, traits=traits)


def _translated(kind: str, stated: dict[str, Any], invoke: Node) -> dict[str, Any]:
    """The fields of an entry and its `invoke` under our names."""
    ours = {name: stated[name] for name in stated if name not in ("invoke", "cost", "key_ref")}
    if kind == "openai":
        for name in _PROGRAMS_ONLY:
            ours.pop(name, None)
        return ours | {"key": _key(invoke)}
    if isinstance(words := ours.get("delegate_args"), list):
        ours["delegate_args"] = [_with_our_tools(word) for word in words]
    return ours


def _key(invoke: Node) -> str:
    if "key_ref" not in invoke.value:
        return "none"
    node = invoke.child("key_ref")
    try:
        return check_reference(node.value, "key_ref")
    except Misfit as misfit:
        raise node.bad(misfit.what) from None


def _with_our_tools(word: Any) -> Any:
    """Its tools where they are allowed by name (`--allowedTools`), as ours."""
    return _TOOL.sub(_TOOLS, word) if isinstance(word, str) else word


def _placed(ours: dict[str, Any], node: Node, invoke: Node) -> Node:
    """Our fields, with the lines of theirs."""
    lines: Lines = {node.place: node.line}
    for above in (invoke, node):
        size = len(above.place)
        lines |= {
            (*node.place, *place[size:]): line
            for place, line in node.lines.items()
            if place[:size] == above.place and len(place) > size
        }
    key = (*invoke.place, "key_ref")
    lines[(*node.place, "key")] = node.lines.get(key, node.line)
    return Node(ours, node.file, lines, node.place)
