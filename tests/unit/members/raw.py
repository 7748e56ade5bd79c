"""A server on loopback that says exactly what a test writes, byte for byte."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import inf
from socket import SO_LINGER, SOL_SOCKET
from ssl import SSLContext
from typing import Self

from fanfold.testing.http import stop_listening

Talk = Callable[["Caller"], Awaitable[None]]


class Caller:
    """One connection, seen from the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def request(self) -> tuple[str, dict[str, str], bytes]:
        """First line, headers in lower case, body. EOFError when the client is gone."""
        line, headers = await self.head()
        body = await self._reader.readexactly(int(headers.get("content-length", 0)))
        return line, headers, body

    async def head(self) -> tuple[str, dict[str, str]]:
        """The body is not read, so it stays with the client as far as no buffer takes it."""
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        lines = (line.partition(": ") for line in head[1:-2])
        return head[0], {name.lower(): value for name, _, value in lines}

    async def rest(self, most: float = inf) -> int:
        """How many bytes came until the client was gone, or until there were so many."""
        count = 0
        with suppress(ConnectionError):
            while count < most and (more := await self._reader.read(65_536)):
                count += len(more)
        return count

    async def exactly(self, count: int) -> bytes:
        return await self._reader.readexactly(count)

    async def pour_into(self, writer: asyncio.StreamWriter) -> None:
        """All that the client sends, to its end."""
        while more := await self._reader.read(65_536):
            writer.write(more)
            await writer.drain()
        writer.write_eof()

    async def pour_from(self, reader: asyncio.StreamReader) -> None:
        while more := await reader.read(65_536):
            await self.send(more)
        self._writer.write_eof()

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def gone(self) -> None:
        """Wait until the client has closed the connection."""
        await self._reader.read()

    def reset(self) -> None:
        """Close so that the client sees a reset, not an end."""
        at_once = struct.pack("ii", 1, 0)
        self._writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, at_once)
        self._writer.transport.abort()


class RawServer:
    """Every connection is handed to `talk` and closed when that returns."""

    def __init__(self, talk: Talk, tls: SSLContext | None = None) -> None:
        self._talk, self._tls = talk, tls
        self._talks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self.connections = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=self._tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        self.url = f"http{'s' if self._tls else ''}://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        await stop_listening(self._server)
        for talk in self._talks:
            talk.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)
        for writer in self._writers:
            with suppress(AttributeError):  # of Python 3.11.2, over TLS, where it was closed twice
                writer.transport.abort()
            with suppress(ConnectionError):
                await writer.wait_closed()
        await self._server.wait_closed()

    async def quiet(self) -> None:
        """Wait until every connection is closed on this side."""
        await asyncio.gather(*self._talks)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        talk = asyncio.get_running_loop().create_task(self._carry_on(reader, writer))
        self._talks.add(talk)
        talk.add_done_callback(self._talks.discard)

    async def _carry_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(EOFError, ConnectionError):
                await self._talk(Caller(reader, writer))
        finally:
            writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


def response(body: bytes, status: int = 200, **headers: str) -> bytes:
    """Underscores in header names stand for hyphens."""
    lines = [f"HTTP/1.1 {status} Because", f"content-length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def always(data: bytes) -> Talk:
    """The same answer to every request, on connections that stay open."""

    async def talk(caller: Caller) -> None:
        while True:
            await caller.request()
            await caller.send(data)

    return talk


def once(*parts: bytes) -> Talk:
    """Takes one request, sends the parts, closes the connection."""

    async def talk(caller: Caller) -> None:
        await caller.request()
        for part in parts:
            await caller.send(part)

    return talk
