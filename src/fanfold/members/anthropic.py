"""The kind `anthropic`: the Messages API."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from fanfold.errors import Terminal
from fanfold.members.anthropic_batches import AnthropicBatches
from fanfold.members.cache_marks import TextBlock, growing, marked
from fanfold.members.endpoint import (
    ApiFields,
    ApiMember,
    Endpoint,
    reply_of,
    shared_part,
)
from fanfold.members.entry import constructor
from fanfold.members.keys import Key, fetcher
from fanfold.members.kinds import BuildContext
from fanfold.members.media import messages_tokens, messages_turn
from fanfold.members.reported import merged, of_messages
from fanfold.members.status import table
from fanfold.members.structured import closed, in_words
from fanfold.members.toolcalls import Gathering, calling, messages_tools, messages_turns
from fanfold.price import reading_pays
from fanfold.work.ask import Ask, Call, Message, Reply, Schema
from fanfold.work.media import Attachment, MediaKind, size_text
from fanfold.work.member import Event, Request, Tell, Traits
from fanfold.work.nesting import too_deep

ROWS = table(
    quota=("billing_error", "credit balance", "usage limit"),
    too_long=("too long", "too large", "context limit", "context window"),
)


_EFFORT: dict[str | None, dict[str, str]] = {
    "minimal": {"effort": "low"}, "low": {"effort": "low"}, "medium": {"effort": "medium"},
    "high": {"effort": "high"},
}  # fmt: skip
_IMAGE = 5 * 1024 * 1024  # bytes of an image as base64
_TIERS: dict[str | None, str] = {"auto": "auto", "default": "standard_only"}
_LEAST = (
    ("sonnet-4-6", 2048), ("haiku-3", 2048), ("3-haiku", 2048), ("3-5-haiku", 2048),
    ("sonnet-4-5", 1024), ("sonnet-4-0", 1024), ("sonnet-4-20", 1024), ("opus-4-1", 1024),
    ("opus-4-0", 1024), ("opus-4-20", 1024), ("3-7-sonnet", 1024), ("3-5-sonnet", 1024),
    ("3-opus", 1024),
)  # fmt: skip
"""Tokens by a part of the model's name."""


class AnthropicFields(ApiFields, frozen=True, tag="anthropic"):
    """A model of the Messages API: `members=[ff.anthropic("claude-sonnet-5")]`. Fields as in
    `ff.openai`; the key is `env:ANTHROPIC_API_KEY` by default."""

    usual_host: ClassVar[str] = "https://api.anthropic.com"
    usual_key: ClassVar[str] = "env:ANTHROPIC_API_KEY"
    unsent: ClassVar[tuple[str, ...]] = ("seed", "reasoning: none", "service_tier: flex")

    @property
    def usual_media(self) -> tuple[MediaKind, ...]:
        return ("image", "document")

    def build(self, traits: Traits, context: BuildContext) -> Anthropic:
        return Anthropic(traits, self.base_url, fetcher(self.id, self.key, context.roster))


anthropic = constructor(AnthropicFields, lambda given: given["model"])


# ── what goes over the wire, as far as it is read or written here ────────────────────────────


class _Asked(msgspec.Struct, frozen=True, omit_defaults=True):
    model: str
    max_tokens: int
    messages: tuple[object, ...]
    system: str | list[TextBlock] = ""
    temperature: float | None = None
    top_p: float | None = None
    stop_sequences: tuple[str, ...] = ()
    output_config: dict[str, Any] | None = None
    service_tier: str | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: dict[str, str] | None = None


class _Block(msgspec.Struct):
    type: str = ""
    text: str = ""
    id: str = ""
    name: str = ""
    input: Any = None


class _Answer(msgspec.Struct):
    content: list[_Block]
    stop_reason: object = None
    usage: Any = None
    model: str | None = None


class _Start(msgspec.Struct):
    usage: Any = None
    model: str | None = None


class _Delta(msgspec.Struct):
    type: str = ""
    text: str = ""
    stop_reason: object = None
    partial_json: str | None = None


class _Event(msgspec.Struct):
    type: str
    index: int = 0
    content_block: _Block | None = None
    message: _Start | None = None
    delta: _Delta | None = None
    usage: Any = None
    error: object = None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Answer).decode
_decode_event = msgspec.json.Decoder(_Event).decode


class Anthropic(ApiMember):
    """`base_url` with or without `/v1`. The API knows no seed, so none is sent.

    A schema goes into `output_config.format`: the newest models refuse a forced tool, and this
    holds the shape on every model from Claude 4.5 on. It takes no bounds, patterns or open maps:
    bounds and patterns are left to the gate, a schema it cannot take at all goes into the prompt.
    """

    streamed = b',"stream":true}'

    def __init__(self, traits: Traits, base_url: str, key: Key) -> None:
        super().__init__(traits, Endpoint(traits, _url(base_url), key, _headers, ROWS))
        base = _url(base_url).removesuffix("/messages")
        self.batches = AnthropicBatches(traits, base, key, _headers, ROWS, self.whole)
        self._config: tuple[Schema, dict[str, msgspec.Raw] | None] | None = None
        self._least = least_shared(self._model)

    def prepare(self, ask: Ask) -> Request:
        params, messages, schema, tools = ask.params, ask.conversation(), ask.schema, ask.tools
        most = params.max_tokens or self._traits.max_tokens
        system = [message.content for message in messages if message.role == "system"]
        config = None if schema is None else self._output_config(schema)
        if schema is not None and config is None:
            system.append(in_words(schema))
        spoken: tuple[object, ...] = tuple(one for one in messages if one.role != "system")
        if tools is not None:
            first = (one for one in ask.messages if one.role != "system")
            spoken = (*first, *messages_turns(tools.rounds, ask.turns))
        shared = shared_part(ask, self._traits.price, self._least)
        whole: str | list[TextBlock] = "\n\n".join(system)
        if shared.prefix:
            whole, spoken = marked(ask, "\n\n".join(system), spoken)
        if tools is not None and ask.shared >= 0 and reading_pays(self._traits.price):
            spoken, grown = growing(spoken, more=not tools.closed)
            shared = shared._replace(tokens=max(shared.tokens, grown))
        attached = ask.attachments() if ask.shows_files else ()
        if attached:
            self._check(attached)
            spoken = tuple(
                messages_turn(one) if isinstance(one, Message) and one.parts else one
                for one in spoken
            )
        asked = _Asked(
            model=self._model,
            max_tokens=most,
            messages=spoken,
            system=whole,
            temperature=params.temperature,
            top_p=params.top_p,
            stop_sequences=params.stop,
            output_config={**(config or {}), **_EFFORT.get(params.reasoning, {})} or None,
            service_tier=_TIERS.get(params.service_tier),
            tools=None if tools is None else messages_tools(tools),
            tool_choice={"type": "none"} if tools is not None and tools.closed else None,
        )
        body = _encode(asked)
        return Request(
            ask, body, input_tokens=len(body) + 1024 + sum(map(messages_tokens, attached)),
            output_tokens=most, prefix=shared.prefix,
            shared=shared.tokens,
        )  # fmt: skip

    def _check(self, attached: tuple[Attachment, ...]) -> None:
        for one in attached:
            if one.kind == "image" and -(-one.size // 3) * 4 > _IMAGE:
                what = f"{one.name} has {size_text(one.size)}, and this API takes images up to"
                most = size_text(_IMAGE * 3 // 4)
                raise Terminal(f"{self._traits.id}: {what} {most}", scope="ask")

    def _output_config(self, schema: Schema) -> dict[str, msgspec.Raw] | None:
        """Made once: the asks of one step share their schema."""
        if self._config is None or self._config[0] is not schema:
            shape = closed(schema.definition)
            format = msgspec.Raw(_encode({"type": "json_schema", "schema": shape}))
            self._config = schema, {"format": format} if shape else None
        return self._config[1]

    def pieces(self, tell: Tell) -> _Heard:
        return _Heard(self._endpoint, tell)

    def whole(self, request: Request, body: bytes) -> Reply:
        answer = self._endpoint.read(_decode, body)
        text = "".join(block.text for block in answer.content if block.type == "text")
        used = of_messages(answer.usage)
        made = reply_of(request, text, answer.stop_reason, used, answer.model)
        uses = [block for block in answer.content if block.type == "tool_use"]
        # What is nested too deeply to be followed is no object; whoever uses the tool will say so
        calls = tuple(
            Call(one.id, one.name, "nested too deeply" if too_deep(one.input) else one.input)
            for one in uses
        )
        return calling(request.ask, made, calls)


class _Heard:
    """A streamed reply, as far as it has come. Usage is told twice; the later figures hold."""

    def __init__(self, endpoint: Endpoint, tell: Tell) -> None:
        self._endpoint, self._tell = endpoint, tell
        self._text: list[str] = []
        self._calls = Gathering()
        self._stop: object = None
        self._usage: Any = None
        self._model: str | None = None
        self._ended = False

    def take(self, data: bytes) -> None:
        event = self._endpoint.read(_decode_event, data)
        match event.type:
            case "message_start" if event.message:
                self._tell(Event("began"))
                self._model = event.message.model
                # What a stream tells at its beginning; the reply is not written yet, so its
                # tokens are not known, whatever is there
                usage = event.message.usage
                self._usage = (
                    usage
                    if not isinstance(usage, dict)
                    else {name: value for name, value in usage.items() if name != "output_tokens"}
                )
            case "content_block_delta" if event.delta and event.delta.type == "text_delta":
                self._text.append(event.delta.text)
                self._tell(Event("delta", event.delta.text))
            case "content_block_start" if event.content_block:
                if event.content_block.type == "tool_use":
                    self._calls.begin(event.index, event.content_block.id, event.content_block.name)
            case "content_block_delta" if event.delta and event.delta.partial_json:
                self._calls.add(event.index, event.delta.partial_json)
            case "message_delta":
                self._stop = event.delta.stop_reason if event.delta else None
                self._usage = merged(self._usage, event.usage)
            case "message_stop":
                self._ended = True
            case "error":
                raise self._endpoint.broke_off(event.error)

    def reply(self, request: Request) -> Reply:
        if not self._ended:
            raise self._endpoint.broke_off()
        text = "".join(self._text)
        made = reply_of(request, text, self._stop, of_messages(self._usage), self._model)
        return calling(request.ask, made, self._calls.calls())


def least_shared(model: str) -> int:
    """Tokens that the service keeps at least; of models that are not known, the most of all."""
    return next((least for word, least in _LEAST if word in model), 4096)


def _headers(key: str) -> dict[str, str]:
    plain = {"content-type": "application/json", "anthropic-version": "2023-06-01"}
    return {**plain, "x-api-key": key} if key else plain


def _url(base_url: str) -> str:
    base = base_url.rstrip("/")
    return f"{base}/messages" if base.endswith("/v1") else f"{base}/v1/messages"
