# ruff: noqa: E501
"""Requests to the servers that no client in good faith sends: a status of HTTP and a line, never a 500, and
the server goes on."""

from __future__ import annotations

import asyncio
import gzip
import io
import logging
import re
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import msgspec

from fanfold.errors import FanfoldError
from fanfold.faces.connections import Bounds
from fanfold.faces.mcp.tools import McpOptions, open_toolset, tool_list
from fanfold.faces.ui.admission import PageAdmission
from fanfold.faces.ui.app import UiEndpoint
from fanfold.faces.ui.orders import PageOrders
from fanfold.faces.ui.reading import StoreReader
from fanfold.faces.web import listen, read_json
from fanfold.testing.member import Scripted, traits
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.task import Budget
from tests.faces.desk import INITIALIZE, mcp_endpoint
from tests.faces.hostile import ATTACKS
from tests.faces.serving import KEY, USED, endpoint
from tests.flow.simulation import Provider, Scene, echoing, play, words
from tests.fuzz.engine import Given, Wrong
from tests.fuzz.mutate import Mutation, noisy, odd, written

ROSTER = 'members: [{id: up, kind: function, target: "work:up", good_at: [words]}]\n'
GIVEN = {"task": "say", "tasks": [{"id": "a", "task": "say"}], "member": "up", "tags": ["words"], "id": "done",
         "run": "done", "plan": "plan.yaml", "budget": {"usd": 1}, "schema": {"type": "string"}}  # fmt: skip
LIMITS = Bounds(header=60.0, body=60.0, body_bytes=1_000_000)
QUIET = 0.2  # seconds; a slow machine sees less of the answers, and nothing wrong
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
CHAT = {
    "model": "m", "messages": [{"role": "system", "content": "a"}, {"role": "user", "content": "hi"}],
    "temperature": 0.5, "max_tokens": 5, "stream": False, "n": 1, "stop": ["x"], "seed": 1, "top_p": 0.5,
    "stream_options": {"include_usage": True}, "metadata": {"a": "b"}, "user": "u",
}  # fmt: skip
SHAPED = {**CHAT, "response_format": {"type": "json_schema", "json_schema": {
    "name": "a", "schema": {"type": "object", "properties": {"a": {"type": "string"}}}}}}  # fmt: skip
PARTS_OF_TEXT = {**CHAT, "stream": True, "messages": [
    {"role": "user", "content": [{"type": "text", "text": "hi"}]}]}  # fmt: skip
CALLS = [INITIALIZE, {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}},
         {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "a", "arguments": {}}},
         {"jsonrpc": "2.0", "method": "notifications/initialized"}, [INITIALIZE]]  # fmt: skip
METHODS = [
    "GET",
    "POST",
    "GET",
    "POST",
    "HEAD",
    "PUT",
    "DELETE",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "",
    "G T",
]
FORMS = ["order=pause", "order=kill&sure=yes", "order=set&budget=1e999", "order=skip&id=0&id=1", "order=", "a=b&",
         "order=approve", "order=retry&id=%00", "order=tell&worker=x&text=%F0%9F%98%80", "order=set&concurrency=-1"]  # fmt: skip
TABS = ["overview", "items", "tree", "timeline", "members", "result", "receipt", "log", "x"]
HEADERS = ["Content-Type: text/plain", "Content-Type: application/json; charset=utf-16", "Accept: */*", "Accept: x",
           "Content-Encoding: gzip", "Content-Encoding: br", "Transfer-Encoding: chunked", "Expect: 100-continue",
           "Content-Length: 5", "Content-Length: -1", "Range: bytes=0-1", "Origin: http://evil.example", "Cookie: =",
           "Sec-Fetch-Site: cross-site", "Upgrade: websocket", "Connection: upgrade", "Host: evil.example", "A: \xff",
           "Mcp-Session-Id: \x7f", "Mcp-Session-Id: x", "MCP-Protocol-Version: 1", "Last-Event-ID: 9", "X: " + "a" * 70_000,
           "Authorization: Bearer " + "x" * 99, "Authorization: Basic =", "If-None-Match: *", "X-Y : z", "folded: a\r\n b"]  # fmt: skip


@asynccontextmanager
async def _ui(store: Path) -> AsyncIterator[int]:
    door = listen(0)
    port = door.getsockname()[1]
    reader = StoreReader(str(store), PageOrders(str(store), KEY))
    server = UiEndpoint(reader, PageAdmission(KEY, {f"127.0.0.1:{port}"}, port), LIMITS)
    server.start(door)
    try:
        yield port
    finally:
        await server.stop()
        door.close()


def _brief(ask: Ask, n: int) -> Reply:
    """It keeps `max_tokens`, whatever a request makes of that: nothing is sent to one that does not."""
    used = Usage(USED.input, min(USED.output, ask.params.max_tokens or USED.output))
    return Reply('{"a": "yes"}', usage=used)


class Requests:
    """The three servers, in this process; the first piece says which, the rest are the bytes of one
    connection. After each a plain request must be answered as ever."""

    name, divisible = "requests", True

    def __init__(self) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="fuzz-")).resolve()
        self._store = self._home / "store"
        provider = Provider(echoing)
        play(Scene(self._store, (provider,), words(4), name="done"))
        play(Scene(self._store, (provider,), words(9), Budget(calls=5), name="held"))
        self._chats = Mutation([CHAT, SHAPED, PARTS_OF_TEXT])
        self._calls = Mutation(CALLS)
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(self._heard)
        self._complaints: list[str] = []
        self._log = logging.Handler(logging.ERROR)
        self._log.emit = lambda record: self._complaints.append(record.getMessage())  # type: ignore[method-assign]
        logging.getLogger().addHandler(self._log)
        self._open = AsyncExitStack()
        self._ports: dict[str, int] = self._loop.run_until_complete(self._start())

    def _heard(self, loop: Any, context: dict[str, Any]) -> None:
        self._complaints.append(repr(context.get("exception") or context.get("message")))

    async def _start(self) -> dict[str, int]:
        member = Scripted(_brief, traits("m"))
        serve = await self._open.enter_async_context(
            endpoint(self._home, member, bounds=LIMITS)
        )  # fmt: skip
        mcp = await self._open.enter_async_context(mcp_endpoint(LIMITS))
        ui = await self._open.enter_async_context(_ui(self._store))
        (self._home / "work.py").write_text("def up(data): return str(data).upper()\n")
        (self._home / "roster.yaml").write_text(ROSTER)
        options = McpOptions(
            store=str(self._home / "tools"), budget=Budget(calls=10**6), orders=True
        )
        self._tools = await self._open.enter_async_context(open_toolset(options, self._home))
        known = tool_list(self._tools.desk.menu(), orders=True)
        self._known_tools = {one.name: one.schema for one in known}
        self._wanted = Mutation([GIVEN], {"$defs": self._known_tools})
        ports = [int(re.findall(r":(\d+)", url)[0]) for url in (serve.url, mcp)]
        return dict(zip(("serve", "mcp", "ui"), (*ports, ui), strict=True))

    def close(self) -> None:
        logging.getLogger().removeHandler(self._log)
        self._loop.run_until_complete(self._open.aclose())
        self._loop.close()
        shutil.rmtree(self._home)

    def make(self, rng: Random) -> Given:
        if rng.random() < 0.2:
            name = rng.choice(list(self._known_tools))
            given = self._wanted.fitting(rng, self._known_tools[name])
            if rng.random() < 0.7:
                given = self._wanted.changed(rng, given)
            return [b"tools", name.encode(), written(rng, given)]
        to = rng.choice(("serve", "serve", "mcp", "ui", "ui"))
        raw = b"".join(self._request(rng, to) for _ in range(rng.choice((1, 1, 1, 2))))
        if rng.random() < 0.15:
            raw = noisy(rng, raw)
        return [to.encode(), *raw.splitlines(keepends=True)]

    def _request(self, rng: Random, to: str) -> bytes:
        body, kind = self._body(rng, to)
        path = self._path(rng, to)
        method = rng.choice(METHODS) if rng.random() < 0.2 else "POST" if body else "GET"
        lines = [
            f"{method} {path} HTTP/1.1",
            "Host: {host}",
            f"Content-Type: {kind}",
            *self._known(to),
        ]
        lines += rng.sample(HEADERS, rng.choice((0, 0, 0, 1, 2)))
        if rng.random() < 0.05:
            del lines[rng.randrange(len(lines))]
        if rng.random() < 0.1:
            body = gzip.compress(body, mtime=0)
            lines.append("Content-Encoding: gzip")
        if rng.random() < 0.15:
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
            lines.append("Transfer-Encoding: chunked")
        else:
            lines.append(f"Content-Length: {len(body) + rng.choice((0,) * 20 + (1, -1, 10**9))}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + body

    @staticmethod
    def _known(to: str) -> list[str]:
        """What admits a request; names with ports are filled in when it is sent."""
        if to == "ui":
            return [f"Cookie: fanfold-{{port}}={KEY}", "Origin: http://{host}"]
        return [f"Authorization: Bearer {KEY}", "Accept: application/json, text/event-stream"]

    def _body(self, rng: Random, to: str) -> tuple[bytes, str]:
        if to == "ui":
            form = rng.choice(FORMS).encode() if rng.random() < 0.4 else b""
            return form and noisy(rng, form), "application/x-www-form-urlencoded"
        value, like = (
            (rng.choice((CHAT, SHAPED, PARTS_OF_TEXT)), self._chats)
            if to == "serve"
            else (rng.choice(CALLS), self._calls)
        )
        body = written(rng, like.changed(rng, value))
        return (noisy(rng, body) if rng.random() < 0.1 else body), "application/json"

    def _path(self, rng: Random, to: str) -> str:
        word = quote(
            rng.choice(ATTACKS)[:400] if rng.random() < 0.5 else str(odd(rng))[:400],
            errors="replace",
        )
        run = rng.choice(("done", "held", "done", word))
        query = f"tab={rng.choice(TABS)}&page={word}&q={word}&state={word}&sort={word}&step={word}&{word}={word}"
        ui = ["/", f"/run/{run}", f"/run/{run}?{query}", f"/run/{run}/item?id={rng.choice(('0', word))}&{query}",
              f"/run/{run}/worker?id={word}", f"/money?days={word}&{query}", f"/compare?a={run}&b={word}",
              "/compare?a=done&b=held", f"/static/{word}", "/metrics", f"/?token={word}", f"/?{query}"]  # fmt: skip
        known = {"serve": ["/v1/chat/completions"] * 6 + ["/v1/models", f"/v1/models/{word}", "/metrics"],
                 "mcp": ["/mcp"] * 6 + ["/mcp/", "/metrics"], "ui": ui}[to]  # fmt: skip
        return (
            rng.choice(known)
            if rng.random() < 0.9
            else rng.choice((f"/{word}", "*", "//", "http://x/", word))
        )

    def check(self, given: Given) -> None:
        to = given[0].decode("latin-1").strip() if given else ""
        if to == "tools":
            self._loop.run_until_complete(self._use(given[1:]))
            return
        known = to in self._ports
        to = to if known else "serve"
        errors, sys.stderr = sys.stderr, io.StringIO()
        try:
            self._loop.run_until_complete(self._exchange(to, b"".join(given[known:])))
            said = sys.stderr.getvalue()
        finally:
            sys.stderr = errors
        complaints, self._complaints = self._complaints, []
        if said or complaints:
            raise Wrong(f"{to} complains: {said[-1500:]}{complaints[:1]}")

    async def _use(self, given: Given) -> None:
        """A tool, as an agent could call it that makes arguments up."""
        with suppress(FanfoldError, ValueError):
            name, text = (one.decode() for one in (*given, b"", b"")[:2])
            arguments = read_json(text.encode())
            try:
                msgspec.json.encode(await self._tools.call(name, arguments, self._progress))
            except ValueError as error:
                raise Wrong(f"the tool {name}: {type(error).__name__} {error}") from error

    async def _progress(self, done: int, all: int) -> None: ...

    async def _exchange(self, to: str, raw: bytes) -> None:
        port = self._ports[to]
        host = f"127.0.0.1:{port}".encode()
        raw = raw.replace(b"{host}", host).replace(b"{port}", b"%d" % port)
        answer = await _sent(port, raw, QUIET)
        for status in STATUS.findall(answer):
            if status.startswith(b"5") and status != b"501" and b'"overloaded"' not in answer:
                raise Wrong(f"{to} answers {status.decode()}: {_line(answer)}")
        if b"Traceback" in answer:
            raise Wrong(f"{to} answers with a traceback: {answer[-300:]!r}")
        plain = {"serve": "/v1/models", "mcp": "/metrics", "ui": "/metrics"}[to]
        asked = (
            f"GET {plain} HTTP/1.1\r\nHost: {host.decode()}\r\nAuthorization: Bearer {KEY}\r\n\r\n"
        )
        after = await _sent(port, asked.encode(), None)
        if not after.startswith(b"HTTP/1.1 200 "):
            raise Wrong(f"{to} no longer answers: {after[:200]!r}")


async def _sent(port: int, raw: bytes, quiet: float | None) -> bytes:
    """All that comes back until as much was answered as was asked, the server closes, or nothing more has
    come for a while: the server may be waiting for the rest. Of a stream the beginning is enough."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer, asked = b"", raw.count(b" HTTP/1.1\r\n")
    try:
        writer.write(raw)
        while _answers(answer) < asked or not asked:
            async with asyncio.timeout(quiet):
                part = await reader.read(65536)
            answer += part
            if not part or b"text/event-stream" in answer:
                break
    except (ConnectionError, TimeoutError):
        """What has come is what there is."""
    finally:
        writer.close()
    return answer


def _answers(raw: bytes) -> int:
    """How many are complete."""
    many = 0
    while (head := re.match(rb"HTTP/1.1 \d+ .*?\r\n\r\n", raw, re.S)) and many < 9:
        size = re.search(rb"content-length: (\d+)", head[0], re.I)
        end = head.end() + int(size[1]) if size else len(raw)
        if len(raw) < end:
            break
        many, raw = many + 1, raw[end:]
    return many


def _line(answer: bytes) -> str:
    body = answer.partition(b"\r\n\r\n")[2]
    found = re.search(rb"unexpected [^<\"]*", body)
    return (found[0] if found else body[:200]).decode(errors="replace")
