"""An MCP server that is a program of ours: its messages on stdin and stdout, its end with all its children.

Not the SDK's own transport: that leaves the children of a server alone which ends when its stdin does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import IO, Any

from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from fanfold.work.started import MAX_BYTES

GRACE = 2.0  # seconds for a server to end by itself when its stdin does
_POLL = 0.01


@asynccontextmanager
async def started(
    words: Sequence[str], folder: str, env: Mapping[str, str], log: IO[str]
) -> AsyncIterator[Any]:
    """The two streams of a client. When this is left, the program and its children are gone. Raises
    OSError when it cannot be started."""
    process = _launch(words, folder, env, log)
    pumps: list[asyncio.Task[None]] = []
    try:
        async with create_client_server_memory_streams() as (client, (sent, received)):
            pumps.append(asyncio.create_task(_write(process, sent)))
            pumps.append(asyncio.create_task(_read(process, received)))
            yield client
    finally:
        for one in pumps:
            one.cancel()
        await asyncio.shield(_end(process, pumps))


def _launch(
    words: Sequence[str], folder: str, env: Mapping[str, str], log: IO[str]
) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        words, stdin=pipe, stdout=pipe, stderr=log, cwd=folder, env=env, bufsize=0,
        start_new_session=True,
    )  # fmt: skip


async def _write(process: subprocess.Popen[bytes], sent: Any) -> None:
    assert process.stdin is not None
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, process.stdin
    )
    pipe = asyncio.StreamWriter(transport, protocol, None, loop)
    try:
        with contextlib.suppress(OSError):
            async for one in sent:
                text = one.message.model_dump_json(by_alias=True, exclude_unset=True)
                pipe.write(text.encode() + b"\n")
                await pipe.drain()
    finally:
        pipe.close()


async def _read(process: subprocess.Popen[bytes], received: Any) -> None:
    """A line is a message; one that is none is told to the session as an error. At its end, so is the
    session's."""
    assert process.stdout is not None
    loop, lines = asyncio.get_running_loop(), asyncio.StreamReader(limit=MAX_BYTES)
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), process.stdout
    )
    try:
        async with received:
            while line := await lines.readline():
                try:
                    told: Any = SessionMessage(
                        jsonrpc_message_adapter.validate_json(line, by_name=False)
                    )
                except ValueError as error:
                    told = error
                await received.send(told)
    except ValueError:  # a line longer than anybody reads: the session is over
        pass
    finally:
        transport.close()


async def _end(process: subprocess.Popen[bytes], pumps: list[asyncio.Task[None]]) -> None:
    """It is reaped only when its group was killed: until then its number is nobody else's."""
    await asyncio.gather(*pumps, return_exceptions=True)
    loop = asyncio.get_running_loop()
    until = loop.time() + GRACE
    while loop.time() < until and not _has_ended(process.pid):  # noqa: ASYNC110
        await asyncio.sleep(_POLL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await asyncio.to_thread(process.wait)


def _has_ended(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True
