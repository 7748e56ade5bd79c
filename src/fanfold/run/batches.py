"""Asks for batch services: gathered into submissions, which are on record before they are sent; the answers
back, line by line.

Nothing is forgotten: after a crash the service is asked what it has before anything is repeated. What has
not come in time is cancelled there, and asked online.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Container

from fanfold.clock import Clock
from fanfold.journal.contract import Store
from fanfold.journal.facts import RunRecord
from fanfold.journal.submissions import InBatches, SubmissionRecord
from fanfold.run.executor import Executor
from fanfold.run.submission import BatchedAsk, Submission, SubmissionPlace, cut, reading_of
from fanfold.work.ask import Reply
from fanfold.work.batch import AT_BATCH, SMALL, BatchService, NeverSubmitted
from fanfold.work.member import Member, Request, Tell, Traits

QUIET = 1.0  # seconds without a new ask until those that have come are submitted
LONGEST = 60.0  # seconds that the first of them waits at most
CLOSING = 30.0  # seconds for what is just being sent


class MemberBatches:
    """The batches of one member: asks that wait for one, and those that were submitted."""

    def __init__(self, traits: Traits, service: BatchService, place: SubmissionPlace) -> None:
        self.traits, self.service, self._place = traits, service, place
        self._waiting: dict[str, BatchedAsk] = {}
        self._gathering: asyncio.Task[None] | None = None
        self._lines: dict[str, BatchedAsk] = {}  # that were submitted, by their spans
        self._tasks: set[asyncio.Task[None]] = set()
        self.leaving = ""
        self.left = asyncio.Event()
        self.back = 0

    def ask(self, request: Request) -> asyncio.Future[Reply]:
        one = BatchedAsk(request)
        if self.leaving:
            one.fail(NeverSubmitted(self.leaving))
            return one.reply
        self._waiting[request.span] = one
        if self._gathering is None:
            self._gathering = asyncio.ensure_future(self._gather())
        return one.reply

    def withdraw(self, span: str) -> bool:
        return self._waiting.pop(span, None) is not None

    async def _gather(self) -> None:
        """Until no more come, or they are enough."""
        clock = self._place.clock
        began = clock.monotonic()
        while True:
            many = len(self._waiting)
            await clock.sleep(QUIET)
            if len(self._waiting) == many or clock.monotonic() - began > LONGEST:
                break
        self._gathering = None
        waiting, self._waiting = self._waiting, {}
        groups: dict[tuple[object, ...], list[BatchedAsk]] = {}
        for one in waiting.values():
            if not one.reply.done():
                groups.setdefault((one.batch, reading_of(one.request)), []).append(one)
        for group in groups.values():
            self._submit(group)

    def _submit(self, group: list[BatchedAsk]) -> None:
        """What is not worth a batch, or comes too late for one, is not sent: it goes online."""
        about = group[0].batch
        due = self._place.due(about)
        few = about.auto and len(group) < SMALL
        if few or (due is not None and self._place.too_late(self.traits, due, len(group), about)):
            for one in group:
                one.fail(NeverSubmitted("it goes online"))
            return
        for lines in cut(group, self.service):
            self.carry(Submission(self, self._place, lines, due))

    def carry(self, submission: Submission) -> None:
        """Its lines are the service's from now on."""
        self._lines.update({one.request.span: one for one in submission.lines.values()})
        task = asyncio.ensure_future(submission.carry())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def adopt(self, record: SubmissionRecord, requests: list[Request]) -> None:
        """Go on with one of a process that is gone."""
        lines = [BatchedAsk(request) for request in requests]
        self.carry(Submission(self, self._place, lines, record.due, record))

    def adopted(self, span: str) -> asyncio.Future[Reply]:
        return self._lines[span].reply

    def has_line(self, span: str) -> bool:
        return span in self._lines

    def forget(self, span: str) -> None:
        self.back += self._lines.pop(span, None) is not None

    def figures(self) -> InBatches:
        """Lines that are on their way to a service count too: a resume finds them."""
        sent = [one.since for one in self._lines.values() if one.since]
        lines = len(self._lines)
        return InBatches(lines, 0, min(sent, default=None), self.back, lines - len(sent))

    def leave(self, why: str) -> None:
        """Nobody waits any more. What is being sent comes to its end first; see `Submission`."""
        self.leaving = why
        self.left.set()
        waiting, self._waiting = self._waiting, {}
        for one in waiting.values():
            one.fail(NeverSubmitted(why))
        for line in self._lines.values():
            line.leave(why)

    async def close(self) -> None:
        self.leave(self.leaving or "the run is over")
        tasks = tuple(self._tasks)
        if self._gathering is not None:
            self._gathering.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSING)
        for task in tasks:
            task.cancel()


class BatchExecutor:
    """Asks members by their batch services. They are known as `Traits.asked_as` has it."""

    def __init__(self, store: Store, record: RunRecord, clock: Clock) -> None:
        self._place = SubmissionPlace(store, record, clock)
        self._members: dict[str, MemberBatches] = {}
        self._leaving = ""
        self.opened: set[str] = set()

    def add(self, member: Member) -> None:
        service: BatchService | None = getattr(member, "batches", None)
        traits = member.traits
        if service is not None and traits.batch is not None:
            name = f"{traits.id} by batch"
            self._members[name] = made = MemberBatches(traits, service, self._place)
            made.leaving = self._leaving

    async def open(self, member: str) -> None:
        self.opened.add(member)

    def ask(self, member: str, request: Request, tell: Tell) -> Awaitable[Reply]:
        return self._members[member].ask(request)

    async def has_trace(self, member: str, request: Request) -> bool:
        return self._members[member].has_line(request.span)

    def can_find(self, member: str, queue: str) -> bool:
        return queue == AT_BATCH and member in self._members

    async def deliver(self, member: str, span: str, store: str, number: int, text: str) -> bool:
        """There is nobody to tell."""
        return False

    def adopt(self, member: str, request: Request, tell: Tell) -> Awaitable[Reply | None]:
        return self._members[member].adopted(request.span)

    def queue_of(self, member: str) -> str:
        return AT_BATCH

    def forget(self, member: str, span: str) -> None:
        self._members[member].forget(span)

    def in_batches(self) -> InBatches:
        found = [one.figures() for one in self._members.values()]
        times = [one.oldest for one in found if one.oldest is not None]
        back = sum(one.back for one in found)
        lines, unsure = (sum(getattr(one, n) for one in found) for n in ("lines", "unconfirmed"))
        return InBatches(lines, 0, min(times, default=None), back, unsure)

    def withdraw(self, member: str, span: str) -> bool:
        return self._members[member].withdraw(span)

    async def take_back(self, member: str, span: str) -> bool:
        """What was adopted here has been sent."""
        return False

    def end_agents(self, why: str, message: str, item: str = "") -> None:
        """There are none."""

    def set_cap(self, member: str, usd: float) -> None:
        """There is none."""

    def take_over(self, member: str, record: SubmissionRecord, requests: list[Request]) -> None:
        self._members[member].adopt(record, requests)

    def leave(self, why: str) -> None:
        self._leaving = why
        for one in self._members.values():
            one.leave(why)

    async def close(self) -> None:
        for one in self._members.values():
            await one.close()


class Executors:
    """Each ask to the executor that knows its member by that name."""

    def __init__(self, direct: Executor, batches: BatchExecutor) -> None:
        self._direct, self.batches = direct, batches

    def _of(self, member: str) -> Executor:
        return self.batches if member.endswith(" by batch") else self._direct

    def add(self, member: Member) -> None:
        self._direct.add(member)
        self.batches.add(member)

    async def open(self, member: str) -> None:
        await self._of(member).open(member)

    @property
    def opened(self) -> Container[str]:
        return self._direct.opened

    def ask(self, member: str, request: Request, tell: Tell) -> Awaitable[Reply]:
        chosen = self._direct if request.batch is None else self.batches
        return chosen.ask(member, request, tell)

    async def has_trace(self, member: str, request: Request) -> bool:
        return await self._of(member).has_trace(member, request)

    def can_find(self, member: str, queue: str) -> bool:
        return self._of(member).can_find(member, queue)

    async def deliver(self, member: str, span: str, store: str, number: int, text: str) -> bool:
        return await self._direct.deliver(member, span, store, number, text)

    def adopt(self, member: str, request: Request, tell: Tell) -> Awaitable[Reply | None]:
        return self._of(member).adopt(member, request, tell)

    def queue_of(self, member: str) -> str:
        return self._of(member).queue_of(member)

    def forget(self, member: str, span: str) -> None:
        self._of(member).forget(member, span)

    def in_batches(self) -> InBatches:
        return self.batches.in_batches()

    def withdraw(self, member: str, span: str) -> bool:
        return self._of(member).withdraw(member, span)

    async def take_back(self, member: str, span: str) -> bool:
        return await self._of(member).take_back(member, span)

    def take_over(self, member: str, record: SubmissionRecord, requests: list[Request]) -> None:
        self.batches.take_over(member, record, requests)

    def end_agents(self, why: str, message: str, item: str = "") -> None:
        self._direct.end_agents(why, message, item)

    def set_cap(self, member: str, usd: float) -> None:
        self._direct.set_cap(member, usd)

    def leave(self, why: str) -> None:
        self.batches.leave(why)
        self._direct.leave(why)

    async def close(self) -> None:
        await self.batches.close()
        await self._direct.close()
