"""`fanfold worker --stdio`: a worker that a run elsewhere has started over a connection, on its own machine.

Its folder is the truth: an ask is durable there before it counts as put in, and so is an answer before it
counts as given. When the connection is lost it finishes what is under way, and ends; the next one that the
run starts has what it left.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from fanfold.errors import FanfoldError
from fanfold.journal.opening import FOLDER, open_folder_queue
from fanfold.journal.queue_calls import (
    MARK,
    CallFrame,
    Hello,
    Returned,
    Told,
    carry_out,
    frame,
    read_call,
)
from fanfold.run.loop import on_ending_signals
from fanfold.run.member_sources import MemberSource
from fanfold.run.worker import Worker, WorkerOptions
from fanfold.work.files import resolved
from fanfold.work.folders import user_folder

SILENCE = 90.0  # seconds without a sign of the near end, which gives one every ten


def queue_folder(roster: Path) -> Path:
    """For each roster and each folder that it is used in another one: asks that were put in for one must
    not be carried out with another."""
    named = f"{resolved(roster)}\n{Path.cwd()}"
    return user_folder("state") / "hosts" / sha256(named.encode()).hexdigest()[:16]


async def serve_stdio(
    source: MemberSource, folder: Path, slots: int, tags: tuple[str, ...]
) -> None:
    streams = await _streams(folder / "worker.log")
    options = WorkerOptions(queue=f"{FOLDER}:{folder}", slots=slots, tags=tags)
    worker = Worker(source, options, _say)
    end = NearEnd(folder, streams)

    def drain(number: signal.Signals) -> None:
        worker.stop()
        end.draining()

    remove = on_ending_signals(drain, signal.SIGINT)
    working = asyncio.create_task(worker.serve())
    try:
        await worker.entered()
        talking = asyncio.create_task(end.serve(worker))
        await asyncio.wait((talking, working), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            worker.stop()
        await working
        talking.cancel()
        await asyncio.wait((talking,))
    finally:
        remove()
        await end.leave()


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _streams(log: Path) -> Streams:
    """The connection, apart from what members of this process may print: that goes to a file, as all
    that would be said for people does once nobody is there."""
    loop = asyncio.get_running_loop()
    near_in, near_out = os.dup(0), os.dup(1)
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(nothing, 0)
    os.dup2(kept, 1)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(near_in, "rb", 0)
    )
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.streams.FlowControlMixin(loop=loop), os.fdopen(near_out, "wb", 0)
    )
    os.set_inheritable(kept, False)
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)


def _say(line: str) -> None:
    with suppress(OSError):
        sys.stdout.write(f"fanfold worker: {line}\n")
        sys.stdout.flush()


class NearEnd:
    """The run's end of the queue in the folder, as long as its connection is there."""

    def __init__(self, folder: Path, streams: Streams) -> None:
        self._reader, self._writer = streams
        self._queue = open_folder_queue(folder, lambda payload: self._send(Told()))
        self._left = False

    async def serve(self, worker: Worker) -> None:
        """Until the connection is lost."""
        await self._queue.enter()
        self._writer.write(MARK)
        self._send(Hello(self._queue.identity, self._queue.session, worker.offer))
        try:
            while True:
                async with asyncio.timeout(SILENCE):
                    asked = await read_call(self._reader)
                self._send(await self._returned(asked))
                await self._writer.drain()
        except (OSError, EOFError, TimeoutError):
            await self.leave()

    async def _returned(self, asked: CallFrame) -> Returned:
        try:
            return Returned(asked.number, await carry_out(self._queue, asked.call))
        except FanfoldError as error:
            return Returned(asked.number, error=str(error))

    def draining(self) -> None:
        self._send(Told(draining=True))

    def _send(self, record: Hello | Returned | Told) -> None:
        with suppress(OSError, RuntimeError):
            self._writer.write(frame(record))

    async def leave(self) -> None:
        """Nothing new is begun for it then."""
        if not self._left:
            self._left = True
            self._writer.close()
            await self._queue.leave()
