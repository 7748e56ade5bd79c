"""Can a member be used from here? Looks without asking anything that costs."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from urllib.parse import urlsplit

from fanfold.errors import FanfoldError
from fanfold.members.roster import Roster
from fanfold.members.stated import APIS
from fanfold.members.unloaded import look_for

SECONDS = 3.0


async def trouble_with(roster: Roster, id: str, folder: Path) -> str | None:
    """None: it can be used. Otherwise what is in the way, in a few words."""
    entry = roster.entry(id)
    try:
        roster.check_keys([id])
        if entry.traits.kind == "function":  # looking at it does not run it
            look_for(entry.target, folder, file=roster.file, line=entry.line("target"))
            return None
        member = roster.build(id, folder=folder)
        await member.open()
        await member.close()
    except FanfoldError as error:
        return str(error)
    if entry.traits.kind == "command" and shutil.which(entry.cmd[0], path=None) is None:
        return f"{entry.cmd[0]}: no such program"
    if (
        entry.traits.agent
        and shutil.which(program := entry.setup.program or entry.traits.kind) is None
    ):
        return f"{program}: no such program"
    return await _connection_trouble(entry.base_url) if entry.traits.kind in APIS else None


async def _connection_trouble(url: str) -> str | None:
    """Behind a proxy this may be wrong: it tries to connect directly."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(SECONDS):
            _, writer = await asyncio.open_connection(parts.hostname, port)
    except (OSError, TimeoutError):
        return f"{parts.hostname}:{port} cannot be reached"
    writer.close()
    return None
