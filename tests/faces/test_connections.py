"""Slow, idle and too many clients of the HTTP faces keep nobody else out."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from fanfold.errors import BadInput
from fanfold.faces.connections import (
    BACKLOG,
    MOST,
    RESERVE,
    SPARE,
    Bounds,
    Connections,
    bounds,
    current,
)
from fanfold.run.loop import run_sync
from fanfold.testing.member import Scripted, traits
from tests.faces.desk import INITIALIZE, mcp_endpoint, posted
from tests.faces.serving import KEY, endpoint, reply
from tests.handles import no_free_handle

NEVER = 1000.0
PATIENT = Bounds(header=NEVER, body=NEVER, idle=NEVER, response=NEVER)
SOON = 0.05


def changed(**some: Any) -> Bounds:
    return Bounds(**{name: getattr(PATIENT, name) for name in PATIENT.__struct_fields__} | some)


# ── the rules, with a protocol of one letter for each event ──────────────────────────────────


class Letters(asyncio.Protocol):
    """h: a header, b: its body, e: its end, W: a response that is more than a client can hold."""

    def __init__(self, lost: list[Letters]) -> None:
        self.lost = lost

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(self)

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        for letter in data.decode():
            match letter:
                case "h":
                    current().receive()
                case "b":
                    self.transport.write(b"yes" if current().work() else b"no")
                case "e":
                    current().end()
                case "W":
                    self.transport.write(bytes(50_000_000))


@asynccontextmanager
async def letters(
    limits: Bounds, lost: list[Letters] | None = None
) -> AsyncIterator[tuple[Connections, Callable[..., socket.socket]]]:
    """The connections of a server, and a way to make one that has said something already."""
    connections, ended = Connections(limits), [] if lost is None else lost
    server = await asyncio.get_running_loop().create_server(
        lambda: connections.watch(Letters(ended)), "127.0.0.1", 0
    )
    made: list[socket.socket] = []

    def connect(said: str = "") -> socket.socket:
        client = socket.create_connection(server.sockets[0].getsockname())
        client.sendall(said.encode())
        client.setblocking(False)
        made.append(client)
        return client

    try:
        yield connections, connect
    finally:
        for client in made:
            client.close()
        server.close()
        await until(lambda: connections.open == 0)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not true():  # noqa: ASYNC110 - what is waited for tells nobody
            await asyncio.sleep(0.001)


async def heard(client: socket.socket, size: int = 10) -> bytes:
    """What comes next; nothing when the connection has ended."""
    async with asyncio.timeout(30):
        try:
            return await asyncio.get_running_loop().sock_recv(client, size)
        except ConnectionResetError:
            return b""


@pytest.mark.parametrize(
    ("bound", "said", "later"),
    [("header", "", ""), ("body", "h", ""), ("idle", "hbe", ""), ("header", "hbe", "x"),
     ("response", "hbW", ""), ("response", "hbeW", "")],
)  # fmt: skip
def test_a_client_that_takes_too_long_is_cut_off(bound: str, said: str, later: str) -> None:
    """Without a header, in mid-body, between two requests, in a second header, not reading."""

    async def main() -> None:
        lost: list[Letters] = []
        async with letters(changed(**{bound: SOON}), lost) as (connections, connect):
            client = connect(said)
            if later:
                assert await heard(client) == b"yes"
                client.sendall(later.encode())
            await until(lambda: len(lost) == 1)
            assert connections.open == 0

    asyncio.run(main())


@pytest.mark.parametrize(
    ("bound", "said"), [("header", ""), ("body", "h"), ("idle", "hbe"), ("response", "hbW")]
)
def test_a_client_that_waits_for_us_is_never_cut_off(bound: str, said: str) -> None:
    """However long its answer takes: one that came later and lets us wait is cut off before it."""

    async def main() -> None:
        lost: list[Letters] = []
        async with letters(changed(**{bound: SOON}), lost) as (connections, connect):
            client = connect("hb")
            assert await heard(client) == b"yes"
            connect(said)
            await until(lambda: len(lost) == 1)
            assert (connections.open, connections.served) == (1, 1)
            client.sendall(b"b")
            assert await heard(client) == b"yes", "it is the other one that was cut off"

    asyncio.run(main())


def test_at_the_limit_the_client_that_is_waited_for_longest_goes() -> None:
    async def main() -> None:
        async with letters(changed(connections=2)) as (connections, connect):
            served = [connect("hb"), connect("hb")]
            await until(lambda: connections.served == 2)
            idle = [connect() for _ in range(SPARE)]
            await until(lambda: connections.open == 2 + SPARE)
            new = connect("h")
            assert await heard(idle[0]) == b""
            assert connections.open == 2 + SPARE
            new.sendall(b"b")
            assert await heard(new) == b"no", "two are served already"
            served[0].close()
            await until(lambda: connections.served == 1)
            new.sendall(b"b")
            assert await heard(new) == b"yes"
            assert await heard(served[1]) == b"yes"

    asyncio.run(main())


def test_the_limit_leaves_file_handles_for_the_store_and_members() -> None:
    assert [bounds(None, handles).connections for handles in (100_000, 1024, 256, 10)] == [
        MOST, 512, 256 - SPARE - BACKLOG - RESERVE, 1,
    ]  # fmt: skip
    assert bounds(700, 1024).connections == 700
    with pytest.raises(BadInput, match=r"--connections 900: .* enough for 800 .* `ulimit -n`"):
        bounds(900, 800 + SPARE + BACKLOG + RESERVE)


# ── in front of both servers ─────────────────────────────────────────────────────────────────


def idle_clients(url: str, count: int, said: bytes = b"") -> list[socket.socket]:
    at = httpx.URL(url)
    made = [socket.create_connection((at.host, at.port or 0)) for _ in range(count)]
    for client in made:
        client.sendall(said)
        client.setblocking(False)
    return made


@contextmanager
def crowd(url: str) -> Iterator[None]:
    """As many as fit and more, silent or in the middle of a request."""
    half = f"POST /v1/chat/completions HTTP/1.1\r\nAuthorization: Bearer {KEY}\r\n"
    body = half + "Host: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    clients = [
        client
        for said in (b"", half.encode(), body.encode())
        for client in idle_clients(url, SPARE, said)
    ]
    try:
        yield
    finally:
        for client in clients:
            client.close()


def echo() -> Scripted:
    return Scripted(lambda ask, n: reply(ask.messages[-1].content), traits("m"))


def test_idle_clients_do_not_shut_serve_out(memory_path: Path) -> None:
    async def main() -> None:
        async with endpoint(memory_path, echo(), bounds=changed(connections=4)) as here:
            with crowd(here.url):
                answers = await asyncio.gather(*(here.said(f"{n}") for n in range(4)))
        assert [one.choices[0].message.content for one in answers] == ["0", "1", "2", "3"]

    asyncio.run(main())


def test_idle_clients_do_not_shut_mcp_out() -> None:
    async def main() -> None:
        async with mcp_endpoint(changed(connections=4)) as url:
            with crowd(url):
                answer = await posted(url, json=INITIALIZE)
        assert (answer.status_code, "serverInfo" in answer.text) == (200, True)

    asyncio.run(main())


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/mcp"])
def test_half_a_body_is_not_waited_for_and_nothing_is_logged(
    memory_path: Path, path: str, capfd: pytest.CaptureFixture[str]
) -> None:
    said = (
        f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n"
        "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    ).encode()

    async def main() -> None:
        limits = changed(body=SOON)
        up = mcp_endpoint(limits) if path == "/mcp" else endpoint(memory_path, bounds=limits)
        async with up as here:
            (client,) = idle_clients(here if isinstance(here, str) else here.url, 1, said)
            with client:
                assert await heard(client) == b""

    asyncio.run(main())
    assert capfd.readouterr() == ("", "")


def test_more_requests_than_are_served_at_once_get_a_503_at_once(memory_path: Path) -> None:
    """And the next one is served again."""
    asked, go = asyncio.Event(), asyncio.Event()

    async def slowly(ask: Any, number: int) -> Any:
        asked.set()
        await go.wait()
        return reply("done")

    async def main() -> None:
        member = Scripted(slowly, traits("m"))
        async with endpoint(memory_path, member, bounds=changed(connections=1)) as here:
            first = asyncio.create_task(here.said("one"))
            await asked.wait()
            with pytest.raises(openai.InternalServerError) as caught:
                await here.client.with_options(max_retries=0).models.list()
            go.set()
            await first
            await here.client.models.list()
        error = caught.value
        assert (error.status_code, error.code) == (503, "overloaded")
        assert error.response.headers["retry-after"] == "1"

    asyncio.run(main())


def test_without_a_free_file_handle_the_server_waits_and_goes_on(memory_path: Path) -> None:
    async def main() -> str:
        async with endpoint(memory_path, echo()) as here:
            client = socket.socket()
            client.setblocking(False)
            with client, no_free_handle():
                at = httpx.URL(here.url)
                client.connect_ex((at.host, at.port))
                await asyncio.sleep(0.05)  # it is refused, or not yet accepted
            answer = await here.said("still here")
            return str(answer.choices[0].message.content)

    assert run_sync(main()) == "still here"
