"""The model server beside what is tested: in a process of its own, or in a thread of this one."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import msgspec

from fanfold.price import FREE, Price
from fanfold.testing.batches import BatchTimes
from fanfold.testing.books import Prices, ServerBooks, Totals
from fanfold.testing.caches import ServerCaches
from fanfold.testing.server import ModelServer, load_script


class RunningServer(msgspec.Struct, frozen=True):
    """A server that outlives the clients it is tested with."""

    url: str
    pid: int
    file: Path

    def books(self) -> ServerBooks:
        """What has ended so far, as the file has it. See `wait_idle`."""
        return ServerBooks.read(self.file)

    def totals(self) -> Totals:
        """Also what is in flight, and the CPU seconds used. Blocks for one short request."""
        return msgspec.json.decode(self._get("totals"), type=Totals)

    def wait_idle(self) -> None:
        """Block until nothing is under way: after a kill, until all that was asked is billed."""
        self._get("idle")

    def release(self) -> None:
        """Answer what is under way now, however long its latency is: so that a test says for how
        long, and no clock does."""
        self._get("release")

    def _get(self, path: str) -> bytes:
        with urlopen(f"{self.url}/{path}") as response:
            answer: bytes = response.read()
            return answer


@contextmanager
def running_server(
    books: Path,
    *,
    script: str | None = None,
    price: Price = FREE,
    latency_ms: float = 0.0,
    port: int = 0,
    batches: BatchTimes = BatchTimes(),
) -> Iterator[RunningServer]:
    """Start it, wait until it is ready, stop it at the end. `script` is `module:attribute`,
    importable from where this process imports. It also ends when this process dies.
    """
    command = [sys.executable, "-P", "-m", "fanfold.testing.server", "--until-stdin-closes"]
    command += [f"--port={port}", f"--latency-ms={latency_ms}", f"--books={books}"]
    options = [f"--price-in={price.input}", f"--price-out={price.output}"]
    if price.cache_read is not None:
        options.append(f"--price-cache-read={price.cache_read}")
    if price.cache_write is not None:
        options.append(f"--price-cache-write={price.cache_write}")
    options += [f"--batch-ms={batches.latency * 1000}"]
    options += [f"--batch-cancel-ms={batches.cancelling * 1000}"]
    options += [f"--batch-expires-ms={batches.expires * 1000}"]
    if batches.folder is not None:
        options.append(f"--batches={batches.folder}")
    command += options + ([] if script is None else [f"--script={script}"])
    paths = os.pathsep.join(path for path in sys.path if path)
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": paths},
    ) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line:
                raise RuntimeError("the model server did not start; its error is on stderr")
            yield RunningServer(msgspec.json.decode(line)["url"], process.pid, books)
        finally:
            process.terminate()
            process.wait()


@contextmanager
def threaded_server(
    books: Path,
    *,
    script: str | None = None,
    price: Prices = FREE,
    latency_ms: float = 0.0,
    port: int = 0,
    caches: ServerCaches | None = None,
    batches: BatchTimes = BatchTimes(),
) -> Iterator[RunningServer]:
    """The same in a thread of this process, which starts at once. For clients in other processes,
    and for clients here that leave the server time to answer. A script keeps what it has in its
    module from one server to the next.
    """
    server = ModelServer(
        load_script(script), prices=price, latency=latency_ms / 1000, port=port, books=books,
        caches=caches, batches=batches,
    )  # fmt: skip
    started: Future[Callable[[], object]] = Future()
    thread = threading.Thread(target=lambda: asyncio.run(_serve(server, started)), daemon=True)
    thread.start()
    stop = started.result()
    try:
        yield RunningServer(server.url, os.getpid(), books)
    finally:
        stop()
        thread.join()


async def _serve(server: ModelServer, started: Future[Callable[[], object]]) -> None:
    """Until the function that `started` gets is called, from whichever thread."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    try:
        await server.__aenter__()
    except OSError as error:
        started.set_exception(error)
        return
    started.set_result(lambda: loop.call_soon_threadsafe(stop.set))
    await stop.wait()
    await server.__aexit__()
