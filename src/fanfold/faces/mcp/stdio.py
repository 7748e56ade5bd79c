"""Stdin and stdout for a server that must end at once when it is told to."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator

_CHUNK = 65_536
_WAITING = 64  # lines that wait to be taken, before stdin is left alone


class Lines:
    """Lines of stdin, as an async iterator. `end` ends it, also while nothing comes.

    A thread reads: the loop cannot wait for every kind of stdin, and it must not wait for this one
    when the server is to stop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, handle: int | None = None) -> None:
        self._loop = loop
        self._handle = sys.stdin.fileno() if handle is None else handle
        self._lines: deque[str] = deque()
        self._room = threading.Semaphore(_WAITING)
        self._something = asyncio.Event()
        self._over = False
        threading.Thread(target=self._read, daemon=True).start()

    def __aiter__(self) -> Lines:
        return self

    async def __anext__(self) -> str:
        while not self._lines:
            if self._over:
                raise StopAsyncIteration
            self._something.clear()
            await self._something.wait()
        self._room.release()
        return self._lines.popleft()

    def end(self) -> None:
        self._over = True
        self._lines.clear()
        self._something.set()

    def _arrived(self, line: str | None) -> None:
        if line is None:
            self._over = True
        elif not self._over:
            self._lines.append(line)
        self._something.set()

    def _read(self) -> None:
        """Unbuffered: a thread that holds a buffer's lock would stop the interpreter's end."""
        rest = b""
        with contextlib.suppress(OSError, RuntimeError):  # stdin is closed, or the loop is
            while chunk := os.read(self._handle, _CHUNK):
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    self._room.acquire()
                    text = line.decode("utf-8", "replace")
                    self._loop.call_soon_threadsafe(self._arrived, text)
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._arrived, None)


class _Output:
    """What the SDK writes to, as it expects a file. When nobody reads any more, `gone` is called."""

    def __init__(self, handle: int, gone: Callable[[], None]) -> None:
        self._handle, self._gone = handle, gone

    async def write(self, text: str) -> None:
        try:
            await asyncio.to_thread(self._write, text.encode())
        except OSError:
            self._gone()

    async def flush(self) -> None:
        """Nothing is held back."""

    def _write(self, left: bytes) -> None:
        while left:
            left = left[os.write(self._handle, left) :]


@contextlib.contextmanager
def protocol_output(gone: Callable[[], None]) -> Iterator[_Output]:
    """Stdout for the protocol alone: whatever else this process prints goes to stderr meanwhile."""
    sys.stdout.flush()
    own, errors = sys.stdout.fileno(), sys.stderr.fileno()
    protocol = os.dup(own)
    os.dup2(errors, own)
    try:
        yield _Output(protocol, gone)
    finally:
        sys.stdout.flush()
        os.dup2(protocol, own)
        os.close(protocol)
