"""OpenAI Responses, as clients like the command line `codex` use it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from fanfold.testing import wire_openai
from fanfold.testing.script import Asked, AskedMessage, ServedReply
from fanfold.testing.wire import CREATED, Content, Wire, WireRequest, encode, pieces, plain
from fanfold.work.ask import Usage

_SYSTEM = ("system", "developer")
_CUT = {"length": "max_output_tokens", "other": "content_filter"}
_OUTPUTS = ("function_call_output", "custom_tool_call_output")
_SEARCHED = "tool_search_output"
_DECLARING = ("additional_tools", _SEARCHED)
_JOINT = "__"


class _InputItem(msgspec.Struct):
    """One element of `input`: a message, a call, what came of a call, tools that were added."""

    type: str = "message"
    role: str = ""
    content: Content = None
    output: Any = None
    tools: list[dict[str, Any]] = []

    def turn(self) -> AskedMessage | None:
        if self.type in _OUTPUTS:
            return AskedMessage("tool", _text(self.output))
        if self.type == _SEARCHED:
            return AskedMessage("tool", encode(self.tools).decode())
        return AskedMessage(self.role, plain(self.content)) if self.type == "message" else None


class _TextFormat(msgspec.Struct):
    type: str
    schema: dict[str, Any] | None = None


class _TextOptions(msgspec.Struct):
    format: _TextFormat | None = None

    def schema(self) -> dict[str, Any] | None:
        if self.format is None or self.format.type != "json_schema":
            return None
        if self.format.schema is None:
            raise msgspec.ValidationError("text.format.schema is required")
        return self.format.schema


class _ResponsesBody(msgspec.Struct):
    model: str
    input: str | list[_InputItem]
    instructions: str | None = None
    text: _TextOptions = msgspec.field(default_factory=_TextOptions)
    tools: list[dict[str, Any]] = []
    tool_choice: Any = None
    max_output_tokens: int | None = None
    stream: bool | None = None

    @property
    def items(self) -> list[_InputItem]:
        if isinstance(self.input, list):
            return self.input
        return [_InputItem(role="user", content=self.input)]

    def declared(self) -> list[_DeclaredTool]:
        """Those of the request, and those that were added in the course of it."""
        added = [tool for one in self.items if one.type in _DECLARING for tool in one.tools]
        return list(_flat([*self.tools, *added]))

    def forced(self) -> _DeclaredTool | None:
        if not isinstance(self.tool_choice, dict):
            return None
        name = self.tool_choice.get("name")
        fitting = [tool for tool in self.declared() if tool.name == name]
        if not fitting:
            raise msgspec.ValidationError(f"tool_choice: no such tool in tools: {name}")
        return fitting[0]


_body = msgspec.json.Decoder(_ResponsesBody).decode


class _DeclaredTool(NamedTuple):
    """`type` is function, custom (free text goes in) or tool_search."""

    name: str
    type: str = "function"
    namespace: str = ""
    parameters: dict[str, Any] | None = None


def _flat(tools: Iterable[dict[str, Any]], namespace: str = "") -> Iterator[_DeclaredTool]:
    for tool in tools:
        kind, name = tool.get("type", ""), tool.get("name", "")
        if kind == "namespace":
            yield from _flat(tool.get("tools") or (), name)
        else:
            yield _DeclaredTool(name or kind, kind, namespace, tool.get("parameters"))


def _text(output: Any) -> str:
    if isinstance(output, list):
        return plain(output)
    return output if isinstance(output, str) else encode(output).decode()


def read(raw: bytes, headers: dict[str, str]) -> WireRequest:
    body = _body(raw)
    said = [turn for item in body.items if (turn := item.turn())]
    tool = body.forced()
    system = [body.instructions or "", *(turn.text for turn in said if turn.role in _SYSTEM)]
    return WireRequest(
        model=body.model,
        messages=tuple(turn for turn in said if turn.role not in _SYSTEM),
        system="\n".join(part for part in system if part),
        max_tokens=body.max_output_tokens,
        schema=body.text.schema() if tool is None else tool.parameters,
        tool=None if tool is None else tool.name,
        stream=bool(body.stream),
    )


# ── what goes out ────────────────────────────────────────────────────────────────────────────


def usage_fields(usage: Usage, reasoning: int) -> dict[str, Any]:
    """Cached tokens are part of the input's here, and reasoning is part of the output's."""
    whole = usage.input + usage.cache_read + usage.cache_write
    details = {"cached_tokens": usage.cache_read}
    if usage.cache_write:
        details["cache_write_tokens"] = usage.cache_write
    return {
        "input_tokens": whole,
        "input_tokens_details": details,
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": whole + usage.output,
    }


def _response(asked: Asked, answer: ServedReply, status: str, output: list[Any]) -> dict[str, Any]:
    done = status != "in_progress"
    cut = {"reason": _CUT[answer.finish]} if status == "incomplete" else None
    tells = done and answer.tells_usage
    return {
        "id": f"resp_{asked.n}",
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "error": None,
        "incomplete_details": cut,
        "model": asked.model,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage_fields(answer.usage, answer.reasoning) if tells else None,
    }


def _status(answer: ServedReply) -> str:
    return "incomplete" if answer.finish in _CUT else "completed"


def _part(answer: ServedReply, text: str) -> dict[str, Any]:
    if answer.finish == "refusal":
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _message(asked: Asked, answer: ServedReply, status: str, content: list[Any]) -> dict[str, Any]:
    head = {"type": "message", "id": f"msg_{asked.n}", "status": status, "role": "assistant"}
    return {**head, "content": content}


def _used(asked: Asked, answer: ServedReply) -> _DeclaredTool | None:
    """The tool that is called, as the client declared it: `NAMESPACE__NAME` is looked for in that
    namespace. One it did not declare is called as a plain function, as a confused model would."""
    if answer.tool is None or answer.data is None:
        return None
    declared = _body(asked.raw).declared()
    whole = {_JOINT.join(filter(None, (tool.namespace, tool.name))): tool for tool in declared}
    plainly = {tool.name: tool for tool in declared}
    return whole.get(answer.tool) or plainly.get(answer.tool) or _DeclaredTool(answer.tool)


def _call(
    asked: Asked, answer: ServedReply, tool: _DeclaredTool, *, whole: bool = True
) -> dict[str, Any]:
    """A call in its own form; not `whole`: as it is announced, still empty."""
    shared = {"call_id": f"call_{asked.n}", "status": "completed" if whole else "in_progress"}
    if tool.type == "tool_search":
        given = {"execution": "client", "arguments": answer.data if whole else {}}
        return {"type": "tool_search_call", "id": f"tsc_{asked.n}", **shared, **given}
    named = {"name": tool.name, **({"namespace": tool.namespace} if tool.namespace else {})}
    given_text = _given(answer, tool) if whole else ""
    if tool.type == "custom":
        head = {"type": "custom_tool_call", "id": f"ctc_{asked.n}"}
        return {**head, **shared, **named, "input": given_text}
    head = {"type": "function_call", "id": f"fc_{asked.n}"}
    return {**head, **shared, **named, "arguments": given_text}


def _given(answer: ServedReply, tool: _DeclaredTool) -> str:
    """Free text for a custom tool, JSON for a function; half of it when the reply was cut off."""
    free = tool.type == "custom" and isinstance(answer.data, str)
    if not free:
        return answer.arguments
    text: str = answer.data
    return text[: len(text) // 2] if answer.finish == "length" else text


def _item(asked: Asked, answer: ServedReply) -> dict[str, Any]:
    tool = _used(asked, answer)
    if tool is not None:
        return _call(asked, answer, tool)
    return _message(asked, answer, _status(answer), [_part(answer, answer.text)])


def reply(asked: Asked, answer: ServedReply) -> bytes:
    return encode(_response(asked, answer, _status(answer), [_item(asked, answer)]))


def stream(asked: Asked, answer: ServedReply) -> list[bytes]:
    status, item = _status(answer), _item(asked, answer)
    started = _response(asked, answer, "in_progress", [])
    ended = _response(asked, answer, status, [item])
    tool = _used(asked, answer)
    between = _text_events(asked, answer) if tool is None else _call_events(asked, answer, tool)
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": started},
        {"type": "response.in_progress", "response": started},
        *between,
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": f"response.{status}", "response": ended},
    ]
    numbered = ({**event, "sequence_number": n} for n, event in enumerate(events))
    return [f"event: {one['type']}\ndata: ".encode() + encode(one) + b"\n\n" for one in numbered]


def _text_events(asked: Asked, answer: ServedReply) -> list[dict[str, Any]]:
    word = "refusal" if answer.finish == "refusal" else "output_text"
    field = "refusal" if answer.finish == "refusal" else "text"
    at = {"item_id": f"msg_{asked.n}", "output_index": 0, "content_index": 0}
    empty = _message(asked, answer, "in_progress", [])
    logs: dict[str, Any] = {"logprobs": []} if word == "output_text" else {}
    deltas = [
        {"type": f"response.{word}.delta", **at, "delta": piece, **logs}
        for piece in pieces(answer.text)
    ]
    return [
        {"type": "response.output_item.added", "output_index": 0, "item": empty},
        {"type": "response.content_part.added", **at, "part": _part(answer, "")},
        *deltas,
        {"type": f"response.{word}.done", **at, field: answer.text, **logs},
        {"type": "response.content_part.done", **at, "part": _part(answer, answer.text)},
    ]


def _call_events(asked: Asked, answer: ServedReply, tool: _DeclaredTool) -> list[dict[str, Any]]:
    empty = _call(asked, answer, tool, whole=False)
    added = {"type": "response.output_item.added", "output_index": 0, "item": empty}
    if tool.type == "tool_search":
        return [added]
    custom = tool.type == "custom"
    word, field = ("custom_tool_call_input", "input") if custom else _ARGUMENTS
    at = {"item_id": empty["id"], "output_index": 0}
    whole = _given(answer, tool)
    deltas = [{"type": f"response.{word}.delta", **at, "delta": piece} for piece in pieces(whole)]
    return [added, *deltas, {"type": f"response.{word}.done", **at, field: whole}]


_ARGUMENTS = ("function_call_arguments", "arguments")

RESPONSES = Wire(
    name="responses",
    read=read,
    reply=reply,
    stream=stream,
    error=wire_openai.error,
    models=wire_openai.models,
    id_header="x-request-id",
)
