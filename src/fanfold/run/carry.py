"""Carry a task to its outcome: obtain a reply, judge it, kick it back, until it is final."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from fanfold.errors import (
    MemberError,
    RateLimited,
    RunStopped,
    StoreError,
    StoreFenced,
    Terminal,
    TimedOut,
    Transient,
)
from fanfold.journal.answers import Claim, ClaimHolder
from fanfold.run.attempt import Attempt
from fanfold.run.context import Context
from fanfold.run.cost import may_have_run
from fanfold.run.demand import Demand, broken
from fanfold.run.grant import Grant, NobodyLeft, Unfunded
from fanfold.run.race import carry_out_hedged
from fanfold.run.retry import Again, GiveUp, after
from fanfold.run.stopping import Stop
from fanfold.run.task_state import NoReply, Shard, TaskState
from fanfold.run.tools import ToolStopped
from fanfold.run.unpaid import MANY, SEPARATE, CannotPay, least
from fanfold.work.batch import NeverSubmitted, Unfinished
from fanfold.work.budget import NOTHING
from fanfold.work.outcome import StopCause
from fanfold.work.raised import error_text
from fanfold.work.task import Task

LONGEST_UNKNOWN = 60.0  # seconds until a holder that cannot be looked at stops the run
UNKNOWN = (
    "another process has asked the same, and whether it still runs cannot be told (no free file"
    " handle, or no permission); resume when it can"
)
ELSEWHERE = "the same was asked in a batch that another run left; resume that run to collect it"
SKIPPED = "skipped by the operator"
TO_CLAIM = 1.0  # seconds before the end of a stated wait at which a call is claimed again
LONGEST_LOOK = 0.5  # seconds between looks at a claim that another process holds
T = TypeVar("T")


async def carry(state: TaskState) -> None:
    """It may have nothing yet, a recorded reply, or its part of a shard's reply."""
    while True:
        if state.damage:
            return state.end_without(NoReply(state.damage, "in_doubt"))
        if state.reply is None:
            try:
                obtain = Obtain(state.ctx, Shard((state,), state.ask))
                await (obtain.once() if state.eligible.metered else obtain.repeat())
            except NoReply as gone:
                return state.end_without(gone)
        if state.calling:
            try:
                await state.use_tools()
            except ToolStopped as stopped:
                return state.end_without(NoReply(str(stopped), stopped.state))
            continue
        if state.pending:
            await state.judge()
        if state.final is not None:
            return state.conclude()
        state.kick_back()


async def carry_one_of_many(state: TaskState) -> None:
    """The same for one item among many: when it cannot be paid, the others go on without it."""
    try:
        await carry(state)
    except CannotPay as short:
        state.end_unpaid(short)


async def carry_separately(
    ctx: Context, task: Task, do: Callable[[Task], Awaitable[T]]
) -> T | None:
    """One planned item by a nested pattern. None: something inside cannot be paid; its outcome is
    `unfunded`, and the others go on."""
    before = SEPARATE.set(True)
    try:
        return await do(task)
    except CannotPay as short:
        unpaid = TaskState(ctx, task, ctx.choose.eligible(task.terms.who))
        unpaid.end_without(NoReply(str(short), "unfunded"))
        return None
    finally:
        SEPARATE.reset(before)


async def carry_shard(shard: Shard) -> None:
    """Ask for all at once; then each goes on alone. Who was forgotten is asked again alone."""
    first = shard.tasks[0]
    try:
        obtain = Obtain(first.ctx, shard)
        await (obtain.once() if first.eligible.metered else obtain.repeat())
    except CannotPay:
        pass  # one by one they may fit
    except NoReply as gone:
        if gone.state != "failed":
            for state in shard.tasks:
                state.end_without(gone)
            return
    for state in shard.tasks:
        await carry_one_of_many(state)


class Obtain:
    """Gets a reply for a shard: tries, tries again, waits for another who asks the same, gives up."""

    __slots__ = ("_ctx", "_demand", "_shard", "_tries")

    def __init__(self, ctx: Context, shard: Shard) -> None:
        self._ctx, self._shard = ctx, shard
        batched = None if shard.terms.batch is None else self._for_batch()
        self._demand = batched or self._online()
        self._tries = 0

    def _online(self) -> Demand:
        shard, eligible = self._shard, self._shard.eligible
        demand = Demand(
            shard.ask, eligible.candidates, eligible.queue, shard.step, shard.terms.claim_ahead
        )
        demand.eligible = eligible
        return demand

    def _for_batch(self) -> Demand | None:
        """None: it does not go to a batch service."""
        ctx, shard, eligible = self._ctx, self._shard, self._shard.eligible
        if shard.tell is not None or ctx.settings.serving:
            return None
        able = ctx.choose.batched(eligible.candidates)
        if not able or shard.apart is not None or shard.ask.tools is not None:
            return None
        demand = Demand(shard.ask, able, f"batches of {eligible.queue}", shard.step)
        demand.batch = True
        return demand

    async def once(self) -> None:
        """What costs is asked once, whoever else wants the same: others' replies are waited for.

        A shard of which others have a part is not asked: its rest goes on one by one.
        """
        shard, replies = self._shard, self._ctx.replies
        alone, in_flight = len(shard.tasks) == 1, replies.in_flight
        # the same content asked of others, whose replies do not serve here, is not the same
        eligible = shard.eligible
        keys = [one.key(takes) for takes in eligible.takes for one in shard.tasks]
        marks = tuple([(key, who) for key in keys for who in eligible.accept])
        while True:
            others = [in_flight[mark] for mark in marks if mark in in_flight]
            if others:  # another task of this process asks the same: its reply may serve us too
                await asyncio.wait(others)
            else:
                for mark in marks if replies.failed_adoptions else ():
                    if mark in replies.failed_adoptions:
                        raise NoReply(replies.failed_adoptions.pop(mark))
                mine = replies.begin(marks)
                try:
                    claim = await self.repeat()
                finally:
                    replies.end(marks, mine)
                if claim is None:
                    return
                await self._wait_for_holders(claim)
            if self._all_recorded() or not alone:
                return

    def _all_recorded(self) -> bool:
        """Look again for replies that others may have brought meanwhile."""
        for state in self._shard.tasks:
            if state.reply is not None:
                continue
            known = self._ctx.replies.recorded(state.ask_keys(), state.eligible)
            if known is not None:
                state.recall(known)
            if state.damage:
                raise NoReply(state.damage, "in_doubt")
        return all(state.reply is not None for state in self._shard.tasks)

    # ── trying ──

    async def repeat(self) -> Claim | None:
        """Until replies have landed in the shard's tasks, or somebody else has the key. Raises NoReply
        when it gives up, or RunStopped when the run stops."""
        ctx, shard = self._ctx, self._shard
        hedge = shard.terms.hedge if shard.tell is None else None  # one stream of deltas, not two
        free = not shard.eligible.metered and shard.apart is None and shard.tell is None
        free = free and shard.ask.files is None
        while True:
            demand = self._demand
            try:
                grant = ctx.dispatch.admit_now(demand) or await ctx.dispatch.admit(demand)
            except Exception as error:
                raise self._refusal(error) from None
            if ctx.outcomes.skipped_ids:
                self._leave_out_skipped(grant)
            ctx.counts.retries += demand.avoid is not None
            ctx.stopping.unpaid.in_row = 0
            attempt = Attempt(ctx, shard, grant)
            try:
                if free:
                    await attempt.carry_out_free()
                    return None
                if hedge is None:
                    claim = await attempt.carry_out()
                else:
                    claim = await carry_out_hedged(ctx, attempt, hedge)
                if claim is None or not claim.broke:
                    return claim
            except StoreFenced as error:  # it was not sent, and nothing else is
                ctx.stopping.pause(str(error))
            except (StoreError, RunStopped):
                raise
            except Exception as error:
                await self._again(grant, error)

    def _leave_out_skipped(self, grant: Grant) -> None:
        """An operator wants it left out, and it is not asked yet. Not one that is asked with others."""
        state = self._shard.tasks[0]
        if len(self._shard.tasks) == 1 and state.is_skipped:
            self._ctx.dispatch.settle(grant, NOTHING)
            raise NoReply(SKIPPED, "skipped")

    def _refusal(self, error: Exception) -> Exception:
        """Why it cannot go. Nobody left, or no money for any ask: the run pauses. No money for this
        one: CannotPay.

        Unless the reply is not `needed`, or `optional`, or the run serves: then only this task goes
        without."""
        ctx = self._ctx
        match error:
            case RunStopped() | StoreError():
                return error
            case Unfunded() if ctx.settings.serving or self._shard.terms.optional:
                return NoReply(str(error), "unfunded")
            case Unfunded(short=CannotPay() as short):
                unpaid = ctx.stopping.unpaid
                short.last = unpaid.in_row >= MANY or not self._another_may_fit()
                return short
            case Unfunded():
                cause = StopCause("budget", "seconds")
                ctx.stopping.halt(Stop("paused", str(error), "unfunded", cause))
                return ctx.stopping.error()
            case NobodyLeft() if not self._shard.terms.needed:
                return NoReply(str(error), "cancelled")
            case NobodyLeft() if ctx.settings.serving:
                return NoReply(str(error))
            case NobodyLeft():
                ctx.stopping.halt(Stop("paused", str(error)))
                return NoReply(str(error)) if self._demand.sent else ctx.stopping.error()
            case Terminal():
                return NoReply(str(error))
        return NoReply(error_text(error))  # a member that cannot make a request of this ask

    def _another_may_fit(self) -> bool:
        """A shorter ask of the same kind could be paid."""
        demand = self._demand
        return any(
            self._ctx.dispatch.could_pay(demand, c, least(demand, c)) for c in demand.candidates
        )

    async def _again(self, grant: Grant, error: Exception) -> None:
        """Back off and let the loop try again, or give up by raising NoReply."""
        ctx, shard, demand = self._ctx, self._shard, self._demand
        for state in shard.tasks:
            state.forget()
        if isinstance(error, Unfinished | NeverSubmitted):  # it took nothing, and is asked at once
            self._demand = self._online()
            return
        gauge, traits = grant.gauge, grant.traits
        reached = not (gauge.never_reached(error) or isinstance(error, RateLimited))
        demand.sent = demand.sent or reached
        if (
            isinstance(error, MemberError)
            and may_have_run(error)
            and not ctx.replies.may_repeat(shard.ids, shard.terms, traits)
        ):
            what = f"{error}; resume with --retry-in-doubt to repeat it"
            raise NoReply(what, "in_doubt") from None
        too_long = getattr(error, "too_long", False)
        if traits.agent:  # whether a worker is started again is for the operator to say
            raise NoReply(str(error), too_long=too_long) from None
        if gauge.down and isinstance(error, Transient | TimedOut):
            decision: Again | GiveUp = Again(0.0, counts=False)  # the breaker says when
        else:
            decision = after(error, self._tries + 1, shard.terms.attempts, ctx.rng)
        if isinstance(decision, GiveUp):
            raise NoReply(decision.reason, too_long=too_long) from None
        self._tries += decision.counts
        if isinstance(error, RateLimited):
            delay = self._delay(grant, error)
        else:
            demand.failed(traits.id)
            delay = decision.delay
        if delay:
            await self._back_off(grant, delay)

    async def _back_off(self, grant: Grant, seconds: float) -> None:
        """Wait by itself; not so long, if an order or another roster changes who may take it."""
        ctx, demand, until = self._ctx, self._demand, self._ctx.clock.monotonic() + seconds
        sooner = asyncio.get_running_loop().create_future()

        def look() -> None:
            if not sooner.done() and (broken(grant.gauge) or demand.outdated):
                sooner.set_result(None)

        with ctx.dispatch.queues.backing_off(grant.traits.id, until, look):
            await ctx.stopping.wait(seconds, sooner)

    def _delay(self, grant: Grant, refusal: RateLimited) -> float:
        """Seconds before it is tried again; a member that is only busy has not failed, unless it is this
        ask that it refuses."""
        ctx, demand, id = self._ctx, self._demand, grant.traits.id
        reason = demand.refused_by(grant.gauge, grant.order)
        demand.avoid = id
        if reason is not None:
            demand.failed(id)
            if not demand.untried:
                raise NoReply(f"{refusal} ({reason})") from None
            return 0.0
        now = ctx.clock.monotonic()
        if demand.others_free(id, now):
            return 0.0
        told, left = refusal.retry_after, grant.gauge.pool.throttle.blocked_until - now
        if told is None or left <= 0 or told > ctx.limits.max_wait:
            return ctx.limits.backoff(demand.refusals, told)
        if demand.others_open(id, now):
            return 0.0  # it waits for whoever is free first
        wait = min(told, left)  # with all others, and it is the first to go
        if demand.claim_ahead and grant.traits.metered and not grant.traits.agent:
            demand.not_before = now + wait
            return max(0.0, wait - TO_CLAIM)
        return wait

    # ── others who ask the same ──

    async def _wait_for_holders(self, claim: Claim) -> None:
        """Somebody has the key: wait for them. One in doubt that may not be repeated ends it."""
        if claim.doubt and not claim.held:
            what = "an earlier attempt is in doubt; resume with --retry-in-doubt"
            raise NoReply(what, "in_doubt")
        for holder in claim.held:
            await self._wait_for(holder)

    async def _wait_for(self, holder: ClaimHolder) -> None:
        """Another process (or task) has claimed the key. Wait for its reply, or find that it died.

        Whoever cannot be looked at counts as alive. After a minute of that the run pauses. What a dead
        process had may be adopted by another, and is waited for again."""
        ctx, number = self._ctx, holder.attempt
        pause, unknown_since = 0.02, None
        while session := ctx.store.read.session_of(number):
            life = ctx.store.sessions.life(session)
            if life == "dead":
                await ctx.store.lose({number: session}, ctx.clock.now())
                if ctx.store.read.session_of(number) == session:
                    raise NoReply(ELSEWHERE, "in_doubt")
                continue
            now = ctx.clock.monotonic()
            unknown_since = (unknown_since or now) if life == "unknown" else None
            if unknown_since is not None and now - unknown_since > LONGEST_UNKNOWN:
                ctx.stopping.halt(Stop("paused", UNKNOWN))
            ctx.stopping.raise_if_stopping()
            await ctx.stopping.wait(pause)
            ctx.stopping.raise_if_stopping()
            pause = min(pause * 1.5, LONGEST_LOOK)
