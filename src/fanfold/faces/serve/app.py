"""The endpoint: OpenAI's paths as an application of starlette, and its server."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from socket import socket

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fanfold.faces.connections import Bounds
from fanfold.faces.serve.service import Service, read_options
from fanfold.faces.serve.wire import (
    DONE,
    Chat,
    ChatAnswer,
    ChunkWriter,
    error_body,
    event,
    model_fields,
    models,
    read_chat,
)
from fanfold.faces.web import (
    Gatekeeper,
    RequestRefused,
    WebServer,
    application,
    bearer,
    event_stream,
    is_json,
)
from fanfold.observe.metrics import CONTENT_TYPE
from fanfold.work.member import Event

LINGER = 10.0  # seconds for clients to take their responses, at the end
_RESTARTED = (
    "the answer was interrupted and restarted by a retry; ask again, the whole one is on record"
)
_encode = msgspec.json.Encoder().encode
_JSON = "application/json"


class ServeEndpoint:
    """`start`, then `stop`: no new request from then on, those under way run to their end."""

    def __init__(
        self, service: Service, key: str, now: Callable[[], float], bounds: Bounds = Bounds()
    ) -> None:
        self._service, self._now = service, now
        routes = [
            Route("/v1/chat/completions", self._chat, methods=["POST"]),
            Route("/v1/models", self._models),
            Route("/v1/models/{id:path}", self._model),
            Route("/metrics", self._metrics),
        ]
        app = application(routes, _respond)
        self._gatekeeper = Gatekeeper(app, bearer(key), bounds.body_bytes, _respond)
        self._server = WebServer(self._gatekeeper, bounds)

    def start(self, listening: socket) -> None:
        self._server.start(listening)

    async def stop(self) -> None:
        """Cancelled meanwhile: then what is under way is cancelled too."""
        self._gatekeeper.closing = True
        self._server.refuse_connections()
        try:
            await self._service.idle()
        except asyncio.CancelledError:
            await self._service.abandon()
            raise
        finally:
            await self._service.close()
            await self._server.stop(LINGER)

    # ── the paths ──

    async def _models(self, request: Request) -> Response:
        return Response(models(self._service.models), media_type=_JSON)

    async def _model(self, request: Request) -> Response:
        id = request.path_params["id"]
        if id not in self._service.models:
            raise RequestRefused(f"there is no model `{id}`", status=404, code="model_not_found")
        return Response(_encode(model_fields(id)), media_type=_JSON)

    async def _metrics(self, request: Request) -> Response:
        return Response(await self._service.metrics(), media_type=CONTENT_TYPE)

    async def _chat(self, request: Request) -> Response:
        header = request.headers.get
        if not is_json(header("Content-Type", "")):
            raise RequestRefused("the Content-Type must be application/json, in UTF-8")
        options = read_options(header("X-Fanfold-Fresh", ""), header("X-Fanfold-Parent", ""))
        chat = read_chat(await request.body(), header("X-Fanfold-Needs", ""))
        writer = ChunkWriter(f"chatcmpl-{secrets.token_hex(12)}", int(self._now()), chat.model)
        buffer = DeltaBuffer()
        work = self._service.begin(writer.id, chat, options, buffer.add if chat.stream else None)
        if not chat.stream:
            return Response(writer.completion(await _finished(work)), media_type=_JSON)
        return event_stream(await _started(chunks(writer, chat, buffer, work)))


def _respond(error: RequestRefused) -> Response:
    """Clients retry some statuses on their own; `x-should-retry` says that a retry was made here."""
    headers = {"x-should-retry": "true" if error.again else "false"}
    if error.again:
        headers["Retry-After"] = "1"
    return Response(_encode(error_body(error)), error.status, headers, _JSON)


async def _finished(work: asyncio.Task[ChatAnswer]) -> ChatAnswer:
    """The answer. Shielded: a client that disconnects does not end it."""
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        if not work.cancelled():
            raise
        why = "the server was stopped before the answer was complete"
        raise RequestRefused(why, status=503, code="stopped") from None


# ── streamed answers ─────────────────────────────────────────────────────────────────────────


class DeltaBuffer:
    """The deltas of a member until they are sent, so that a slow reader delays nobody.

    What was sent cannot be taken back when a retry begins. Then nothing more is sent, and the end
    shows whether the whole answer begins with it.
    """

    def __init__(self) -> None:
        self.sent = ""
        self._waiting: list[str] = []
        self._restarted = False
        self._changed = asyncio.Event()

    def add(self, happening: Event) -> None:
        if happening.kind == "note":
            self._restarted = bool(self.sent or self._waiting)
        elif happening.kind == "delta" and happening.text and not self._restarted:
            self._waiting.append(happening.text)
            self._changed.set()

    async def next(self, work: asyncio.Task[ChatAnswer]) -> str:
        """The next piece; empty when the answer has ended and all was taken."""
        if not self._waiting and not work.done():
            self._changed.clear()
            changed = asyncio.ensure_future(self._changed.wait())
            try:
                await asyncio.wait((work, changed), return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()
        piece, self._waiting = "".join(self._waiting), []
        self.sent += piece
        return piece


async def chunks(
    writer: ChunkWriter, chat: Chat, buffer: DeltaBuffer, work: asyncio.Task[ChatAnswer]
) -> AsyncIterator[bytes]:
    """The server-sent events of an answer. Raises RequestRefused only before the first of them;
    later an error is an event too, and the last one."""
    piece = await buffer.next(work)
    if not piece:
        await _finished(work)  # nothing was sent yet, so it may still be refused
    yield writer.chunk({"role": "assistant", "content": ""})
    while piece:
        yield writer.chunk({"content": piece})
        piece = await buffer.next(work)
    try:
        answer = await _finished(work)
    except RequestRefused as error:
        yield event(error_body(error))
        return
    for last in _last_chunks(writer, chat, buffer.sent, answer):
        yield last


def _last_chunks(writer: ChunkWriter, chat: Chat, sent: str, answer: ChatAnswer) -> list[bytes]:
    """The rest of the text, and how it ended."""
    if not answer.text.startswith(sent):
        error = RequestRefused(_RESTARTED, status=502, code="broke_off")
        return [event(error_body(error))]
    last: list[bytes] = []
    if answer.text != sent:
        part = "refusal" if answer.refused else "content"
        last.append(writer.chunk({part: answer.text[len(sent) :]}))
    finish = "content_filter" if answer.refused and sent else answer.finish
    last.append(writer.chunk({}, finish, fanfold=answer.about))
    if chat.include_usage:
        last.append(writer.usage(answer.usage))
    return [*last, DONE]


async def _started(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same pieces, after the first was made: until then the request may be refused."""
    first = await anext(pieces)

    async def all() -> AsyncIterator[bytes]:
        yield first
        async for piece in pieces:
            yield piece

    return all()
