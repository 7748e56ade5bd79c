"""The model server in a process of its own, for crash tests and benches."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import msgspec

from fanfold.price import FREE, Price
from fanfold.testing.books import Books, Totals


class RunningServer(msgspec.Struct, frozen=True):
    """A server that outlives the clients it is tested with."""

    url: str
    pid: int
    file: Path

    def books(self) -> Books:
        """What has ended so far, as the file has it. See `wait_idle`."""
        return Books.read(self.file)

    def totals(self) -> Totals:
        """Also what is in flight, and the CPU seconds used. Blocks for one short request."""
        with urlopen(f"{self.url}/totals") as response:
            return msgspec.json.decode(response.read(), type=Totals)

    def wait_idle(self) -> None:
        """Block until nothing is under way: after a kill, until all that was asked is billed."""
        with urlopen(f"{self.url}/idle") as response:
            response.read()


@contextmanager
def running_server(
    books: Path,
    *,
    script: str | None = None,
    price: Price = FREE,
    latency_ms: float = 0.0,
    port: int = 0,
) -> Iterator[RunningServer]:
    """Start it, wait until it is ready, stop it at the end. `script` is `module:attribute`,
    importable from where this process imports. It also ends when this process dies.
    """
    command = [sys.executable, "-m", "fanfold.testing.server", "--until-stdin-closes"]
    command += [f"--port={port}", f"--latency-ms={latency_ms}", f"--books={books}"]
    command += _price_options(price) + ([] if script is None else [f"--script={script}"])
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


def _price_options(price: Price) -> list[str]:
    options = [f"--price-in={price.input}", f"--price-out={price.output}"]
    if price.cache_read is not None:
        options.append(f"--price-cache-read={price.cache_read}")
    if price.cache_write is not None:
        options.append(f"--price-cache-write={price.cache_write}")
    return options
