"""HTTP for members: POST a body, get an Answer or a MemberError.

Two clients can do it, `http_aiohttp` and `http_pyreqwest`; FANFOLD_HTTP names the one to use
(`endpoint.http_client`, docs/decisions/0001-http-client.md). What both share is here: the protocol,
how much of an answer is read, how a stream is cut into events, and what is said of a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from fanfold.errors import InvalidReply, MemberError, Terminal, TimedOut, Transient

CONNECT_SECONDS = 10.0
IDLE_SECONDS = 30.0  # after which a connection that nobody used is closed
OK = 200
Each = Callable[[bytes], None]
Header = Callable[[str], str | None]
_REACH = "check base_url, and that the server runs"
_ERROR = 1_000_000  # bytes that the body of an error may have; only its first words are used


class Answer(NamedTuple):
    """Whatever the server answered, errors too. `header` finds a header in any spelling. Not
    `whole`: the body of an error was too long, and this is its beginning. `events`: the body
    was a stream of events, which were handed on."""

    status: int
    body: bytes
    header: Header
    whole: bool = True
    events: bool = False


class Http(Protocol):
    """Connections of one member. Idle ones are reused; no redirect is followed, and nothing is sent
    twice: a request is repeated only if no byte of it was written.

    Proxies come from HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY (`direct`: none), trust from
    the system's certificates or SSL_CERT_FILE. Of an answer at most `most` bytes are read, counted
    after unpacking; then the connection is closed. A larger answer was paid for like any other.
    """

    async def open(self) -> None: ...

    async def close(self) -> None:
        """Ends what is under way with Transient(lost=True)."""

    async def post(
        self,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        within: float,
        each: Each | None = None,
    ) -> Answer:
        """`within` so many seconds, from connecting to the end of the body.

        With `each`, which is called with the data of every event as it arrives, the Answer's body
        is empty. A server that sends anything but events (an error, plain JSON) has it in the body.
        """
        ...

    async def get(self, url: str, headers: Mapping[str, str], within: float) -> Answer:
        """The same for a question that changes nothing."""
        ...


class Reading:
    """Takes an answer as it arrives after its head: its body up to a limit, or its events."""

    def __init__(
        self, member: str, most: int, each: Each | None, status: int, header: Header
    ) -> None:
        self._member, self._most, self._each = member, most, each
        self._status, self._header, good = status, header, status == OK
        self._remaining = most if good else min(most, _ERROR)
        self._body: list[bytes] = []
        events = each is not None and good and _has_events(header)
        self._events = Events() if events else None

    def feed(self, chunk: bytes) -> bool:
        """False: the answer is larger than it may be; close the connection."""
        self._remaining -= len(chunk)
        if self._remaining < 0:
            return False
        if self._events is None:
            self._body.append(chunk)
        else:
            self._pass_on(self._events.feed(chunk))
        return True

    def end(self) -> Answer:
        """Of an error that is too long the beginning will do."""
        whole = self._remaining >= 0
        if not whole and self._status == OK:
            raise InvalidReply(
                f"{self._member}: its answer is larger than max_bytes ({self._most:,});"
                " raise it in the roster if such answers are wanted"
            )
        if self._events is not None:
            self._pass_on(self._events.end())
        events = self._events is not None
        return Answer(self._status, b"".join(self._body), self._header, whole, events)

    def _pass_on(self, events: list[bytes]) -> None:
        assert self._each is not None
        for data in events:
            self._each(data)


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


# ── what both clients say of a call that failed ──────────────────────────────────────────────


def cannot_send(member: str, why: str = "; check base_url") -> MemberError:
    return Terminal(f"{member}: the request cannot be sent{why}", scope="member")


def untrusted(member: str, why: str) -> MemberError:
    remedy = "SSL_CERT_FILE can name the certificates to trust"
    return Terminal(f"{member}: {why}; {remedy}", scope="member")


def unreadable(member: str, why: str) -> MemberError:
    return InvalidReply(f"{member}: the answer cannot be read: {why}")


def no_answer(member: str, within: float) -> TimedOut:
    return TimedOut(f"{member}: no answer within {within:g} s")


def no_connection(member: str, why: str) -> MemberError:
    """Nothing was sent."""
    return Transient(f"{member}: no connection{why}; {_REACH}")


def connection_lost(member: str, why: str) -> MemberError:
    return Transient(f"{member}: connection lost after sending: {why}", lost=True)


def _has_events(header: Header) -> bool:
    return (header("content-type") or "").startswith("text/event-stream")
