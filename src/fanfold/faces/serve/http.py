"""The endpoint itself, on aiohttp: paths, the key, streams, and a gentle end."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from socket import create_server, socket

import msgspec
from aiohttp import web

from fanfold.errors import BadInput
from fanfold.faces.connections import BACKLOG, Bounds, Connections, current
from fanfold.faces.payload import is_json
from fanfold.faces.serve.answer import Service, read_manner
from fanfold.faces.serve.key import shown
from fanfold.faces.serve.stream import Feed, events
from fanfold.faces.serve.wire import Head, Refused, model_fields, models, read_chat

LINGER = 10.0  # seconds for clients to take what is written, at the end

_encode = msgspec.json.Encoder().encode
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_JSON = "application/json"
_GONE = (ConnectionError, asyncio.CancelledError)

# aiohttp writes a traceback for every malformed request; whoever sends one is told, and nobody else.
_SILENT = logging.getLogger("fanfold.serve")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False


def open_door(port: int) -> socket:
    """A place on loopback where clients can knock. Port 0 is any that is free."""
    try:
        return create_server(("127.0.0.1", port))
    except OSError as error:
        why = f"port {port} cannot be used: {error.strerror or error}"
        raise BadInput(f"{why}; choose another with --port, 0 for any") from None


class Server:
    """`start`, then `stop`: no new request from then on, those under way come to their end."""

    def __init__(
        self, service: Service, key: str, now: Callable[[], float], bounds: Bounds = Bounds()
    ) -> None:
        self._service, self._key, self._now = service, key, now
        self._connections = Connections(bounds)
        self._closing = False
        app = web.Application(middlewares=[self._guard], client_max_size=bounds.body_bytes)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/v1/models/{id:.+}", self._model)
        self._runner = web.AppRunner(
            app, access_log=None, logger=_SILENT, shutdown_timeout=LINGER,
            keepalive_timeout=bounds.idle,
        )  # fmt: skip

    async def start(self, door: socket) -> None:
        await self._runner.setup()
        speak = self._runner.server
        assert speak is not None
        self._listening = await asyncio.get_running_loop().create_server(
            lambda: self._connections.watch(speak()), sock=door, backlog=BACKLOG
        )

    async def stop(self) -> None:
        """At once when it is cancelled meanwhile: then what is under way is cancelled too."""
        self._closing = True
        try:
            self._listening.close()
            await self._service.idle()
        except asyncio.CancelledError:
            await self._service.abandon()
            raise
        finally:
            await self._service.close()
            await self._runner.cleanup()

    # ── every request ──

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """First the key; then whatever goes wrong is told in OpenAI's shape."""
        current().receive()
        try:
            if not shown(request.headers.get("Authorization", ""), self._key):
                raise Refused("the key is wrong or missing", status=401, code="invalid_api_key")
            if self._closing:
                raise Refused("the server is stopping", status=503, code="stopping", again=True)
            await request.read()
            if not current().work():
                raise Refused("too many requests", status=503, code="overloaded", again=True)
            return await handler(request)
        except Refused as error:
            return _refusal(error)
        except web.RequestPayloadError:
            return _refusal(Refused("the body does not fit its Content-Encoding"))
        except web.HTTPException as error:
            what = f"{request.method} {request.path}: {error.reason}"
            return _refusal(Refused(what, status=error.status))
        except _GONE:
            raise
        except Exception as error:
            text = f"unexpected {type(error).__name__}: {error}"
            return _refusal(Refused(text, status=500, code="unexpected"))
        finally:
            current().end()

    async def _models(self, request: web.Request) -> web.StreamResponse:
        return web.Response(body=models(self._service.models), content_type=_JSON)

    async def _model(self, request: web.Request) -> web.StreamResponse:
        id = request.match_info["id"]
        if id not in self._service.models:
            raise Refused(f"there is no model `{id}`", status=404, code="model_not_found")
        return web.Response(body=_encode(model_fields(id)), content_type=_JSON)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        said = request.headers.get
        if not is_json(said("Content-Type", "")):
            raise Refused("the Content-Type must be application/json, in UTF-8")
        manner = read_manner(said("X-Fanfold-Fresh", ""), said("X-Fanfold-Parent", ""))
        chat = read_chat(await request.read(), said("X-Fanfold-Needs", ""))
        head = Head(f"chatcmpl-{secrets.token_hex(12)}", int(self._now()), chat.model)
        feed = Feed()
        work = self._service.begin(head.id, chat, manner, feed.tell if chat.stream else None)
        if not chat.stream:
            return web.Response(
                body=head.completion(await asyncio.shield(work)), content_type=_JSON
            )
        pieces = events(head, chat, feed, work)
        first = await anext(pieces)
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
        )
        try:
            await response.prepare(request)
            await response.write(first)
            async for piece in pieces:
                await response.write(piece)
            await response.write_eof()
        except ConnectionError:
            """The client is gone; the answer comes to its end all the same."""
        return response


def _refusal(error: Refused) -> web.Response:
    """Clients try again on their own after some statuses; what was tried here already is final."""
    headers = {"x-should-retry": "true" if error.again else "false"}
    if error.again:
        headers["Retry-After"] = "1"
    return web.Response(
        status=error.status, body=_encode(error.body), content_type=_JSON, headers=headers
    )
