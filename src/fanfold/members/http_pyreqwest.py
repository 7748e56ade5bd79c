"""HTTP for members by pyreqwest (reqwest and hyper in Rust), which works in a thread of its own."""

from __future__ import annotations

import asyncio
import atexit
import time
from collections.abc import Mapping
from datetime import timedelta
from functools import cache

from pyreqwest.client import Client, ClientBuilder
from pyreqwest.exceptions import (
    BuilderError,
    DecodeError,
    DetailedPyreqwestError,
    RequestTimeoutError,
)
from pyreqwest.request import RequestBuilder

from fanfold.errors import MemberError
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

_CONNECTING = "client error (Connect)"
_BODY_CUT = "error reading a body from connection"
_UNTRUSTED = "invalid peer certificate"


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


class PyreqwestClient:
    """Trap: when a `post` is cancelled before the headers arrived, the client forgets the call, but
    its connection stays open until the server answers or its time is over. Time running out closes
    it at once."""

    def __init__(
        self,
        member: str,
        *,
        connect_timeout: float = CONNECT_SECONDS,
        direct: bool = False,
        most: int = MAX_BYTES,
    ) -> None:
        self._member, self._connect_timeout, self._direct = member, connect_timeout, direct
        self._most = most
        self._client: Client | None = None

    def __repr__(self) -> str:
        return f"<PyreqwestClient {self._member} {'open' if self._client else 'closed'}>"

    async def open(self) -> None:
        if self._client is None:
            _settle_at_exit()
            builder = (
                ClientBuilder()
                .user_agent("fanfold")
                .follow_redirects(False)
                .connect_timeout(timedelta(seconds=self._connect_timeout))
                .pool_idle_timeout(timedelta(seconds=IDLE_SECONDS))
            )
            self._client = (builder.no_proxy() if self._direct else builder).build()

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def post(
        self,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        within: float,
        each: Each | None = None,
    ) -> Answer:
        """An error that was cut off by the connection is no answer at all, whatever its status: the
        client may not even have seen that."""
        request = self._request("POST", url, headers, within).body_bytes(body)
        if each is not None:
            plain = {"accept-encoding": "identity"}
            request = request.headers(plain).streamed_read_buffer_limit(0)
        return await self._send(request, within, each)

    async def get(self, url: str, headers: Mapping[str, str], within: float) -> Answer:
        return await self._send(self._request("GET", url, headers, within), within)

    async def _send(
        self, request: RequestBuilder, within: float, each: Each | None = None
    ) -> Answer:
        try:
            return await self._exchange(request, each)
        except DetailedPyreqwestError as error:
            trouble = self._meaning(error, within)
        raise trouble  # out here, so that the client's own error is not kept as its context

    async def _exchange(self, request: RequestBuilder, each: Each | None) -> Answer:
        cancelling = _Cancelling()
        async with request.build_streamed() as response:
            cancelling.check()
            header = response.get_header
            reading = Reading(self._member, self._most, each, response.status, header)
            while True:
                chunk = await response.body_reader.read_chunk()
                cancelling.check()
                if chunk is None or not reading.feed(bytes(chunk)):
                    return reading.end()

    def _request(
        self, method: str, url: str, headers: Mapping[str, str], within: float
    ) -> RequestBuilder:
        if self._client is None:
            raise RuntimeError(f"{self._member}: asked before open() or after close()")
        try:
            request = self._client.request(method, url).headers(headers)
            return request.timeout(timedelta(seconds=within))
        except ValueError:  # its text may hold the value of a header, so it is not passed on
            pass
        raise cannot_send(self._member)

    def _meaning(self, error: DetailedPyreqwestError, within: float) -> MemberError:
        """What is not known to have stayed here counts as sent."""
        causes = [cause["message"] for cause in error.details["causes"] or ()]
        why = causes[-1] if causes else str(error.message)
        who, sent = self._member, _CONNECTING not in causes
        match error:
            case BuilderError():
                return cannot_send(who, f": {why}")
            case RequestTimeoutError() if sent:
                return no_answer(who, within)
            case RequestTimeoutError():
                return no_connection(who, f" within {self._connect_timeout:g} s")
            case DecodeError() if _BODY_CUT not in causes:
                return unreadable(who, why)
        if why.startswith(_UNTRUSTED):
            return untrusted(who, why)
        return connection_lost(who, why) if sent else no_connection(who, f": {why}")


@cache
def _settle_at_exit() -> None:
    """The client's thread may be just waking the event loop when the interpreter ends; before
    Python 3.14 that aborts the process (about 1 exit in 60 without uvloop). So let it finish.
    """
    atexit.register(time.sleep, 0.02)
