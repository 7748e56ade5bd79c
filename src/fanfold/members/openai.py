"""The kind `openai`: any server that speaks OpenAI chat completions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar
from urllib.parse import urlsplit

import msgspec

from fanfold import price
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
from fanfold.members.media import completions_message, completions_tokens
from fanfold.members.openai_batches import OpenAIBatches
from fanfold.members.providers import PROVIDERS, Provider, ProviderName
from fanfold.members.reported import of_completions
from fanfold.members.status import error_parts, table
from fanfold.members.structured import in_words, is_object
from fanfold.members.toolcalls import (
    Gathering,
    WantedCall,
    calling,
    completions_messages,
    completions_tools,
    wanted,
)
from fanfold.price import Price
from fanfold.work.ask import Ask, Message, Reply, Schema
from fanfold.work.media import Attachment, MediaKind
from fanfold.work.member import Event, Member, Request, Tell, Traits
from fanfold.work.reader import Misfit

ROWS = table(
    quota=("insufficient_quota", "billing", "exceeded your current quota"),
    too_long=("context_length_exceeded", "context length", "context size", "too long", "too large"),
    key=("api key not valid", "incorrect api key", "invalid api key", "api_key_invalid"),
    flagged=("flagged", "moderation"),
    later=("please retry in",),
)


LEAST_SHARED = 1024  # tokens that a prompt must share for the service to keep them


class OpenAIFields(ApiFields, frozen=True, kw_only=True, tag="openai"):
    """A model with an OpenAI-compatible API: `members=[ff.openai("gpt-5-mini")]`.

    The fields are those of a roster entry: `id` (the model's name by default), `key`
    (`env:OPENAI_API_KEY`), `provider` or `base_url` for another server, `price`, `max_tokens`,
    `limits`, …
    """

    provider: ProviderName = ""

    usual_host: ClassVar[str] = "https://api.openai.com/v1"
    usual_key: ClassVar[str] = "env:OPENAI_API_KEY"

    def __post_init__(self) -> None:
        """The key of a provider goes to its own hosts only."""
        if self.provider:
            known = PROVIDERS[self.provider]
            url = self.base_url or known.base_url
            if not url:
                what = f"provider {self.provider} has an address for each account: state `base_url`"
                raise Misfit(what, "provider")
            self.put(base_url=url, key=self.key or (known.key if known.is_at(url) else "none"))
        super().__post_init__()

    def listed_price(self) -> Price | None:
        known = PROVIDERS[self.provider]
        if not known.is_at(self.base_url):
            return super().listed_price()
        model = self.model.removeprefix(known.prefix)
        return price.lookup(model, self.kind, known.listed_at or self.base_url)

    def usual_batch_price(self) -> float | None:
        known = PROVIDERS[self.provider]
        if self.provider:
            return known.batch if known.is_at(self.base_url) else None
        return super().usual_batch_price()

    @property
    def usual_media(self) -> tuple[MediaKind, ...]:
        """Of OpenAI's own models, or of its provider's; of another server nobody knows."""
        is_openai = PROVIDERS["openai"].is_at(self.base_url)
        media = PROVIDERS["openai" if is_openai else self.provider].media
        return (*media, "audio") if is_openai and "audio" in self.model else media

    def build(self, traits: Traits, context: BuildContext) -> Member:
        key = fetcher(self.id, self.key, context.roster)
        return OpenAI(traits, self.base_url, key, provider=PROVIDERS[self.provider])


openai = constructor(OpenAIFields, lambda given: given["model"])


# ── what goes over the wire, as far as it is read or written here ────────────────────────────


class _Asked(msgspec.Struct, frozen=True, omit_defaults=True):
    model: str
    messages: tuple[object, ...]
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    response_format: msgspec.Raw | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | None = None
    random_seed: int | None = None
    prompt_cache_key: str | None = None
    reasoning_effort: str | None = None
    service_tier: str | None = None


class _Part(msgspec.Struct):
    """Of a content in parts: some models put what they think before what they say."""

    type: str = ""
    text: str = ""


class _Said(msgspec.Struct):
    content: str | list[_Part] | None = None
    refusal: str | None = None
    tool_calls: list[WantedCall] | None = None


class _Choice(msgspec.Struct):
    message: _Said
    finish_reason: object = None


class _Answer(msgspec.Struct):
    choices: list[_Choice] = []
    usage: Any = None
    model: str | None = None
    error: object = None


class _Piece(msgspec.Struct):
    delta: _Said = msgspec.field(default_factory=_Said)
    finish_reason: object = None


class _Chunk(msgspec.Struct):
    choices: list[_Piece] = []
    usage: Any = None
    model: str | None = None
    error: object = None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Answer).decode
_decode_chunk = msgspec.json.Decoder(_Chunk).decode


class OpenAI(ApiMember):
    """`base_url` as the SDKs have it, with `/v1`; one without a path gets it.

    OpenAI's own newer models refuse `max_tokens` and other servers ignore its successor (an answer
    without a bound!), so the address decides which is sent. A schema whose root is no object is
    put into the prompt. Schemas are never sent as `strict`, which refuses most of them. `own`: it is
    our own server (`members/local`), which takes any schema, and no proxy is in between.
    """

    streamed: bytes = b',"stream":true,"stream_options":{"include_usage":true}}'

    def __init__(
        self,
        traits: Traits,
        base_url: str,
        key: Key,
        *,
        own: bool = False,
        provider: Provider = PROVIDERS[""],
    ) -> None:
        headers = header_of(provider.header) if provider.header else bearer
        super().__init__(traits, Endpoint(traits, _url(base_url), key, headers, ROWS, direct=own))
        self._own, self._provider = own, provider
        base = _url(base_url).removesuffix("/chat/completions")
        self.batches = OpenAIBatches(traits, base, key, headers, ROWS, self.whole)
        host = urlsplit(base_url).hostname or ""
        self._openai = host.endswith((".openai.com", ".openai.azure.com"))
        self._completion = self._openai or provider.newest
        if not provider.usage:
            self.streamed = b',"stream":true}'
        self._format: tuple[Schema, msgspec.Raw] | None = None

    def prepare(self, ask: Ask) -> Request:
        params, tools = ask.params, ask.tools
        messages: tuple[object, ...] = ask.conversation()
        if tools is not None:
            messages = (*ask.messages, *completions_messages(tools.rounds, ask.turns))
        attached = ask.attachments() if ask.shows_files else ()
        if attached:
            messages = tuple(
                completions_message(one) if isinstance(one, Message) else one for one in messages
            )
        most = params.max_tokens or self._traits.max_tokens
        shared = shared_part(ask, self._traits.price, LEAST_SHARED)
        takes = self._own or self._provider.schemas
        spoken = bool(
            ask.schema and not (takes and (self._own or is_object(ask.schema.definition)))
        )
        if ask.schema and spoken:
            messages = with_system(in_words(ask.schema), messages)
        asked = _Asked(
            model=self._model,
            messages=messages,
            max_tokens=None if self._completion else most,
            max_completion_tokens=most if self._completion else None,
            temperature=params.temperature,
            top_p=params.top_p,
            seed=params.seed if self._provider.seed == "seed" else None,
            random_seed=params.seed if self._provider.seed == "random_seed" else None,
            stop=params.stop,
            response_format=self._response_format(ask.schema)
            if ask.schema and not spoken
            else None,
            tools=None if tools is None else completions_tools(tools),
            tool_choice="none" if tools is not None and tools.closed else None,
            reasoning_effort=params.reasoning,
            service_tier=params.service_tier,
            prompt_cache_key=(shared.prefix or None) if self._openai else None,
        )
        body = _encode(asked)
        return Request(
            ask, body, output_tokens=most,
            input_tokens=len(body) + 1024 + (self._media_tokens(attached) if attached else 0),
            prefix=shared.prefix,
            shared=shared.tokens,
        )  # fmt: skip

    def _media_tokens(self, attached: tuple[Attachment, ...]) -> int:
        return sum(completions_tokens(one, self._model, self._openai) for one in attached)

    def _response_format(self, schema: Schema) -> msgspec.Raw:
        """Encoded once: the asks of one step share their schema."""
        if self._format is None or self._format[0] is not schema:
            described = {"name": "reply", "schema": schema.definition}
            format = {"type": "json_schema", "json_schema": described}
            self._format = schema, msgspec.Raw(_encode(format))
        return self._format[1]

    def pieces(self, tell: Tell) -> _Heard:
        return _Heard(self._endpoint, tell)

    def whole(self, request: Request, body: bytes) -> Reply:
        answer = self._endpoint.read(_decode, body)
        if not answer.choices:
            raise self._endpoint.unreadable(_without_choices(answer.error))
        choice = answer.choices[0]
        said, used = choice.message, of_completions(answer.usage)
        reason = "refusal" if said.refusal else choice.finish_reason
        text = said.refusal or _text(said.content)
        made = reply_of(request, text, reason, used, answer.model)
        uses = said.tool_calls
        return made if uses is None else calling(request.ask, made, wanted(uses))


class _Heard:
    """A streamed reply, as far as it has come."""

    def __init__(self, endpoint: Endpoint, tell: Tell) -> None:
        self._endpoint, self._tell = endpoint, tell
        self._content: list[str] = []
        self._refusal: list[str] = []
        self._calls = Gathering()
        self._finish: object = None
        self._usage: Any = None
        self._model: str | None = None

    def take(self, data: bytes) -> None:
        if data == b"[DONE]":
            return
        chunk = self._endpoint.read(_decode_chunk, data)
        if chunk.error is not None:
            raise self._endpoint.broke_off(chunk.error)
        if self._model is None and chunk.choices:
            self._tell(Event("began"))
        self._model = chunk.model or self._model or ""
        self._usage = self._usage if chunk.usage is None else chunk.usage
        for piece in chunk.choices[:1]:
            self._finish = piece.finish_reason or self._finish
            if piece.delta.refusal:
                self._refusal.append(piece.delta.refusal)
            if text := _text(piece.delta.content):
                self._content.append(text)
                self._tell(Event("delta", text))
            for use in piece.delta.tool_calls or ():
                self._calls.begin(use.index, use.id, use.function.name)
                self._calls.add(use.index, use.function.arguments)

    def reply(self, request: Request) -> Reply:
        if self._finish is None:
            raise self._endpoint.broke_off()
        refusal, used = "".join(self._refusal), of_completions(self._usage)
        reason = "refusal" if refusal else self._finish
        text = refusal or "".join(self._content)
        made = reply_of(request, text, reason, used, self._model or None)
        return calling(request.ask, made, self._calls.calls())


def _text(content: str | list[_Part] | None) -> str:
    if isinstance(content, list):
        return "".join(one.text for one in content if one.type == "text")
    return content or ""


def _without_choices(error: object) -> str:
    if error is None:
        return "it has no choices"
    code, message = error_parts(_encode(error))
    return f"it is an error: {message or code}"


def with_system(text: str, messages: tuple[object, ...]) -> tuple[object, ...]:
    """Beside a system message that is there: not every model takes two."""
    first = messages[0] if messages else None
    if not isinstance(first, Message) or first.role != "system":
        return (Message("system", text), *messages)
    return (Message("system", f"{first.content}\n\n{text}"), *messages[1:])


def header_of(name: str) -> Callable[[str], dict[str, str]]:
    """The key alone, in a header of that name."""
    plain = {"content-type": "application/json"}
    return lambda key: {**plain, name: key} if key else plain


def bearer(key: str) -> dict[str, str]:
    plain = {"content-type": "application/json"}
    return {**plain, "authorization": f"Bearer {key}"} if key else plain


def _url(base_url: str) -> str:
    base = base_url.rstrip("/")
    return f"{base}/chat/completions" if urlsplit(base).path else f"{base}/v1/chat/completions"
