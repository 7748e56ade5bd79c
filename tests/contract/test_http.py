"""One suite over every HTTP client: what a call brings back, and what is said of one that failed.
What is around them, TLS, proxies and the process, is in test_http_network.py."""

from __future__ import annotations

import asyncio
import re
import resource
import socket
import sys
import threading
import zlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

import pytest

from fanfold.errors import InvalidReply, MemberError, Terminal, TimedOut, Transient
from fanfold.members.http import Answer, Http
from fanfold.members.http_aiohttp import AiohttpClient
from fanfold.members.http_pyreqwest import PyreqwestClient
from tests.unit.members.raw import Caller, RawServer, Talk, always, once, response
from tests.waiting import LONG, however_slow

CHUNKED = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)

Client = type[AiohttpClient] | type[PyreqwestClient]
T = TypeVar("T")


@pytest.fixture(params=[AiohttpClient, PyreqwestClient])
def client(request: pytest.FixtureRequest) -> Client:
    return request.param


def with_http(client: Client, use: Callable[[Http], Awaitable[T]], **settings: Any) -> T:
    async def main() -> T:
        http = client("m", **settings)
        await http.open()
        try:
            return await use(http)
        finally:
            await http.close()

    return asyncio.run(main())


def post_to(client: Client, talk: Talk, within: float = LONG, **headers: str) -> Answer:
    async def use(http: Http) -> Answer:
        async with RawServer(talk) as server:
            return await http.post(server.url, headers, b"body", within)

    return with_http(client, use)


def trouble(
    client: Client, talk: Talk, within: float = LONG
) -> tuple[type[MemberError], str, bool]:
    with pytest.raises(MemberError) as caught:
        post_to(client, talk, within)
    return type(caught.value), str(caught.value), caught.value.lost


def test_an_answer_is_status_body_and_headers(client: Client) -> None:
    answer = post_to(client, always(response(b"no", 418, X_Thing="a")))
    assert (answer.status, answer.body, answer.header("x-THING"), answer.header("y")) == (
        418, b"no", "a", None,
    )  # fmt: skip


def test_the_request_goes_out_as_given(client: Client) -> None:
    seen = []

    async def talk(caller: Caller) -> None:
        seen.append(await caller.request())
        await caller.send(response(b""))

    post_to(client, talk, Authorization="Bearer k")
    [(line, headers, body)] = seen
    assert (line, headers["authorization"], headers["user-agent"], body) == (
        "POST / HTTP/1.1", "Bearer k", "fanfold", b"body",
    )  # fmt: skip


def test_idle_connections_are_reused(client: Client) -> None:
    async def use(http: Http) -> Answer:
        async with RawServer(always(response(b"ok"))) as server:
            for _ in range(3):
                answer = await http.post(server.url, {}, b"", LONG)
            assert server.connections == 1
            return answer

    assert with_http(client, use).body == b"ok"


@pytest.fixture
def many_files() -> Iterator[None]:
    """Two for each connection: both ends are in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4096 if hard == resource.RLIM_INFINITY else min(4096, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
def test_a_thousand_at_once_all_get_through(client: Client) -> None:
    """The server answers none of them before it has all."""

    async def use(http: Http) -> None:
        waiting, everyone = 0, asyncio.Event()

        async def talk(caller: Caller) -> None:
            nonlocal waiting
            _, _, body = await caller.request()
            waiting += 1
            if waiting == 1000:
                everyone.set()
            await everyone.wait()
            await caller.send(response(body))

        async with RawServer(talk) as server:
            posts = [http.post(server.url, {}, b"%d" % n, LONG) for n in range(1000)]
            answers = await asyncio.gather(*posts)
        assert [answer.body for answer in answers] == [b"%d" % n for n in range(1000)]

    with_http(client, use, connect_timeout=LONG)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_an_answer_and_is_not_followed(client: Client, status: int) -> None:
    async def use(http: Http) -> tuple[int, int]:
        async with RawServer(always(response(b"ok"))) as other:
            sent = response(b"", status, Location=other.url)
            async with RawServer(once(sent)) as server:
                answer = await http.post(server.url, {}, b"", LONG)
            return answer.status, other.connections

    assert with_http(client, use) == (status, 0)


def test_nothing_is_asked_twice_when_the_connection_drops(client: Client) -> None:
    async def use(http: Http) -> None:
        async with RawServer(once()) as server:
            with pytest.raises(Transient):
                await http.post(server.url, {}, b"", LONG)
            assert server.connections == 1

    with_http(client, use)


def test_a_refused_connection_is_not_lost(client: Client) -> None:
    with pytest.raises(Transient) as caught:
        with_http(client, lambda http: http.post(f"http://127.0.0.1:{free_port()}", {}, b"", LONG))
    assert not caught.value.lost
    assert re.fullmatch(
        r"m: no connection: Connection refused \(.*\); check base_url, and that the server runs",
        str(caught.value),
    )


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_a_connection_that_never_comes_about_is_not_lost(client: Client) -> None:
    """The queue of a socket that nobody accepts from is full, so the next connection hangs."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        waiting = [connecting(deaf) for _ in range(4)]
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        with pytest.raises(Transient) as caught:
            with_http(client, lambda http: http.post(url, {}, b"", LONG), connect_timeout=0.2)
        assert (caught.value.lost, str(caught.value)) == (
            False,
            "m: no connection within 0.2 s; check base_url, and that the server runs",
        )
        for one in waiting:
            one.close()


def connecting(to: socket.socket) -> socket.socket:
    one = socket.socket()
    one.setblocking(False)
    one.connect_ex(to.getsockname())
    return one


async def resets(caller: Caller) -> None:
    await caller.request()
    caller.reset()


@pytest.mark.parametrize(
    ("talk", "why"),
    [
        (once(), "connection closed before message completed"),
        (resets, "Connection reset by peer (os error 104)"),
        (once(b"HTTP/1.1 200 OK\r\ncontent-le"), "connection closed before message completed"),
        (
            once(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf"),
            "end of file before message length reached",
        ),
        (
            once(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n"),
            "unexpected EOF during chunk size line",
        ),
    ],
)
def test_a_connection_dropped_after_sending_is_lost(client: Client, talk: Talk, why: str) -> None:
    kind, text, lost = trouble(client, talk)
    assert (kind, lost) == (Transient, True)
    if client is AiohttpClient and talk is not resets:
        why = "the connection was closed before the answer was complete"
    if sys.platform == "linux":
        assert text == f"m: connection lost after sending: {why}"


async def never(caller: Caller) -> None:
    await caller.request()
    await caller.gone()


async def never_ends(caller: Caller) -> None:
    await caller.request()
    await caller.send(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf")
    await caller.gone()


@pytest.mark.parametrize("talk", [never, never_ends])
def test_time_running_out_is_lost(client: Client, talk: Talk) -> None:
    def check(scale: float) -> None:
        within = 0.2 * scale
        said = f"m: no answer within {within:g} s"
        assert trouble(client, talk, within=within) == (TimedOut, said, True)

    however_slow(check)


@pytest.mark.parametrize("talk", [never, never_ends])
def test_time_running_out_closes_the_connection(client: Client, talk: Talk) -> None:
    async def use(http: Http, within: float) -> None:
        closed = asyncio.Event()

        async def watched(caller: Caller) -> None:
            await talk(caller)
            closed.set()

        async with RawServer(watched) as server:
            with pytest.raises(TimedOut):
                await http.post(server.url, {}, b"", within)
            await asyncio.wait_for(closed.wait(), 50 * within)

    however_slow(lambda scale: with_http(client, lambda http: use(http, 0.2 * scale)))


@pytest.mark.parametrize("sent", [b"lalala\r\n\r\n", response(b"no gzip", Content_Encoding="gzip")])
def test_an_answer_that_is_no_http_is_invalid(client: Client, sent: bytes) -> None:
    kind, text, lost = trouble(client, once(sent))
    assert (kind, lost, text.startswith("m: the answer cannot be read: ")) == (
        InvalidReply, False, True,
    )  # fmt: skip


@pytest.mark.parametrize(
    "sent",
    [
        b"HTTP/1.1 abc %b\r\n\r\n", b"%b 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nno colon %b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx %b: a\r\n\r\n", b"HTTP/1.1 200 OK\r\nx: Bearer %b\0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: %b" + b"x" * 1_000_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: %b\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%b\r\n",
        b"POST / HTTP/1.1\r\nauthorization: Bearer %b\r\n\r\n",
    ],
)  # fmt: skip
def test_what_is_no_http_is_not_repeated(client: Client, sent: bytes) -> None:
    """It may be the request itself, with the key: of a server that echoes, say."""
    _, text, _ = trouble(client, once(sent % b"sk-secret-0123456789"))
    assert "secret" not in text and len(text) < 120


@pytest.mark.parametrize("url", ["nonsense", "http://", "ftp://127.0.0.1/"])
def test_a_bad_address_is_the_members_trouble(client: Client, url: str) -> None:
    with pytest.raises(Terminal) as caught:
        with_http(client, lambda http: http.post(url, {}, b"", LONG))
    assert (caught.value.scope, str(caught.value).startswith("m: the request cannot be sent")) == (
        "member", True,
    )  # fmt: skip


def test_a_header_that_cannot_be_sent_shows_in_no_error(client: Client) -> None:
    with pytest.raises(Terminal) as caught:
        with_http(
            client, lambda http: http.post("http://127.0.0.1:1", {"x": "sec\nret"}, b"", LONG)
        )
    error: BaseException | None = caught.value
    while error is not None:
        assert "ret" not in str(error).removeprefix("m: the request")
        error = error.__cause__ or error.__context__


def test_a_connection_the_server_closed_while_idle_is_not_used(client: Client) -> None:
    """It is closed before the next request is written, so that one goes out on a new one."""

    async def use(http: Http) -> Answer:
        async with (
            RawServer(once(response(b"ok"))) as server,
            RawServer(always(response(b""))) as other,
        ):
            for _ in range(3):
                answer = await http.post(server.url, {}, b"", LONG)
                await server.quiet()
                for _ in range(3):  # by then the client has seen that the first one was closed
                    await http.post(other.url, {}, b"", LONG)
            assert server.connections == 3
            return answer

    assert with_http(client, use).body == b"ok"


def test_after_a_cancelled_call_the_others_go_on(client: Client) -> None:
    async def use(http: Http) -> Answer:
        arrived = asyncio.Event()

        async def talk(caller: Caller) -> None:
            _, _, body = await caller.request()
            if body == b"hang":
                arrived.set()
                await caller.gone()
            await caller.send(response(body))

        async with RawServer(talk) as server:
            hanging = asyncio.ensure_future(http.post(server.url, {}, b"hang", 30))
            await arrived.wait()
            hanging.cancel()
            with pytest.raises(asyncio.CancelledError):
                await hanging
            return await http.post(server.url, {}, b"more", LONG)

    assert with_http(client, use).body == b"more"


def test_closing_ends_what_is_under_way(client: Client) -> None:
    async def main() -> None:
        http, arrived = client("m"), asyncio.Event()
        await http.open()

        async def talk(caller: Caller) -> None:
            await caller.request()
            arrived.set()
            await caller.gone()

        async with RawServer(talk) as server:
            hanging = asyncio.ensure_future(http.post(server.url, {}, b"", 30))
            await arrived.wait()
            await http.close()
            with pytest.raises(Transient) as caught:
                await hanging
            assert caught.value.lost

    asyncio.run(main())


def test_one_transport_serves_one_loop_after_another(client: Client) -> None:
    http = client("m")

    async def main() -> int:
        await http.open()
        async with RawServer(always(response(b""))) as server:
            answer = await http.post(server.url, {}, b"", LONG)
        await http.close()
        return answer.status

    assert [asyncio.run(main()) for _ in range(3)] == [200, 200, 200]
    assert repr(http) == f"<{client.__name__} m closed>"


def test_asking_before_open_is_a_defect(client: Client) -> None:
    with pytest.raises(RuntimeError, match="asked before open"):
        asyncio.run(client("m").post("http://127.0.0.1:1", {}, b"", LONG))


# ── streams ──────────────────────────────────────────────────────────────────────────────────


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def test_events_come_as_they_are_sent(client: Client) -> None:
    """The server sends the second only after the first was heard."""

    async def use(http: Http) -> Answer:
        heard: list[bytes] = []
        first = asyncio.Event()

        async def talk(caller: Caller) -> None:
            await caller.request()
            await caller.send(CHUNKED + chunk(b"data: one\n\n"))
            await first.wait()
            await caller.send(chunk(b"data: two\n\n") + chunk(b""))

        def each(data: bytes) -> None:
            heard.append(data)
            first.set()

        async with RawServer(talk) as server:
            answer = await http.post(server.url, {}, b"", LONG, each)
        assert heard == [b"one", b"two"]
        return answer

    assert with_http(client, use)[:2] == (200, b"")


def stream_from(client: Client, talk: Talk, heard: list[bytes], within: float = LONG) -> Answer:
    async def use(http: Http) -> Answer:
        async with RawServer(talk) as server:
            return await http.post(server.url, {}, b"", within, heard.append)

    return with_http(client, use)


def test_an_answer_that_is_no_stream_comes_whole(client: Client) -> None:
    heard: list[bytes] = []
    assert stream_from(client, once(response(b"{}", 429)), heard)[:2] == (429, b"{}")
    assert heard == []


def test_a_stream_that_drops_is_lost(client: Client) -> None:
    heard: list[bytes] = []
    with pytest.raises(Transient) as caught:
        stream_from(client, once(CHUNKED + chunk(b"data: one\n\n")), heard)
    assert (caught.value.lost, heard) == (True, [b"one"])


def test_a_stream_is_bounded_in_time_as_a_whole(client: Client) -> None:
    async def talk(caller: Caller) -> None:
        await caller.request()
        await caller.send(CHUNKED + chunk(b"data: one\n\n"))
        await caller.gone()

    def check(scale: float) -> None:
        heard: list[bytes] = []
        with pytest.raises(TimedOut, match=f"no answer within {0.2 * scale:g} s"):
            stream_from(client, talk, heard, within=0.2 * scale)
        assert heard == [b"one"]

    however_slow(check)


@pytest.mark.parametrize("how", ["cancelled", "left"])
def test_leaving_a_stream_closes_its_connection(client: Client, how: str) -> None:
    async def use(http: Http) -> None:
        closed, begun = asyncio.Event(), asyncio.Event()

        async def talk(caller: Caller) -> None:
            await caller.request()
            await caller.send(CHUNKED + chunk(b"data: one\n\n"))
            await caller.gone()
            closed.set()

        def each(data: bytes) -> None:
            begun.set()
            if how == "left":
                raise LookupError

        async with RawServer(talk) as server:
            streaming = asyncio.ensure_future(http.post(server.url, {}, b"", 30, each))
            await begun.wait()
            if how == "cancelled":
                streaming.cancel()
            with pytest.raises((LookupError, asyncio.CancelledError)):
                await streaming
            await asyncio.wait_for(closed.wait(), LONG)

    with_http(client, use)


# ── the size of an answer ────────────────────────────────────────────────────────────────────


def endless(head: bytes, piece: bytes, sent: list[int]) -> Talk:
    """Sends the piece until the client has had enough."""

    async def talk(caller: Caller) -> None:
        await caller.request()
        await caller.send(head)
        while True:
            await caller.send(piece)
            sent.append(len(piece))

    return talk


PLAIN = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n"
SSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
LIMIT = 300_000


async def reads(http: Http, url: str, stream: bool) -> Answer:
    if stream:
        return await http.post(url, {}, b"", 30, lambda data: None)
    return await http.post(url, {}, b"", 30)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (PLAIN, b" " * 65_536),
        (SSE, b": a line without an end" * 2000),
        (SSE, b"data: {}\n\n" * 5000),
        (SSE, b"data: an event without an end\n" * 2000),
    ],
)
def test_an_answer_without_an_end_is_read_up_to_its_bound(
    client: Client, stream: bool, head: bytes, piece: bytes
) -> None:
    """The connection is closed then, so that the server stops too."""
    sent: list[int] = []

    async def use(http: Http) -> None:
        async with RawServer(endless(head, piece, sent)) as server:
            with pytest.raises(InvalidReply, match=r"larger than max_bytes \(300,000\)"):
                await reads(http, server.url, stream)
            await server.quiet()

    with_http(client, use, most=LIMIT)


@pytest.mark.parametrize("stream", [False, True])
def test_a_packed_answer_is_counted_as_unpacked(client: Client, stream: bool) -> None:
    """20 MB of spaces, in 20 kB."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = b"".join([*(packer.compress(b" " * 1_000_000) for _ in range(20)), packer.flush()])
    assert len(packed) < LIMIT

    async def use(http: Http) -> None:
        async with RawServer(once(response(packed, Content_Encoding="gzip"))) as server:
            with pytest.raises(InvalidReply, match="larger than max_bytes"):
                await reads(http, server.url, stream)
            await server.quiet()

    with_http(client, use, most=LIMIT)


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_as_large_as_it_may_be_is_read(client: Client, stream: bool) -> None:
    async def use(http: Http) -> Answer:
        async with RawServer(once(response(b"x" * LIMIT))) as server:
            return await reads(http, server.url, stream)

    assert len(with_http(client, use, most=LIMIT).body) == LIMIT


@pytest.mark.parametrize("stream", [False, True])
def test_of_an_error_without_an_end_the_beginning_is_kept(client: Client, stream: bool) -> None:
    head = b"HTTP/1.1 500 No\r\ncontent-type: text/event-stream\r\n\r\n"

    async def use(http: Http) -> Answer:
        async with RawServer(endless(head, b"x" * 50_000, [])) as server:
            answer = await reads(http, server.url, stream)
            await server.quiet()
            return answer

    answer = with_http(client, use, most=LIMIT)
    assert (answer.status, answer.whole, len(answer.body) <= LIMIT) == (500, False, True)


@pytest.mark.parametrize("sent", [0, 10, 80_000])
def test_a_call_can_be_cancelled_in_any_moment(client: Client, sent: int) -> None:
    """Also in the one in which a piece of the answer comes in."""

    async def use(http: Http) -> None:
        arrived = asyncio.Event()

        async def talk(caller: Caller) -> None:
            await caller.request()
            if sent:
                await caller.send(response(b"x" * 100_000)[: sent - 100_000])
            arrived.set()
            await caller.gone()

        async with RawServer(talk) as server:
            for turns in range(20):
                arrived.clear()
                asking = asyncio.ensure_future(http.post(server.url, {}, b"", 30))
                await arrived.wait()
                for _ in range(turns):
                    await asyncio.sleep(0)
                asking.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asking

    with_http(client, use)


# ── a call that is cancelled ─────────────────────────────────────────────────────────────────


def beginning(sent: bytes, closed: asyncio.Event, arrived: asyncio.Event) -> Talk:
    """Takes a request, sends this much of an answer, and sees whether the client goes away."""

    async def talk(caller: Caller) -> None:
        await caller.request()
        await caller.send(sent)
        arrived.set()
        await caller.rest()
        closed.set()

    return talk


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\ncontent-le"])
def test_a_cancelled_call_ends_at_the_server_too(
    client: Client, sent: bytes, request: pytest.FixtureRequest
) -> None:
    """It would go on there and be paid for until its time is over."""
    if client is PyreqwestClient:
        request.applymarker(pytest.mark.xfail(reason="it keeps the connection until its timeout"))

    async def use(http: Http) -> None:
        closed, arrived = asyncio.Event(), asyncio.Event()
        async with RawServer(beginning(sent, closed, arrived)) as server:
            asking = asyncio.ensure_future(http.post(server.url, {}, b"", LONG))
            await arrived.wait()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            await asyncio.wait_for(closed.wait(), 1 if client is PyreqwestClient else LONG)

    with_http(client, use)


def test_a_call_cancelled_in_its_body_ends_at_the_server_too(client: Client) -> None:
    async def use(http: Http) -> None:
        closed, arrived, begun = asyncio.Event(), asyncio.Event(), asyncio.Event()
        sent = CHUNKED + chunk(b"data: one\n\n")
        async with RawServer(beginning(sent, closed, arrived)) as server:
            asking = asyncio.ensure_future(
                http.post(server.url, {}, b"", LONG, lambda data: begun.set())
            )
            await begun.wait()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            await asyncio.wait_for(closed.wait(), LONG)

    with_http(client, use)


def test_a_call_cancelled_while_it_is_written_ends_at_the_server_too(
    client: Client, request: pytest.FixtureRequest
) -> None:
    """The server reads nothing of a body that fills every buffer on the way."""
    if client is PyreqwestClient:
        request.applymarker(pytest.mark.xfail(reason="it keeps the connection until its timeout"))
    body, arrived, read = b" " * 30_000_000, asyncio.Event(), asyncio.Event()

    async def talk(caller: Caller) -> None:
        await caller.head()
        arrived.set()
        await read.wait()
        assert await caller.rest(len(body)) < len(body)
        read.clear()

    async def use(http: Http) -> None:
        async with RawServer(talk) as server:
            asking = asyncio.ensure_future(http.post(server.url, {}, body, LONG))
            await arrived.wait()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            read.set()
            await server.quiet()
            assert not read.is_set()

    with_http(client, use)


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf"])
def test_closing_ends_a_call_however_far_it_is(client: Client, sent: bytes) -> None:
    async def main() -> None:
        http, closed, arrived = client("m"), asyncio.Event(), asyncio.Event()
        await http.open()
        async with RawServer(beginning(sent, closed, arrived)) as server:
            asking = asyncio.ensure_future(http.post(server.url, {}, b"", LONG))
            await arrived.wait()
            await http.close()
            with pytest.raises(Transient) as caught:
                await asking
            assert caught.value.lost
            if client is AiohttpClient:  # the other one keeps it, as after a cancelled call
                await asyncio.wait_for(closed.wait(), LONG)

    asyncio.run(main())


# ── which connection is used ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "sent",
    [
        response(b"ok", Connection="close"),
        b"HTTP/1.0 200 OK\r\n\r\nok",
        response(b"ok") + b"more than it said",
        response(b"ok") + response(b"an answer nobody asked for"),
    ],
)
def test_a_connection_in_doubt_is_not_used_again(client: Client, sent: bytes) -> None:
    """Neither one that the server gives up, nor one with more on it than its Content-Length says:
    there the answer itself may be refused too."""

    async def talk(caller: Caller) -> None:
        await caller.request()
        await caller.send(sent)
        if not sent.startswith(b"HTTP/1.0"):
            await caller.gone()

    async def use(http: Http) -> int:
        async with RawServer(talk) as server:
            for _ in range(3):
                with suppress(InvalidReply):
                    assert (await http.post(server.url, {}, b"", LONG)).body == b"ok"
            return server.connections

    assert with_http(client, use) == 3


def test_what_comes_in_on_an_idle_connection_answers_nothing(client: Client) -> None:
    """A server that sends a second answer later, when the connection lies idle."""
    late, sent = asyncio.Event(), asyncio.Event()

    async def talk(caller: Caller) -> None:
        _, _, body = await caller.request()
        await caller.send(response(body))
        await late.wait()
        await caller.send(response(b"an answer nobody asked for"))
        sent.set()
        await caller.gone()

    async def use(http: Http) -> list[bytes]:
        async with RawServer(talk) as server, RawServer(always(response(b""))) as other:
            first = await http.post(server.url, {}, b"first", LONG)
            late.set()
            await sent.wait()
            for _ in range(3):  # by then a client with a thread of its own has seen it
                await http.post(other.url, {}, b"", LONG)
            second = await http.post(server.url, {}, b"second", LONG)
            return [first.body, second.body]

    assert with_http(client, use) == [b"first", b"second"]


def test_a_connection_that_broke_is_not_used_again(client: Client) -> None:
    halves = [b"", response(b"whole")[:-1], response(b"whole"), response(b"whole")]
    sent = iter(halves)

    async def use(http: Http) -> list[bytes | bool]:
        async def talk(caller: Caller) -> None:
            await caller.request()
            await caller.send(next(sent))

        found: list[bytes | bool] = []
        async with RawServer(talk) as server:
            for _ in halves:
                try:
                    found.append((await http.post(server.url, {}, b"", LONG)).body)
                except Transient as error:
                    found.append(error.lost)
                await server.quiet()
            assert server.connections == len(halves)
        return found

    assert with_http(client, use) == [True, True, b"whole", b"whole"]


def test_a_request_that_was_written_is_never_repeated(client: Client) -> None:
    """On a connection that was used before, too, where a client might think that it was stale."""
    seen: list[bytes] = []

    async def talk(caller: Caller) -> None:
        for sent in (response(b"ok"), b""):
            _, _, body = await caller.request()
            seen.append(body)
            await caller.send(sent)

    async def use(http: Http) -> bool:
        async with RawServer(talk) as server:
            await http.post(server.url, {}, b"first", LONG)
            with pytest.raises(Transient) as caught:
                await http.post(server.url, {}, b"second", LONG)
            return caught.value.lost

    assert (with_http(client, use), seen) == (True, [b"first", b"second"])


def test_a_connection_closed_before_the_loop_could_see_it_is_not_used() -> None:
    """The loop stands still while the server, in a thread, closes the idle connection. Nothing of
    the next request was written, so it goes out on a new one. pyreqwest notices it in a thread of
    its own, which may be too late: then the call is lost, and says so."""
    closed = threading.Event()

    def serve(listening: socket.socket) -> None:
        for _ in range(2):
            one, _ = listening.accept()
            while not one.recv(65_536).endswith(b"body"):
                pass
            one.sendall(response(b"ok"))
            one.close()
            closed.set()

    async def use(http: Http, url: str) -> list[bytes]:
        first = await http.post(url, {}, b"body", LONG)
        assert closed.wait(LONG)
        return [first.body, (await http.post(url, {}, b"body", LONG)).body]

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,), daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        assert with_http(AiohttpClient, lambda http: use(http, url)) == [b"ok", b"ok"]
        thread.join()


# ── unusual answers ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mb", [10, pytest.param(50, marks=pytest.mark.sweep)])
def test_a_large_answer_is_read_whole(client: Client, mb: int) -> None:
    whole = b"0123456789" * (mb * 100_000)

    async def use(http: Http) -> Answer:
        async with RawServer(once(response(whole))) as server:
            return await http.post(server.url, {}, b"", LONG)

    assert with_http(client, use, most=60_000_000).body == whole


def test_what_is_said_before_the_answer_is_passed_over(client: Client) -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nlink: </style.css>\r\n\r\n"
    answer = post_to(client, once(b"HTTP/1.1 100 Continue\r\n\r\n" + early + response(b"ok")))
    assert answer[:2] == (200, b"ok")


def test_an_answer_without_a_length_ends_with_its_connection(client: Client) -> None:
    assert post_to(client, once(b"HTTP/1.1 200 OK\r\n\r\nto the end")).body == b"to the end"


def test_long_headers_are_read(client: Client) -> None:
    answer = post_to(client, once(response(b"ok", X_Policy="x" * 30_000)))
    assert (answer.body, len(answer.header("x-policy") or "")) == (b"ok", 30_000)


def test_a_stream_cut_at_any_byte_is_lost(client: Client) -> None:
    """And every event that was whole by then was handed on."""
    events = [b"one", b"two\nlines", b"three"]
    pieces = [b"data: one\n\ndata: two\ndata: l", b"ines\n\ndata: three\n", b"\n"]
    stream = b"".join(chunk(piece) for piece in pieces)

    async def use(http: Http) -> None:
        for cut in range(len(stream)):
            heard: list[bytes] = []
            async with RawServer(once(CHUNKED + stream[:cut])) as server:
                with pytest.raises(Transient) as caught:
                    await http.post(server.url, {}, b"", LONG, heard.append)
            assert caught.value.lost
            assert heard == events[: len(heard)]
        async with RawServer(once(CHUNKED + stream + chunk(b""))) as server:
            heard = []
            await http.post(server.url, {}, b"", LONG, heard.append)
        assert heard == events

    with_http(client, use)
