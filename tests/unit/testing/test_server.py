"""The model server: faults, connections, and books that stay true whatever the client does."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from fanfold.price import Price
from fanfold.testing.books import BookEntry, ServerBooks, Totals, key_digest
from fanfold.testing.running import RunningServer, running_server, threaded_server
from fanfold.testing.script import Asked, Says, always, by_prompt
from fanfold.testing.server import ModelServer
from fanfold.work.ask import Usage
from tests.unit.members.raw import Caller, RawServer
from tests.unit.testing.asking import (
    ANTHROPIC,
    KEY,
    OPENAI,
    PATHS,
    VERSION,
    Client,
    once,
    with_server,
)
from tests.waiting import LONG, wait_until

PRICE = Price(input=1.0, output=5.0, cache_read=0.1, cache_write=1.25)
USED = Usage(input=100, output=10)
COST = 100 * 1_000 + 10 * 5_000
LOST = (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError)


def ends(server: ModelServer) -> list[tuple[str, bool, int]]:
    return [(entry.end, entry.billed, entry.cost) for entry in server.books.asked]


def server_that(**says: Any) -> ModelServer:
    return ModelServer(always(Says(usage=USED, **says)), prices=PRICE)


def announcing(says: Says, n: int = 1) -> tuple[ModelServer, asyncio.Event]:
    """A server that tells when the nth request has arrived."""
    arrived = asyncio.Event()

    def script(asked: Asked) -> Says:
        if asked.n == n:
            arrived.set()
        return says

    return ModelServer(script, prices=PRICE), arrived


async def closed_with_one_under_way(says: Says) -> ModelServer:
    server, arrived = announcing(says)
    async with aiohttp.ClientSession() as session:
        async with server:
            asking = asyncio.create_task(Client(session, server.url).post(OPENAI))
            await arrived.wait()
        with pytest.raises(LOST):
            await asking
        return server


# ── faults ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("drop", ["before", "mid"])
@pytest.mark.parametrize("path", PATHS)
def test_a_dropped_reply_never_arrives_whole_and_is_billed(
    path: str, drop: str, stream: bool
) -> None:
    server = server_that(drop=drop)
    with pytest.raises(LOST):
        once(server, path, stream=stream)
    assert ends(server) == [("dropped", True, COST)]


def test_a_reply_dropped_in_the_middle_has_begun() -> None:
    async def act(client: Client) -> tuple[int, int, bytes]:
        body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
        async with client.session.post(client.url + OPENAI, json=body) as response:
            begun = await response.content.readany()
            with pytest.raises(LOST):
                await response.read()
            return response.status, response.content_length or 0, begun

    status, length, begun = with_server(server_that(drop="mid"), act)
    assert (status, begun[:21]) == (200, b'{"id":"chatcmpl-1","o')
    assert len(begun) == length // 2


@pytest.mark.parametrize("path", PATHS)
def test_a_broken_body_is_no_json_and_is_billed(path: str) -> None:
    server = server_that(broken=True)
    got = once(server, path)
    assert (got.status, ends(server)) == (200, [("broken", True, COST)])
    with pytest.raises(json.JSONDecodeError):
        json.loads(got.body)


def test_a_broken_stream_has_an_event_that_is_no_json() -> None:
    got = once(server_that(broken=True), ANTHROPIC, stream=True)
    assert got.body == b'data: {"broken": \n\n'


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 529])
def test_an_error_is_not_billed(status: int) -> None:
    server = server_that(status=status)
    assert once(server, ANTHROPIC).status == status
    assert ends(server) == [("refused", False, 0)]


def test_a_gateway_error_has_a_page_for_a_body() -> None:
    got = once(server_that(status=502, broken=True), OPENAI)
    assert (got.status, got.headers["content-type"]) == (502, "text/html")
    assert got.body == b"<html><body>upstream error</body></html>"


def test_what_hangs_is_never_answered_and_ends_when_the_client_leaves() -> None:
    server, arrived = announcing(Says(hang=True))

    async def act(client: Client) -> list[tuple[str, bool, int]]:
        asking = asyncio.create_task(client.post(OPENAI))
        await arrived.wait()
        before = ends(server)
        asking.cancel()
        await server.idle()
        return before

    assert with_server(server, act) == [("open", False, 0)]
    assert ends(server) == [("hung", False, 0)]


def test_what_hangs_ends_when_the_server_closes() -> None:
    server = asyncio.run(closed_with_one_under_way(Says(usage=USED, hang=True)))
    assert ends(server) == [("hung", False, 0)]


# ── the books ────────────────────────────────────────────────────────────────────────────────


def test_the_books_know_what_was_asked_how_often_and_the_bill() -> None:
    replies = by_prompt({"bad": Says(status=500), "dear": Says(usage=Usage(10, 20, 30, 40))})
    server = ModelServer(replies, prices={"m": PRICE, "n": Price(call=0.5)})

    async def act(client: Client) -> None:
        for prompt in ("dear", "bad", "dear"):
            await client.post(ANTHROPIC, prompt)
        await client.post(OPENAI, "dear", model="n")
        await client.post(OPENAI, "dear", model="free")

    with_server(server, act)
    books = server.books
    dear = 10 * 1_000 + 20 * 5_000 + 30 * 100 + 40 * 1_250
    assert [entry.cost for entry in books.asked] == [dear, 0, dear, 500_000_000, 0]
    assert (books.bill, books.paid_calls) == (2 * dear + 500_000_000, 4)
    assert [books.count(prompt) for prompt in ("dear", "bad", "de")] == [4, 1, 0]
    assert books.paid_twice() == {books.asked[0].content: 2}
    assert books.totals(1.5) == Totals(5, 0, 1, 4, books.bill, 1.5)


def test_an_entry_holds_a_digest_of_the_key_and_never_the_key() -> None:
    server = ModelServer(always(Says(usage=USED)), prices=PRICE)
    body = b'{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}'

    async def act(client: Client) -> None:
        await client.send("POST", ANTHROPIC, body, {**VERSION, "x-api-key": KEY})
        await client.send("POST", OPENAI, body, {"authorization": f"Bearer {KEY}"})
        await client.send("POST", OPENAI, body, {})

    with_server(server, act)
    one, two, bare = server.books.asked
    assert one == BookEntry(
        n=1,
        path=ANTHROPIC,
        prompt="hi",
        model="m",
        content=one.content,
        key=key_digest(KEY),
        end="answered",
        status=200,
        billed=True,
        usage=USED,
        cost=COST,
    )
    assert (two.key, two.content, bare.key) == (one.key, one.content, "")
    assert KEY not in repr(server.books.asked)
    assert len(one.key) == 16


def test_a_reply_in_the_making_is_billed_though_the_client_left() -> None:
    server, arrived = announcing(Says(usage=USED, latency=0.1))

    async def act(client: Client) -> list[tuple[str, bool, int]]:
        asking = asyncio.create_task(client.post(OPENAI))
        await arrived.wait()
        before = ends(server)
        asking.cancel()
        await server.idle()
        return before

    assert with_server(server, act) == [("open", False, 0)]
    assert ends(server) == [("gone", True, COST)]


def test_a_reply_in_the_making_is_billed_though_the_server_closes() -> None:
    server = asyncio.run(closed_with_one_under_way(Says(usage=USED, latency=60)))
    assert ends(server) == [("gone", True, COST)]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a file that is always full")
def test_no_reply_goes_out_before_its_line_is_in_the_file() -> None:
    server = ModelServer(books=Path("/dev/full"))
    with pytest.raises(LOST):
        once(server, OPENAI)
    assert server.books.paid_calls == 1


def test_the_most_in_flight_is_counted() -> None:
    server, arrived = announcing(Says(hang=True), n=20)

    async def act(client: Client) -> int:
        asking = [asyncio.create_task(client.post(OPENAI, f"p{i}")) for i in range(20)]
        await arrived.wait()
        in_flight = server.books.in_flight
        for one in asking:
            one.cancel()
        await server.idle()
        return in_flight

    assert with_server(server, act) == 20
    assert (server.books.max_in_flight, server.books.in_flight) == (20, 0)


def test_latency_of_a_says_goes_before_the_servers() -> None:
    async def act(client: Client) -> float:
        start = asyncio.get_running_loop().time()
        await client.post(OPENAI)
        return asyncio.get_running_loop().time() - start

    assert with_server(ModelServer(latency=0.05), act) >= 0.05
    assert with_server(ModelServer(always(Says(latency=0.0)), latency=60), act) < 60


# ── HTTP ─────────────────────────────────────────────────────────────────────────────────────


def raw_request(body: bytes, *lines: str) -> bytes:
    head = [f"POST {OPENAI}?beta=true HTTP/1.1", "Host: x", *lines]
    return "\r\n".join([*head, "", ""]).encode() + body


def body_of(prompt: str) -> bytes:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": prompt}]}).encode()


async def speak(server: ModelServer, pieces: list[bytes], until: bytes) -> bytes:
    """Send the pieces one by one over one connection, and read until these bytes have come."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rsplit(":")[-1]))
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0)
    got = b"" if until else await reader.read()
    while until and not got.endswith(until):
        more = await reader.read(65536)
        if not more:
            break
        got += more
    writer.close()
    await writer.wait_closed()
    return got


def spoken(
    pieces: list[bytes], until: bytes = b"", latency: float = 0.0
) -> tuple[bytes, ServerBooks]:
    async def whole() -> tuple[bytes, ServerBooks]:
        async with ModelServer(latency=latency) as server:
            return await speak(server, pieces, until), server.books

    return asyncio.run(whole())


@pytest.mark.parametrize("latency", [0.0, 0.01])
def test_one_connection_serves_many_requests_in_order_also_sent_at_once(latency: float) -> None:
    requests = [
        raw_request(body, f"Content-Length: {len(body)}", *last)
        for body, last in (
            (body_of("one"), []),
            (body_of("two"), []),
            (body_of("three"), ["Connection: close"]),
        )
    ]
    got, books = spoken([b"".join(requests)], latency=latency)
    assert got.count(b"HTTP/1.1 200 OK\r\n") == 3
    assert [entry.prompt for entry in books.asked] == ["one", "two", "three"]
    assert got.index(b'"one"') < got.index(b'"two"') < got.index(b'"three"')
    assert books.max_in_flight == 1


def test_a_request_may_come_byte_by_byte() -> None:
    body = body_of("slow")
    whole = raw_request(body, f"content-length: {len(body)}", "connection: close")
    got, _ = spoken([bytes([byte]) for byte in whole])
    assert got.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b'"slow"' in got


def test_a_client_that_dies_in_the_middle_of_its_request_has_asked_nothing() -> None:
    async def act(client: Client) -> str:
        _, writer = await asyncio.open_connection("127.0.0.1", int(client.url.rsplit(":")[-1]))
        writer.write(raw_request(b'{"model"', "content-length: 100"))
        await writer.drain()
        writer.transport.abort()
        return (await client.post(OPENAI, "next")).text

    server = ModelServer()
    assert with_server(server, act) == "next"
    assert [entry.prompt for entry in server.books.asked] == ["next"]


def test_a_request_may_come_in_chunks_and_wait_for_leave() -> None:
    body = body_of("chunked")
    chunks = b"%x\r\n%b\r\n5;ext=1\r\n%b\r\n0\r\n\r\n" % (len(body) - 5, body[:-5], body[-5:])
    lines = ("Transfer-Encoding: chunked", "Expect: 100-continue", "Connection: close")
    got, _ = spoken([raw_request(b"", *lines), chunks[:9], chunks[9:]])
    leave, _, rest = got.partition(b"\r\n\r\n")
    assert leave == b"HTTP/1.1 100 Continue"
    assert rest.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b'"chunked"' in rest


@pytest.mark.parametrize(
    "noise", [b"hello\r\n\r\n", raw_request(b"", "content-length: many"), b"\x00\r\n\r\n"]
)
def test_what_is_not_http_is_refused_and_cut(noise: bytes) -> None:
    got, books = spoken([noise])
    assert got.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert books.asked == []


@pytest.mark.parametrize("latency", [0.0, 0.01])
def test_a_script_with_a_defect_cuts_its_connection_and_nothing_else(
    latency: float, caplog: pytest.LogCaptureFixture
) -> None:
    def script(asked: Asked) -> Says:
        return Says(data=script) if asked.n == 2 else Says(text=f"{1 // (asked.n - 1)}")

    async def act(client: Client) -> str:
        for _ in range(2):
            with pytest.raises(LOST):
                await client.post(OPENAI)
        return (await client.post(OPENAI)).text

    server = ModelServer(script, latency=latency)
    assert with_server(server, act) == "0"
    assert ends(server) == [("dropped", False, 0), ("dropped", False, 0), ("answered", True, 0)]
    assert "ZeroDivisionError" in caplog.text
    assert "Encoding objects of type function is unsupported" in caplog.text
    assert server.books.in_flight == 0


# ── in a process of its own ──────────────────────────────────────────────────────────────────

CLIENT = """
import socket, sys
host, port, prompts = "127.0.0.1", int(sys.argv[1]), sys.argv[2:]
sockets = [socket.create_connection((host, port)) for _ in prompts]
for one, prompt in zip(sockets, prompts):
    body = b'{"model": "m", "messages": [{"role": "user", "content": "%b"}]}' % prompt.encode()
    head = "POST /v1/chat/completions HTTP/1.1\\r\\nhost: x\\r\\ncontent-length: %d\\r\\n\\r\\n"
    one.sendall((head % len(body)).encode() + body)
print("sent", flush=True)
sockets[0].recv(1000)
print("first answered", flush=True)
sockets[-1].recv(1000)
"""


def slow_but_first(asked: Asked) -> Says:
    """For the subprocess: the first is answered at once, the others after a while."""
    return Says(latency=0.0 if asked.prompt == "first" else 0.6, usage=USED)


def test_books_are_true_when_a_client_is_killed_in_the_middle(tmp_path: Path) -> None:
    script = "tests.unit.testing.test_server:slow_but_first"
    with running_server(tmp_path / "books.jsonl", script=script, price=PRICE) as server:
        port = server.url.rsplit(":")[-1]
        command = [sys.executable, "-c", CLIENT, port, "first", "second", "third"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
            assert client.stdout is not None
            lines = [client.stdout.readline(), client.stdout.readline()]
            client.kill()
        at_kill = server.books().asked
        server.wait_idle()
        after = server.books()
        again = asyncio.run(ask_once(server, "again"))
        totals = server.totals()
    assert lines == ["sent\n", "first answered\n"]
    assert [(entry.prompt, entry.end, entry.cost) for entry in at_kill][:1] == [
        ("first", "answered", COST)
    ]
    ended = sorted((entry.prompt, entry.end, entry.cost) for entry in after.asked)
    assert ended == [
        ("first", "answered", COST),
        ("second", "gone", COST),
        ("third", "gone", COST),
    ]
    assert (after.bill, after.paid_calls, again) == (3 * COST, 3, "again")
    assert (totals.asked, totals.in_flight, totals.bill) == (4, 0, 4 * COST)
    assert totals.cpu_seconds > 0


async def ask_once(server: RunningServer, prompt: str) -> str:
    async with aiohttp.ClientSession() as session:
        return (await Client(session, server.url).post(OPENAI, prompt)).text


def gone(url: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(url.rsplit(":")[-1]))) != 0


@pytest.mark.parametrize("way", [running_server, threaded_server])
def test_a_server_ends_with_its_context_and_the_books_go_on_in_the_same_file(
    tmp_path: Path, way: Any
) -> None:
    file = tmp_path / "books.jsonl"
    for prompt in ("one", "two"):
        with way(file, latency_ms=1) as server:
            asyncio.run(ask_once(server, prompt))
        assert gone(server.url)
    assert [entry.prompt for entry in ServerBooks.read(file).asked] == ["one", "two"]
    file.write_bytes(file.read_bytes() + b'{"n":3,"pa')
    assert [entry.n for entry in ServerBooks.read(file).asked] == [1, 1]


def test_the_process_ends_when_its_stdin_closes() -> None:
    command = [sys.executable, "-m", "fanfold.testing.server", "--until-stdin-closes"]
    paths = os.pathsep.join(path for path in sys.path if path)
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": paths},
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["url"]
        assert not gone(url)
        server.stdin.close()
        assert server.wait(LONG) == 0
    assert gone(url)


def test_what_is_under_way_is_answered_when_it_is_released_and_nothing_else(tmp_path: Path) -> None:
    with (
        threaded_server(tmp_path / "books", latency_ms=3_600_000) as server,
        ThreadPoolExecutor() as threads,
    ):
        for prompt in ("one", "two"):
            asked = threads.submit(asyncio.run, ask_once(server, prompt))
            wait_until(lambda: server.totals().in_flight == 1)
            assert not asked.done()
            server.release()
            assert asked.result() == prompt
    assert [entry.end for entry in server.books().asked] == ["answered", "answered"]


@pytest.mark.parametrize("server", [ModelServer, lambda: RawServer(Caller.gone)])
@pytest.mark.parametrize("turns", range(8))
def test_a_connection_that_comes_while_the_server_closes_is_closed(server: Any, turns: int) -> None:
    """At whichever turn of the loop it comes. One that is left open fails some later test."""

    async def main() -> None:
        with socket.socket() as client:
            async with server() as running:
                client.connect(("127.0.0.1", int(running.url.rsplit(":")[-1])))
                for _ in range(turns):
                    await asyncio.sleep(0)

    asyncio.run(main())
    gc.collect(1)  # whatever is left open is a warning now, and that an error


def test_a_port_that_is_taken_is_an_error(tmp_path: Path) -> None:
    with threaded_server(tmp_path / "one") as one, pytest.raises(OSError, match="in use"):  # noqa: SIM117
        with threaded_server(tmp_path / "other", port=int(one.url.rsplit(":")[-1])):
            pass


def test_a_server_that_cannot_start_says_so(tmp_path: Path) -> None:
    missing = "tests.unit.testing.test_server:nothing_of_that_name"
    with (
        pytest.raises(RuntimeError, match="did not start"),
        running_server(tmp_path / "books.jsonl", script=missing),
    ):
        pass
