"""The tools over streamable HTTP, on loopback, for clients that have the token."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from fanfold.errors import BadInput
from fanfold.faces.connections import Bounds
from fanfold.faces.mcp.server import Figures, Transport
from fanfold.faces.web import (
    HOST,
    Gatekeeper,
    RequestRefused,
    WebServer,
    application,
    bearer,
    listen,
    read_json,
    replay,
)
from fanfold.observe.metrics import CONTENT_TYPE

PATH = "/mcp"
LINGER = 1.0  # seconds for clients to take their responses; their streams would never end
_UNREADABLE = "unreadable"


def on_http(port: int, token: str, say: Callable[[str], None], bounds: Bounds) -> Transport:
    """Until the event is set."""

    async def serve(server: Server[Any], stop: asyncio.Event, figures: Figures) -> None:
        async def metrics(request: Request) -> Response:
            return Response(await figures(), media_type=CONTENT_TYPE)

        listening = listen(port)
        manager = _manager(server, listening.getsockname()[1], bounds.body_bytes)
        paths = [Route(path, _Checked(manager)) for path in (PATH, f"{PATH}/")]
        app = application([*paths, Route("/metrics", metrics)], _respond)
        web = WebServer(Gatekeeper(app, bearer(token), bounds.body_bytes, _respond), bounds)
        async with manager.run():
            web.start(listening)
            say(f"fanfold mcp: http://{HOST}:{listening.getsockname()[1]}{PATH}")
            try:
                await stop.wait()
            finally:
                await web.stop(LINGER)

    return serve


def _manager(server: Server[Any], port: int, body_bytes: int) -> StreamableHTTPSessionManager:
    """The SDK checks Host and Origin, against pages of others in the user's browser."""
    hosts = [f"{name}:{port}" for name in (HOST, "localhost")]
    security = TransportSecuritySettings(
        allowed_hosts=hosts, allowed_origins=[f"http://{host}" for host in hosts]
    )
    return StreamableHTTPSessionManager(
        server, security_settings=security, max_request_body_size=body_bytes
    )


class _Checked:
    """The SDK's application, for bodies that can be read."""

    def __init__(self, manager: StreamableHTTPSessionManager) -> None:
        self._manager = manager

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        if body := message.get("body", b""):
            try:
                read_json(body)
            except BadInput as error:
                raise RequestRefused(f"Parse error: {error}", code=_UNREADABLE) from None
        await self._manager.handle_request(scope, replay(body, receive), send)


def _respond(error: RequestRefused) -> Response:
    if error.code == _UNREADABLE:
        wrong = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": str(error)}}
        return Response(msgspec.json.encode(wrong), error.status, media_type="application/json")
    headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else {}
    if error.again:
        headers["Retry-After"] = "1"
    return Response(str(error), error.status, headers, media_type="text/plain")
