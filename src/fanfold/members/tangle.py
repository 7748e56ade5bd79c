"""TangleBrain's roster: a list of entries with `invoke`. It is read as it stands.

What it calls openai-compat, cli and api are our kinds openai, command and openai; its tiers sub and
api are subscription and paid; where its tools are allowed to a command line, ours are. Our own
fields (`price`, `limits`, `pool`, `timeout`, `context`, `max_tokens`, `version`, `effects`) may be
added to an entry.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from fanfold.members.entry import Entry, make_entry
from fanfold.members.stated import BY_KIND, COMMON, TALK, Kind, read_key, read_url
from fanfold.price import FREE
from fanfold.work.check import Check, entries, fields, one_of, text
from fanfold.work.document import Node

_KINDS: dict[str, Kind] = {"openai-compat": "openai", "cli": "command", "api": "openai"}
_SECONDS = {"command": 300.0}  # how long its command line adapter waits
_FREE = re.compile(r"\s*(free\b|\$?0(\.0+)?\s*$)", re.IGNORECASE)
_TOOL = re.compile(r"mcp__tanglebrain[-_]delegate(__\w+)?(,mcp__tanglebrain[-_]delegate(__\w+)?)*")
_TOOLS = ",".join(
    f"mcp__fanfold__{tool}" for tool in ("menu", "delegate", "delegate_many", "reduce")
)
_API: dict[str, Check] = {"model": text, "base_url": read_url, "key_ref": read_key}
_NEEDS = {
    "openai-compat": ("base_url", "model"),
    "cli": ("cmd",),
    "api": ("base_url", "model", "key_ref"),
}


def read_tangle_entry(node: Node) -> Entry:
    """One element of the list, as one of our members."""
    top = dict(entries(node, "a member"))
    if "invoke" not in top and "kind" in top:
        raise node.bad("this is a member without `invoke`; put the list under `members:`")
    stated = fields(node, _ENTRY, "an entry", required=("id", "tier", "invoke"))
    invoke: Node = stated.pop("invoke")
    kind, called = _invoked(invoke)
    lines = {name: child.line for name, child in (*entries(invoke), *top.items())}
    if "key_ref" in lines:
        lines["key"] = lines["key_ref"]
    stated["cost_text"] = stated.pop("cost", "")
    return make_entry(kind, {**_usual(kind, stated), **stated, **called}, lines, Path(node.file))


def _invoked(invoke: Node) -> tuple[Kind, dict[str, Any]]:
    """Our kind, and the fields that go with it under our names."""
    if "kind" not in dict(entries(invoke)):
        raise invoke.bad(f"`invoke` needs the field `kind`: one of {', '.join(_KINDS)}")
    word: str = one_of(*_KINDS)(invoke.child("kind"))
    known = {"kind": text, **(TALK if word == "cli" else _API)}
    called = fields(invoke, known, f"an invoke of kind {word}", required=_NEEDS[word])
    del called["kind"]
    if word == "cli":
        words = [_with_our_tools(one) for one in called.pop("delegate_args", ())]
        return "command", {"prompt": "argument", "delegate_args": tuple(words), **called}
    key = called.pop("key_ref", "none")
    return "openai", {**called, "key": key}


def _usual(kind: Kind, stated: dict[str, Any]) -> dict[str, Any]:
    """Its `delegate_local` may use every local entry; all others are delegated to when they say so.
    `cost: free`, with or without a remark, is a price; other words about the cost are for people."""
    free = _FREE.match(stated["cost_text"]) is not None
    return {
        "can_delegate": stated["tier"] == "local",
        **({"price": FREE} if free else {}),
        **({"timeout": _SECONDS[kind]} if kind in _SECONDS else {}),
    }


def _with_our_tools(word: str) -> str:
    """Its tools where they are allowed by name (`--allowedTools`), as ours."""
    return _TOOL.sub(_TOOLS, word)


def _as_is(node: Node) -> Node:
    return node


_ENTRY: dict[str, Check] = {
    **{name: check for name, check in COMMON.items() if name != "kind"},
    "version": BY_KIND["command"]["version"],
    "effects": BY_KIND["command"]["effects"],
    "max_bytes": BY_KIND["command"]["max_bytes"],
    "invoke": _as_is,
    "cost": text,
}
