"""Tools on the wire of either API: what is offered, what was used so far, what is to be used. Pure.

A call whose arguments cannot be read keeps them as text, so that whoever carries it out can say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from fanfold.work.ask import Ask, Call, Message, Reply, Round, Tools
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


def in_turn(
    rounds: Iterable[Round], turns: Sequence[Message], shown: Callable[[Round], list[object]]
) -> Iterator[object]:
    """Rounds and the turns of kick-backs, in the order in which they were."""
    told = 0
    for one in rounds:
        yield from turns[told : one.turns]
        told = one.turns
        yield from shown(one)
    yield from turns[told:]


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


def completions_messages(rounds: Iterable[Round], turns: Sequence[Message]) -> list[object]:
    """Each round is what the model said, then one message for each result; between them, in their
    places, the turns of kick-backs."""
    return list(in_turn(rounds, turns, _completions_round))


def _completions_round(one: Round) -> list[object]:
    calls = [
        {"id": use.id, "type": "function",
         "function": {"name": use.name, "arguments": _written(use.given)}}
        for use in one.calls
    ]  # fmt: skip
    results = [
        {"role": "tool", "tool_call_id": use.id, "content": result}
        for use, result in zip(one.calls, one.results, strict=True)
    ]
    return [{"role": "assistant", "content": one.said or None, "tool_calls": calls}, *results]


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


def messages_turns(rounds: Iterable[Round], turns: Sequence[Message]) -> list[object]:
    """Each round is two messages: what the model said, and all results together; between them, in
    their places, the turns of kick-backs."""
    return list(in_turn(rounds, turns, _messages_round))


def _messages_round(one: Round) -> list[object]:
    said: list[dict[str, Any]] = [{"type": "text", "text": one.said}] if one.said else []
    for use in one.calls:
        given = use.given if isinstance(use.given, dict) else {}
        said.append({"type": "tool_use", "id": use.id, "name": use.name, "input": given})
    results: list[dict[str, Any]] = []
    for number, (use, result) in enumerate(zip(one.calls, one.results, strict=True)):
        told = {"type": "tool_result", "tool_use_id": use.id, "content": result}
        results.append({**told, "is_error": True} if number in one.failed else told)
    return [{"role": "assistant", "content": said}, {"role": "user", "content": results}]
