"""The connections of the HTTP faces: how many there may be, and how long one waits for its client.

Both servers check requests themselves; what neither can do is give up on a client that sends half a
header, or make room when idle clients take all connections. `Connections.watch` puts that in front
of any HTTP protocol of asyncio.
"""

from __future__ import annotations

import asyncio
import resource
from contextvars import ContextVar
from typing import cast

import msgspec

from fanfold.errors import BadInput

MOST = 512  # served at once, unless the operator says otherwise
SPARE = 32  # connections beyond that, so that there is somebody left to say 503 to
BACKLOG = 128  # connections that the system keeps until they are accepted
RESERVE = 64  # file handles for the store and for members


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """All limits of a server. Seconds count only while the client is the one who is waited for."""

    connections: int = MOST
    header: float = 10.0  # for a complete request header
    body: float = 60.0  # for a complete body, after the header
    idle: float = 15.0  # between two requests on one connection
    response: float = 60.0  # for a client that takes nothing of its response
    body_bytes: int = 32 * 1024 * 1024


def bounds(connections: int | None = None, handles: int | None = None) -> Bounds:
    """The limits under this process's number of file handles. BadInput for more than it can hold."""
    most = _handles() if handles is None else handles
    room = most - SPARE - BACKLOG - RESERVE
    if connections is None:
        return Bounds(connections=max(1, min(MOST, most // 2, room)))
    if connections > room:
        raise BadInput(
            f"--connections {connections}: this process may open {most} files, which is enough for "
            f"{max(0, room)} connections; raise it with `ulimit -n`"
        )
    return Bounds(connections=connections)


def _handles() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft


class Connections:
    """The connections of one server. Those that wait for their client are kept in the order in
    which they began to: the first of them goes when there is no room for a new one."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._open: set[Connection] = set()
        self._waiting: dict[Connection, None] = {}

    def watch(self, protocol: asyncio.Protocol) -> Connection:
        """A new connection, spoken by this protocol."""
        return Connection(self, protocol)

    @property
    def open(self) -> int:
        return len(self._open)

    @property
    def served(self) -> int:
        """Those on which a request is being carried out, whose client waits for us."""
        return len(self._open) - len(self._waiting)

    def enter(self, new: Connection) -> bool:
        if len(self._open) >= self.bounds.connections + SPARE:
            oldest = next(iter(self._waiting), None)
            if oldest is None:
                return False
            oldest.drop()
        self._open.add(new)
        return True

    def wait(self, one: Connection) -> bool:
        """To the end of the line. False: it is closed already."""
        self._waiting.pop(one, None)
        if one not in self._open:
            return False
        self._waiting[one] = None
        return True

    def serve(self, one: Connection) -> None:
        self._waiting.pop(one, None)

    def leave(self, one: Connection) -> None:
        self._open.discard(one)
        self._waiting.pop(one, None)

    def drop_all(self) -> None:
        for one in list(self._open):
            one.drop()


_current: ContextVar[Connection] = ContextVar("connection")


def current() -> Connection:
    """The connection that the request at hand came on; for the handlers of a watched protocol."""
    return _current.get()


class Connection(asyncio.Protocol):
    """One connection: passes everything on to the protocol that speaks HTTP, and ends the connection
    when its client takes too long. Who carries out requests calls `receive`, `work`, `end`."""

    def __init__(self, all: Connections, inner: asyncio.Protocol) -> None:
        self._all, self._inner, self._bounds = all, inner, all.bounds
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._working = self._idle = False

    # ── the request on it ──

    def receive(self) -> None:
        """A header has arrived; its body is to come."""
        self._idle = False
        self._wait(self._bounds.body)

    def work(self) -> bool:
        """The request is complete, and is carried out now. False: there are too many of them."""
        if self._all.served >= self._bounds.connections:
            return False
        self._working = True
        self._serve()
        return True

    def end(self) -> None:
        """The request has ended; the client may send another."""
        self._working, self._idle = False, True
        self._wait(self._bounds.idle)

    def drop(self) -> None:
        """End the connection at once, whatever is still to be written to it."""
        self._leave()
        if self._transport is not None:
            self._transport.abort()

    # ── whom it waits for ──

    def _wait(self, seconds: float) -> None:
        self._cancel()
        if self._all.wait(self):
            self._deadline = asyncio.get_running_loop().call_later(seconds, self.drop)

    def _serve(self) -> None:
        self._cancel()
        self._all.serve(self)

    def _leave(self) -> None:
        self._cancel()
        self._all.leave(self)

    def _cancel(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    # ── asyncio's ──

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if not self._all.enter(self):
            self._transport.abort()
            self._transport = None
            return
        self._wait(self._bounds.header)
        _current.set(self)
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._transport is None:
            return
        if self._idle:
            self._idle = False
            self._wait(self._bounds.header)
        _current.set(self)
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return None if self._transport is None else self._inner.eof_received()

    def pause_writing(self) -> None:
        self._wait(self._bounds.response)
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._working:
            self._serve()
        else:
            self._wait(self._bounds.idle)
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()
        if self._transport is not None:
            self._transport = None
            self._inner.connection_lost(exc)
