"""OpenAI chat completions."""

from __future__ import annotations

from typing import Any

import msgspec

from fanfold.testing.media import files_in
from fanfold.testing.script import Asked, ServedReply
from fanfold.testing.wire import CREATED, Fault, Messages, Wire, WireRequest, encode, pieces
from fanfold.work.ask import Usage

_SYSTEM = ("system", "developer")
_FINISH = {"stop": "stop", "length": "length", "refusal": "stop", "other": "content_filter"}
_ERRORS: dict[int, tuple[str, str | None, str]] = {
    400: ("invalid_request_error", None, "The request is not valid."),
    401: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    403: ("invalid_request_error", "unsupported_country_region_territory", "Not allowed."),
    404: ("invalid_request_error", "model_not_found", "The model does not exist."),
    429: ("requests", "rate_limit_exceeded", "Rate limit reached."),
    500: ("server_error", None, "The server had an error."),
    503: ("server_error", None, "The server is overloaded."),
    529: ("server_error", "overloaded", "The server is overloaded."),
}


class _ChatSchema(msgspec.Struct):
    name: str
    schema: dict[str, Any]


class _ChatFormat(msgspec.Struct):
    type: str
    json_schema: _ChatSchema | None = None

    def schema(self) -> dict[str, Any] | None:
        if self.type != "json_schema":
            return None
        if self.json_schema is None:
            raise msgspec.ValidationError("response_format.json_schema is required")
        return self.json_schema.schema


class _ChatBody(msgspec.Struct):
    model: str
    messages: Messages
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    response_format: _ChatFormat | None = None
    stream: bool | None = None


_body = msgspec.json.Decoder(_ChatBody).decode


def read(raw: bytes, headers: dict[str, str]) -> WireRequest:
    body = _body(raw)
    said = [message.turn() for message in body.messages]
    return WireRequest(
        model=body.model,
        messages=tuple(turn for turn in said if turn.role not in _SYSTEM),
        system="\n".join(turn.text for turn in said if turn.role in _SYSTEM),
        max_tokens=body.max_completion_tokens or body.max_tokens,
        schema=None if body.response_format is None else body.response_format.schema(),
        stream=bool(body.stream),
        files=files_in("openai", (message.content for message in body.messages), len(raw)),
    )


def usage_fields(usage: Usage) -> dict[str, Any]:
    """Cached tokens are part of the prompt's tokens here."""
    prompt = usage.input + usage.cache_read + usage.cache_write
    return {
        "prompt_tokens": prompt,
        "completion_tokens": usage.output,
        "total_tokens": prompt + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
    }


def _reported_usage(answer: ServedReply) -> Any:
    return usage_fields(answer.usage) if answer.reports is None else answer.reports


def _calls(asked: Asked, answer: ServedReply) -> list[dict[str, Any]]:
    return [
        {
            "id": f"call_{asked.n}_{number}" if number else f"call_{asked.n}",
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        for number, (name, arguments) in enumerate(answer.calls)
    ]


def _finish(answer: ServedReply) -> str:
    if answer.reason is not None:
        return answer.reason
    if answer.finish == "stop" and answer.uses_tool:
        return "tool_calls"
    return _FINISH[answer.finish]


def _message(asked: Asked, answer: ServedReply) -> dict[str, Any]:
    if answer.uses_tool:
        return {"role": "assistant", "content": None, "tool_calls": _calls(asked, answer)}
    refused = answer.finish == "refusal"
    return {
        "role": "assistant",
        "content": None if refused else answer.text,
        "refusal": answer.text if refused else None,
    }


def reply(asked: Asked, answer: ServedReply) -> bytes:
    message = _message(asked, answer)
    choice = {"index": 0, "message": message, "finish_reason": _finish(answer)}
    whole: dict[str, Any] = {
        "id": f"chatcmpl-{asked.n}",
        "object": "chat.completion",
        "created": CREATED,
        "model": asked.model,
        "choices": [choice],
    }
    if answer.tells_usage:
        whole["usage"] = _reported_usage(answer)
    return encode(whole)


def _deltas(asked: Asked, answer: ServedReply) -> list[dict[str, Any]]:
    """A call begins with its id and its name; its arguments follow in pieces."""
    if answer.uses_tool:
        deltas: list[dict[str, Any]] = []
        for n, whole in enumerate(_calls(asked, answer)):
            arguments = whole["function"]["arguments"]
            first = {**whole, "index": n, "function": {**whole["function"], "arguments": ""}}
            rest = [{"index": n, "function": {"arguments": piece}} for piece in pieces(arguments)]
            deltas += [{"tool_calls": [piece]} for piece in (first, *rest)]
        return [{"role": "assistant", "content": None, **deltas[0]}, *deltas[1:]]
    part = "refusal" if answer.finish == "refusal" else "content"
    return [{"role": "assistant", part: ""}, *({part: one} for one in pieces(answer.text))]


def stream(asked: Asked, answer: ServedReply) -> list[bytes]:
    deltas = _deltas(asked, answer)
    options = asked.body.get("stream_options") or {}
    counts = bool(options.get("include_usage")) and answer.tells_usage
    ends: list[str | None] = [None] * len(deltas) + [_finish(answer)]
    more: dict[str, Any] = {"usage": None} if counts else {}
    events = [
        _event(asked, [{"index": 0, "delta": delta, "finish_reason": end}], more)
        for delta, end in zip([*deltas, {}], ends, strict=True)
    ]
    if counts:
        events.append(_event(asked, [], {"usage": _reported_usage(answer)}))
    return [*events, b"data: [DONE]\n\n"]


def _event(asked: Asked, choices: list[Any], more: dict[str, Any]) -> bytes:
    whole = {
        "id": f"chatcmpl-{asked.n}",
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": asked.model,
        "choices": choices,
        **more,
    }
    return b"data: " + encode(whole) + b"\n\n"


def error(fault: Fault, n: int) -> bytes:
    kind, code, message = _ERRORS.get(fault.status, _ERRORS[500])
    if fault.code == "insufficient_quota":
        kind, message = "insufficient_quota", "You exceeded your current quota."
    body = {
        "message": fault.message or message,
        "type": kind,
        "param": None,
        "code": fault.code or code,
    }
    return encode({"error": body})


def models(names: list[str]) -> bytes:
    data = [
        {"id": name, "object": "model", "created": CREATED, "owned_by": "fanfold"} for name in names
    ]
    return encode({"object": "list", "data": data})


OPENAI = Wire(
    name="openai",
    read=read,
    reply=reply,
    stream=stream,
    error=error,
    models=models,
    id_header="x-request-id",
)
