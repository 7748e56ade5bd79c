"""HTTP/1.1 for a server: requests out of a connection's bytes, and the bytes of responses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import TypeAlias, cast

import msgspec

_REASONS = {status.value: status.phrase for status in HTTPStatus} | {529: "Overloaded"}
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_BAD = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


_Head: TypeAlias = tuple[str, str, str, dict[str, str]]


class HttpRequest(msgspec.Struct, frozen=True):
    """Header names are lower-case; the path comes without its query."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    query: str = ""


def head(status: int, kind: str, *lines: str) -> bytes:
    """Status line and headers. The lines must say how long the body is."""
    first = f"HTTP/1.1 {status} {_REASONS.get(status, 'Unknown')}\r\ncontent-type: {kind}\r\n"
    return (first + "".join(f"{line}\r\n" for line in lines) + "\r\n").encode("latin-1")


def chunk(data: bytes) -> bytes:
    """One piece of a body of unknown length; the empty piece ends it."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class BadRequest(Exception):
    """Bytes that are not HTTP."""


def _parse_head(raw: bytes) -> _Head:
    first, *lines = raw.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise BadRequest
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    path, _, query = words[1].partition("?")
    return words[0], path, query, headers


def _number(text: bytes | str, base: int) -> int:
    try:
        return int(text, base)
    except ValueError:
        raise BadRequest from None


def _unchunk(buffer: bytearray, start: int) -> tuple[bytes, int] | None:
    """The body that begins at `start` and where it ends, or None while it is not whole."""
    parts = []
    while True:
        line = buffer.find(b"\r\n", start)
        if line < 0:
            return None
        size = _number(bytes(buffer[start:line]).partition(b";")[0], 16)
        start = line + 2
        if len(buffer) < start + size + 2:
            return None
        parts.append(bytes(buffer[start : start + size]))
        start += size + 2
        if size == 0:
            return b"".join(parts), start


class ServerConnection(asyncio.BufferedProtocol):
    """One client. `handle` gets a request at a time and answers it by `send` or `cut`, at once or
    later; what the client sends meanwhile waits. `made` and `lost` are called when it comes and
    when it is gone.

    It brings its own buffer because a plain protocol has the loop allocate 256 KB for every read,
    which takes more time than all the rest of it.
    """

    def __init__(
        self,
        handle: Callable[[HttpRequest, ServerConnection], None],
        made: Callable[[ServerConnection], None],
        lost: Callable[[ServerConnection], None],
    ) -> None:
        self._handle, self._made, self._lost = handle, made, lost
        self._received = memoryview(bytearray(16_384))
        self._buffer = bytearray()
        self._head: _Head | None = None
        self._known: tuple[bytes, _Head] = b"", ("", "", "", {})
        self._busy = self._reading = self._last = False
        self.open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.open = True
        self._made(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
        self._lost(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._received

    def buffer_updated(self, nbytes: int) -> None:
        self._buffer += self._received[:nbytes]
        self._read_on()

    def _read_on(self) -> None:
        """Hand on what is whole. Not entered twice: `handle` may answer at once."""
        if self._reading:
            return
        self._reading = True
        try:
            while not self._busy and self._buffer and (request := self._take()) is not None:
                self._busy = True
                self._handle(request, self)
        except BadRequest:
            self._transport.write(_BAD)
            self._transport.close()
        finally:
            self._reading = False

    def _take(self) -> HttpRequest | None:
        buffer = self._buffer
        if self._head is None:
            end = buffer.find(b"\r\n\r\n")
            if end < 0:
                return None
            # A client mostly sends the same head again and again
            raw = bytes(buffer[:end])
            if raw != self._known[0]:
                self._known = raw, _parse_head(raw)
            self._head = self._known[1]
            del buffer[: end + 4]
            if self._head[3].get("expect", "").lower() == "100-continue":
                self._transport.write(_CONTINUE)
        method, path, query, headers = self._head
        body = self._body(headers)
        if body is None:
            return None
        self._head = None
        self._last = headers.get("connection", "").lower() == "close"
        return HttpRequest(method, path, headers, body, query)

    def _body(self, headers: dict[str, str]) -> bytes | None:
        buffer = self._buffer
        if headers.get("transfer-encoding", "").lower() == "chunked":
            found = _unchunk(buffer, 0)
            if found is None:
                return None
            body, end = found
        else:
            end = _number(headers.get("content-length", "0"), 10)
            if len(buffer) < end:
                return None
            body = bytes(buffer[:end])
        del buffer[:end]
        return body

    def push(self, part: bytes) -> None:
        """The beginning of a response; the rest comes by `send`."""
        if self.open:
            self._transport.write(part)

    def send(self, response: bytes) -> None:
        """The whole response to the request under way. Nothing happens if the client is gone."""
        if not self.open:
            return
        self._transport.write(response)
        self._busy = False
        if self._last:
            self._transport.close()
        elif self._buffer:
            self._read_on()

    def cut(self, response: bytes = b"") -> None:
        """Send these bytes, if any, and close, however much of a response they are."""
        if self.open and response:
            self._transport.write(response)
            self._transport.close()
        else:
            self._transport.abort()
        self.open = False


async def stop_listening(server: asyncio.Server) -> None:
    """Close a server, after the connections that it has accepted have made themselves known.

    That takes a few turns of the loop. asyncio forgets one that was accepted just before, and it
    would stay open.
    """
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening.fileno())
    for _ in range(5):
        await asyncio.sleep(0)
    server.close()
