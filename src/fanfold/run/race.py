"""An ask that gets a second request when its answer takes long; the first good reply wins.
`Hedging` decides when; this carries it out."""

from __future__ import annotations

import asyncio
from typing import Any

from fanfold.journal.answers import Claim
from fanfold.journal.facts import EndAttempt
from fanfold.run.attempt import CANCELLED, Attempt
from fanfold.run.context import Context
from fanfold.run.cost import Charge, charge
from fanfold.run.demand import Candidate, Demand
from fanfold.run.grant import Grant
from fanfold.run.hedge import Hedging, repeatable
from fanfold.run.task_state import Shard
from fanfold.work.ask import Reply
from fanfold.work.budget import NOTHING
from fanfold.work.task import Hedge

FIRST_LOOK = 0.25  # seconds; each later look is when a quarter more has passed
EARLY = 1e-6  # seconds that a timer may ring too soon
GRACE = 5.0  # seconds that a request which was called off gets to end


async def carry_out_hedged(ctx: Context, first: Attempt, stated: Hedge) -> Claim | None:
    """As `Attempt.carry_out`. When both requests fail, what the first one raised is raised."""
    refused = await first.begin()
    if refused is not None:
        return refused
    hedging = ctx.steps.hedging(first.shard.step, stated)
    race = Race(ctx, first.shard, hedging, Entrant(ctx, first))
    try:
        winner, reply = await race.winner()
    except BaseException as error:
        if race.abandon() and isinstance(error, asyncio.CancelledError):
            first.shard.lost(CANCELLED)
        raise
    await race.land(winner, reply)
    return None


class Entrant:
    """One request on its way."""

    __slots__ = ("attempt", "request", "since")

    def __init__(self, ctx: Context, attempt: Attempt) -> None:
        self.attempt = attempt
        self.since = ctx.clock.monotonic()
        self.request = asyncio.ensure_future(attempt.ask(None))
        self.request.add_done_callback(_heard)

    @property
    def answer(self) -> Reply | None:
        request = self.request
        if not request.done() or request.cancelled() or request.exception() is not None:
            return None
        return request.result()

    @property
    def grant(self) -> Grant:
        return self.attempt.grant


def _heard(request: asyncio.Future[Reply]) -> None:
    """Also an error that nobody waits for any more has been seen."""
    if not request.cancelled():
        request.exception()


class Race:
    """The first request of an ask, and perhaps a second one."""

    def __init__(self, ctx: Context, shard: Shard, hedging: Hedging, first: Entrant) -> None:
        self._ctx, self._shard, self._hedging, self._first = ctx, shard, hedging, first
        self._running: list[Entrant] = [first]
        self._late: list[Entrant] = []
        self._unsent: list[Entrant] = []  # of these, after all
        self._wanted: Demand | None = None
        self._leave: asyncio.Future[Grant] = asyncio.get_running_loop().create_future()

    # ── the first good reply ──

    async def winner(self) -> tuple[Entrant, Reply]:
        first = self._first
        self._hedging.asks += 1
        times = self._hedging.times(first.grant.traits)
        times.began(first.since)
        try:
            await self._until_hedged()
            self._stop_looking()
            return await self._first_good()
        finally:
            self._stop_looking()
            times.ended(first.since)

    async def _first_good(self) -> tuple[Entrant, Reply]:
        first_error: Exception | None = None
        while self._running:
            winner = next((one for one in self._running if one.answer is not None), None)
            if winner is not None:
                return winner, self._decided(winner)
            for one in [one for one in self._running if one.request.done()]:
                error = await self._fell(one)
                first_error = error if one is self._first or first_error is None else first_error
            if self._running:
                await _any_of([one.request for one in self._running])
        assert first_error is not None
        raise first_error

    async def _fell(self, one: Entrant) -> Exception:
        error = one.request.exception()
        assert isinstance(error, Exception)
        self._running.remove(one)
        await one.attempt.fail(error)
        for state in self._shard.tasks if self._running else ():
            state.begun()  # the other request is under way
        return error

    def _decided(self, winner: Entrant) -> Reply:
        """The other comes late."""
        assert winner.answer is not None
        first = self._first
        if first in self._running:
            waited = self._ctx.clock.monotonic() - first.since
            times = self._hedging.times(first.grant.traits)
            times.took(waited, at_least=winner is not first)
        self._late = [one for one in self._running if one is not winner]
        self._running = []
        return winner.answer

    async def land(self, winner: Entrant, reply: Reply) -> None:
        """The reply is there, also when it is cancelled meanwhile that anybody waits for it."""
        cancelled: BaseException | None = None
        try:
            await self._take_back()
        except asyncio.CancelledError as error:
            cancelled = error
        self._call_off()
        try:
            await winner.attempt.land(reply)
        finally:
            await self._over()
        if cancelled is not None:
            raise cancelled

    # ── the other one ──

    async def _take_back(self) -> None:
        """From the queue where it waits, before the reply is on record: should we die in between, a worker
        would take it. A queue that is away has it still, which does no more than cost."""
        for one in self._late:
            traits, span = one.grant.traits, one.grant.request.span
            if not (traits.at and one.attempt.asked) or one.request.done():
                continue
            back = asyncio.ensure_future(self._ctx.executor.take_back(traits.asked_as, span))
            await asyncio.wait((back,), timeout=GRACE)
            if back.done() and back.result():
                self._unsent.append(one)

    def _call_off(self) -> None:
        """Unless it answered in the same moment."""
        for one in self._late:
            one.request.cancel()
            if one.attempt.asked and one not in self._unsent:
                _lose(self._ctx, one.attempt, one.answer)
                continue
            one.attempt.uncount()
            if one is not self._first:
                self._hedging.hedges -= 1
                self._ctx.counts.hedged -= 1

    async def _over(self) -> None:
        """Leave no request behind that still closes what it opened."""
        left = [one.request for one in self._late if not one.request.done()]
        if left:
            await asyncio.wait(left, timeout=GRACE)

    def abandon(self) -> bool:
        """Cancelled from outside: what is on its way is in doubt. False: nothing was."""
        left, self._running = self._running, []
        for one in left:
            one.request.cancel()
            if one.attempt.asked:
                one.attempt.abandon()
            else:
                one.attempt.uncount()
        return any(one.attempt.asked for one in left)

    # ── a second request ──

    async def _until_hedged(self) -> None:
        """Until the first request has ended, or a second one is on its way."""
        first = self._first
        clock, traits = self._ctx.clock, first.grant.traits
        while not first.request.done() and self._fits(first.grant):
            waited = clock.monotonic() - first.since
            patience = self._hedging.patience(traits, first.since + waited)
            if patience is not None and patience - waited > EARLY:
                await _any_of([first.request], patience - waited)
                continue
            if patience is not None:
                self._look_for_leave()
            await _any_of([first.request, self._leave], max(FIRST_LOOK, waited / 4))
            if self._leave.done() and not first.request.done():
                await self._hedge()
                return
        await _any_of([first.request])

    def _fits(self, one: Grant | Candidate) -> bool:
        """Asking this member twice does no harm, and may be done."""
        shard = self._shard
        return repeatable(one.traits) and self._ctx.replies.may_repeat(
            shard.ids, shard.terms, one.traits
        )

    def _look_for_leave(self) -> None:
        """A slot and the money for it, now; else whenever something is given back, before those
        who wait for their first request: they are many, hedges are few."""
        if self._wanted is None:
            self._wanted = self._demand()
            self._ctx.dispatch.on_freed.append(self._look)
        self._look()

    def _look(self) -> None:
        if self._leave.done() or self._wanted is None or not self._hedging.allowed:
            return
        grant = self._ctx.dispatch.spare(self._wanted, self._ctx.unasked)
        if grant is not None:
            self._hedging.hedges += 1
            self._leave.set_result(grant)

    def _demand(self) -> Demand:
        """Another member before the same one."""
        shard = self._shard
        demand = Demand(shard.ask, shard.eligible.candidates, shard.eligible.queue, shard.step)
        able = [c for c in demand.candidates if self._fits(c) and _prepared(demand, c)]
        demand.candidates = tuple(able)
        demand.failed(self._first.grant.traits.id)
        return demand

    async def _hedge(self) -> None:
        """Claim beside the first. When that has been answered meanwhile, nothing is sent."""
        ctx, first, grant = self._ctx, self._first, self._leave.result()
        self._leave = asyncio.get_running_loop().create_future()
        waited = ctx.clock.monotonic() - first.since
        grant.why = f"hedge: {waited:.1f} s without an answer from {first.grant.traits.id}"
        second = Attempt(ctx, self._shard, grant)
        if await second.begin(beside=first.attempt.number) is not None:
            self._hedging.hedges -= 1
        elif first.answer is not None:
            self._hedging.hedges -= 1
            second.uncount()
        else:
            ctx.counts.hedged += 1
            self._running.append(Entrant(ctx, second))

    def _stop_looking(self) -> None:
        """One second request is enough, and leave that came too late is given back."""
        if self._wanted is not None:
            self._ctx.dispatch.on_freed.remove(self._look)
            self._wanted = None
        leave, self._leave = self._leave, asyncio.get_running_loop().create_future()
        if leave.done():
            self._hedging.hedges -= 1
            self._ctx.dispatch.settle(leave.result(), NOTHING)


def _prepared(demand: Demand, candidate: Candidate) -> bool:
    """A member that cannot make a request of this ask is none to ask."""
    try:
        demand.request(candidate)
    except Exception:
        return False
    return True


async def _any_of(futures: list[asyncio.Future[Any]], seconds: float | None = None) -> None:
    await asyncio.wait(futures, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)


def _lose(ctx: Context, attempt: Attempt, reply: Reply | None) -> None:
    """Another's answer came first. What it took is known when it answered too; else, cancelled,
    its reservation counts as spent. Either way there is no doubt about the key."""
    grant = attempt.grant
    took, usage = Charge(grant.reserved, bound=True), None
    if reply is not None:
        took = charge(grant.traits, grant.reserved, reply, grant.request.output_tokens)
        usage = reply.usage
    ctx.counts.used(usage)
    ctx.limits.overran(grant.gauge, took.overrun)
    spent = took.amount
    ctx.dispatch.settle(grant, spent)
    ctx.store.note(
        EndAttempt(
            **attempt.end_fields(spent), state="late", usage=usage,
            unusable="" if reply is None else reply.unusable,
            error="another answer came first", bound=took.bound, released=attempt.keys,
        )
    )  # fmt: skip
