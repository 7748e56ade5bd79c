"""Members `at: ssh://host`: the system's ssh starts a worker there, and asks go through its folder.

A connection that is lost is made again, and the worker that it starts has what the one before left: answers
that came meanwhile, asks under way, agents at work. Which of several hosts takes an ask is decided when one
of them has a free slot.
"""

from __future__ import annotations

import asyncio
from collections import deque

from fanfold.errors import FanfoldError, MemberError, StoreError, Terminal
from fanfold.journal.queue import WIRE, misfit
from fanfold.run.queue_client import ANSWERED, QueueClient
from fanfold.run.ssh import SshQueue
from fanfold.work.ask import Reply
from fanfold.work.batch import NeverSubmitted
from fanfold.work.member import Request, SshHosts, Tell, Traits


class HostClient(QueueClient):
    """One host. `busy`: asks that it was given and that are not answered."""

    def __init__(self, url: str, hosts: SshHosts) -> None:
        self.host = SshQueue(url, hosts)
        super().__init__(self.host.heard_by)
        self.where, self.busy = url, 0

    @property
    def free(self) -> int:
        offer = self.host.offer
        usable = offer is not None and self.broken is None and not self.host.draining
        return offer.slots - self.busy if offer is not None and usable else 0

    def trouble(self, traits: Traits) -> str:
        """Why it gets no asks for this member; "" if it does, or will when a slot is free."""
        offer, url = self.host.offer, self.host.url
        if self.broken is not None:
            return str(self.broken)
        if offer is None:
            return self.host.trouble
        if self.host.draining:
            return f"{url}: its worker was told to end"
        if traits.id not in offer.members:
            return f"{url}: the roster there has no {traits.id}"
        why = misfit(offer, traits.id, traits.offered_as, (), WIRE)
        return f"{url}: {why}" if why else ""


class HostGroup:
    """The hosts that a member may be asked on."""

    def __init__(self, hosts: SshHosts) -> None:
        self._hosts = {url: HostClient(url, hosts) for url in hosts.urls}
        self._opening: asyncio.Future[None] | None = None
        self._waiting: deque[tuple[str, asyncio.Future[None]]] = deque()  # with their spans
        self._on: dict[str, HostClient] = {}  # where an ask is, by its span
        self._leaving = ""

    @property
    def identity(self) -> str:
        """The hosts that are connected, each with the id of its folder: an ask is on one of these."""
        known = ((url, host.queue.identity) for url, host in self._hosts.items())
        return " ".join(f"{url}#{id}" for url, id in known if id)

    def can_find(self, queue: str) -> bool:
        return queue != "" and {url for url, _ in _parts(queue)} <= self._hosts.keys()

    async def open(self) -> None:
        """Those that do not answer get no asks; if there are no others, an ask says why."""
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._open())
        await asyncio.shield(self._opening)

    async def _open(self) -> None:
        await asyncio.gather(*(_opened(host) for host in self._hosts.values()))

    async def ask(self, traits: Traits, request: Request, tell: Tell) -> Reply:
        host = await self._free_host(traits, request.span)
        self._on[request.span] = host
        try:
            return await host.ask(traits, request, tell)
        finally:
            self._freed(host)

    async def _free_host(self, traits: Traits, span: str) -> HostClient:
        """The one with the most free slots, which has one less then. Those who wait come in turn."""
        while not self._leaving:
            troubles = {host: host.trouble(traits) for host in self._hosts.values()}
            fitting = [host for host, why in troubles.items() if not why]
            if not fitting:
                raise Terminal("; ".join(troubles.values()), scope="member")
            best = max(fitting, key=lambda host: host.free)
            if best.free > 0:
                best.busy += 1
                return best
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append((span, turn))
            try:
                await turn
            except asyncio.CancelledError:
                self._wake_next()
                raise
        raise NeverSubmitted(self._leaving)

    def _freed(self, host: HostClient) -> None:
        """One that waits may go on; all of them, where a host is lost, since there may be none left."""
        host.busy -= 1
        lost = host.broken is not None or host.host.draining
        for _ in range(len(self._waiting) if lost else 1):
            self._wake_next()

    def _wake_next(self) -> None:
        while self._waiting:
            _, turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    # ── asks of an earlier process ──

    async def has_trace(self, request: Request) -> bool:
        """What cannot be told, since a host does not answer or has lost its folder, may have one."""
        unknown = False
        for url, identity in _parts(request.queue):
            host = self._hosts[url]
            if await _opened(host) or host.queue.identity != identity:
                unknown = True
            elif await host.has_trace(request):
                self._on[request.span] = host
                return True
        return unknown

    async def adopt(self, traits: Traits, request: Request) -> Reply:
        host = self._on.get(request.span)
        if host is None:
            named = ", ".join(url for url, _ in _parts(request.queue))
            raise MemberError(f"{named}: nobody there can say what became of it", lost=True)
        host.busy += 1
        try:
            return await host.adopt(traits, request)
        finally:
            self._freed(host)

    async def deliver(self, span: str, number: int, text: str) -> bool:
        host = self._on.get(span)
        return host is not None and await host.deliver(span, number, text)

    def forget(self, span: str) -> None:
        host = self._on.pop(span, None)
        if host is not None:
            host.forget(span)

    async def take_back(self, span: str) -> bool:
        for one, turn in self._waiting:
            if one == span and not turn.done():  # it waits for a slot: no host has it
                turn.set_exception(NeverSubmitted(ANSWERED))
                return True
        host = self._on.get(span)
        return host is not None and await host.take_back(span)

    def leave(self, why: str) -> None:
        """Those that wait for a slot are not sent."""
        self._leaving = why
        for host in self._hosts.values():
            host.leave(why)
        for _ in range(len(self._waiting)):
            self._wake_next()

    def end_agents(self, message: str, item: str) -> None:
        for host in self._hosts.values():
            host.end_agents(message, item)

    async def close(self) -> None:
        await asyncio.gather(*(host.close() for host in self._hosts.values()))


async def _opened(host: HostClient) -> str:
    """Why it could not be connected; "" if it is."""
    try:
        await host.open()
    except StoreError as error:
        return str(error)
    return ""


def _parts(queue: str) -> list[tuple[str, str]]:
    return [(url, id) for url, _, id in (part.rpartition("#") for part in queue.split())]


async def trouble_with_hosts(traits: Traits) -> str | None:
    """What keeps a member from being asked on its hosts, by connecting to each."""
    assert traits.hosts is not None
    found = []
    for url in traits.hosts.urls:
        host = HostClient(url, traits.hosts)
        try:
            found.append(await _opened(host) or host.trouble(traits))
        except FanfoldError as error:
            found.append(str(error))
        finally:
            await host.close()
    return "; ".join(filter(None, found)) or None
