"""Waiting for the end of a process that need not be our child."""

from __future__ import annotations

import asyncio
import os

from fanfold.members.agents.processes import living
from fanfold.members.agents.worker import Process


async def gone(process: Process, poll: float) -> None:
    """Returns once it has ended. The kernel tells where it can (Linux); else we look every `poll`
    seconds, as also when there are no handles left."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):
        await by_looking(process, poll)
        return
    try:
        if living(process):  # the handle is its own, not that of another with the same number
            await _readable(handle)
    finally:
        os.close(handle)


async def by_looking(process: Process, poll: float) -> None:
    while True:
        if not living(process):
            return
        await asyncio.sleep(poll)


async def _readable(handle: int) -> None:
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    loop.add_reader(handle, told.set)
    try:
        await told.wait()
    finally:
        loop.remove_reader(handle)
