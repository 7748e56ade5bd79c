"""What all HTTP faces share, on starlette and uvicorn: the socket, the secret, limits on requests,
errors, and a shutdown that lets requests end. `connections` has the limits on clients.

A face is a `Starlette` application made by `application`, behind a `Gatekeeper`, in a `WebServer`.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import zlib
from collections.abc import AsyncIterable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from hmac import compare_digest
from socket import AF_INET, AF_INET6, create_server, socket
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from fanfold.errors import BadInput, FanfoldError
from fanfold.faces.connections import BACKLOG, Bounds, Connections, current
from fanfold.work.files import expanded
from fanfold.work.nesting import DEEPEST, too_deep

HOST = "127.0.0.1"
_HEADER_BYTES = 64 * 1024
_DEEP = f"the body is nested too deeply: at most {DEEPEST} levels"
_decode = msgspec.json.Decoder().decode


class RequestRefused(FanfoldError):
    """A request that gets an error for an answer. `again`: the client may send it once more."""

    def __init__(
        self,
        text: str,
        *,
        status: int = 400,
        code: str | None = None,
        param: str | None = None,
        again: bool = False,
    ) -> None:
        self.status, self.code, self.param, self.again = status, code, param, again
        super().__init__(text)


Respond = Callable[[RequestRefused], Response]
"""How a face words an error."""

Admit = Callable[[Scope, Headers], Response | None]
"""Who is let in: raises RequestRefused; a response is the answer, and nobody else is asked."""


# ── the socket and the secret ────────────────────────────────────────────────────────────────


def listen(port: int, host: str = HOST) -> socket:
    """A listening socket, on loopback unless stated; port 0 is any free one. Clients may connect at
    once."""
    try:
        return create_server((host, port), family=AF_INET6 if ":" in host else AF_INET)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise BadInput(
            f"port {port} cannot be used: {why}; choose another with --port, 0 for any"
        ) from None


def new_secret() -> str:
    return f"ff-{secrets.token_urlsafe(32)}"


def read_secret(
    what: str, reference: str | None, environ: Mapping[str, str] = os.environ
) -> str | None:
    """From env:NAME or file:PATH, the value of `--key` or `--token`; None without a reference.
    A value in another form may be the secret itself, so no message repeats it."""
    if reference is None:
        return None
    source, _, name = reference.partition(":")
    if source not in ("env", "file") or not name:
        raise BadInput(f"--{what} is env:NAME or file:PATH, never the {what} itself")
    try:
        path = expanded(name)
        found = environ.get(name, "") if source == "env" else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        found = ""
    if not found.strip():
        raise BadInput(f"--{what} {reference}: there is no {what}; set it, or omit --{what}")
    return found.strip()


def is_authorized(authorization: str, secret: str) -> bool:
    """Does an Authorization header carry this bearer secret? Compared in constant time."""
    scheme, _, given = authorization.partition(" ")
    return is_same(given.strip(), secret) and scheme.lower() == "bearer"


def is_same(given: str, secret: str) -> bool:
    """Compared in constant time."""
    return compare_digest(given.encode("utf-8", "replace"), secret.encode())


def bearer(secret: str) -> Admit:
    """Requests that carry this secret as a bearer token."""

    def admit(scope: Scope, headers: Headers) -> None:
        if not is_authorized(headers.get("authorization", ""), secret):
            raise RequestRefused("the key is wrong or missing", status=401, code="invalid_api_key")

    return admit


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────


def read_json(raw: bytes) -> Any:
    """The value of a body. BadInput: not JSON, not UTF-8, a duplicate key, nested too deeply."""
    try:
        found = _decode(raw)
        if too_deep(found):
            raise BadInput(_DEEP)
        json.loads(raw, object_pairs_hook=_check_keys)
    except RecursionError:
        raise BadInput(_DEEP) from None
    except ValueError as error:
        raise BadInput(f"the body is not JSON: {error}") from None
    return found


def _check_keys(pairs: list[tuple[str, Any]]) -> None:
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys):
        twice = next(key for n, key in enumerate(keys) if key in keys[:n])
        raise BadInput(f"the body has a duplicate key: `{twice}`")


def is_json(content_type: str) -> bool:
    """Does a Content-Type header announce JSON in UTF-8? None at all is taken for that."""
    kind, *more = [part.strip().lower() for part in content_type.split(";")]
    charsets = [part.partition("=")[2].strip('" ') for part in more if part.startswith("charset")]
    return kind in ("", "application/json") and set(charsets) <= {"utf-8", "utf8"}


# ── every request ────────────────────────────────────────────────────────────────────────────


class Gatekeeper:
    """Lets a request through to an application when it is admitted, its body is complete and within
    its limit, and there is capacity. `closing` refuses all that come from then on."""

    def __init__(self, app: ASGIApp, admit: Admit, body_bytes: int, respond: Respond) -> None:
        self._app, self._admission, self._body_bytes = app, admit, body_bytes
        self._respond = respond
        self.closing = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = current()
        connection.receive()
        try:
            headers = Headers(scope=scope)
            if sum(len(name) + len(value) for name, value in headers.raw) > _HEADER_BYTES:
                raise RequestRefused(f"the header is too large: at most {_HEADER_BYTES} bytes")
            if (answer := self._admission(scope, headers)) is not None:
                await answer(scope, receive, send)
                return
            body = await self._body(headers, receive)
            if not connection.work():
                raise RequestRefused("too many requests", status=503, code="overloaded", again=True)
            await self._app(scope, replay(body, receive), send)
        except RequestRefused as error:
            await self._respond(error)(scope, receive, send)
        except ConnectionResetError:
            """The client disconnected before its request was complete."""
        finally:
            connection.end()

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        if self.closing:
            raise RequestRefused("the server is stopping", status=503, code="stopping", again=True)
        body = await _read_body(receive, self._body_bytes)
        return _unpack(body, headers.get("content-encoding", ""), self._body_bytes)


async def _read_body(receive: Receive, most: int) -> bytes:
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionResetError
        part = message.get("body", b"")
        parts.append(part)
        size, more = size + len(part), message.get("more_body", False)
        if size > most:
            raise _too_large(most)
    return b"".join(parts)


def _unpack(body: bytes, encoding: str, most: int) -> bytes:
    """Never more than `most` bytes of it, however small it is when packed."""
    if encoding.lower() in ("", "identity"):
        return body
    if encoding.lower() not in ("gzip", "deflate"):
        why = f"Content-Encoding {encoding!r} is not supported; send gzip, deflate or none"
        raise RequestRefused(why, status=415)
    unpacking = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)  # 32: detects gzip and zlib
    try:
        whole = unpacking.decompress(body, most + 1)
    except zlib.error:
        raise RequestRefused("the body does not match its Content-Encoding") from None
    if len(whole) > most:
        raise _too_large(most)
    if not unpacking.eof:
        raise RequestRefused("the body does not match its Content-Encoding")
    return whole


def _too_large(most: int) -> RequestRefused:
    return RequestRefused(f"the body is too large: at most {most} bytes", status=413)


def replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the whole body in one message, then what comes after it."""
    waiting = [body]

    async def again() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return again


def application(routes: Sequence[BaseRoute], respond: Respond) -> Starlette:
    """Routes whose errors, also those of starlette, are worded by the face."""

    def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestRefused)
        return respond(error)

    def not_routed(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        what = f"{request.method} {request.url.path}: {error.detail}"
        return respond(RequestRefused(what, status=error.status_code))

    def unexpected(request: Request, error: Exception) -> Response:
        text = f"unexpected {type(error).__name__}: {error}"
        return respond(RequestRefused(text, status=500, code="unexpected"))

    handlers = {RequestRefused: refused, HTTPException: not_routed, Exception: unexpected}
    return Starlette(routes=routes, exception_handlers=handlers)


def event_stream(events: AsyncIterable[bytes]) -> Response:
    """Server-sent events as they come."""
    return StreamingResponse(
        events, media_type="text/event-stream", headers={"Cache-Control": "no-cache"}
    )


# ── the server ───────────────────────────────────────────────────────────────────────────────


class _Http(H11Protocol):
    def send_400_response(self, msg: str) -> None:
        """To a request that broke off after its header an answer may not be possible any more: there is
        one already, or its method wants none with a text."""
        try:
            super().send_400_response(msg)
        except Exception:  # of h11, which is uvicorn's affair
            self.transport.close()


class WebServer(uvicorn.Server):
    """An application on a socket: `start`, then `stop`. Signals are handled by whoever starts it.

    Nothing is logged: the client is told what is wrong with its request, and nobody else.
    """

    def __init__(self, app: ASGIApp, bounds: Bounds) -> None:
        connections = Connections(bounds)

        def watched(**given: Any) -> asyncio.Protocol:
            return connections.watch(_Http(**given))

        protocol: Any = watched  # uvicorn asks for a class, and only calls it
        config = uvicorn.Config(
            app, http=protocol, ws="none", lifespan="off", log_config=None, access_log=False,
            log_level="critical", timeout_keep_alive=int(bounds.idle), backlog=BACKLOG,
            server_header=False, h11_max_incomplete_event_size=_HEADER_BYTES,
        )  # fmt: skip
        super().__init__(config)
        self._watched = connections

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        return nullcontext()

    def start(self, listening: socket) -> None:
        self._serving = asyncio.create_task(self.serve([listening]))

    def refuse_connections(self) -> None:
        """No new connection; idle ones are closed; the others go on to the end of their request."""
        self.should_exit = True

    async def stop(self, linger: float) -> None:
        """Clients have `linger` seconds to take their responses; what remains is cut off."""
        self.refuse_connections()
        await asyncio.wait({self._serving}, timeout=linger)
        self._watched.drop_all()
        for task in self.server_state.tasks:
            task.cancel()
        await self._serving
