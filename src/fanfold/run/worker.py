"""A worker: takes asks from a queue, carries them out with the members of its own roster, and reports.

It decides nothing: no money, no retries. What it took it carries out once. Its answer is durable in the
queue before it counts as given, whether the run that asked is still there or not.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib import metadata
from pathlib import Path

import msgspec

from fanfold.errors import BadInput, FanfoldError, MemberError, StoreError, StoreFenced, Terminal
from fanfold.journal import opening
from fanfold.journal.queue import KEPT_DAYS, TakenAsk, WorkerOffer
from fanfold.members.agents.mirror import Followed
from fanfold.run.executor import LocalExecutor
from fanfold.run.member_sources import MemberSource, OpenQueue, QueuedMembers
from fanfold.work.ask import Reply
from fanfold.work.member import Request, tell_nobody
from fanfold.work.wire import (
    carried_by,
    contents_folder,
    decode_request,
    encode_answer,
    left_by,
    unpack,
    unpacked,
)

LOOK = 2.0  # seconds between looks at a queue that says nothing
HELD = 5.0  # seconds between looks at what it holds
SHOWN = 2.0  # seconds between looks at what agents have written
FITTING = 10.0  # seconds between looks whether asks wait that do not fit
Work = Callable[[], Awaitable[Reply | None]]


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    queue: str
    slots: int = 8
    tags: tuple[str, ...] = ()


class Worker:
    """`say` gets lines for people."""

    def __init__(
        self, source: MemberSource, options: WorkerOptions, say: Callable[[str], None]
    ) -> None:
        self._options, self._say = options, say
        self._changed, self._stopping = asyncio.Event(), False
        self._next_look = 0.0
        self._fenced: StoreFenced | None = None
        opened: OpenQueue = partial(opening.open_queue, options.queue)
        if isinstance(source, QueuedMembers):
            opened = source.open_queue
        self._queue = opened(self._heard)
        self._executor = LocalExecutor()
        self.members = self._offered(source)
        self._agents = {id for id in self.members if source.traits[id].agent}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._held: dict[str, str] = {}  # the member of each
        self._delivering: dict[tuple[str, int, str], asyncio.Task[None]] = {}
        self._reports: list[tuple[str, bytes]] = []
        self._files = str(opening.files(options.queue).absolute())
        self._said: set[str] = set()
        self._followed: dict[str, Followed] = {}
        self._showing = asyncio.Lock()
        self._entered = asyncio.Event()
        self.offer = WorkerOffer(
            host=socket.gethostname(), pid=os.getpid(), slots=options.slots, tags=options.tags,
            members=self.members, version=_version(),
        )  # fmt: skip

    async def entered(self) -> None:
        """Until it is known to the queue, and takes asks."""
        await self._entered.wait()

    def _offered(self, source: MemberSource) -> dict[str, str]:
        """Built now, so that a missing key is known before anything is taken."""
        offered = {}
        for id, traits in source.traits.items():
            if traits.enabled and not traits.at:
                self._executor.add(source.build(id))
                offered[id] = traits.answerer
        if not offered:
            raise BadInput(
                "a worker needs members of its own: the roster has none that is asked here"
            )
        return offered

    def stop(self) -> None:
        """Take nothing more, and end when all that is under way is reported; the second time, cancel
        that too."""
        for task in tuple(self._running.values()) if self._stopping else ():
            task.cancel()
        self._stopping = True
        self._changed.set()

    async def serve(self) -> None:
        await asyncio.to_thread(_prune, contents_folder(self._files))
        await self._queue.enter(self.offer)
        self._entered.set()
        slots = self._options.slots
        self._say(f"takes asks for {', '.join(self.members)}; {slots} slots; Ctrl-C drains")
        shown = (self._show_files(),) if self._agents else ()
        beside = [asyncio.create_task(work) for work in (self._watch_fit(), *shown)]
        try:
            await self._work()
            if self._fenced is not None:
                raise self._fenced
        finally:
            for task in beside:
                task.cancel()
            await self._executor.close()
            await self._queue.leave()

    # ── the loop ──

    async def _work(self) -> None:
        while True:
            if reports := self._reports:
                self._reports = []
                await self._queue.report(reports)
                for span, _ in reports:
                    self._running.pop(span, None)
                    self._held.pop(span, None)
            if self._looks():
                await self._reconcile()
            if self._stopping and not self._running:
                return
            await self._take()
            if not self._changed.is_set():
                with suppress(TimeoutError):  # `wait_for` would start a task for each look
                    async with asyncio.timeout(LOOK):
                        await self._changed.wait()
            self._changed.clear()

    async def _take(self) -> None:
        """As many as there are free slots. A worker that may count as dead takes nothing more."""
        free = self._options.slots - len(self._running)
        if self._stopping or free <= 0:
            return
        try:
            asks = await self._queue.take(self.members, self._options.tags, free)
        except StoreFenced as fenced:
            self._fenced, self._stopping = fenced, True
            return
        for ask in asks:
            self._begin(ask, partial(self._ask, ask))

    def _begin(self, ask: TakenAsk, work: Work) -> None:
        self._held[ask.span] = ask.member
        task = self._running[ask.span] = asyncio.create_task(self._carry_out(ask, work))
        task.add_done_callback(lambda done: self._never_began(ask) if done.cancelled() else None)

    def _never_began(self, ask: TakenAsk) -> None:
        self._file(ask, MemberError(f"{ask.member}: cancelled before it was sent"))

    def _looks(self) -> bool:
        """At what it holds: when it is told to, now and then, and before it ends."""
        now = asyncio.get_running_loop().time()
        if now < self._next_look and not (self._stopping and not self._running):
            return False
        self._next_look = now + HELD
        return True

    async def _reconcile(self) -> None:
        """What is to be stopped is cancelled. What was taken when the connection was lost, and is not
        known here, is begun. Agents that another worker of this machine left are taken over."""
        for ask in await self._queue.taken():
            if ask.span not in self._running:
                self._begin(ask, partial(self._ask, ask))
        for span, message in (await self._queue.to_stop()).items():
            if message:
                self._executor.end_agents("killed", message, span)
            elif (task := self._running.get(span)) is not None:
                task.cancel()
        if self._agents:
            for told in await self._queue.messages():
                if told not in self._delivering:
                    self._delivering[told] = asyncio.create_task(self._deliver(*told))
        if self._agents and not self._stopping:
            await self._adopt()

    def _heard(self, payload: str) -> None:
        if payload == "cancel":
            self._next_look = 0.0
        self._changed.set()

    # ── one ask ──

    async def _carry_out(self, ask: TakenAsk, work: Work) -> None:
        answer: Reply | Exception
        if ask.member in self._agents:
            request = self._here(decode_request(ask.request))
            place = self._executor.place_of(ask.member, request)
            self._followed[ask.span] = Followed(place, ask.span)
        try:
            answer = await work() or MemberError(f"{ask.member}: nothing is left of it", lost=True)
        except asyncio.CancelledError:
            answer = await self._cancelled(ask)
        except Exception as error:
            answer = error
        try:
            await self._send_back(ask.span, answer)
        except (StoreError, OSError) as error:
            answer = MemberError(f"{ask.member}: its files could not be sent: {error}", lost=True)
        if (followed := self._followed.pop(ask.span, None)) is not None:
            with suppress(StoreError):
                await self._show([followed])
        self._file(ask, answer)

    def _file(self, ask: TakenAsk, answer: Reply | Exception) -> None:
        self._reports.append((ask.span, encode_answer(answer)))
        self._changed.set()

    async def _cancelled(self, ask: TakenAsk) -> Reply | Exception:
        """It may have been billed. An agent has been ended, and its files say what it took."""
        lost = MemberError(f"{ask.member}: cancelled in mid-call", lost=True)
        if ask.member not in self._agents:
            return lost
        try:
            request = self._here(decode_request(ask.request))
            return await self._executor.adopt(ask.member, request, tell_nobody) or lost
        except asyncio.CancelledError:
            return lost
        except Exception as error:
            return error

    async def _ask(self, ask: TakenAsk) -> Reply:
        request = await self._arrived(self._here(decode_request(ask.request)))
        if ask.member not in self._executor.opened:
            try:
                await self._executor.open(ask.member)
            except MemberError:
                raise
            except FanfoldError as error:
                raise Terminal(str(error), scope="member") from None
        try:
            self._queue.check()
        except StoreFenced as fenced:
            raise MemberError(f"it was not sent: {fenced}") from None
        return await self._executor.ask(ask.member, request, tell_nobody)

    def _here(self, request: Request) -> Request:
        """Its files, and those of what it starts, are on this machine."""
        server = opening.server(self._options.queue)
        return msgspec.structs.replace(request, store=self._files, server=server)

    async def _arrived(self, request: Request) -> Request:
        """What is in its files is on this machine too, by hash."""
        folder = contents_folder(self._files)
        for hash in carried_by(request):
            if not (folder / hash).exists():
                content = await self._queue.content(hash)
                await asyncio.to_thread(unpack, folder, hash, content)
        return unpacked(request, folder)

    async def _send_back(self, span: str, answer: Reply | Exception) -> None:
        """What is in the files of an answer is in the queue before the answer is."""
        for hash in left_by(answer) if isinstance(answer, Reply) else ():
            file = contents_folder(self._files) / hash
            await self._queue.bring(hash, await asyncio.to_thread(file.read_bytes), span)

    # ── what an earlier worker left ──

    async def _adopt(self) -> None:
        """Agents that a dead worker of this machine started: those at work are waited for, those that
        have ended are read."""
        for ask, worker in await self._queue.left_behind(self._agents):
            request = self._here(decode_request(ask.request))
            if not await self._executor.has_trace(ask.member, request):
                continue  # another machine's
            if await self._queue.take_over(ask.span, worker):
                self._say(f"takes over {ask.member} of {ask.span}")
                self._begin(ask, partial(self._executor.adopt, ask.member, request, tell_nobody))

    # ── what agents are told, and what they write ──

    async def _deliver(self, span: str, number: int, text: str) -> None:
        member = self._held.get(span)
        given = self._executor.deliver(member, span, self._files, number, text) if member else None
        try:
            handed = given is not None and await given
        except OSError:  # its files cannot be reached: it has no message
            handed = False
        with suppress(StoreError):
            await self._queue.given(span, number, handed)
        self._delivering.pop((span, number, text), None)

    async def _show_files(self) -> None:
        while True:
            await asyncio.sleep(SHOWN)
            with suppress(StoreError):
                await self._show(list(self._followed.values()))

    async def _show(self, agents: Sequence[Followed]) -> None:
        async with self._showing:
            found = await asyncio.to_thread(
                lambda: [one for agent in agents for one in agent.news()]
            )
            if found:
                await self._queue.show(found)

    # ── whether it fits ──

    async def _watch_fit(self) -> None:
        while True:
            await asyncio.sleep(FITTING)
            with suppress(StoreError):
                state = await asyncio.to_thread(self._queue.state)
                for one in state.workers:
                    for why in one.misfits if one.id == self._queue.session else ():
                        if why not in self._said:
                            self._said.add(why)
                            self._say(f"gets no such asks: {why}")


@cache
def _version() -> str:
    """It is read from a file."""
    return metadata.version("fanfold")


def _prune(folder: Path) -> None:
    """What is in files that nobody has sent for long; it comes again when it is asked for."""
    old = time.time() - KEPT_DAYS * 86400
    for file in folder.iterdir() if folder.is_dir() else ():
        with suppress(OSError):
            if file.stat().st_mtime < old:
                file.unlink()
