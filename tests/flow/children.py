"""Processes that carry a Job out and may be killed on the way.

They are forked from a process that has everything imported already, so that one takes no time to
start: a test that kills dozens of them would wait for imports otherwise.
"""

from __future__ import annotations

import asyncio
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import NamedTuple

import msgspec

from tests.flow.crash_child import Job, Told, carried_out
from tests.flow.ready import READY


class Child(NamedTuple):
    process: ForkServerProcess
    told: Connection


def child(job: Job) -> Child:
    told, tell = READY.Pipe(duplex=False)
    process = READY.Process(target=_carry_out, args=(msgspec.json.encode(job), tell))
    process.start()
    tell.close()
    return Child(process, told)


def finished(child: Child) -> Told | None:
    """What it told; None if it was killed."""
    with child.told as told:
        try:
            out = told.recv_bytes()
        except EOFError:
            out = b""
    child.process.join()
    assert child.process.exitcode in (0, -9)
    return msgspec.json.decode(out, type=Told) if child.process.exitcode == 0 else None


def _carry_out(job: bytes, tell: Connection) -> None:
    told = asyncio.run(carried_out(msgspec.json.decode(job, type=Job)))
    tell.send_bytes(msgspec.json.encode(told))
