"""A run's end of a queue: members that are asked on other machines, and the answers that come back.

All policy stays with the run: money is reserved and the attempt is on record before its ask is put into
the queue. There it stays until how it ended is on record too, so a resumed run finds what its dead
process had asked for: an answer, an ask under way, or nothing, and then nothing was sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fanfold.errors import InvalidReply, MemberError, StoreError, Terminal
from fanfold.journal.queue import QueuedAsk, RunEnd
from fanfold.members.agents.mirror import Mirror
from fanfold.work.ask import Reply
from fanfold.work.batch import NeverSubmitted
from fanfold.work.file_pieces import FilePiece
from fanfold.work.member import Event, Request, Tell, Traits
from fanfold.work.wire import (
    carried_by,
    contents_folder,
    decode_answer,
    encode_request,
    left_by,
    read_carried,
    unpack,
)

ANSWERED = "another request for the same was answered"
LOOK = 2.0  # seconds between looks at the workers, and at a queue that says nothing
CLOSING = 10.0  # seconds for the last statements
SOON = 0.3  # seconds between looks whether an agent has a message
HANDED_WITHIN = 30.0  # seconds until a message that no worker has begun to give is taken back
ADOPTION = 60.0  # seconds in which the next worker on a machine takes over its agents


class QueueClient:
    """A run's end of a queue. Asks that wait cost no thread: one task puts in, in groups, what has come
    up since it last looked, and hands out the answers that are there."""

    def __init__(self, opened: Callable[[Callable[[str], None]], RunEnd]) -> None:
        """`opened` gets what is called when something may have changed."""
        self._changed = asyncio.Event()
        self.queue = opened(lambda payload: self._changed.set())
        self._opening: asyncio.Future[None] | None = None
        self._waiting: dict[str, asyncio.Future[bytes]] = {}
        self._agents: dict[str, str] = {}  # of those that wait, each with its item
        self._mirrors: dict[str, Mirror] = {}  # of these, their folders as they are followed here
        self.where = "a worker"
        self._to_put: list[QueuedAsk] = []
        self._to_own: list[str] = []
        self._to_cancel: list[str] = []
        self._to_end: dict[str, str] = {}  # agents, each with what is said of its end
        self._to_forget: list[str] = []
        self._to_take_back: dict[str, asyncio.Future[bool]] = {}
        self._taken_back: set[str] = set()
        self._bringing: set[str] = set()  # asks whose files go ahead of them
        self._handed: set[str] = set()  # answers that are given out, and not forgotten yet
        self._missed: dict[str, float] = {}  # workers that are dead, since when
        self._task: asyncio.Task[None] | None = None
        self._closing, self._leaving = False, ""
        self.broken: BaseException | None = None

    @property
    def identity(self) -> str:
        return self.queue.identity

    def can_find(self, queue: str) -> bool:
        return queue == self.identity

    async def has_trace(self, request: Request) -> bool:
        return await self.queue.has_trace(request.span)

    async def open(self) -> None:
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._open())
        await asyncio.shield(self._opening)

    async def _open(self) -> None:
        await self.queue.enter()
        self._task = asyncio.create_task(self._carry())
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """The queue cannot be used any more: nobody waits for it in vain."""
        for back in self._to_take_back.values():
            if not back.done():
                back.set_result(False)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.broken, unsent = error, {ask.span for ask in self._to_put}
            for span in tuple(self._waiting):
                self._fail(span, f"the queue cannot be used: {error}", span not in unsent)

    async def ask(self, traits: Traits, request: Request, tell: Tell) -> Reply:
        tell(Event("note", f"{traits.id} waits for a worker", {"member": traits.id}))
        if self.broken is not None:
            raise Terminal(f"the queue cannot be used: {self.broken}", scope="member")
        await self._bring(request)
        ask = QueuedAsk(
            request.span, traits.id, traits.offered_as, traits.tags, encode_request(request)
        )
        self._to_put.append(ask)
        return await self._answer(traits, request)

    async def _bring(self, request: Request) -> None:
        """What is in its files is in the queue, once for all asks, before the ask is."""
        if not (hashes := carried_by(request)):
            return
        try:
            self._bringing.add(request.span)
            for hash in await self.queue.lacking(hashes):
                content = await asyncio.to_thread(read_carried, request, hash)
                await self.queue.bring(hash, content)
        except StoreError as error:
            raise MemberError(f"its files could not be sent: {error}") from None
        finally:
            self._bringing.discard(request.span)
        if request.span in self._taken_back:
            raise NeverSubmitted(ANSWERED)

    async def _fetch(self, request: Request, reply: Reply) -> None:
        """What is in the files of an answer is here, by hash, before the answer counts."""
        folder = contents_folder(request.store)
        for hash in left_by(reply):
            try:
                content = await self.queue.content(hash, request.span)
                await asyncio.to_thread(unpack, folder, hash, content)
            except (MemberError, StoreError, OSError) as error:
                raise InvalidReply(f"its outputs did not arrive: {error}") from None

    async def adopt(self, traits: Traits, request: Request) -> Reply:
        await self.open()
        if request.span in self._taken_back:
            raise NeverSubmitted(ANSWERED)
        self._to_own.append(request.span)
        return await self._answer(traits, request)

    async def take_back(self, span: str) -> bool:
        """By the one task, which has put it in before, unless its files are still on their way."""
        if span in self._bringing:
            self._taken_back.add(span)
            return True
        if self._task is None or self._task.done():
            return False
        back: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._to_take_back[span] = back
        self._changed.set()
        return await back

    async def _answer(self, traits: Traits, request: Request) -> Reply:
        span, items = request.span, request.ask.items
        waiting = self._waiting[span] = asyncio.get_running_loop().create_future()
        if traits.agent:
            self._agents[span] = items[0].id if items else ""
            self._mirrors[span] = Mirror(Path(request.mirror), self.where, span)
        self._changed.set()
        try:
            answer = decode_answer(await waiting)
        except asyncio.CancelledError:
            self._to_put = [ask for ask in self._to_put if ask.span != span]
            self._to_cancel.append(span)
            self._changed.set()
            raise
        finally:
            del self._waiting[span]
            self._agents.pop(span, None)
            self._mirrors.pop(span, None)
        if isinstance(answer, MemberError):
            raise answer
        if answer.files or answer.branch is not None:
            await self._fetch(request, answer)
        return answer

    def forget(self, span: str) -> None:
        self._to_forget.append(span)

    def leave(self, why: str) -> None:
        """The run stops: what no worker has taken is taken back."""
        self._leaving = why
        self._changed.set()

    def end_agents(self, message: str, item: str) -> None:
        """Their workers end them, and report what they took."""
        wanted = (span for span, id in self._agents.items() if item in ("", id))
        self._to_end.update(dict.fromkeys(wanted, message))
        self._changed.set()

    async def deliver(self, span: str, number: int, text: str) -> bool:
        """Give a message to an agent at work; False: it has not got it, and will not."""
        deadline = asyncio.get_running_loop().time() + HANDED_WITHIN
        while span in self._agents:
            late = asyncio.get_running_loop().time() > deadline
            state = await self.queue.message(span, number, text, last=late)
            if state in ("handed", "refused"):
                return state == "handed"
            await asyncio.sleep(SOON)
        return False

    async def close(self) -> None:
        """A server that is away is not waited for: what is to be forgotten is found by a resumed run."""
        self._closing = True
        self._changed.set()
        if self._task is not None:
            await asyncio.wait((self._task,), timeout=CLOSING)
            self._task.cancel()
        if self._opening is not None:
            await self.queue.leave()

    # ── the one task ──

    async def _carry(self) -> None:
        looked = asyncio.get_running_loop().time()
        while True:
            closing = self._closing
            await self._send()
            answers = await self.queue.answers(self._handed)
            now = asyncio.get_running_loop().time()
            due = bool(self._waiting) and now > looked + LOOK
            if self._mirrors and (due or any(span in self._mirrors for span, _ in answers)):
                await self._follow()
            for span, answer in answers:
                self._hand_out(span, answer)
            if closing:
                return
            if due:
                looked = now
                self.queue.check()  # else no worker takes what is asked here, and nobody notices
                await self._look_for_the_dead(now)
            if not self._changed.is_set():
                with suppress(TimeoutError):  # `wait_for` would start a task for each look
                    async with asyncio.timeout(LOOK):
                        await self._changed.wait()
            self._changed.clear()

    async def _send(self) -> None:
        if cancelled := self._to_cancel:
            self._to_cancel = []
            await self.queue.cancel(cancelled)
        if ended := self._to_end:
            self._to_end = {}
            for span, message in ended.items():
                for withdrawn in await self.queue.cancel([span], message):
                    self._fail(withdrawn, message)
        if asks := self._to_put:
            self._to_put = []
            for span in await self.queue.put(asks):
                self._fail(
                    span, "it was not sent: this process was cut off from the queue for too long"
                )
        if owned := self._to_own:
            self._to_own = []
            await self.queue.own(owned)
        if wanted := tuple(self._to_take_back):
            await self.queue.own(wanted)
            self._took_back(wanted, await self.queue.withdraw(wanted))
        if self._leaving and self._waiting:
            for span in await self.queue.withdraw(tuple(self._waiting)):
                self._end(span, NeverSubmitted(self._leaving))
                self._to_forget.append(span)
        if forgotten := self._to_forget:
            self._to_forget = []
            await self.queue.forget(forgotten)
            self._handed.difference_update(forgotten)

    def _took_back(self, wanted: Sequence[str], withdrawn: Collection[str]) -> None:
        self._taken_back.update(withdrawn)
        self._to_forget.extend(withdrawn)
        for span in wanted:
            if span in withdrawn:
                self._end(span, NeverSubmitted(ANSWERED))
            back = self._to_take_back.pop(span)
            if not back.done():
                back.set_result(span in withdrawn)

    def _hand_out(self, span: str, answer: bytes) -> None:
        waiting = self._waiting.get(span)
        self._handed.add(span)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    async def _follow(self) -> None:
        """What agents wrote since; all of it, before their answer counts."""
        mirrors = dict(self._mirrors)
        sizes = await asyncio.to_thread(lambda: {span: one.sizes for span, one in mirrors.items()})
        pieces = await self.queue.shown(sizes)
        await asyncio.to_thread(_put, mirrors, pieces)

    async def _look_for_the_dead(self, now: float) -> None:
        """What a dead worker held is in doubt. Its agents may be at work still, and are waited for, so
        that the next worker on their machine can take them over."""
        held = await self.queue.held_by()
        dead = await self.queue.dead(held)
        for worker, spans in held.items():
            if worker not in dead:
                self._missed.pop(worker, None)
                continue
            since = self._missed.setdefault(worker, now)
            for span in spans:
                if span not in self._agents or now > since + ADOPTION:
                    self._fail(
                        span, "its worker died, or was cut off for longer than its lease", True
                    )

    def _fail(self, span: str, why: str, lost: bool = False) -> None:
        self._end(span, MemberError(why, lost=lost))

    def _end(self, span: str, error: MemberError) -> None:
        waiting = self._waiting.get(span)
        if waiting is not None and not waiting.done():
            waiting.set_exception(error)


def _put(mirrors: Mapping[str, Mirror], pieces: Sequence[FilePiece]) -> None:
    """A disk that is full here does not matter to who works there."""
    for piece in pieces:
        if piece.span in mirrors:
            with suppress(OSError):
                mirrors[piece.span].put(piece)
