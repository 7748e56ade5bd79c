"""HTTP for members by aiohttp, on the event loop's own thread.

Of aiohttp this takes what is hard: the connector (pool, TLS, names, proxies) and the parser. The
request is written here, not by a ClientSession: that needs twice the CPU, and does not say whether
anything was written before it failed. So the version is pinned to one minor release, and
tests/contract/test_http.py holds it to what is relied on.
"""

from __future__ import annotations

import asyncio
import os
import re
import select
import ssl
from base64 import b64encode
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from urllib.request import getproxies_environment
from weakref import WeakKeyDictionary

import aiohttp
import truststore
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http_exceptions import ContentEncodingError, HttpProcessingError
from yarl import URL

from fanfold.errors import MemberError, Terminal
from fanfold.members.http import (
    CONNECT_SECONDS,
    IDLE_SECONDS,
    Answer,
    Each,
    Reading,
    cannot_send,
    connection_lost,
    no_answer,
    no_connection,
    unreadable,
    untrusted,
)
from fanfold.work.started import MAX_BYTES

_LONGEST_HEADER, _MOST_HEADERS = 65_536, 256
_SWITCHING = 101
_LEFT_SECONDS = 1.0  # from the first connection that is left until all go back
_CLOSED = "the connection was closed before the answer was complete"
# What came in, as errors of aiohttp quote it; it may be the request with its key.
_quoted = re.compile(r"[:\s]*(?:bytearray\()?\bb['\"].*", re.DOTALL)
_FAILURES: tuple[type[Exception], ...] = (aiohttp.ClientError, HttpProcessingError, OSError)


class _Route:
    """How a URL is reached. `to` only says to the connector where; `head` begins every request. A
    connection that one call has `left` is for the next; those that nobody takes soon go back to the
    connector, which closes them when they are idle."""

    def __init__(
        self, connector: aiohttp.TCPConnector, to: aiohttp.ClientRequest, head: str,
        headers: dict[str, str],
    ) -> None:  # fmt: skip
        self.connector, self.to, self.head, self.headers = connector, to, head, headers
        self.left: list[Connection] = []
        self._timer: asyncio.TimerHandle | None = None

    def leave(self, connection: Connection) -> None:
        self.left.append(connection)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(_LEFT_SECONDS, self.give_back)

    def give_back(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        left, self.left, self._timer = self.left, [], None
        for connection in left:
            connection.release()


class _Call:
    """One request under way. `sent`: some of it may have been written."""

    def __init__(self, within: float) -> None:
        self.time = asyncio.timeout(within)
        self.connection: Connection | None = None
        self.sent = False

    def abort(self) -> None:
        """At once: an ordinary close first waits until all of the request is written."""
        connection, self.connection = self.connection, None
        if connection is not None:
            if connection.transport is not None:
                connection.transport.abort()
            connection.close()


class AiohttpClient:
    """One connection for each call under way. A call that is cancelled closes its connection."""

    def __init__(
        self,
        member: str,
        *,
        connect_timeout: float = CONNECT_SECONDS,
        direct: bool = False,
        most: int = MAX_BYTES,
    ) -> None:
        self._member, self._direct, self._most = member, direct, most
        self._timeout = aiohttp.ClientTimeout(connect=connect_timeout)
        self._open, self._failures = False, _FAILURES
        self._routes: dict[str, _Route] = {}
        self._calls: set[_Call] = set()
        self._used: WeakKeyDictionary[ResponseHandler, select.poll] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"<AiohttpClient {self._member} {'open' if self._open else 'closed'}>"

    async def open(self) -> None:
        self._open = True

    async def close(self) -> None:
        routes, self._routes = self._routes, {}
        self._open = False
        for call in self._calls:
            if not call.time.expired():
                call.time.reschedule(0.0)
        for route in routes.values():
            route.give_back()
            await route.connector.close()

    async def post(
        self,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        within: float,
        each: Each | None = None,
    ) -> Answer:
        route = self._way(url)
        head = self._head(route, headers, len(body), each is not None)
        return await self._send(route, b"POST " + head + body, within, each)

    async def get(self, url: str, headers: Mapping[str, str], within: float) -> Answer:
        route = self._way(url)
        return await self._send(route, b"GET " + self._head(route, headers, 0, False), within)

    def _way(self, url: str) -> _Route:
        if not self._open:
            raise RuntimeError(f"{self._member}: asked before open() or after close()")
        return self._routes.get(url) or self._route(url)

    async def _send(
        self, route: _Route, request: bytes, within: float, each: Each | None = None
    ) -> Answer:
        call = _Call(within)
        self._calls.add(call)
        try:
            async with call.time:
                await self._connect(route, call)
                return await self._exchange(route, call, request, each)
        except self._failures as error:
            trouble = self._meaning(error, call.sent, within)
        finally:
            if call.connection is not None:
                call.abort()
            self._calls.discard(call)
        raise trouble  # out here, so that the client's own error is not kept as its context

    async def _connect(self, route: _Route, call: _Call) -> None:
        """On a connection that was used before, look before writing: aiohttp would write to one that
        the server has just closed, and would take for the answer what came in on it meanwhile."""
        while True:
            if route.left:
                connection = route.left.pop()
            else:
                connection = await route.connector.connect(route.to, [], self._timeout)
            call.connection, protocol = connection, connection.protocol
            assert protocol is not None
            looking = self._used.get(protocol)
            if looking is None:
                self._used[protocol] = _looking_at(connection)
                return
            if not protocol.should_close and not looking.poll(0):
                return
            call.abort()

    async def _exchange(
        self, route: _Route, call: _Call, request: bytes, each: Each | None
    ) -> Answer:
        connection = call.connection
        assert connection is not None and connection.protocol is not None
        protocol, transport = connection.protocol, connection.transport
        assert transport is not None
        protocol.set_response_params(
            read_until_eof=True,
            max_line_size=_LONGEST_HEADER,
            max_field_size=_LONGEST_HEADER,
            max_headers=_MOST_HEADERS,
        )
        call.sent = True
        transport.write(request)
        message, content = await protocol.read()
        while 100 <= message.code < 200 and message.code != _SWITCHING:
            message, content = await protocol.read()
        reading = Reading(self._member, self._most, each, message.code, message.headers.get)
        while chunk := await content.readany():
            if not reading.feed(chunk):
                return reading.end()
        call.connection = None
        if protocol.should_close or not self._open:
            connection.release()
        else:
            route.leave(connection)
        return reading.end()

    def _head(self, route: _Route, headers: Mapping[str, str], length: int, stream: bool) -> bytes:
        given = {**route.headers, **headers}
        lines = "".join([f"{name}: {value}\r\n" for name, value in given.items()])
        if "\0" in lines or not lines.count("\r") == lines.count("\n") == len(given):
            raise cannot_send(self._member)  # without the value, which may be a key
        packed = "identity" if stream else "gzip, deflate"
        last = f"accept-encoding: {packed}\r\ncontent-length: {length}\r\n\r\n"
        return (route.head + lines + last).encode()

    def _route(self, url: str) -> _Route:
        try:
            there = URL(url)
            if there.scheme not in ("http", "https") or not there.raw_host:
                raise cannot_send(self._member)
            proxy = None if self._direct else _proxy_for(there)
            route = self._routes[url] = self._route_by(proxy, there)
        except ValueError:
            raise cannot_send(self._member) from None
        return route

    def _route_by(self, proxy: URL | None, there: URL) -> _Route:
        connector: aiohttp.TCPConnector
        if proxy is not None and proxy.scheme.startswith("socks"):
            connector, proxy = self._socks(proxy), None
        else:
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_SECONDS)
        trust = _trusted() if there.scheme == "https" else True
        loop = asyncio.get_running_loop()
        to = aiohttp.ClientRequest("POST", there, loop=loop, proxy=proxy, ssl=trust)
        headers = {"user-agent": "fanfold", "accept": "*/*"}
        target = there.raw_path_qs
        if proxy is not None and there.scheme == "http":
            target = str(to.url)
            if proxy.user is not None:
                pair = f"{proxy.user}:{proxy.password or ''}".encode()
                headers["proxy-authorization"] = f"Basic {b64encode(pair).decode()}"
        head = f"{target} HTTP/1.1\r\nhost: {to.headers['host']}\r\n"
        return _Route(connector, to, head, headers)

    def _socks(self, proxy: URL) -> aiohttp.TCPConnector:
        """Names are resolved by the proxy, but for `socks4`, which cannot do it."""
        try:
            import aiohttp_socks
        except ModuleNotFoundError:
            why = "a SOCKS proxy needs aiohttp-socks; install it: pip install 'fanfold[socks]'"
            raise Terminal(f"{self._member}: {why}", scope="member") from None
        named = aiohttp_socks.ProxyConnectionError, aiohttp_socks.ProxyTimeoutError
        self._failures = (*_FAILURES, *named, aiohttp_socks.ProxyError)
        return aiohttp_socks.ProxyConnector(
            proxy.host or "",
            proxy.port or 1080,
            aiohttp_socks.ProxyType[proxy.scheme[:6].upper()],
            proxy.user,
            proxy.password,
            rdns=proxy.scheme != "socks4",
            limit=0,
            keepalive_timeout=IDLE_SECONDS,
        )

    def _meaning(self, error: Exception, sent: bool, within: float) -> MemberError:
        """What is not known to have stayed here counts as sent."""
        who, timed_out = self._member, isinstance(error, TimeoutError)
        if timed_out and sent and self._open:
            return no_answer(who, within)
        if isinstance(error, ssl.SSLCertVerificationError):
            return untrusted(who, f"invalid peer certificate: {_certificate_trouble(error)}")
        if not sent:
            most = min(within, self._timeout.connect or within)
            return no_connection(who, f" within {most:g} s" if timed_out else f": {_why(error)}")
        undecoded = isinstance(error.__cause__, ContentEncodingError)
        if undecoded or isinstance(error, HttpProcessingError | ContentEncodingError):
            return unreadable(who, _why(error))
        return connection_lost(who, _why(error))


def _looking_at(connection: Connection) -> select.poll:
    """To see whether something came in although nothing was asked: the end of the connection, or worse."""
    assert connection.transport is not None
    looking = select.poll()
    looking.register(connection.transport.get_extra_info("socket").fileno(), select.POLLIN)
    return looking


def _why(error: Exception) -> str:
    """In the words of the system, where it has any."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    through = "proxy: " if isinstance(error, aiohttp.ClientProxyConnectionError) else ""
    if isinstance(cause, OSError) and cause.errno is not None and cause.errno > 0:
        return f"{through}{os.strerror(cause.errno)} (os error {cause.errno})"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"proxy: {error.message} ({error.status})"
    if isinstance(
        error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError | TimeoutError
    ):
        return _CLOSED
    text = error.message if isinstance(error, HttpProcessingError) else str(cause)
    return through + " ".join(_quoted.sub("", text).split())


def _certificate_trouble(error: ssl.SSLCertVerificationError) -> str:
    found = getattr(error, "certificate_error", error)
    return getattr(found, "verify_message", "") or str(found)


# ── by which way ─────────────────────────────────────────────────────────────────────────────


def _proxy_for(there: URL) -> URL | None:
    proxies = getproxies_environment()
    found = proxies.get(there.scheme) or proxies.get("all")
    if not found or any(_covers(part, there) for part in proxies.get("no", "").split(",")):
        return None
    return URL(found if "://" in found else f"http://{found}")


def _covers(stated: str, there: URL) -> bool:
    """One part of NO_PROXY: a name, with or without what is below it, an address, a network, `*`."""
    name, host = stated.strip().lower().removeprefix("."), there.raw_host or ""
    if not name:
        return False
    if "/" in name:
        try:
            return ip_address(host) in ip_network(name, strict=False)
        except ValueError:
            return False
    return name in ("*", host, f"{host}:{there.port}") or host.endswith(f".{name}")


def _trusted() -> ssl.SSLContext:
    """SSL_CERT_FILE or SSL_CERT_DIR, else what the system trusts."""
    context: ssl.SSLContext
    if os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR"):
        context = ssl.create_default_context()
    else:
        context = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["http/1.1"])
    return context
