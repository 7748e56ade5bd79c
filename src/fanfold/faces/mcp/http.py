"""The tools over streamable HTTP, at this machine's own address, for those who have the token."""

from __future__ import annotations

import asyncio
import hmac
import socket
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import msgspec

from fanfold.errors import BadInput
from fanfold.faces.connections import BACKLOG, Bounds, Connections, current
from fanfold.faces.mcp.serve import Say, Serve
from fanfold.faces.payload import read_json

HOST = "127.0.0.1"
PATH = "/mcp"
App = Callable[..., Awaitable[None]]


def on_http(port: int, token: str, say: Say, bounds: Bounds) -> Serve:
    """Until it is told to stop."""

    async def by(server: Any, stop: asyncio.Event) -> None:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
        from mcp.server.transport_security import TransportSecuritySettings

        listening = _listening(port)
        at = listening.getsockname()[1]
        hosts = [f"{name}:{at}" for name in (HOST, "localhost")]
        safe = TransportSecuritySettings(
            allowed_hosts=hosts, allowed_origins=[f"http://{host}" for host in hosts]
        )
        manager = StreamableHTTPSessionManager(server, security_settings=safe)
        web = _web(_guarded(manager.handle_request, token, bounds), bounds)
        stopping = asyncio.create_task(stop.wait())
        stopping.add_done_callback(lambda done: setattr(web, "should_exit", True))
        say(f"fanfold mcp: http://{HOST}:{at}{PATH}")
        async with manager.run():
            await web.serve([listening])
        stopping.cancel()

    return by


def _web(app: App, bounds: Bounds) -> Any:
    """The server, with its connections watched."""
    import uvicorn
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    class Web(uvicorn.Server):
        """Signals are heard by us."""

        def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
            return nullcontext()

    connections = Connections(bounds)

    def watched(**given: Any) -> asyncio.Protocol:
        return connections.watch(AutoHTTPProtocol(**given))

    speak: Any = watched  # the server wants a class, and only calls it
    config = uvicorn.Config(
        app, http=speak, ws="none", lifespan="off", log_config=None, access_log=False,
        log_level="error", timeout_graceful_shutdown=1, timeout_keep_alive=int(bounds.idle), backlog=BACKLOG,
    )  # fmt: skip
    return Web(config)


def _listening(port: int) -> socket.socket:
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((HOST, port))
        found.listen()  # who reads the address may knock at once
    except (OSError, OverflowError) as error:
        found.close()
        why = getattr(error, "strerror", None) or str(error)
        raise BadInput(f"port {port} cannot be used: {why.lower()}; try --port 0") from None
    return found


# ── every request ────────────────────────────────────────────────────────────────────────────


def _guarded(app: App, token: str, bounds: Bounds) -> App:
    """Only the one path, only with the token, only what can be read. The SDK checks Host and
    Origin."""
    wanted = f"Bearer {token}".encode()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        current().receive()
        try:
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, wanted):
                named = (b"www-authenticate", b"Bearer")
                await _refuse(send, 401, b"a bearer token is needed", named)
            elif scope["path"].rstrip("/") != PATH:
                await _refuse(send, 404, f"there is only {PATH}".encode())
            else:
                await _complete(app, scope, receive, send, bounds.body_bytes)
        except ConnectionResetError:
            """The client is gone before its request was complete."""
        finally:
            current().end()

    return guarded


async def _complete(app: App, scope: Any, receive: Any, send: Any, most: int) -> None:
    """Hand on a request whose body has arrived and can be read."""
    body = await _body(receive, most)
    if body is None:
        await _refuse(send, 413, f"the body is too large: at most {most} bytes".encode())
        return
    if not current().work():
        await _refuse(send, 503, b"too many requests", (b"retry-after", b"1"))
        return
    try:
        if body:
            read_json(body)
    except BadInput as error:
        wrong = {"code": -32700, "message": f"Parse error: {error}"}
        told = msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": wrong})
        await _refuse(send, 400, told, (b"content-type", b"application/json"))
        return
    await app(scope, _replay(body, receive), send)


async def _body(receive: Any, most: int) -> bytes | None:
    """The whole body; None if it is longer than `most` bytes."""
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionResetError
        part = message.get("body", b"")
        parts.append(part)
        size, more = size + len(part), message.get("more_body", False)
        if size > most:
            return None
    return b"".join(parts)


def _replay(body: bytes, receive: Any) -> Callable[[], Awaitable[Any]]:
    """What `receive` gave, once more; then what comes after it."""
    told = False

    async def again() -> Any:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _refuse(send: Any, status: int, text: bytes, *headers: tuple[bytes, bytes]) -> None:
    named = dict(headers)
    own = {b"content-type": b"text/plain", b"content-length": str(len(text)).encode(), **named}
    await send({"type": "http.response.start", "status": status, "headers": list(own.items())})
    await send({"type": "http.response.body", "body": text})
