"""Members of kind local for tests: with an engine that only pretends, or with the real one."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from fanfold.members.local import Local, LocalFields
from fanfold.members.local_store import (
    ENGINE,
    WEIGHTS,
    cache_folder,
    engine_installed,
    home_of,
    is_there,
)
from fanfold.work.ask import Ask, Message, Params, Reply, Schema
from fanfold.work.member import MemberLimits, Traits, tell_nobody

PRETENDING = Path(__file__).parent / "engine"
T = TypeVar("T")

CACHE = cache_folder()
real_engine = pytest.mark.skipif(
    not (is_there(WEIGHTS, CACHE) and (engine_installed() or is_there(ENGINE, CACHE))),
    reason="the embedded model is not there; `fanfold local setup` fetches it",
)
without_engine = pytest.mark.skipif(
    engine_installed(), reason="the engine is installed, so one from a folder is not used"
)


def pretending(folder: Path) -> Path:
    """A cache with an engine that only pretends, and a model for it."""
    cache = folder / "cache"
    shutil.copytree(PRETENDING, home_of(ENGINE, cache))
    (folder / "tiny.gguf").write_bytes(b"GGUF")
    return cache


def traits(**given: Any) -> Traits:
    usual = {"limits": MemberLimits(concurrency=2), "context": 512, "max_tokens": 64}
    return Traits(id="m", kind="local", answerer="local:x", model="tiny", **{**usual, **given})


def pretender(folder: Path, **given: Any) -> Local:
    fields = LocalFields(**{"model": "tiny.gguf", "slots": 2, "threads": 1, **given})
    return Local(traits(), fields, beside=folder, cache=pretending(folder))


def ask(text: str, schema: dict[str, Any] | None = None, **params: Any) -> Ask:
    made = None if schema is None else Schema.of(schema)
    return Ask((Message("user", text),), schema=made, params=Params(**params))


async def asked(member: Local, one: Ask) -> Reply:
    return await member.ask(member.prepare(one), tell_nobody)


def with_member(member: Local, use: Callable[[Local], Awaitable[T]]) -> T:
    """Opens it, uses it, closes it."""

    async def main() -> T:
        await member.open()
        try:
            return await use(member)
        finally:
            await member.close()

    return asyncio.run(main())


def replied(member: Local, one: Ask) -> Reply:
    return with_member(member, lambda member: asked(member, one))


def is_alive(pid: int) -> bool:
    """One that was killed and not yet reaped by whoever inherited it is dead."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        if Path("/proc/self/stat").exists():
            return False
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True
    return state not in "ZX"
