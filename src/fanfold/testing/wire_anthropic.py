"""Anthropic Messages."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from fanfold.testing.media import files_in
from fanfold.testing.script import Asked, ServedReply
from fanfold.testing.wire import (
    Content,
    Fault,
    Messages,
    Wire,
    WireRequest,
    encode,
    pieces,
    plain,
)
from fanfold.work.ask import Usage

_STOP = {"stop": "end_turn", "length": "max_tokens", "refusal": "refusal", "other": "pause_turn"}
_ERRORS = {
    400: ("invalid_request_error", "The request is not valid."),
    401: ("authentication_error", "invalid x-api-key"),
    402: ("billing_error", "There is a problem with billing."),
    403: ("permission_error", "The key may not do this."),
    404: ("not_found_error", "The model was not found."),
    413: ("request_too_large", "The request is too large."),
    429: ("rate_limit_error", "The rate limit was reached."),
    500: ("api_error", "Internal server error"),
    529: ("overloaded_error", "Overloaded"),
}


class _OutputFormat(msgspec.Struct):
    type: Literal["json_schema"]
    schema: dict[str, Any]


class _OutputConfig(msgspec.Struct):
    format: _OutputFormat | None = None


class _ToolChoice(msgspec.Struct):
    type: str
    name: str | None = None


class _OfferedTool(msgspec.Struct):
    name: str
    input_schema: dict[str, Any] = {}


class _MessagesBody(msgspec.Struct):
    """`output_format` is how the beta spelled `output_config.format`."""

    model: str
    max_tokens: int
    messages: Messages
    system: Content = None
    output_config: _OutputConfig | None = None
    output_format: _OutputFormat | None = None
    tools: list[_OfferedTool] | None = None
    tool_choice: _ToolChoice | None = None
    stream: bool | None = None

    def schema(self) -> dict[str, Any] | None:
        config = self.output_config
        wanted = (config and config.format) or self.output_format
        return None if wanted is None else wanted.schema

    def forced_tool(self) -> _OfferedTool | None:
        choice, tools = self.tool_choice, self.tools or []
        if choice is None or choice.type not in ("any", "tool"):
            return None
        fitting = [tool for tool in tools if choice.type == "any" or tool.name == choice.name]
        if not fitting:
            raise msgspec.ValidationError(f"tool_choice: no such tool in tools: {choice.name}")
        return fitting[0]


_body = msgspec.json.Decoder(_MessagesBody).decode


def read(raw: bytes, headers: dict[str, str]) -> WireRequest:
    if not headers.get("anthropic-version"):
        raise msgspec.ValidationError("anthropic-version: header is required")
    body = _body(raw)
    tool = body.forced_tool()
    return WireRequest(
        model=body.model,
        messages=tuple(message.turn() for message in body.messages),
        system=plain(body.system),
        max_tokens=body.max_tokens,
        schema=body.schema() if tool is None else tool.input_schema,
        tool=None if tool is None else tool.name,
        stream=bool(body.stream),
        files=files_in("anthropic", (message.content for message in body.messages), len(raw)),
    )


def _usage(usage: Usage) -> dict[str, int]:
    return {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
    }


def _reported_usage(answer: ServedReply) -> Any:
    return _usage(answer.usage) if answer.reports is None else answer.reports


def _blocks(asked: Asked, answer: ServedReply) -> list[dict[str, Any]]:
    if not answer.uses_tool:
        return [{"type": "text", "text": answer.text}]
    given = {} if answer.finish == "length" else answer.data
    calls = [(answer.tool, given), *answer.also]
    return [
        {
            "type": "tool_use",
            "id": f"toolu_{asked.n}_{number}" if number else f"toolu_{asked.n}",
            "name": name,
            "input": arguments,
        }
        for number, (name, arguments) in enumerate(calls)
    ]


def _stop(answer: ServedReply) -> str:
    if answer.reason is not None:
        return answer.reason
    if answer.finish == "stop" and answer.uses_tool:
        return "tool_use"
    return _STOP[answer.finish]


def _envelope(asked: Asked) -> dict[str, Any]:
    return {
        "id": f"msg_{asked.n}",
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def reply(asked: Asked, answer: ServedReply) -> bytes:
    whole = _envelope(asked)
    whole["content"] = _blocks(asked, answer)
    whole["stop_reason"] = _stop(answer)
    if answer.tells_usage:
        whole["usage"] = _reported_usage(answer)
    return encode(whole)


def stream(asked: Asked, answer: ServedReply) -> list[bytes]:
    start = _envelope(asked)
    end: dict[str, Any] = {
        "type": "message_delta",
        "delta": {"stop_reason": _stop(answer), "stop_sequence": None},
    }
    if answer.tells_usage:
        usage = _reported_usage(answer)
        start["usage"] = {**_usage(answer.usage), "output_tokens": 1}
        end["usage"] = usage
    first, *blocks = _block_events(asked, answer)
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": start},
        first,
        {"type": "ping"},
        *blocks,
        end,
        {"type": "message_stop"},
    ]
    return [f"event: {one['type']}\ndata: ".encode() + encode(one) + b"\n\n" for one in events]


def _block_events(asked: Asked, answer: ServedReply) -> list[dict[str, Any]]:
    empty: dict[str, Any] = {"input": {}} if answer.uses_tool else {"text": ""}
    texts = [arguments for _, arguments in answer.calls] if answer.uses_tool else [answer.text]
    events: list[dict[str, Any]] = []
    for n, (block, text) in enumerate(zip(_blocks(asked, answer), texts, strict=True)):
        events += [
            {"type": "content_block_start", "index": n, "content_block": block | empty},
            *(
                {"type": "content_block_delta", "index": n, "delta": _delta(answer, piece)}
                for piece in pieces(text)
            ),
            {"type": "content_block_stop", "index": n},
        ]
    return events


def _delta(answer: ServedReply, piece: str) -> dict[str, str]:
    if answer.uses_tool:
        return {"type": "input_json_delta", "partial_json": piece}
    return {"type": "text_delta", "text": piece}


def error(fault: Fault, n: int) -> bytes:
    kind, message = _ERRORS.get(fault.status, _ERRORS[500])
    body = {"type": fault.code or kind, "message": fault.message or message}
    return encode({"type": "error", "error": body, "request_id": f"req_{n}"})


def models(names: list[str]) -> bytes:
    data = [
        {"type": "model", "id": name, "display_name": name, "created_at": "2023-11-14T22:13:20Z"}
        for name in names
    ]
    ends = {"first_id": names[0] if names else None, "last_id": names[-1] if names else None}
    return encode({"data": data, "has_more": False, **ends})


ANTHROPIC = Wire(
    name="anthropic",
    read=read,
    reply=reply,
    stream=stream,
    error=error,
    models=models,
    id_header="request-id",
)
