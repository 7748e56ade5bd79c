"""Models over HTTP: the fields that both APIs have, and one URL of one account, which adds the key
and turns what is no answer into a MemberError."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Protocol, TypeAlias, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from fanfold import price
from fanfold.errors import BadInput, InvalidReply, Terminal, Transient
from fanfold.members.http import OK, Answer, Each, Http
from fanfold.members.keys import Key, KeyReference, scrubbed
from fanfold.members.kinds import BuildContext, MemberFields
from fanfold.members.reported import Reported, reply_end
from fanfold.members.status import ErrorRow, error_parts, refused, shortened
from fanfold.members.structured import find
from fanfold.members.target import look_for
from fanfold.members.tool_sources import look_at_tool
from fanfold.price import Price, reading_pays
from fanfold.work.ask import Ask, Reply
from fanfold.work.item import digest
from fanfold.work.member import Request, Tell, Tier, Traits, filled, tell_nobody
from fanfold.work.nesting import TooDeep
from fanfold.work.reader import Count, Misfit, Text
from fanfold.work.split import estimate_tokens
from fanfold.work.started import MAX_BYTES
from fanfold.work.tool import (
    CALLS,
    ROUNDS,
    CallsField,
    RoundsField,
    StatedTool,
    StatedTools,
    ToolField,
    as_fields,
    refuse_same_names,
)

T = TypeVar("T")
if TYPE_CHECKING:  # what scripts may give, and what it becomes
    StatedToolList: TypeAlias = Sequence[Any]
else:
    StatedToolList = tuple[ToolField, ...]
_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")
_CONNECTING = 3.0  # seconds that a connection may take when members are looked at


BATCH_PRICE = 0.5
BatchPrice: TypeAlias = Annotated[float, Meta(gt=0, le=1)]


class _AddressFields(MemberFields, frozen=True, kw_only=True):
    base_url: Text = ""
    key: KeyReference = ""
    max_bytes: Count = MAX_BYTES


class ApiFields(_AddressFields, frozen=True):
    """A model behind an API. The usual key goes to the usual host only."""

    model: Text
    batch_price: BatchPrice | None = None

    tools: StatedToolList = ()
    tool_rounds: RoundsField = ROUNDS
    tool_calls: CallsField = CALLS

    usual_host: ClassVar[str]
    usual_key: ClassVar[str]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.put(
            tools=tuple(
                one if isinstance(one, StatedTool) else as_fields(one) for one in self.tools
            )
        )
        usual_key = "none" if self.base_url else self.usual_key
        url = (self.base_url or self.usual_host).rstrip("/")
        self.put(base_url=url, key=self.key or usual_key)
        if url:
            _check_address(url)

    @property
    def key_reference(self) -> str:
        return self.key

    def traits(self, roster: Path) -> Traits:
        """An account, which shares a quota, is a server and a key (the reference, never its value).
        A price that nobody knows stays unknown, also of a server on this machine."""
        here = urlsplit(self.base_url).hostname in _THIS_MACHINE
        tier: Tier = "local" if here else "paid"
        known = self.stated_price
        return Traits(
            **self.common() | {
                "tier": self.tier or tier,
                "pool": self.pool or f"{self.kind}:{self.base_url}:{self.key}",
            },
            answerer=f"{self.kind}:{self.model}", model=self.model, max_bytes=self.max_bytes,
            price=self.listed_price() if known is None else known,
            remote=True, takes_tools=True, tools=self._stated_tools(roster),
            batch=self._batch_price(),
        )  # fmt: skip

    def listed_price(self) -> Price | None:
        return price.lookup(self.model, self.kind, self.base_url)

    def _stated_tools(self, roster: Path) -> StatedTools | None:
        """Functions are imported from the roster's folder, and programs run there."""
        if not self.tools:
            return None
        found = tuple(
            one if isinstance(one, StatedTool) else StatedTool(one, str(roster.resolve()))
            for one in self.tools
        )
        refuse_same_names(found)
        return StatedTools(found, self.tool_rounds, self.tool_calls)

    def _batch_price(self) -> float | None:
        """Of its batch service, as a part of the price; where nothing is stated, as is known of the host."""
        if self.at is not None:
            return None
        return self.usual_batch_price() if self.batch_price is None else self.batch_price

    def usual_batch_price(self) -> float | None:
        return BATCH_PRICE if self.base_url == self.usual_host else None

    async def trouble(self, traits: Traits, context: BuildContext) -> str | None:
        """Behind a proxy this may be wrong: it tries to connect directly."""
        if found := await super().trouble(traits, context):
            return found
        look_at_tools(traits)
        parts = urlsplit(self.base_url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            async with asyncio.timeout(_CONNECTING):
                _, writer = await asyncio.open_connection(parts.hostname, port)
        except (OSError, TimeoutError):
            return f"{parts.hostname}:{port} cannot be reached"
        writer.close()
        return None


def _check_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        secret = parts.username is not None or parts.password is not None
    except ValueError:
        usable, secret = False, False
    if secret:
        raise Misfit("`base_url` must not hold a name or password; use `key`", "base_url")
    if not usable:
        raise Misfit(f"`base_url` must begin with http:// or https://, not `{url}`", "base_url")


def look_at_tools(traits: Traits) -> None:
    """Nothing is imported or started. BadInput: one is not there."""
    for one in () if traits.tools is None else traits.tools.tools:
        look_at_tool(one)
        if one.fields.kind == "function" and one.target is None:
            look_for(str(one.fields.function), one.folder, file=one.file, line=one.line)


class Endpoint:
    """`key` is called for every request and its value is kept nowhere; `headers` puts it in."""

    def __init__(
        self,
        traits: Traits,
        url: str,
        key: Key,
        headers: Callable[[str], dict[str, str]],
        rows: tuple[ErrorRow, ...],
        *,
        direct: bool = False,
    ) -> None:
        self._member, self._timeout = traits.id, traits.timeout
        self._url, self._key, self._headers, self._rows = url, key, headers, rows
        self._http = http_client(traits.id, direct=direct, most=traits.max_bytes)

    async def open(self) -> None:
        await self._http.open()

    async def close(self) -> None:
        await self._http.close()

    async def post(self, body: bytes, each: Each | None = None) -> Answer:
        """The answer of a call that went well. `each` is called with the data of every event, if the
        server streams them."""
        key = self._resolved()
        headers = self._headers(key)
        answer = await self._http.post(self._url, headers, body, self._timeout, each)
        if answer.status != OK:
            raise refused(self._member, answer, self._rows, key)
        return answer

    def read(self, decode: Callable[[bytes], T], body: bytes) -> T:
        try:
            return decode(body)
        except RecursionError:
            raise self.unreadable(str(TooDeep())) from None
        except ValueError as error:
            raise self.unreadable(str(error)) from None

    def unreadable(self, why: str) -> InvalidReply:
        said = shortened(scrubbed(why, self._resolved()))
        return InvalidReply(f"{self._member}: the answer cannot be read: {said}")

    def broke_off(self, error: object = None) -> Transient:
        """A stream that ended before the reply did, or with an error in it: it may be billed."""
        if error is None:
            return Transient(f"{self._member}: the stream ended before the reply did", lost=True)
        code, message = error_parts(msgspec.json.encode(error))
        why = shortened(scrubbed(message or code, self._resolved()))
        return Transient(f"{self._member}: failed in mid-reply: {why}", lost=True)

    def _resolved(self) -> str:
        key = (self._key() or "").strip()
        if key.isprintable():
            return key
        raise Terminal(
            f"{self._member}: the key contains a character that is not allowed in a header",
            scope="pool",
        )


class StreamedReply(Protocol):
    """A streamed reply, as far as it has come."""

    def take(self, data: bytes) -> None: ...

    def reply(self, request: Request) -> Reply: ...


class ApiMember:
    """A member behind an API. A kind prepares requests, and reads answers that come whole and those
    that come in pieces; `streamed` takes the place of the end of a body to ask for these."""

    streamed: bytes

    def __init__(self, traits: Traits, endpoint: Endpoint) -> None:
        self._traits, self._model, self._endpoint = traits, traits.model or "", endpoint

    @property
    def traits(self) -> Traits:
        return self._traits

    async def open(self) -> None:
        await self._endpoint.open()

    async def close(self) -> None:
        await self._endpoint.close()

    async def ask(self, request: Request, tell: Tell) -> Reply:
        body = request.body
        if request.has_files:
            body = await asyncio.to_thread(filled, request)
        if tell is tell_nobody:
            return self.whole(request, (await self._endpoint.post(body)).body)
        pieces = self.pieces(tell)
        answer = await self._endpoint.post(body[:-1] + self.streamed, pieces.take)
        return pieces.reply(request) if answer.events else self.whole(request, answer.body)

    def whole(self, request: Request, body: bytes) -> Reply:
        raise NotImplementedError

    def pieces(self, tell: Tell) -> StreamedReply:
        raise NotImplementedError


class SharedPart(NamedTuple):
    """The beginning of an ask that its service keeps: a digest of it, and about how many tokens."""

    prefix: str = ""
    tokens: int = 0


NOT_SHARED = SharedPart()


def shared_part(ask: Ask, price: Price | None, least: int) -> SharedPart:
    """Nothing where it is shorter than `least` tokens, or costs no less by its price."""
    if ask.shared <= 0 or not reading_pays(price):
        return NOT_SHARED
    found = _measured(ask.shared_texts())
    return found if found.tokens >= least else NOT_SHARED


@lru_cache(64)
def _measured(texts: tuple[str, ...]) -> SharedPart:
    """Once for all asks that begin alike."""
    whole = "\0".join(texts).encode("utf-8", "replace")
    return SharedPart(digest(whole).hex(), sum(map(estimate_tokens, texts)))


def reply_of(
    request: Request, text: str, reason: object, reported: Reported, model: str | None
) -> Reply:
    """Where a schema was asked for, with the data that is in the text. `reason`: why it ended."""
    finish, why = reply_end(reason, request.ask)
    wanted = request.ask.schema is not None and finish != "refusal"
    data, (usage, unusable) = find(text) if wanted else None, reported
    return Reply(text, data, usage, finish, model, unusable=unusable, reason=why)


def http_client(
    member: str,
    *,
    direct: bool = False,
    most: int = MAX_BYTES,
    environ: Mapping[str, str] = os.environ,
) -> Http:
    """The client that FANFOLD_HTTP names. A client is imported only if it is used."""
    chosen = environ.get("FANFOLD_HTTP") or "aiohttp"
    if chosen == "aiohttp":
        from fanfold.members.http_aiohttp import AiohttpClient

        return AiohttpClient(member, direct=direct, most=most)
    if chosen != "pyreqwest":
        raise BadInput(f"FANFOLD_HTTP: {chosen!r} is neither aiohttp nor pyreqwest")
    try:
        from fanfold.members.http_pyreqwest import PyreqwestClient
    except ModuleNotFoundError:
        remedy = "install it: pip install 'fanfold[pyreqwest]'"
        raise BadInput(f"FANFOLD_HTTP: pyreqwest is not installed; {remedy}") from None
    return PyreqwestClient(member, direct=direct, most=most)
