"""One batch at the service of a member: on record before it is sent, found again if nobody heard the answer,
looked at until it has ended or must, and its lines read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Protocol, TypeVar

import msgspec

from fanfold.clock import Clock
from fanfold.errors import (
    InvalidReply,
    MemberError,
    RateLimited,
    RunStopped,
    StoreError,
    Terminal,
    TimedOut,
    Transient,
)
from fanfold.journal.contract import Store
from fanfold.journal.facts import RunRecord
from fanfold.journal.submissions import (
    NoteSubmission,
    SubmissionRecord,
    SubmissionState,
    SubmitBatch,
)
from fanfold.work.ask import Ask, Reply
from fanfold.work.batch import (
    BatchLine,
    BatchService,
    BatchState,
    LeftInBatch,
    LineResult,
    NeverSubmitted,
    Unfinished,
)
from fanfold.work.member import BatchAsk, Request, Traits, filled

FIRST_LOOK, SLOWEST_LOOK, SLOWER = 1.0, 60.0, 1.5  # seconds between looks; each is later
UNSETTLED = 10.0  # seconds in which a request that nobody heard of may still arrive
SKEW = 300.0  # seconds that the service's clock may be behind ours
TRIES = 6  # to submit, where nothing was accepted
PATIENCE = 3600.0  # seconds of nothing but errors before the run pauses
USUAL, CANCELLING = (
    10.0,
    600.0,
)  # seconds of a call nobody knows, and until a cancelled batch has ended
T = TypeVar("T")
_encode, _ask = msgspec.json.Encoder().encode, msgspec.json.Decoder(Ask).decode


class BatchedAsk:
    """An ask on its way through a batch. `held`: it is just being sent, and cannot be left."""

    __slots__ = ("batch", "held", "id", "reply", "request", "since")

    def __init__(self, request: Request) -> None:
        self.request, self.batch = request, request.batch or BatchAsk(0)
        self.id = request.span.replace(":", "-")
        self.reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.held = False
        self.since = 0.0  # when its batch was sent

    @property
    def attempt(self) -> int:
        return int(self.request.span.rpartition(":")[2])

    def fail(self, error: Exception) -> None:
        if not self.reply.done():
            self.reply.set_exception(error)

    def leave(self, why: str) -> None:
        if not self.held:
            self.fail(LeftInBatch(why))


def reading_of(request: Request) -> bytes:
    """What is needed to read a reply: the same for all asks of a step."""
    ask = request.ask
    return _encode(Ask((), schema=ask.schema, params=ask.params))


def read_by(reading: bytes, span: str) -> Request:
    """A request of a process that is gone, as far as its reply can be read."""
    return Request(_ask(reading), span=span)


def cut(asks: list[BatchedAsk], service: BatchService) -> Iterator[list[BatchedAsk]]:
    """As many in one submission as the service takes."""
    some: list[BatchedAsk] = []
    size = 0
    for one in asks:
        more = len(filled(one.request)) + 200
        if some and (len(some) == service.most_lines or size + more > service.most_bytes):
            yield some
            some, size = [], 0
        some.append(one)
        size += more
    yield some


class SubmissionPlace:
    """Where submissions are made: the run's store and clock, and when its steps are due."""

    def __init__(self, store: Store, record: RunRecord, clock: Clock) -> None:
        self.store, self.clock, self._record = store, clock, record
        self._first: dict[int, float] | None = None

    @property
    def run(self) -> int:
        return self._record.no

    def due(self, about: BatchAsk) -> float | None:
        """When its step is to be done, by the stamp of its first batch."""
        if about.within is None:
            return None
        if self._first is None:
            self._first = {}
            for one in self.store.read.submissions(self.run):
                self._first.setdefault(one.step, one.claimed)
        return self._first.setdefault(about.step, self.clock.now()) + about.within

    def need(self, traits: Traits, many: int, span: float) -> float:
        """Seconds that so many online calls would take, after what is to be cancelled has been."""
        known = self.store.read.member_stats(traits.id, traits.answerer, None)
        each = min(USUAL, span / 10) if known is None else known.seconds
        rate = traits.limits.concurrency / max(each, 0.001)
        if traits.limits.rpm:
            rate = min(rate, traits.limits.rpm / 60)
        return min(CANCELLING, span / 10) + many / rate + each

    def too_late(self, traits: Traits, due: float, many: int, about: BatchAsk) -> bool:
        return self.clock.now() + self.need(traits, many, about.within or 0.0) >= due


class Owner(Protocol):
    """Whose submission it is. `leaving`: why nobody waits any more, if so; `left` is set then."""

    traits: Traits
    service: BatchService
    leaving: str
    left: asyncio.Event


class Submission:
    """One submission, until its lines have their replies, or nobody waits for them."""

    def __init__(
        self,
        owner: Owner,
        place: SubmissionPlace,
        lines: list[BatchedAsk],
        due: float | None,
        record: SubmissionRecord | None = None,
    ) -> None:
        self._owner, self._place, self._due, self._record = owner, place, due, record
        self._service, self._clock = owner.service, place.clock
        self.lines = {one.id: one for one in lines}
        self._name = record.id if record else f"fanfold-{self._clock.random_bits(96):024x}"
        self._no = record.no if record else 0
        self._id = record.service if record else ""
        self._many = record.lines if record else len(lines)
        self._claimed = record.claimed if record else 0.0
        self._cancelled = False
        for one in lines:
            one.held = record is None

    async def carry(self) -> None:
        """Whatever goes wrong here, those who wait hear of it."""
        try:
            if await self._sent():
                state = await self._until_ended()
                await self._collect(state)
        except asyncio.CancelledError:
            self._leave("its process ended")
            raise
        except LeftInBatch as left:
            self._leave(str(left))
        except MemberError as error:
            self._fail(error)
        except (StoreError, RunStopped) as error:
            self._leave(str(error))
        except Exception as error:
            self._leave(f"its batch cannot be followed: {error!r}")
            raise

    # ── before and while it is sent ──

    async def _sent(self) -> bool:
        """False: it was not, and its lines know."""
        if not self._no:
            await self._claim()
        elif not self._id:
            self._id = await self._found()
            if not self._id:
                await self._unsent(NeverSubmitted("its batch was never sent"))
                return False
        if not self._id and not await self._submit():
            return False
        await self._note("sent")
        for one in self.lines.values():
            one.held, one.since = False, self._claimed
            one.request = msgspec.structs.replace(one.request, body=b"")
        if self._owner.leaving:
            raise LeftInBatch(self._owner.leaving)
        return True

    async def _claim(self) -> None:
        place, lines = self._place, list(self.lines.values())
        self._claimed = place.clock.now()
        fact = SubmitBatch(
            place.run, lines[0].batch.step, self._name, self._owner.traits.id,
            tuple([one.attempt for one in lines]), self._claimed, self._due,
            reading_of(lines[0].request),
        )  # fmt: skip
        self._no = await place.store.write(fact)
        for one in lines:
            place.store.sent.mark(one.attempt)

    async def _submit(self) -> bool:
        lines = [BatchLine(one.id, filled(one.request)) for one in self.lines.values()]
        for again in range(TRIES):
            try:
                self._id = (await self._service.submit(self._name, lines)).id
                return True
            except MemberError as error:
                unheard = error.lost or isinstance(error, InvalidReply)
                if unheard:
                    self._id = await self._found()
                    if self._id:
                        return True
                worth = unheard or isinstance(error, Transient | RateLimited | TimedOut)
                if not worth or again == TRIES - 1 or self._owner.leaving:
                    error.lost = False  # it is known that nothing was accepted
                    await self._unsent(NeverSubmitted(str(error)) if self._owner.leaving else error)
                    return False
                wait = getattr(error, "retry_after", None) or 0.0
            await self._wait(min(SLOWEST_LOOK, max(2.0**again, wait)))
        return False

    async def _unsent(self, error: MemberError) -> None:
        await self._note("unsent")
        self._fail(error)

    async def _found(self) -> str:
        """The id of a batch that may have been accepted though nobody heard so. "": it surely was not."""
        strangers: set[str] = set()
        interval = FIRST_LOOK
        now = self._clock.now()
        until = max(min(self._claimed, now), now - UNSETTLED) + UNSETTLED
        if self._record is None:
            until = now + UNSETTLED
        while True:
            known = {*self._place.store.read.submitted_before(), *strangers}
            states = await self._told(
                lambda known=known: self._service.since(self._earliest, known)  # type: ignore[misc]
            )
            alike = [one for one in states if self._may_be(one)]
            for one in alike:
                if self._service.keeps_names or (one.ended and await self._is_ours(one.id)):
                    return one.id
                if one.ended:
                    strangers.add(one.id)
            if not any(not one.ended for one in alike) and self._clock.now() >= until:
                return ""
            await self._wait(interval)
            if self._clock.now() >= until:
                interval = min(SLOWEST_LOOK, interval * SLOWER)

    @property
    def _earliest(self) -> float:
        """When the service may have made it. A stamp that is still to come is of a clock that was wrong,
        and says nothing."""
        return 0.0 if self._claimed > self._clock.now() else self._claimed - SKEW

    def _may_be(self, state: BatchState) -> bool:
        return state.name == self._name if self._service.keeps_names else state.lines == self._many

    async def _is_ours(self, id: str) -> bool:
        results = await self._told(lambda: self._service.results(id))
        return any(one.id in self.lines for one in results)

    # ── until it has ended ──

    async def _until_ended(self) -> BatchState:
        interval = FIRST_LOOK
        while True:
            left = self._until_due()
            if left is not None and left <= 0 and not self._cancelled:
                await self._cancel()
                interval = FIRST_LOOK
            await self._wait(interval if left is None or left <= 0 else min(interval, left))
            state = await self._looked()
            if state.ended:
                await self._note("ended")
                return state
            interval = min(SLOWEST_LOOK, interval * SLOWER)

    def _until_due(self) -> float | None:
        """Seconds until what is not done must be asked online."""
        if self._due is None:
            return None
        span = self._due - self._claimed
        need = self._place.need(self._owner.traits, len(self.lines), span)
        return self._due - need - self._clock.now()

    async def _cancel(self) -> None:
        """One that cannot be cancelled now is tried again after the next look, which says whether it has
        ended by itself."""
        await self._note("cancelling")
        with suppress(Transient, RateLimited, TimedOut):
            with suppress(Terminal):
                await self._service.cancel(self._id)
            self._cancelled = True

    async def _looked(self) -> BatchState:
        try:
            return await self._patiently(lambda: self._service.look(self._id))
        except MemberError as error:
            there = await self._told(lambda: self._service.since(self._earliest, frozenset()))
            if any(one.id == self._id for one in there):
                raise LeftInBatch(f"its batch cannot be looked at: {error}") from None
            raise MemberError(f"its batch {self._id} is gone: {error}", lost=True) from None

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """A question about batches changes nothing: it is repeated until there is an answer."""
        began, pause = self._clock.monotonic(), FIRST_LOOK
        while True:
            try:
                return await ask()
            except (Transient, RateLimited, TimedOut) as error:
                if self._clock.monotonic() - began > PATIENCE:
                    raise LeftInBatch(f"the batch service cannot be reached: {error}") from None
                wait = getattr(error, "retry_after", None) or 0.0
            await self._wait(min(SLOWEST_LOOK, max(pause, wait)))
            pause *= 2

    async def _told(self, ask: Callable[[], Awaitable[T]]) -> T:
        """The same where the answer says what was paid: without it, whoever resumes the run asks again."""
        try:
            return await self._patiently(ask)
        except LeftInBatch:
            raise
        except MemberError as error:
            raise LeftInBatch(f"the batch service does not say what it has: {error}") from None

    async def _wait(self, seconds: float) -> None:
        """Or until nobody waits for it any more."""
        if not self._owner.leaving:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._owner.left.wait(), seconds)
        if self._owner.leaving and (self._id or self._record is not None):
            raise LeftInBatch(self._owner.leaving)

    # ── what came of it ──

    async def _collect(self, state: BatchState) -> None:
        if state.flaw:
            self._fail(Unfinished(f"the batch was refused: {state.flaw}"))
            return
        for result in await self._told(lambda: self._service.results(self._id)):
            line = self.lines.get(result.id)
            if line is not None and not line.reply.done():
                self._read(line, result)
        self._fail(Unfinished("it was not done before its batch ended"))

    def _read(self, line: BatchedAsk, result: LineResult) -> None:
        if result.end in ("cancelled", "expired"):
            line.fail(Unfinished(f"{result.end} before it was done"))
            return
        try:
            line.reply.set_result(self._service.read(line.request, result))
        except Exception as error:
            line.fail(error)

    def _fail(self, error: Exception) -> None:
        for one in self.lines.values():
            one.fail(error)

    def _leave(self, why: str) -> None:
        for one in self.lines.values():
            one.held = False
            one.leave(why)

    async def _note(self, state: SubmissionState) -> None:
        place = self._place
        await place.store.write(
            NoteSubmission(place.run, self._no, state, place.clock.now(), self._id)
        )
