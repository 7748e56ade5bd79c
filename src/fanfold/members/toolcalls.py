"""Tools on the wire of either API: what is offered, what was used so far, what is to be used. Pure.

A call whose arguments cannot be read keeps them as text, so that whoever carries it out can say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from fanfold.work.ask import Ask, Call, Reply, Round, Tools
from fanfold.work.nesting import decode_json

_encode = msgspec.json.Encoder().encode


def call(id: str, name: str, written: str) -> Call:
    """From arguments as they were written; none at all are an empty object."""
    try:
        return Call(id, name, decode_json(written) if written.strip() else {})
    except ValueError:
        return Call(id, name, written)


def calling(ask: Ask, reply: Reply, calls: tuple[Call, ...]) -> Reply:
    """With the calls it makes, if it may make some; not when it was cut off, since they are too."""
    if not calls or ask.tools is None or reply.finish != "stop":
        return reply
    return msgspec.structs.replace(reply, calls=calls, data=None)


# ── chat completions ─────────────────────────────────────────────────────────────────────────


class ToolFunction(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class WantedCall(msgspec.Struct):
    """One call in a message, or a piece of one in a stream, where `index` tells them apart."""

    index: int = 0
    id: str | None = None
    function: ToolFunction = msgspec.field(default_factory=ToolFunction)


def completions_tools(tools: Tools) -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "function": {
                "name": one.name, "description": one.description, "parameters": one.schema,
            },
        }
        for one in tools.offered
    ]  # fmt: skip


def completions_messages(rounds: Iterable[Round]) -> list[dict[str, Any]]:
    """Each round is what the model said, then one message for each result."""
    made: list[dict[str, Any]] = []
    for one in rounds:
        calls = [
            {"id": use.id, "type": "function",
             "function": {"name": use.name, "arguments": _written(use.given)}}
            for use in one.calls
        ]  # fmt: skip
        made.append({"role": "assistant", "content": one.said or None, "tool_calls": calls})
        made += [
            {"role": "tool", "tool_call_id": use.id, "content": result}
            for use, result in zip(one.calls, one.results, strict=True)
        ]
    return made


def _written(given: Any) -> str:
    return given if isinstance(given, str) else _encode(given).decode()


def wanted(pieces: Sequence[WantedCall]) -> tuple[Call, ...]:
    """The calls of a whole message."""
    return tuple(
        call(one.id or "", one.function.name or "", one.function.arguments or "") for one in pieces
    )


class Gathering:
    """Calls that come in pieces: the first of each names it, the others add to its arguments."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[str, str, list[str]]] = {}

    def begin(self, index: int, id: str | None, name: str | None) -> None:
        if index not in self._found:
            self._found[index] = id or "", name or "", []

    def add(self, index: int, written: str | None) -> None:
        if written and index in self._found:
            self._found[index][2].append(written)

    def calls(self) -> tuple[Call, ...]:
        return tuple(
            call(id, name, "".join(pieces)) for _, (id, name, pieces) in sorted(self._found.items())
        )


# ── messages ─────────────────────────────────────────────────────────────────────────────────


def messages_tools(tools: Tools) -> list[dict[str, Any]]:
    return [
        {"name": one.name, "description": one.description, "input_schema": one.schema}
        for one in tools.offered
    ]


def messages_turns(rounds: Iterable[Round]) -> list[dict[str, Any]]:
    """Each round is two messages: what the model said, and all results together."""
    made: list[dict[str, Any]] = []
    for one in rounds:
        said: list[dict[str, Any]] = [{"type": "text", "text": one.said}] if one.said else []
        for use in one.calls:
            given = use.given if isinstance(use.given, dict) else {}
            said.append({"type": "tool_use", "id": use.id, "name": use.name, "input": given})
        results = [
            {"type": "tool_result", "tool_use_id": use.id, "content": result}
            for use, result in zip(one.calls, one.results, strict=True)
        ]
        made += [{"role": "assistant", "content": said}, {"role": "user", "content": results}]
    return made
