"""The part that this process has in a run which several processes carry out.

One of them leads: the run is its own, as any run is. The others join it while a batch is divided, take
ranges of positions from the store, and leave. Of all limits each has a portion, which it takes from the
store too: a smaller one is on record when no more calls than that are in flight, a larger one before it is
used. Budgets need no portions: the store counts them at each claim.
"""

from __future__ import annotations

import asyncio
import math
import os
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

import msgspec

from fanfold.errors import FanfoldError
from fanfold.journal.facts import Fact, RunRecord
from fanfold.journal.questions import RunQuestions
from fanfold.journal.shares import (
    ALL,
    NO_PORTION,
    WHOLE,
    DivideBatch,
    EndDivision,
    EndRange,
    LeaveRun,
    NoteShare,
    Portion,
    Sharer,
    TakenRange,
    TakePortion,
    TakeRange,
    wanted_portion,
)
from fanfold.run.context import Context
from fanfold.run.demand import StepState
from fanfold.run.limits import Gauge
from fanfold.run.outcomes import ShareCounts
from fanfold.run.planning import Batch
from fanfold.run.stopping import Stop
from fanfold.work.item import Item, Source
from fanfold.work.task import Terms, asks_of

LOOK = 0.25  # seconds from one look at the others to the next
DEAD = 4  # looks from one search for dead ones to the next
KILLED_WITHIN = 10.0  # seconds for others to leave a run that was killed
_encode = msgspec.json.Encoder().encode
_stop = msgspec.json.Decoder(Stop).decode
_counts = msgspec.json.Decoder(ShareCounts).decode


class SharingProcess(msgspec.Struct, frozen=True):
    """One that takes part in a run, or stands by to: its name (HOST:NUMBER), whether it leads, the calls
    that it made."""

    name: str
    leads: bool
    calls: int


def taking_part(
    read: RunQuestions, run: RunRecord, alive: Callable[[str], bool]
) -> tuple[SharingProcess, ...]:
    """Those that live, in the order in which they joined; none where the run is of one process."""
    living = [one for one in read.sharers(run.no) if alive(one.session)]
    known = [(one.session, _counts(one.counts)) for one in living if one.counts]
    return tuple(
        SharingProcess(counts.process, session == run.session, counts.calls)
        for session, counts in known
    )


class RunShare:
    """Who takes part besides, and what this process may do meanwhile. `alone`: it leaves without the
    others stopping; `for_good`: and does not come back."""

    def __init__(self, ctx: Context) -> None:
        self._ctx, self._run, self._me = ctx, ctx.record.no, ctx.record.session
        self.lead = ctx.settings.lead
        self.leads = self._me == self.lead
        self.portion = NO_PORTION if ctx.record.resumed else ALL
        self.alone = self.for_good = False
        self._spent_before = ctx.account.usd
        self._gauges: list[Gauge] = []  # of those who may be asked
        self._wants, self._looks = True, 0
        self._noted: NoteShare | None = None
        self._main: asyncio.Task[Any] | None = None
        self._step: StepState | None = None
        ctx.limits.take_portion(self.portion, ctx.clock.monotonic())

    async def _write(self, fact: Fact) -> Any:
        return await self._ctx.store.write(fact)

    @asynccontextmanager
    async def sharing(self, orders: AbstractAsyncContextManager[None]) -> AsyncIterator[None]:
        """Meanwhile it heeds the others, and they heed it; within, orders are carried out."""
        self._main = asyncio.current_task()
        await self.look()
        watch = asyncio.create_task(self._watch())
        try:
            async with orders:
                yield
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK)
            with suppress(FanfoldError):  # a store in trouble pauses the run by itself
                await self.look()

    async def look(self) -> None:
        """What the others have done, what they have found, and which portion is free for this one."""
        ctx = self._ctx
        rows = ctx.store.read.sharers(self._run)
        mine = next((one for one in rows if one.session == self._me), None)
        if mine is None or mine.gone or not self._is_led():
            self.go("another process leads the run now")
            return
        self._hear([one for one in rows if one.session != self._me])
        if self.leads and self._looks % DEAD == 0:
            await self._bury(rows)
        self._looks += 1
        await self._note()
        await self._adjust(rows, Portion(mine.low, mine.high))

    def _is_led(self) -> bool:
        """By whom it was when this process joined, and it lives."""
        if self.leads:
            return True
        store = self._ctx.store
        led = store.read.led_by(self._run) == ("running", self.lead)
        return led and (self._looks % DEAD != 0 or store.sessions.alive(self.lead))

    def go(self, why: str, *, for_good: bool = False) -> None:
        """Leave; the others carry on. What is in flight comes to its end."""
        if not self.leads:
            self.alone, self.for_good = True, for_good
            self._ctx.stopping.halt(Stop("paused", why))

    # ── what others say ──

    def _hear(self, others: list[Sharer]) -> None:
        ctx = self._ctx
        ctx.counts.others = tuple([_counts(one.counts) for one in others if one.counts])
        for one in others:
            if one.stop:
                self._stop_too(_stop(one.stop))

    def _stop_too(self, stop: Stop) -> None:
        stopping = self._ctx.stopping
        killed = stopping.stop is not None and stopping.stop.status == "killed"
        stopping.halt(stop)
        if stop.status == "killed" and not killed:
            stopping.kill(stop.reason)
            if self._main is not None and not self._main.cancelling():
                self._main.cancel()

    async def _bury(self, rows: list[Sharer]) -> None:
        """What a dead one was sending is in doubt, and what it did not finish is free for others."""
        store = self._ctx.store
        dead = [
            one.session
            for one in rows
            if not one.gone and one.session != self._me and not store.sessions.alive(one.session)
        ]
        if dead:
            await store.recover(self._ctx.clock.now())
            await self._write(LeaveRun(self._run, tuple(dead)))

    async def _note(self) -> None:
        """How far this one is, if that is new. Who cannot pay leaves it to the others to find that too."""
        stop = self._ctx.stopping.stop
        spread = stop is not None and not self.alone and (self.leads or stop.rest != "unfunded")
        counts = _encode(self._own_counts())
        fact = NoteShare(self._run, self._me, self._wants, _encode(stop) if spread else b"", counts)
        if fact != self._noted:
            await self._write(fact)
            self._noted = fact

    def _own_counts(self) -> ShareCounts:
        ctx, counts = self._ctx, self._ctx.counts
        return ShareCounts(
            counts.states, counts.calls, counts.reused, counts.retries, counts.kicks,
            ctx.account.usd - self._spent_before, ctx.outcomes.held, ctx.planning.added,
            {one.name: (one.calls, one.reused) for one in ctx.steps.by_name.values()},
            f"{socket.gethostname()}:{os.getpid()}", counts.orders,
        )  # fmt: skip

    # ── portions ──

    async def _adjust(self, rows: list[Sharer], mine: Portion) -> None:
        wanted = wanted_portion(rows, self._me, self._seats())
        self._use(mine.within(wanted))
        if wanted == mine or self._over():
            return
        if await self._write(TakePortion(self._run, self._me, *wanted)):
            self._use(wanted)

    def _seats(self) -> int:
        """As many take part as members, and the step, have slots, by what orders say now."""
        if self._step is None:
            return WHOLE
        return min([self._step.most, *(one.stated.concurrency for one in self._gauges)])

    def _use(self, portion: Portion) -> None:
        if portion != self.portion:
            self.portion, ctx = portion, self._ctx
            ctx.limits.take_portion(portion, ctx.clock.monotonic())
            if self._step is not None:
                self._step.take_portion(portion)
            ctx.dispatch.poke()

    def _over(self) -> bool:
        """More is in flight than the portion that is used."""
        step, gauges = self._step, self._ctx.limits.gauges.values()
        return any(one.in_flight > one.most for one in gauges) or (
            step is not None and step.in_flight > step.concurrency
        )

    # ── a batch that is divided ──

    @property
    def divides(self) -> bool:
        return self._step is not None

    @asynccontextmanager
    async def dividing(
        self, batch: Batch, terms: Terms, unit: int, state: bytes
    ) -> AsyncIterator[None]:
        """Meanwhile it works on ranges of a batch at one step; who leads opens it for all. `unit`: see
        `DivideBatch`."""
        ctx = self._ctx
        step = self._step = ctx.steps.open(terms)
        asked = [terms, *asks_of(terms.gate)]
        self._gauges = [one.gauge for who in asked for whos in who.whos
                        for one in ctx.choose.eligible(whos).candidates]  # fmt: skip
        step.take_portion(self.portion)
        if self.leads:
            await self._write(
                DivideBatch(self._run, self._me, batch.no, step.no, batch.size, unit, state)
            )
        try:
            yield
        finally:
            self._step, self._wants = None, self.leads
            step.take_portion(ALL)
        if self.leads:
            await self._write(EndDivision(self._run))
            await self.look()
            ctx.stopping.raise_if_stopping()

    async def take(self, busy: Callable[[], bool]) -> TakenRange | None:
        """A range to work on. None: nothing is left. Who leads waits for what others may leave behind."""
        ctx = self._ctx
        while ctx.stopping.stop is None:
            if not self.leads and self.portion == NO_PORTION:
                if ctx.store.read.division(self._run) is None:
                    return None
                await ctx.stopping.wait(LOOK)
                continue
            taken = await self._write(TakeRange(self._run, self._me, self.lead))
            if taken is None:
                return None
            if taken.first < taken.end:
                self._wants = True
                return taken  # type: ignore[no-any-return]
            if not self.leads or not taken.others:
                return None
            self._wants = busy()
            await ctx.stopping.wait(LOOK)
        return None

    def ended(self, first: int) -> None:
        self._ctx.store.note(EndRange(self._run, self._me, first))

    # ── the end ──

    async def leave(self) -> None:
        """What it did is on record, and what it did not finish is free for others."""
        await self._ctx.store.flush()
        self._wants = False
        await self._note()
        await self._write(LeaveRun(self._run, (self._me,)))

    async def close(self) -> None:
        """Before the run is closed: all others have left, or are dead. One that was killed does not wait long
        for those that do not hear it."""
        read, stop, clock = self._ctx.store.read, self._ctx.stopping.stop, self._ctx.clock
        killed = stop is not None and stop.status == "killed"
        until = clock.monotonic() + (KILLED_WITHIN if killed else math.inf)
        with suppress(FanfoldError):
            while clock.monotonic() < until:
                self._looks = 0
                await self.look()
                rows = read.sharers(self._run)
                if all(one.gone for one in rows if one.session != self._me):
                    return
                await asyncio.sleep(LOOK)


class Ranges:
    """Those that this process works on, of one batch: what is in them, and which are done."""

    def __init__(self, share: RunShare) -> None:
        self._share = share
        self._open: dict[
            int, list[int]
        ] = {}  # by its first position: its end, and what is not done

    async def items(self, source: Source) -> AsyncGenerator[tuple[int, Item], None]:
        """Of one range after the other, as long as there are any."""
        while (taken := await self._share.take(lambda: bool(self._open))) is not None:
            self._open[taken.first] = [taken.end, 1]
            for position, item in source.walk(b"\1" * taken.first):
                if position >= taken.end:
                    break
                self._open[taken.first][1] += 1
                yield position, item
            self._one_less(taken.first)

    def landed(self, position: int) -> None:
        first = next(one for one, (end, _) in self._open.items() if one <= position < end)
        self._one_less(first)

    def _one_less(self, first: int) -> None:
        self._open[first][1] -= 1
        if not self._open[first][1]:
            del self._open[first]
            self._share.ended(first)
