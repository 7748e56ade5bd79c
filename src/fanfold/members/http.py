"""The one HTTP transport: POST a body, get an Answer or a MemberError. Only this file knows the
client (docs/decisions/0001-http-client.md), so it can be replaced here.
"""

from __future__ import annotations

import atexit
import time
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from typing import NamedTuple

from pyreqwest.client import Client, ClientBuilder
from pyreqwest.exceptions import (
    BuilderError,
    DecodeError,
    DetailedPyreqwestError,
    RequestTimeoutError,
)
from pyreqwest.request import RequestBuilder

from fanfold.errors import InvalidReply, MemberError, Terminal, TimedOut, Transient

_CONNECTING = "client error (Connect)"
_BODY_CUT = "error reading a body from connection"
_UNTRUSTED = "invalid peer certificate"
_IDLE = timedelta(seconds=30)


class Answer(NamedTuple):
    """Whatever the server answered, errors too. `header` finds a header in any spelling."""

    status: int
    body: bytes
    header: Callable[[str], str | None]


class Events:
    """Cuts a stream of bytes into the data of its server-sent events."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        done = []
        for line in lines:
            line = line.rstrip(b"\r")
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                done.append(b"\n".join(self._data))
                self._data = []
        return done

    def end(self) -> list[bytes]:
        """The last event, if the server did not close it with an empty line."""
        return self.feed(b"\n\n")


class Http:
    """Connections of one member. Idle ones are reused; nothing is retried, no redirect followed.

    Proxies come from HTTPS_PROXY, HTTP_PROXY and NO_PROXY (`direct`: none), trust from the system's
    certificates or SSL_CERT_FILE. Trap: when a `post` is cancelled before the headers arrived, the
    client forgets the call, but its connection stays open until the server answers or its time is
    over. Time running out closes it at once, so bound a call by `within`, not by cancelling.
    """

    def __init__(self, member: str, *, connect_timeout: float = 10.0, direct: bool = False) -> None:
        self._member, self._connect_timeout, self._direct = member, connect_timeout, direct
        self._client: Client | None = None

    def __repr__(self) -> str:
        return f"<Http {self._member} {'open' if self._client else 'closed'}>"

    async def open(self) -> None:
        if self._client is None:
            _settle_at_exit()
            builder = (
                ClientBuilder()
                .user_agent("fanfold")
                .follow_redirects(False)
                .connect_timeout(timedelta(seconds=self._connect_timeout))
                .pool_idle_timeout(_IDLE)
            )
            self._client = (builder.no_proxy() if self._direct else builder).build()

    async def close(self) -> None:
        """Ends what is under way with Transient(lost=True)."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def post(self, url: str, headers: dict[str, str], body: bytes, within: float) -> Answer:
        """`within` so many seconds, from connecting to the end of the body."""
        request = self._request(url, headers, body, within).build()
        try:
            response = await request.send()
            return Answer(response.status, bytes(await response.bytes()), response.get_header)
        except DetailedPyreqwestError as error:
            trouble = self._meaning(error, within)
        raise trouble  # out here, so that the client's own error is not kept as its context

    async def stream(
        self,
        url: str,
        headers: dict[str, str],
        body: bytes,
        within: float,
        each: Callable[[bytes], None],
    ) -> Answer:
        """Calls `each` with the data of every event as it comes; the Answer's body is then empty.

        A server that answers with anything but events (an error, plain JSON) has it in the body.
        """
        plain = {**headers, "accept-encoding": "identity"}
        request = self._request(url, plain, body, within).streamed_read_buffer_limit(0)
        try:
            async with request.build_streamed() as response:
                told = Answer(response.status, b"", response.get_header)
                if not (told.header("content-type") or "").startswith("text/event-stream"):
                    return told._replace(body=bytes(await response.bytes()))
                events = Events()
                while (chunk := await response.body_reader.read_chunk()) is not None:
                    for data in events.feed(bytes(chunk)):
                        each(data)
                for data in events.end():
                    each(data)
                return told
        except DetailedPyreqwestError as error:
            trouble = self._meaning(error, within)
        raise trouble

    def _request(
        self, url: str, headers: dict[str, str], body: bytes, within: float
    ) -> RequestBuilder:
        if self._client is None:
            raise RuntimeError(f"{self._member}: asked before open() or after close()")
        try:
            request = self._client.post(url).headers(headers).body_bytes(body)
            return request.timeout(timedelta(seconds=within))
        except ValueError:  # its text may hold the value of a header, so it is not passed on
            pass
        raise Terminal(
            f"{self._member}: the request cannot be sent; check base_url", scope="member"
        )

    def _meaning(self, error: DetailedPyreqwestError, within: float) -> MemberError:
        """What the client's error means. Anything not known to have stayed here counts as sent."""
        causes = [cause["message"] for cause in error.details["causes"] or ()]
        why = causes[-1] if causes else str(error.message)
        who, sent = self._member, _CONNECTING not in causes
        match error:
            case BuilderError():
                return Terminal(f"{who}: the request cannot be sent: {why}", scope="member")
            case RequestTimeoutError() if sent:
                return TimedOut(f"{who}: no answer within {within:g} s")
            case RequestTimeoutError():
                return Transient(f"{who}: no connection within {self._connect_timeout:g} s")
            case DecodeError() if _BODY_CUT not in causes:
                return InvalidReply(f"{who}: the answer cannot be read: {why}")
        if why.startswith(_UNTRUSTED):
            return Terminal(
                f"{who}: {why}; SSL_CERT_FILE can name the certificates to trust", scope="member"
            )
        if sent:
            return Transient(f"{who}: connection lost after sending: {why}", lost=True)
        return Transient(f"{who}: no connection: {why}")


@cache
def _settle_at_exit() -> None:
    """The client's thread may be just waking the event loop when the interpreter ends; before
    Python 3.14 that aborts the process (about 1 exit in 60 without uvloop). So let it finish.
    """
    atexit.register(time.sleep, 0.02)
