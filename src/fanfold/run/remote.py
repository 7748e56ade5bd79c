"""Members that are asked on other machines: which of them are, and where."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Protocol

import msgspec

from fanfold.journal import opening
from fanfold.journal.places import scheme_of
from fanfold.members.kinds import WORKERS
from fanfold.run.executor import LocalExecutor
from fanfold.run.hosts import HostGroup
from fanfold.run.member_sources import MemberSource, QueuedMembers
from fanfold.run.queue_client import QueueClient
from fanfold.run.ray import RayClient
from fanfold.work.ask import Reply
from fanfold.work.member import Member, Request, SshHosts, Tell, Traits


def lacking_workers(source: MemberSource, store: str) -> list[str]:
    """Lines about the members `at: workers` whose asks nobody would take now."""
    placed = [one for one in source.traits.values() if one.at == WORKERS and one.enabled]
    place = source.settings.queue or store
    if not placed or not opening.server(place):
        return []
    state = opening.open_queue(place).state()
    found = [(traits.id, state.trouble(traits)) for traits in placed]
    return [f"{id}: {why}; its asks wait until a worker takes them" for id, why in found if why]


class Remote(Protocol):
    """Where members are asked that are not of this process: a queue, or hosts over ssh."""

    @property
    def identity(self) -> str: ...

    def can_find(self, queue: str) -> bool: ...

    async def open(self) -> None: ...

    async def ask(self, traits: Traits, request: Request, tell: Tell) -> Reply: ...

    async def has_trace(self, request: Request) -> bool: ...

    async def adopt(self, traits: Traits, request: Request) -> Reply: ...

    async def deliver(self, span: str, number: int, text: str) -> bool: ...

    def forget(self, span: str) -> None: ...

    async def take_back(self, span: str) -> bool: ...

    def leave(self, why: str) -> None: ...

    def end_agents(self, message: str, item: str) -> None: ...

    async def close(self) -> None: ...


class PlacedExecutor(LocalExecutor):
    """Asks members of this process, and those of workers elsewhere."""

    def __init__(self, store: str, source: MemberSource) -> None:
        super().__init__()
        self._place, self._source = source.settings.queue or store, source
        self._remotes: dict[SshHosts | None, Remote] = {}
        self._placed: dict[str, tuple[Traits, Remote]] = {}

    def add(self, member: Member) -> None:
        super().add(member)
        traits = member.traits
        if not traits.at:
            return
        if traits.hosts not in self._remotes:
            self._remotes[traits.hosts] = self._remote(traits)
        remote = self._remotes[traits.hosts]
        self._placed[traits.id] = traits, remote
        self._asks[traits.id] = partial(self._ask_elsewhere, traits.id)

    async def _ask_elsewhere(self, member: str, request: Request, tell: Tell) -> Reply:
        """An agent's worktree goes along, and comes back as a branch."""
        traits, remote = self._placed[member]
        if not traits.agent:
            return await remote.ask(traits, request, tell)
        request = await self._agent(member).packed(self._followed(member, request))
        reply = await remote.ask(traits, request, tell)
        await self._agent(member).bring_back(request.span, request.store, reply)
        return reply

    async def _adopt_elsewhere(self, member: str, request: Request) -> Reply:
        traits, remote = self._placed[member]
        if not traits.agent:
            return await remote.adopt(traits, request)
        reply = await remote.adopt(traits, self._followed(member, request))
        await self._agent(member).bring_back(request.span, request.store, reply)
        return reply

    def _followed(self, member: str, request: Request) -> Request:
        return msgspec.structs.replace(request, mirror=str(self.place_of(member, request)))

    def _remote(self, traits: Traits) -> Remote:
        if traits.hosts is not None:
            return HostGroup(traits.hosts)
        if scheme_of(self._place) == "ray":
            return RayClient(self._place)
        if isinstance(self._source, QueuedMembers):
            return QueueClient(self._source.open_queue)
        if not opening.server(self._place):
            what = (
                f"member {traits.id} is `at: workers`, and the store {self._place} is not on PostgreSQL;"
                " use such a store, or name a queue in the roster: settings: {queue: postgresql://…}"
            )
            raise self._source.bad(traits.id, what, "at")
        return QueueClient(partial(opening.open_queue, self._place))

    def queue_of(self, member: str) -> str:
        return self._placed[member][1].identity if member in self._placed else ""

    def can_find(self, member: str, queue: str) -> bool:
        if member not in self._placed:
            return super().can_find(member, queue)
        return self._placed[member][1].can_find(queue)

    async def open(self, member: str) -> None:
        if member not in self._placed:
            await super().open(member)
        else:
            await self._placed[member][1].open()
            self.opened.add(member)

    async def has_trace(self, member: str, request: Request) -> bool:
        if member not in self._placed:
            return await super().has_trace(member, request)
        return await self._placed[member][1].has_trace(request)

    def adopt(self, member: str, request: Request, tell: Tell) -> Awaitable[Reply | None]:
        if member not in self._placed:
            return super().adopt(member, request, tell)
        return self._adopt_elsewhere(member, request)

    def forget(self, member: str, span: str) -> None:
        if member in self._placed:
            self._placed[member][1].forget(span)

    async def deliver(self, member: str, span: str, store: str, number: int, text: str) -> bool:
        if member not in self._placed:
            return await super().deliver(member, span, store, number, text)
        return await self._placed[member][1].deliver(span, number, text)

    async def take_back(self, member: str, span: str) -> bool:
        return member in self._placed and await self._placed[member][1].take_back(span)

    def leave(self, why: str) -> None:
        for remote in self._remotes.values():
            remote.leave(why)

    def end_agents(self, why: str, message: str, item: str = "") -> None:
        super().end_agents(why, message, item)
        for remote in self._remotes.values():
            remote.end_agents(message, item)

    async def close(self) -> None:
        self.opened.difference_update(self._placed)
        await super().close()
        for remote in self._remotes.values():
            await remote.close()
