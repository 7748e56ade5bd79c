"""A member with a batch service of its own, on any clock: what it was asked, and what it would bill."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from fanfold.clock import Clock
from fanfold.errors import MemberError, RateLimited, Transient
from fanfold.price import Price
from fanfold.testing.member import Scripted, traits
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.batch import BatchLine, BatchState, LineEnd, LineResult
from fanfold.work.member import Request, Traits

USED = Usage(100, 10)
PRICE = Price(input=1.0, output=5.0)
ONLINE = 100 * 1_000 + 10 * 5_000


class HeldBatch(NamedTuple):
    """A batch at the service; `cancelled`: when its end was wanted."""

    id: str
    name: str
    created: float
    lines: tuple[BatchLine, ...]


class ServiceOnClock:
    """`takes(prompt)`: seconds until a line is done; None: never. `named`: it keeps our names, as OpenAI
    does. `lose`: so many submissions are accepted without an answer. `refuse`: prompts of lines that it
    refuses. `busy`: so many cancellations are not taken. `deaf`: so many looks are refused, to be repeated at
    once."""

    most_lines, most_bytes = 1000, 10_000_000

    def __init__(
        self,
        clock: Clock,
        takes: Callable[[str], float | None],
        *,
        named: bool = True,
        lose: int = 0,
    ) -> None:
        self._clock, self._takes, self.keeps_names, self._lose = clock, takes, named, lose
        self.held: dict[str, HeldBatch] = {}
        self.cancelled: dict[str, float] = {}
        self.refuse: Callable[[str], bool] = lambda prompt: False
        self.looks = self.busy = self.deaf = 0
        self.unheard: MemberError = Transient("connection lost after sending", lost=True)
        self.expires = 1e9  # seconds that a batch has

    async def submit(self, name: str, lines: Sequence[BatchLine]) -> BatchState:
        id = f"b{len(self.held)}"
        self.held[id] = HeldBatch(id, name, self._clock.now(), tuple(lines))
        await asyncio.sleep(0.1)
        if self._lose:
            self._lose -= 1
            raise self.unheard
        return self._state(id)

    async def since(self, created: float, known: Collection[str]) -> list[BatchState]:
        found = [
            one for one in self.held.values() if one.created >= created and one.id not in known
        ]
        return [self._state(one.id) for one in reversed(found)]

    async def look(self, id: str) -> BatchState:
        self.looks += 1
        if self.deaf:
            self.deaf -= 1
            raise RateLimited("rate limited (429)", retry_after=0.0)
        return self._state(id)

    async def cancel(self, id: str) -> None:
        if self.busy:
            self.busy -= 1
            raise Transient("server error")
        self.cancelled.setdefault(id, self._clock.now())

    async def results(self, id: str) -> list[LineResult]:
        return [self._result(self.held[id], line) for line in reversed(self.held[id].lines)]

    def read(self, request: Request, result: LineResult) -> Reply:
        if result.end == "refused":
            raise MemberError("refused by the service")
        return Reply(result.body.decode(), usage=USED)

    # ── what it has ──

    def _ended(self, batch: HeldBatch) -> float:
        """When the last line is done, or its end was wanted and a minute has passed."""
        times = [self._takes(line.body.decode()) for line in batch.lines]
        longest = max((1e9 if one is None else one for one in times), default=0.0)
        end = batch.created + min(longest, self.expires)
        return min(end, self.cancelled.get(batch.id, 1e18) + 60.0)

    def _state(self, id: str) -> BatchState:
        batch = self.held[id]
        name = batch.name if self.keeps_names else ""
        ended = self._clock.now() >= self._ended(batch)
        return BatchState(id, ended, len(batch.lines), 0, batch.created, name)

    def _result(self, batch: HeldBatch, line: BatchLine) -> LineResult:
        prompt = line.body.decode()
        if self.refuse(prompt):
            return LineResult(line.id, "refused", b"", 400)
        takes = self._takes(prompt)
        done = takes is not None and batch.created + takes <= self._ended(batch)
        left: LineEnd = "cancelled" if batch.id in self.cancelled else "expired"
        return LineResult(line.id, "answered" if done else left, line.body)

    def answered(self) -> list[str]:
        """The prompts of all lines that are billed."""
        return [
            line.body.decode()
            for batch in self.held.values()
            for line in batch.lines
            if self._result(batch, line).end == "answered"
        ]


class Batching(Scripted):
    """Online it answers with the prompt, after `latency` seconds."""

    def __init__(
        self, service: ServiceOnClock, like: Traits | None = None, latency: float = 2.0
    ) -> None:
        like = like or traits(id="m", batch=0.5, price=PRICE)
        super().__init__(_echo, like, latency)
        self.batches = service

    def prepare(self, ask: Ask) -> Request:
        made = super().prepare(ask)
        text = ask.conversation()[-1].content.encode()
        return Request(ask, text, made.input_tokens, made.output_tokens)


def _echo(ask: Ask, n: int) -> Reply:
    return Reply(ask.conversation()[-1].content, usage=USED)
