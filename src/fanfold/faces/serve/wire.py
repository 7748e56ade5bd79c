"""OpenAI's chat completions, as they come in and go out. Pure: bytes and records, no I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from fanfold.errors import BadInput
from fanfold.faces.web import RequestRefused, read_json
from fanfold.work.ask import Message, Params, Role, Schema, Usage

_encode = msgspec.json.Encoder().encode

AUTO = "auto"
_ROLES: dict[str, Role] = {
    "system": "system", "developer": "system", "user": "user", "assistant": "assistant",
}  # fmt: skip
_IGNORED = {
    "user", "store", "metadata", "service_tier", "safety_identifier", "prompt_cache_key",
    "prompt_cache_retention", "parallel_tool_calls", "stream_options",
}  # fmt: skip
_HARMLESS: dict[str, Any] = {"n": 1, "modalities": ["text"], "tool_choice": "none"}
_ANY_OBJECT = Schema.of({"type": "object"})


def error_body(error: RequestRefused) -> dict[str, Any]:
    """An error in OpenAI's shape."""
    kind = "insufficient_quota" if error.status == 402 else _KINDS.get(error.status // 100)
    fields = {"message": str(error), "type": kind, "param": error.param, "code": error.code}
    return {"error": fields}


_KINDS = {4: "invalid_request_error", 5: "server_error"}


# ── what comes in ────────────────────────────────────────────────────────────────────────────


class Chat(msgspec.Struct, frozen=True):
    """A request that was understood. `needs` counts only for `auto`."""

    model: str
    messages: tuple[Message, ...]
    params: Params = Params()
    schema: Schema | None = None
    needs: tuple[str, ...] = ()
    stream: bool = False
    include_usage: bool = False


class _Part(msgspec.Struct):
    type: str
    text: str = ""


class _BodyMessage(msgspec.Struct):
    role: str
    content: str | list[_Part] | None = None
    tool_calls: Any = None
    function_call: Any = None


class _JsonSchema(msgspec.Struct):
    schema: dict[str, Any]


class _Format(msgspec.Struct):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: _JsonSchema | None = None


class _StreamOptions(msgspec.Struct):
    include_usage: bool = False


_Share: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Temperature: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=2)]
_Tokens: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=10_000_000)]
_Seed: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Body(msgspec.Struct):
    model: str
    messages: Annotated[list[_BodyMessage], msgspec.Meta(min_length=1)]
    temperature: _Temperature | None = None
    top_p: _Share | None = None
    max_tokens: _Tokens | None = None
    max_completion_tokens: _Tokens | None = None
    seed: _Seed | None = None
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    response_format: _Format | None = None
    metadata: dict[str, Any] | None = None


def read_chat(raw: bytes, needs: str = "") -> Chat:
    """The request of a body; `needs` is a header's, and goes before the body's. Raises RequestRefused."""
    try:
        whole = read_json(raw)
        if not isinstance(whole, dict):
            raise RequestRefused("the body must be a JSON object")
        _refuse_unsupported(whole)
        body = msgspec.convert(whole, _Body)
    except msgspec.ValidationError as error:
        raise RequestRefused(f"the request is not valid: {error}") from None
    except BadInput as error:
        raise RequestRefused(str(error)) from None
    stop = (body.stop,) if isinstance(body.stop, str) else tuple(body.stop or ())
    most = body.max_completion_tokens or body.max_tokens
    return Chat(
        model=body.model,
        messages=tuple(_message(said, n) for n, said in enumerate(body.messages)),
        params=Params(body.temperature, body.top_p, most, body.seed, stop),
        schema=_schema(body.response_format),
        needs=read_needs(needs or (body.metadata or {}).get("needs")),
        stream=bool(body.stream),
        include_usage=body.stream_options is not None and body.stream_options.include_usage,
    )


def _refuse_unsupported(whole: dict[str, Any]) -> None:
    """A field that would change the answer must not be passed over in silence."""
    for name, value in whole.items():
        if name in _Body.__struct_fields__ or name in _IGNORED or not value:
            continue
        if _HARMLESS.get(name) != value:
            raise RequestRefused(
                f"`{name}` is not supported here; leave it out", param=name,
                code="unsupported_parameter",
            )  # fmt: skip


def _message(said: _BodyMessage, number: int) -> Message:
    param = f"messages[{number}]"
    role = _ROLES.get(said.role)
    if role is None or said.tool_calls or said.function_call:
        raise RequestRefused(
            f"`{param}`: tools are not supported here; roles are system, user and assistant",
            param=param, code="unsupported_value",
        )  # fmt: skip
    if said.content is None or isinstance(said.content, str):
        return Message(role, said.content or "")
    for part in said.content:
        if part.type != "text":
            raise RequestRefused(
                f"`{param}`: content of type `{part.type}` is not supported here, only text",
                param=param, code="unsupported_value",
            )  # fmt: skip
    return Message(role, "".join(part.text for part in said.content))


def _schema(format: _Format | None) -> Schema | None:
    if format is None or format.type == "text":
        return None
    if format.type == "json_object":
        return _ANY_OBJECT
    if format.json_schema is None:
        raise RequestRefused("`response_format` needs a `json_schema`", param="response_format")
    return Schema.of(format.json_schema.schema)


def read_needs(given: Any) -> tuple[str, ...]:
    """`legal, french`, or a list of these."""
    said = given.split(",") if isinstance(given, str) else [] if given is None else given
    if not isinstance(said, list) or not all(isinstance(word, str) for word in said):
        raise RequestRefused(
            "`needs` is a text such as `legal, french`, or a list", param="metadata"
        )
    return tuple(sorted({word.strip() for word in said} - {""}))


# ── what goes out ────────────────────────────────────────────────────────────────────────────


class ChatAnswer(msgspec.Struct, frozen=True):
    """An answer: its text, how it ended in OpenAI's words, what it took, and `about` it."""

    text: str
    finish: Literal["stop", "length"] = "stop"
    refused: bool = False
    usage: Usage | None = None
    about: dict[str, Any] = {}


class ChunkWriter(msgspec.Struct, frozen=True):
    """Writes one answer, whole or as chunks; all begin with the same fields."""

    id: str
    created: int
    model: str

    def _whole(self, kind: str, choices: list[Any], more: dict[str, Any]) -> dict[str, Any]:
        named = {"id": self.id, "object": kind, "created": self.created, "model": self.model}
        return {**named, "choices": choices, **more}

    def completion(self, answer: ChatAnswer) -> bytes:
        message = {
            "role": "assistant",
            "content": None if answer.refused else answer.text,
            "refusal": answer.text if answer.refused else None,
        }
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": answer.finish}
        more = {"usage": usage_fields(answer.usage), "fanfold": answer.about}
        return _encode(self._whole("chat.completion", [choice], more))

    def chunk(self, delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return event(self._whole("chat.completion.chunk", [choice], more))

    def usage(self, usage: Usage | None) -> bytes:
        """The last chunk, for those who asked for it."""
        more = {"usage": usage_fields(usage)}
        return event(self._whole("chat.completion.chunk", [], more))


DONE = b"data: [DONE]\n\n"


def event(value: Any) -> bytes:
    return b"data: " + _encode(value) + b"\n\n"


def usage_fields(usage: Usage | None) -> dict[str, Any] | None:
    """Cached tokens are part of the prompt's tokens here."""
    if usage is None:
        return None
    prompt = usage.input + usage.cache_read + usage.cache_write
    return {
        "prompt_tokens": prompt,
        "completion_tokens": usage.output,
        "total_tokens": prompt + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
    }


def model_fields(id: str) -> dict[str, Any]:
    return {"id": id, "object": "model", "created": 0, "owned_by": "fanfold"}


def models(ids: Iterable[str]) -> bytes:
    return _encode({"object": "list", "data": [model_fields(id) for id in ids]})
