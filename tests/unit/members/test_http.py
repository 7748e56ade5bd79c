from __future__ import annotations

import asyncio
import re
import socket
import subprocess
import sys
import zlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from fanfold.errors import InvalidReply, MemberError, Terminal, TimedOut, Transient
from fanfold.members.http import Answer, Events, Http
from tests.unit.members.raw import Caller, RawServer, Talk, always, once, response
from tests.waiting import LONG, however_slow

CHUNKED = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)


def with_http(use: Callable[[Http], Awaitable[Answer]], **settings: Any) -> Answer:
    async def main() -> Answer:
        http = Http("m", **settings)
        await http.open()
        try:
            return await use(http)
        finally:
            await http.close()

    return asyncio.run(main())


def post_to(talk: Talk, within: float = LONG, **headers: str) -> Answer:
    async def use(http: Http) -> Answer:
        async with RawServer(talk) as server:
            return await http.post(server.url, headers, b"body", within)

    return with_http(use)


def trouble(talk: Talk, within: float = LONG) -> tuple[type[MemberError], str, bool]:
    with pytest.raises(MemberError) as caught:
        post_to(talk, within)
    return type(caught.value), str(caught.value), caught.value.lost


def test_an_answer_is_status_body_and_headers() -> None:
    answer = post_to(always(response(b"no", 418, X_Thing="a")))
    assert (answer.status, answer.body, answer.header("x-THING"), answer.header("y")) == (
        418, b"no", "a", None,
    )  # fmt: skip


def test_the_request_goes_out_as_given() -> None:
    seen = []

    async def talk(caller: Caller) -> None:
        seen.append(await caller.request())
        await caller.send(response(b""))

    post_to(talk, Authorization="Bearer k")
    [(line, headers, body)] = seen
    assert (line, headers["authorization"], headers["user-agent"], body) == (
        "POST / HTTP/1.1", "Bearer k", "fanfold", b"body",
    )  # fmt: skip


def test_idle_connections_are_reused() -> None:
    async def use(http: Http) -> Answer:
        async with RawServer(always(response(b"ok"))) as server:
            for _ in range(3):
                answer = await http.post(server.url, {}, b"", LONG)
            assert server.connections == 1
            return answer

    assert with_http(use).body == b"ok"


def test_256_at_once_all_get_through() -> None:
    async def use(http: Http) -> Answer:
        waiting, everyone = 0, asyncio.Event()

        async def talk(caller: Caller) -> None:
            nonlocal waiting
            await caller.request()
            waiting += 1
            if waiting == 256:
                everyone.set()
            await everyone.wait()
            await caller.send(response(b"ok"))

        async with RawServer(talk) as server:
            posts = [http.post(server.url, {}, b"", 30) for _ in range(256)]
            answers = await asyncio.gather(*posts)
            assert [answer.body for answer in answers] == [b"ok"] * 256
            return answers[0]

    with_http(use)


def test_a_redirect_is_an_answer_and_is_not_followed() -> None:
    assert post_to(once(response(b"", 302, Location="http://127.0.0.1:1/"))).status == 302


def test_nothing_is_asked_twice_when_the_connection_drops() -> None:
    async def use(http: Http) -> Answer:
        async with RawServer(once()) as server:
            with pytest.raises(Transient):
                await http.post(server.url, {}, b"", LONG)
            assert server.connections == 1
        return Answer(0, b"", lambda name: None)

    with_http(use)


def test_a_refused_connection_is_not_lost() -> None:
    with pytest.raises(Transient) as caught:
        with_http(lambda http: http.post(f"http://127.0.0.1:{free_port()}", {}, b"", LONG))
    assert not caught.value.lost
    assert re.fullmatch(
        r"m: no connection: Connection refused \(.*\); check base_url, and that the server runs",
        str(caught.value),
    )


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_a_connection_that_never_comes_about_is_not_lost() -> None:
    """The queue of a socket that nobody accepts from is full, so the next connection hangs."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        waiting = [connecting(deaf) for _ in range(4)]
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        with pytest.raises(Transient) as caught:
            with_http(lambda http: http.post(url, {}, b"", LONG), connect_timeout=0.2)
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
def test_a_connection_dropped_after_sending_is_lost(talk: Talk, why: str) -> None:
    kind, text, lost = trouble(talk)
    assert (kind, lost) == (Transient, True)
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
def test_time_running_out_is_lost(talk: Talk) -> None:
    def check(scale: float) -> None:
        within = 0.2 * scale
        said = f"m: no answer within {within:g} s"
        assert trouble(talk, within=within) == (TimedOut, said, True)

    however_slow(check)


@pytest.mark.parametrize("talk", [never, never_ends])
def test_time_running_out_closes_the_connection(talk: Talk) -> None:
    async def use(http: Http, within: float) -> Answer:
        closed = asyncio.Event()

        async def watched(caller: Caller) -> None:
            await talk(caller)
            closed.set()

        async with RawServer(watched) as server:
            with pytest.raises(TimedOut):
                await http.post(server.url, {}, b"", within)
            await asyncio.wait_for(closed.wait(), 50 * within)
        return Answer(0, b"", lambda name: None)

    however_slow(lambda scale: with_http(lambda http: use(http, 0.2 * scale)))


@pytest.mark.parametrize("sent", [b"lalala\r\n\r\n", response(b"no gzip", Content_Encoding="gzip")])
def test_an_answer_that_is_no_http_is_invalid(sent: bytes) -> None:
    kind, text, lost = trouble(once(sent))
    assert (kind, lost, text.startswith("m: the answer cannot be read: ")) == (
        InvalidReply, False, True,
    )  # fmt: skip


@pytest.mark.parametrize("url", ["nonsense", "http://", "ftp://127.0.0.1/"])
def test_a_bad_address_is_the_members_trouble(url: str) -> None:
    with pytest.raises(Terminal) as caught:
        with_http(lambda http: http.post(url, {}, b"", LONG))
    assert (caught.value.scope, str(caught.value).startswith("m: the request cannot be sent")) == (
        "member", True,
    )  # fmt: skip


def test_a_header_that_cannot_be_sent_shows_in_no_error() -> None:
    with pytest.raises(Terminal) as caught:
        with_http(lambda http: http.post("http://127.0.0.1:1", {"x": "sec\nret"}, b"", LONG))
    error: BaseException | None = caught.value
    while error is not None:
        assert "ret" not in str(error).removeprefix("m: the request")
        error = error.__cause__ or error.__context__


def test_a_connection_the_server_closed_while_idle_is_not_used() -> None:
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

    assert with_http(use).body == b"ok"


def test_after_a_cancelled_call_the_others_go_on() -> None:
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

    assert with_http(use).body == b"more"


def test_closing_ends_what_is_under_way() -> None:
    async def main() -> None:
        http, arrived = Http("m"), asyncio.Event()
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


def test_one_transport_serves_one_loop_after_another() -> None:
    http = Http("m")

    async def main() -> int:
        await http.open()
        async with RawServer(always(response(b""))) as server:
            answer = await http.post(server.url, {}, b"", LONG)
        await http.close()
        return answer.status

    assert [asyncio.run(main()) for _ in range(3)] == [200, 200, 200]
    assert repr(http) == "<Http m closed>"


def test_asking_before_open_is_a_defect() -> None:
    with pytest.raises(RuntimeError, match="asked before open"):
        asyncio.run(Http("m").post("http://127.0.0.1:1", {}, b"", LONG))


# ── streams ──────────────────────────────────────────────────────────────────────────────────


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def test_events_come_as_they_are_sent() -> None:
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
            answer = await http.stream(server.url, {}, b"", LONG, each)
        assert heard == [b"one", b"two"]
        return answer

    assert with_http(use)[:2] == (200, b"")


def stream_from(talk: Talk, heard: list[bytes], within: float = LONG) -> Answer:
    async def use(http: Http) -> Answer:
        async with RawServer(talk) as server:
            return await http.stream(server.url, {}, b"", within, heard.append)

    return with_http(use)


def test_an_answer_that_is_no_stream_comes_whole() -> None:
    heard: list[bytes] = []
    assert stream_from(once(response(b"{}", 429)), heard)[:2] == (429, b"{}")
    assert heard == []


def test_a_stream_that_drops_is_lost() -> None:
    heard: list[bytes] = []
    with pytest.raises(Transient) as caught:
        stream_from(once(CHUNKED + chunk(b"data: one\n\n")), heard)
    assert (caught.value.lost, heard) == (True, [b"one"])


def test_a_stream_is_bounded_in_time_as_a_whole() -> None:
    async def talk(caller: Caller) -> None:
        await caller.request()
        await caller.send(CHUNKED + chunk(b"data: one\n\n"))
        await caller.gone()

    def check(scale: float) -> None:
        heard: list[bytes] = []
        with pytest.raises(TimedOut, match=f"no answer within {0.2 * scale:g} s"):
            stream_from(talk, heard, within=0.2 * scale)
        assert heard == [b"one"]

    however_slow(check)


@pytest.mark.parametrize("how", ["cancelled", "left"])
def test_leaving_a_stream_closes_its_connection(how: str) -> None:
    async def use(http: Http) -> Answer:
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
            streaming = asyncio.ensure_future(http.stream(server.url, {}, b"", 30, each))
            await begun.wait()
            if how == "cancelled":
                streaming.cancel()
            with pytest.raises((LookupError, asyncio.CancelledError)):
                await streaming
            await asyncio.wait_for(closed.wait(), LONG)
        return Answer(0, b"", lambda name: None)

    with_http(use)


@pytest.mark.parametrize(
    ("sent", "data"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data:a\r\n\r\n: comment\r\nevent: x\r\nid: 1\r\ndata:  b\r\n\r\n", [b"a", b" b"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"\n\n\nretry: 10\n\n", []),
        (b"data: left open", [b"left open"]),
        (b"", []),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_events_are_cut_out_however_the_bytes_arrive(
    sent: bytes, data: list[bytes], size: int
) -> None:
    events = Events()
    found = []
    for at in range(0, len(sent), size):
        found += events.feed(sent[at : at + size])
    assert found + events.end() == data


# ── the process around it ────────────────────────────────────────────────────────────────────

PROXY = """
import asyncio, sys
from fanfold.members.http import Http

async def main():
    http = Http("m")
    await http.open()
    print((await http.post(sys.argv[1], {}, b"", 180)).body.decode())
    await http.close()

asyncio.run(main())
"""


async def run_apart(url: str, **env: str) -> str:
    """In its own process: the environment is read when the client is built."""
    source = str(Path(__file__).parents[3] / "src")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROXY, url, env={"PYTHONPATH": source, **env}, stdout=subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode().strip()


async def says_first_line(caller: Caller) -> None:
    line, _, _ = await caller.request()
    await caller.send(response(line.encode()))


def test_proxies_come_from_the_environment() -> None:
    async def main() -> tuple[str, str]:
        async with RawServer(says_first_line) as server:
            proxied = await run_apart("http://example.invalid/x", HTTP_PROXY=server.url)
            direct = await run_apart(
                f"{server.url}/y", HTTP_PROXY="http://127.0.0.1:1", NO_PROXY="127.0.0.1"
            )
            return proxied, direct

    assert asyncio.run(main()) == (
        "POST http://example.invalid/x HTTP/1.1", "POST /y HTTP/1.1",
    )  # fmt: skip


def test_a_process_ends_cleanly_after_its_last_call() -> None:
    async def main() -> list[str]:
        async with RawServer(says_first_line) as server:
            return [await run_apart(f"{server.url}/{n}") for n in range(5)]

    assert asyncio.run(main()) == [f"POST /{n} HTTP/1.1" for n in range(5)]


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
        return await http.stream(url, {}, b"", 30, lambda data: None)
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
    stream: bool, head: bytes, piece: bytes
) -> None:
    """The connection is closed then, so that the server stops too."""
    sent: list[int] = []

    async def use(http: Http) -> Answer:
        async with RawServer(endless(head, piece, sent)) as server:
            with pytest.raises(InvalidReply, match=r"larger than max_bytes \(300,000\)"):
                await reads(http, server.url, stream)
            await server.quiet()
            return Answer(0, b"", lambda name: None)

    with_http(use, most=LIMIT)


@pytest.mark.parametrize("stream", [False, True])
def test_a_packed_answer_is_counted_as_unpacked(stream: bool) -> None:
    """20 MB of spaces, in 20 kB."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = b"".join([*(packer.compress(b" " * 1_000_000) for _ in range(20)), packer.flush()])
    assert len(packed) < LIMIT

    async def use(http: Http) -> Answer:
        async with RawServer(once(response(packed, Content_Encoding="gzip"))) as server:
            with pytest.raises(InvalidReply, match="larger than max_bytes"):
                await reads(http, server.url, stream)
            await server.quiet()
            return Answer(0, b"", lambda name: None)

    with_http(use, most=LIMIT)


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_as_large_as_it_may_be_is_read(stream: bool) -> None:
    async def use(http: Http) -> Answer:
        async with RawServer(once(response(b"x" * LIMIT))) as server:
            return await reads(http, server.url, stream)

    assert len(with_http(use, most=LIMIT).body) == LIMIT


@pytest.mark.parametrize("stream", [False, True])
def test_of_an_error_without_an_end_the_beginning_is_kept(stream: bool) -> None:
    head = b"HTTP/1.1 500 No\r\ncontent-type: text/event-stream\r\n\r\n"

    async def use(http: Http) -> Answer:
        async with RawServer(endless(head, b"x" * 50_000, [])) as server:
            answer = await reads(http, server.url, stream)
            await server.quiet()
            return answer

    answer = with_http(use, most=LIMIT)
    assert (answer.status, answer.whole, len(answer.body) <= LIMIT) == (500, False, True)


def test_a_long_line_of_a_stream_is_put_together_once() -> None:
    """Not anew with each piece of it: that would take hours for what the bound allows."""
    events = Events()
    for _ in range(20_000):
        assert events.feed(b"x" * 1000) == []
    assert events.feed(b"\ndata: a\n\n") == [b"a"]


@pytest.mark.parametrize("sent", [0, 10, 80_000])
def test_a_call_can_be_cancelled_in_any_moment(sent: int) -> None:
    """Also in the one in which a piece of the answer comes in."""

    async def use(http: Http) -> Answer:
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
        return Answer(0, b"", lambda name: None)

    with_http(use)
