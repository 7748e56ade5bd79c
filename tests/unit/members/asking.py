"""Puts one ask to an HTTP member at a server on loopback, and says what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from fanfold.errors import MemberError
from fanfold.members.anthropic import Anthropic
from fanfold.members.openai import OpenAI
from fanfold.testing.script import Asked, Says, Script
from fanfold.testing.server import ModelServer
from fanfold.work.ask import Ask, Message, Reply, Schema
from fanfold.work.member import Event, Tell, Traits, tell_nobody
from tests.unit.members.raw import RawServer, Talk, once, response

KEY = "sk-secret-0123456789"
Kind = type[OpenAI] | type[Anthropic]
HI = Ask((Message("user", "hi"),))
FINDING = Schema.of({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
WANTED = Ask((Message("user", "hi"),), schema=FINDING)
UNCLOSED = Schema.of({"type": "array", "items": {"type": "integer"}})


def member(kind: Kind, base_url: str, key: str | None = KEY, **traits: Any) -> OpenAI | Anthropic:
    of = {"id": "m", "kind": "test", "answerer": "test:x", "model": "x-1", **traits}
    return kind(Traits(**of), base_url, lambda: key)


class Heard(NamedTuple):
    reply: Reply
    events: list[Event]
    server: ModelServer


def listened(
    kind: Kind, script: Script | Says, ask: Ask = HI, *, stream: bool, **traits: Any
) -> Heard:
    """What a scripted model server's reply becomes, streamed or not."""

    async def main() -> Heard:
        events: list[Event] = []
        says = script if callable(script) else lambda asked: script
        async with ModelServer(says) as server:
            one = member(kind, server.url, **traits)
            await one.open()
            try:
                tell: Tell = events.append if stream else tell_nobody
                reply = await one.ask(one.prepare(ask), tell)
            finally:
                await one.close()
        return Heard(reply, events, server)

    return asyncio.run(main())


def told(kind: Kind, talk: Talk, ask: Ask = HI, *, stream: bool = False, **traits: Any) -> Reply:
    """What an answer written byte for byte becomes."""

    async def main() -> Reply:
        async with RawServer(talk) as server:
            one = member(kind, server.url, **traits)
            await one.open()
            try:
                return await one.ask(one.prepare(ask), [].append if stream else tell_nobody)
            finally:
                await one.close()

    return asyncio.run(main())


def trouble(of: Callable[[], object]) -> dict[str, Any]:
    """The error as plain data: its kind, its text, and what it carries."""
    with pytest.raises(MemberError) as caught:
        of()
    keeps_the_key_to_itself(caught.value)
    return {"kind": type(caught.value).__name__, "text": str(caught.value), **vars(caught.value)}


def keeps_the_key_to_itself(error: BaseException | None) -> None:
    while error is not None:
        assert KEY not in f"{error} {error!r} {vars(error)}"
        error = error.__cause__ or error.__context__


def refused(kind: Kind, body: bytes, status: int, stream: bool, **headers: str) -> dict[str, Any]:
    """The error from a complete answer with such a status."""
    return trouble(lambda: told(kind, once(response(body, status, **headers)), stream=stream))


def error(name: str, text: str, **more: Any) -> dict[str, Any]:
    """What `trouble` gives for such an error."""
    return {"kind": name, "text": text, "lost": False, **more}


def terminal(text: str, scope: str, **more: Any) -> dict[str, Any]:
    return error("Terminal", text, scope=scope, too_long=False, reset_after=None) | more


def limited(text: str, after: float | None) -> dict[str, Any]:
    return error("RateLimited", text, retry_after=after)


async def hangs(kind: Kind, **traits: Any) -> None:
    """Asks a server that never answers."""
    async with ModelServer(lambda asked: Says(hang=True)) as server:
        one = member(kind, server.url, **traits)
        await one.open()
        try:
            await one.ask(one.prepare(HI), tell_nobody)
        finally:
            await one.close()


async def cancelled_then_asked(kind: Kind, stream: bool) -> Reply:
    """Cancels an ask that the server never answers, then asks again."""
    arrived = asyncio.Event()

    def script(asked: Asked) -> Says:
        arrived.set()
        return Says(hang=True) if asked.n == 1 else Says(text="fine", tells_usage=False)

    async with ModelServer(script) as server:
        one = member(kind, server.url)
        await one.open()
        tell: Tell = [].append if stream else tell_nobody
        asking = asyncio.ensure_future(one.ask(one.prepare(HI), tell))
        await arrived.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        reply = await one.ask(one.prepare(HI), tell)
        await one.close()
        return reply
