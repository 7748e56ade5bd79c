"""The one HTTP transport: POST a body, get an Answer or a MemberError. Only this file knows the
client (docs/decisions/0001-http-client.md), so it can be replaced here.
"""

from __future__ import annotations

import asyncio
import atexit
import time
from collections.abc import AsyncIterator, Callable
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
from pyreqwest.response import Response

from fanfold.errors import InvalidReply, MemberError, Terminal, TimedOut, Transient
from fanfold.work.member import MAX_BYTES

_REACH = "check base_url, and that the server runs"
_CONNECTING = "client error (Connect)"
_BODY_CUT = "error reading a body from connection"
_UNTRUSTED = "invalid peer certificate"
_IDLE = timedelta(seconds=30)
_ERROR = 1_000_000  # bytes that the body of an error may have; only its first words are used
OK = 200


class Answer(NamedTuple):
    """Whatever the server answered, errors too. `header` finds a header in any spelling. Not
    `whole`: the body of an error was too long, and this is its beginning. `events`: the body
    was a stream of events, which were handed on."""

    status: int
    body: bytes
    header: Callable[[str], str | None]
    whole: bool = True
    events: bool = False


class Events:
    """Cuts a stream of bytes into the data of its server-sent events."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        first, *lines = chunk.split(b"\n")
        self._rest.append(first)
        done: list[bytes] = []
        for line in lines:
            self._take(b"".join(self._rest).rstrip(b"\r"), done)
            self._rest = [line]
        return done

    def _take(self, line: bytes, done: list[bytes]) -> None:
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
        elif not line and self._data:
            done.append(b"\n".join(self._data))
            self._data = []

    def end(self) -> list[bytes]:
        """The last event, if the server did not close it with an empty line."""
        return self.feed(b"\n\n")


class _TooMuch(Exception):
    """The body is larger than it may be."""


class _Cancelling:
    """The client's awaitables lose a cancellation that comes in the moment in which they end. So
    look after each of them whether one came."""

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._before = task, task.cancelling()

    def check(self) -> None:
        if self._task.cancelling() > self._before:
            raise asyncio.CancelledError


class _Body:
    """The bytes of an answer, unpacked, as they come; at most so many."""

    def __init__(self, response: Response, most: int, cancelling: _Cancelling) -> None:
        self._reader, self._left, self._cancelling = response.body_reader, most, cancelling
        self.taken: list[bytes] = []

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            chunk = await self._reader.read_chunk()
            self._cancelling.check()
            if chunk is None:
                return
            self._left -= len(chunk)
            if self._left < 0:
                raise _TooMuch
            yield bytes(chunk)

    async def read(self) -> None:
        async for chunk in self:
            self.taken.append(chunk)


class Http:
    """Connections of one member. Idle ones are reused; nothing is retried, no redirect followed.

    Proxies come from HTTPS_PROXY, HTTP_PROXY and NO_PROXY (`direct`: none), trust from the system's
    certificates or SSL_CERT_FILE. Trap: when a `post` is cancelled before the headers arrived, the
    client forgets the call, but its connection stays open until the server answers or its time is
    over. Time running out closes it at once, so bound a call by `within`, not by cancelling.

    Of an answer at most `most` bytes are read, counted after unpacking; then the connection is
    closed. A larger answer was paid for like any other.
    """

    def __init__(
        self,
        member: str,
        *,
        connect_timeout: float = 10.0,
        direct: bool = False,
        most: int = MAX_BYTES,
    ) -> None:
        self._member, self._connect_timeout, self._direct = member, connect_timeout, direct
        self._most = most
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
        return await self._exchange(self._request(url, headers, body, within), within, None)

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
        return await self._exchange(request, within, each)

    async def _exchange(
        self, request: RequestBuilder, within: float, each: Callable[[bytes], None] | None
    ) -> Answer:
        """Of an error that is too long the beginning will do. One that was cut off by the connection
        is no answer at all, whatever its status: the client may not even have seen that."""
        answer: Answer | None = None
        body: _Body | None = None
        cancelling = _Cancelling()
        try:
            async with request.build_streamed() as response:
                cancelling.check()
                answer = Answer(response.status, b"", response.get_header)
                good = answer.status == OK
                body = _Body(response, self._most if good else min(self._most, _ERROR), cancelling)
                if each is not None and good and _has_events(answer):
                    await _hand_on(body, each)
                    return answer._replace(events=True)
                await body.read()
                return answer._replace(body=b"".join(body.taken))
        except _TooMuch:
            trouble: MemberError = InvalidReply(
                f"{self._member}: its answer is larger than max_bytes ({self._most:,});"
                " raise it in the roster if such answers are wanted"
            )
            if answer is not None and body is not None and answer.status != OK:
                return answer._replace(body=b"".join(body.taken), whole=False)
        except DetailedPyreqwestError as error:
            trouble = self._meaning(error, within)
        raise trouble  # out here, so that the client's own error is not kept as its context

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
                return Transient(
                    f"{who}: no connection within {self._connect_timeout:g} s; {_REACH}"
                )
            case DecodeError() if _BODY_CUT not in causes:
                return InvalidReply(f"{who}: the answer cannot be read: {why}")
        if why.startswith(_UNTRUSTED):
            return Terminal(
                f"{who}: {why}; SSL_CERT_FILE can name the certificates to trust", scope="member"
            )
        if sent:
            return Transient(f"{who}: connection lost after sending: {why}", lost=True)
        return Transient(f"{who}: no connection: {why}; {_REACH}")


def _has_events(answer: Answer) -> bool:
    return (answer.header("content-type") or "").startswith("text/event-stream")


async def _hand_on(body: _Body, each: Callable[[bytes], None]) -> None:
    events = Events()
    async for chunk in body:
        for data in events.feed(chunk):
            each(data)
    for data in events.end():
        each(data)


@cache
def _settle_at_exit() -> None:
    """The client's thread may be just waking the event loop when the interpreter ends; before
    Python 3.14 that aborts the process (about 1 exit in 60 without uvloop). So let it finish.
    """
    atexit.register(time.sleep, 0.02)
