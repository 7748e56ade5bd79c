"""A model server on loopback: OpenAI chat completions, Responses and embeddings, Anthropic Messages, and
the batch services of both (`batches`).

In this process: `async with ModelServer(script, prices=...) as server: server.url, server.books`.
In its own process: `python -m fanfold.testing.server --port 0 --latency-ms 50 --books books.jsonl`
prints `{"url": ...}` when it is ready (see `fanfold.testing.running`).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Self

import msgspec

from fanfold.price import FREE, Price
from fanfold.testing.batch_wires import BatchWires, wire_of
from fanfold.testing.batches import BatchTimes
from fanfold.testing.books import Prices, ServerBooks
from fanfold.testing.caches import CachedPart, ServerCaches
from fanfold.testing.http import HttpRequest, ServerConnection, stop_listening
from fanfold.testing.script import Asked, Says, Script, echo
from fanfold.testing.wire import (
    Response,
    Wire,
    WireRequest,
    encode,
    half_of,
    json_response,
    list_models,
    refuse,
    respond,
)
from fanfold.testing.wire_anthropic import ANTHROPIC
from fanfold.testing.wire_embeddings import EMBEDDINGS
from fanfold.testing.wire_openai import OPENAI
from fanfold.testing.wire_responses import RESPONSES

_ASKS = {
    "/v1/chat/completions": OPENAI,
    "/v1/messages": ANTHROPIC,
    "/v1/responses": RESPONSES,
    "/v1/embeddings": EMBEDDINGS,
}
_MODELS = "/v1/models"


class _OpenRequest(msgspec.Struct, frozen=True):
    """A request under way."""

    wire: Wire
    asked: Asked
    says: Says
    connection: ServerConnection
    cached: CachedPart = CachedPart()


class ModelServer:
    """Answers as the script says and keeps the books.

    The script is called when a request arrives, the reply is produced (and billed) after its
    latency, also when the client has gone away meanwhile: so do the real ones. What is still being
    produced when the server closes is billed too. `latency` holds where the script names none.
    `prices`: one for all models, or by model; the models named there are those the server lists.
    `caches`: it keeps what prompts begin with, and reports and bills that; without them it keeps nothing.
    A script that raises, or says what cannot be written, is a defect: the loop logs it and the
    connection is cut.
    """

    def __init__(
        self,
        script: Script = echo,
        *,
        prices: Prices = FREE,
        latency: float = 0.0,
        port: int = 0,
        books: Path | None = None,
        caches: ServerCaches | None = None,
        batches: BatchTimes = BatchTimes(),
    ) -> None:
        self.books, self.caches = ServerBooks(prices, books), caches
        self._batches = BatchWires(batches, script, self.books)
        self._script, self._latency, self._port = script, latency, port
        self._names = list(prices) if isinstance(prices, Mapping) else ["test-model"]
        self._making: dict[int, tuple[_OpenRequest, asyncio.TimerHandle]] = {}
        self._begun: dict[int, int] = {}  # bytes of a reply that are sent already
        self._hung: dict[ServerConnection, int] = {}
        self._connections: set[ServerConnection] = set()
        self._closing = False
        self._deserted = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def __repr__(self) -> str:
        books = self.books
        return f"<ModelServer asked={len(books)} in_flight={books.in_flight} bill={books.bill}>"

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._server = await self._loop.create_server(
            self._connect, "127.0.0.1", self._port, backlog=1024
        )
        self._port = self._server.sockets[0].getsockname()[1]
        self._batches.all.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await stop_listening(self._server)
        self._closing = True
        self._batches.all.close()
        for work, timer in list(self._making.values()):
            timer.cancel()
            work.connection.cut()
            self._produce(work)
        for connection in list(self._connections):
            connection.cut()
        if self._connections:
            await self._deserted.wait()
        await self._server.wait_closed()
        self.books.close()

    @property
    def url(self) -> str:
        """Without a path: an OpenAI client usually wants `/v1` behind it."""
        return f"http://127.0.0.1:{self._port}"

    async def idle(self) -> None:
        """Wait until nothing is under way. A request that hangs is, until its client leaves."""
        await self._idle.wait()

    def release(self) -> None:
        """What is under way is answered now, however long its latency is."""
        for work, timer in list(self._making.values()):
            timer.cancel()
            self._produce(work)
        self._batches.all.release()

    def _connect(self) -> ServerConnection:
        return ServerConnection(self._handle, self._made, self._lost)

    def _made(self, connection: ServerConnection) -> None:
        self._connections.add(connection)
        if self._closing:
            connection.cut()

    def _lost(self, connection: ServerConnection) -> None:
        self._connections.discard(connection)
        n = self._hung.pop(connection, None)
        if n is not None:
            self.books.settle(n, "hung")
            self._note_idle()
        if self._closing and not self._connections:
            self._deserted.set()

    def _handle(self, request: HttpRequest, connection: ServerConnection) -> None:
        wire = _ASKS.get(request.path)
        if request.method == "POST" and wire is not None:
            self._begin(self._work(wire, request, connection))
        elif (wire := wire_of(request.path)) is not None:
            self._manage(wire, request, connection)
        elif request.method == "GET" and request.path == _MODELS:
            wire = ANTHROPIC if "anthropic-version" in request.headers else OPENAI
            self._begin(self._scripted(wire, self._asked(wire, request, WireRequest()), connection))
        elif request.method == "GET" and request.path == "/totals":
            totals = self.books.totals(time.process_time())
            connection.send(json_response(200, encode(totals)))
        elif request.method == "GET" and request.path == "/release":
            self.release()
            connection.send(json_response(200, b"{}"))
        elif request.method == "GET" and request.path == "/idle":
            waiting = self._loop.create_task(self.idle())
            waiting.add_done_callback(lambda done: connection.send(json_response(200, b"{}")))
        else:
            body = refuse(OPENAI, 0, 404, f"Invalid URL ({request.method} {request.path})")
            connection.send(body.sent)

    def _manage(self, wire: Wire, request: HttpRequest, connection: ServerConnection) -> None:
        """A request about batches or files: what is wanted is done at once, whatever becomes of the
        response."""
        sent, says = self._batches.carry_out(wire, request, self.url)
        if says.drop is not None:
            connection.cut(half_of(sent) if says.drop == "mid" else b"")
        elif not says.hang:
            self._loop.call_later(says.latency or 0.0, connection.send, sent)

    def _asked(self, wire: Wire, request: HttpRequest, reading: WireRequest) -> Asked:
        asked = Asked(
            n=len(self.books) + 1,
            path=request.path,
            wire=wire.name,
            headers=request.headers,
            model=reading.model,
            system=reading.system,
            messages=reading.messages,
            prompt=reading.prompt,
            max_tokens=reading.max_tokens,
            schema=reading.schema,
            tool=reading.tool,
            stream=reading.stream,
            raw=request.body,
            files=reading.files,
        )
        self.books.arrive(asked)
        self._idle.clear()
        return asked

    def _work(self, wire: Wire, request: HttpRequest, connection: ServerConnection) -> _OpenRequest:
        try:
            reading = wire.read(request.body, request.headers)
        except msgspec.DecodeError as error:
            says = Says(status=400, message=str(error), latency=0.0)
            return _OpenRequest(wire, self._asked(wire, request, WireRequest()), says, connection)
        return self._scripted(wire, self._asked(wire, request, reading), connection)

    def _scripted(self, wire: Wire, asked: Asked, connection: ServerConnection) -> _OpenRequest:
        try:
            says, cached = self._script(asked), CachedPart()
            if self.caches is not None and says.status == 200 and asked.path in _ASKS:
                cached = self.caches.arrive(asked)
            return _OpenRequest(wire, asked, says, connection, cached)
        except msgspec.ValidationError as error:
            says = Says(status=400, message=str(error), latency=0.0)
            return _OpenRequest(wire, asked, says, connection)
        except Exception:
            self._give_up(asked, connection)
            raise

    def _give_up(self, asked: Asked, connection: ServerConnection) -> None:
        self.books.settle(asked.n, "dropped")
        connection.cut()
        self._note_idle()

    def _begin(self, work: _OpenRequest) -> None:
        says, n = work.says, work.asked.n
        latency = self._latency if says.latency is None else says.latency
        if says.hang:
            self._hung[work.connection] = n
        elif latency > 0:
            if says.first is not None and work.asked.stream:
                self._loop.call_later(says.first, self._begin_reply, work)
            self._making[n] = work, self._loop.call_later(latency, self._produce, work)
        else:
            self._produce(work)

    def _begin_reply(self, work: _OpenRequest) -> None:
        """The first event of a streamed reply, before the others."""
        if work.asked.n not in self._making:
            return
        sent = self._response(work).sent
        first = sent.index(b"\r\n\r\n") + 4
        first = sent.index(b"\n\n\r\n", first) + 4
        self._begun[work.asked.n] = first
        work.connection.push(sent[:first])
        if self.caches is not None:
            self.caches.begin(work.cached)

    def _produce(self, work: _OpenRequest) -> None:
        """The reply is there: into the books first, then out."""
        n, connection = work.asked.n, work.connection
        self._making.pop(n, None)
        response = self._response(work)
        end = response.end if connection.open else "gone"
        self.books.settle(n, end, status=response.status, usage=response.usage)
        if self.caches is not None:
            self.caches.begin(work.cached)
        left = response.sent[self._begun.pop(n, 0) :]
        if response.whole:
            connection.send(left)
        else:
            connection.cut(left)
        self._note_idle()

    def _response(self, work: _OpenRequest) -> Response:
        wire, asked, says = work.wire, work.asked, work.says
        try:
            if asked.path == _MODELS:
                return list_models(wire, asked, says, self._names)
            return respond(wire, asked, says, work.cached[:2])
        except Exception:
            self._give_up(asked, work.connection)
            raise

    def _note_idle(self) -> None:
        if self.books.in_flight == 0:
            self._idle.set()


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fanfold.testing.server")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency-ms", type=float, default=0.0)
    parser.add_argument("--books", type=Path, help="append a JSON line per request that ended")
    parser.add_argument("--script", metavar="MODULE:ATTR", help="a callable from Asked to Says")
    parser.add_argument("--price-in", type=float, default=0.0, help="$ per million tokens")
    parser.add_argument("--price-out", type=float, default=0.0)
    parser.add_argument("--price-cache-read", type=float)
    parser.add_argument("--price-cache-write", type=float)
    parser.add_argument("--batches", type=Path, help="a folder: keep batches and files there")
    parser.add_argument("--batch-ms", type=float, default=0.0, help="until a line is done")
    parser.add_argument("--batch-cancel-ms", type=float, default=0.0)
    parser.add_argument("--batch-expires-ms", type=float, default=86_400_000.0)
    parser.add_argument("--caches", action="store_true", help="keep what prompts begin with")
    parser.add_argument("--until-stdin-closes", action="store_true")
    return parser


def load_script(target: str | None) -> Script:
    """`module:attribute`; without one, the script that echoes."""
    if target is None:
        return echo
    module, _, attribute = target.partition(":")
    script: Script = getattr(import_module(module), attribute)
    return script


def _wait_for_stdin(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    loop.call_soon_threadsafe(stop.set)


async def _main(options: argparse.Namespace) -> None:
    price = Price(
        input=options.price_in,
        output=options.price_out,
        cache_read=options.price_cache_read,
        cache_write=options.price_cache_write,
    )
    server = ModelServer(
        load_script(options.script),
        prices=price,
        latency=options.latency_ms / 1000,
        port=options.port,
        books=options.books,
        caches=ServerCaches() if options.caches else None,
        batches=BatchTimes(
            options.batch_ms / 1000, options.batch_cancel_ms / 1000,
            options.batch_expires_ms / 1000, options.batches,
        ),
    )  # fmt: skip
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if options.until_stdin_closes:
        ending = (loop, stop)
        threading.Thread(target=_wait_for_stdin, args=ending, daemon=True).start()
    async with server:
        sys.stdout.write(encode({"url": server.url}).decode() + "\n")
        sys.stdout.flush()
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(_main(_options().parse_args()))
