"""Where an ask leaves this process: the only caller of a member's `ask`.

All that crosses it is plain data: the member's id, a request, a reply or a `MemberError`. So another
executor may have it carried out elsewhere; policy (slots, money, retries, facts) stays on this side.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container
from functools import partial
from pathlib import Path
from typing import Protocol, cast

from fanfold.errors import TimedOut
from fanfold.journal.submissions import InBatches, SubmissionRecord
from fanfold.work.ask import Reply
from fanfold.work.member import Adopts, Member, Request, Tell


class Executor(Protocol):
    """Carries asks out. `add` and `open` come before the first ask of a member, `close` after the last."""

    def add(self, member: Member) -> None: ...

    async def open(self, member: str) -> None:
        """Get it ready. Several may come here at once; it is opened once."""
        ...

    @property
    def opened(self) -> Container[str]:
        """The members that are ready."""
        ...

    def ask(self, member: str, request: Request, tell: Tell) -> Awaitable[Reply]:
        """The reply; raises a MemberError, or whatever a defective member raises."""
        ...

    async def has_trace(self, member: str, request: Request) -> bool:
        """Did an earlier process start this request's work, so that it may be still there?"""
        ...

    def adopt(self, member: str, request: Request, tell: Tell) -> Awaitable[Reply | None]:
        """Go on with such work. None: nothing is left that could tell how it ended."""
        ...

    def queue_of(self, member: str) -> str:
        """Names where its asks are put in; "" when this process asks it."""
        ...

    def can_find(self, member: str, queue: str) -> bool:
        """Whether it can be told what became of an ask that was put into `queue`."""
        ...

    def forget(self, member: str, span: str) -> None:
        """How an ask ended is on record: nothing of it need be kept elsewhere."""
        ...

    def take_over(self, member: str, record: SubmissionRecord, requests: list[Request]) -> None:
        """Follow a batch that a process which is gone had submitted; `adopt` has its lines then."""
        ...

    def in_batches(self) -> InBatches:
        """What batch services have by now."""
        ...

    def withdraw(self, member: str, span: str) -> bool:
        """Take an ask back. False: it is sent already, or nobody knows."""
        ...

    async def take_back(self, member: str, span: str) -> bool:
        """Another has answered. What nobody has begun is not sent any more, and ends with NeverSubmitted.
        False: somebody has, or nobody knows."""
        ...

    def leave(self, why: str) -> None:
        """The run stops. What nobody has begun is taken back, and ends with NeverSubmitted."""
        ...

    def end_agents(self, why: str, message: str, item: str = "") -> None:
        """End all agents at work, or those of an item, at the operator's order; their asks end with an
        error."""
        ...

    def set_cap(self, member: str, usd: float) -> None:
        """What an agent may spend, from its next start on."""
        ...

    async def deliver(self, member: str, span: str, store: str, number: int, text: str) -> bool:
        """Give a message to an agent at work, once; see `Adopts`."""
        ...

    async def close(self) -> None: ...


class LocalExecutor:
    """Asks members that live in this process."""

    def __init__(self) -> None:
        self._members: dict[str, Member] = {}
        self._asks: dict[str, Callable[[Request, Tell], Awaitable[Reply]]] = {}
        self._opening: dict[str, asyncio.Future[None]] = {}
        self.opened: set[str] = set()

    def add(self, member: Member) -> None:
        """A member that does not watch its own time is cut off a little after it."""
        traits = member.traits
        self._members[traits.id] = member
        keeps_time = traits.keeps_time or traits.timeout <= 0
        self._asks[traits.id] = member.ask if keeps_time else partial(_cut_off, member)

    async def open(self, member: str) -> None:
        opening = self._opening.get(member)
        if opening is None:
            opening = asyncio.ensure_future(self._members[member].open())
            self._opening[member] = opening
        await asyncio.shield(opening)
        self.opened.add(member)

    def ask(self, member: str, request: Request, tell: Tell) -> Awaitable[Reply]:
        return self._asks[member](request, tell)

    async def has_trace(self, member: str, request: Request) -> bool:
        return self._agent(member).has_trace(request.span, request.store)

    def adopt(self, member: str, request: Request, tell: Tell) -> Awaitable[Reply | None]:
        return self._agent(member).adopt(request.span, request.store, tell)

    def queue_of(self, member: str) -> str:
        return ""

    def can_find(self, member: str, queue: str) -> bool:
        return queue == "" and self._members[member].traits.agent

    def forget(self, member: str, span: str) -> None:
        """Nothing is kept."""

    def take_over(self, member: str, record: SubmissionRecord, requests: list[Request]) -> None:
        """There are none."""

    def in_batches(self) -> InBatches:
        return InBatches()

    def withdraw(self, member: str, span: str) -> bool:
        return False

    async def take_back(self, member: str, span: str) -> bool:
        """All that was asked here has begun."""
        return False

    def leave(self, why: str) -> None:
        """All that was asked here has begun."""

    def end_agents(self, why: str, message: str, item: str = "") -> None:
        for member in self._members.values():
            if member.traits.agent:
                cast(Adopts, member).end(why, message, item)

    def set_cap(self, member: str, usd: float) -> None:
        self._agent(member).set_cap(usd)

    async def deliver(self, member: str, span: str, store: str, number: int, text: str) -> bool:
        return await self._agent(member).deliver(span, store, number, text)

    async def close(self) -> None:
        for id, member in self._members.items():
            if id in self.opened:
                await member.close()

    def place_of(self, member: str, request: Request) -> Path:
        """The folder of an agent that works, or worked, for it."""
        return self._agent(member).place_of(request.span, request.store)

    def _agent(self, member: str) -> Adopts:
        return cast(Adopts, self._members[member])


async def _cut_off(member: Member, request: Request, tell: Tell) -> Reply:
    traits = member.traits
    try:
        async with asyncio.timeout(traits.timeout * 1.05 + 1.0):
            return await member.ask(request, tell)
    except TimeoutError:
        raise TimedOut(f"{traits.id}: no answer within {traits.timeout:g} s") from None
