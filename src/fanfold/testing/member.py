"""A member that says what a script tells it to, and keeps count of what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from fanfold.price import Price, cost
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.member import MemberLimits, Request, Tell, Traits

Script = Callable[[Ask, int], Reply | Exception | Awaitable[Reply | Exception]]


def traits(id: str = "scripted", **changes: object) -> Traits:
    """Those of a paid API model, with any of them changed."""
    plain = Traits(
        id=id, kind="scripted", sees_ask=True, answerer=f"scripted:{id}", price=Price(input=1.0, output=5.0),
        max_tokens=100, timeout=60.0, limits=MemberLimits(concurrency=64), pool=id,
    )  # fmt: skip
    return msgspec.structs.replace(plain, **changes)


class Scripted:
    """`script(ask, n)` gives the n-th reply (from 0), or an exception to raise; it may be async.

    `asked` are the prompts in order, `bill` what a provider would charge for the replies given.
    """

    def __init__(self, script: Script, like: Traits | None = None, latency: float = 0.0) -> None:
        self._script, self._latency = script, latency
        self._traits = like or traits()
        self.asked: list[str] = []
        self.bill = 0
        self.in_flight = self.most_in_flight = 0

    @property
    def traits(self) -> Traits:
        return self._traits

    async def open(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""

    def prepare(self, ask: Ask) -> Request:
        text = sum(len(message.content.encode()) for message in ask.conversation())
        return Request(ask, b"", text + 1024, ask.params.max_tokens or self._traits.max_tokens)

    async def ask(self, request: Request, tell: Tell) -> Reply:
        number = len(self.asked)
        self.asked.append(request.ask.conversation()[-1].content if request.ask.messages else "")
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if self._latency:
                await asyncio.sleep(self._latency)
            given = self._script(request.ask, number)
            if isinstance(given, Awaitable):
                given = await given
        finally:
            self.in_flight -= 1
        if isinstance(given, Exception):
            raise given
        self._charge(given.usage)
        return given

    def _charge(self, usage: Usage | None) -> None:
        price = self._traits.price
        if usage is not None and price is not None:
            self.bill += cost(price, usage.input, usage.output, usage.cache_read, usage.cache_write)
