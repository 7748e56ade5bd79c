"""One call of one member: claim, ask, settle, each on record before the next."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import msgspec

from fanfold.errors import RateLimited
from fanfold.journal.answers import Claim
from fanfold.journal.facts import (
    UNSENT,
    EndAttempt,
    ItemEnding,
    KeepPrompt,
    NewReply,
    RecordFailure,
    ReleaseClaims,
    StartAttempt,
)
from fanfold.run.context import Context
from fanfold.run.cost import (
    Charge,
    charge,
    cost_of_error,
    error_is_upper_bound,
    may_have_run,
    more_than_stated,
    one_line,
    plausible,
    shares,
)
from fanfold.run.grant import Grant
from fanfold.run.prompt_cache import heard_first
from fanfold.run.task_state import NONE_NAMED, NOWHERE, Shard
from fanfold.work.ask import Reply
from fanfold.work.batch import LeftInBatch, NeverSubmitted
from fanfold.work.budget import NOTHING, ONE_CALL, Amount
from fanfold.work.member import Event, NextStart, Request, Tell, tell_nobody

CANCELLED = "cancelled in mid-call"
AS_USUAL = NextStart()
NOT_SENT = Claim(broke="now")  # its member was closed while it was claimed: another, or later


class Attempt:
    """Owns the grant, the number on record and the money of one call, from claim to closing fact.

    `number` is 0 for a call that costs nothing: it has no claim, and one fact when it is over. `asked`:
    it may have been sent. A task that is to do so may be cancelled before it begins.
    """

    __slots__ = ("_ctx", "asked", "grant", "keys", "number", "shard")

    def __init__(self, ctx: Context, shard: Shard, grant: Grant) -> None:
        self._ctx, self.shard, self.grant = ctx, shard, grant
        self.number, self.asked = 0, False
        self.keys: tuple[bytes, ...] = ()  # that it has claimed

    async def carry_out(self) -> Claim | None:
        """None: the replies have landed in the shard. A Claim: somebody else has (or had) the key,
        or there is no money or no slot for it: another member may take it, or this one later.

        Raises what the member raised, after it was recorded and the money was settled.
        """
        refused = await self.begin()
        if refused is not None:
            return refused
        if (tell := self.shard.tell) is not None:
            id = self.grant.traits.id
            tell(Event("note", f"{id} is asked", {"member": id}))
        try:
            reply = await self.ask(tell)
        except asyncio.CancelledError:
            resumed = self._ctx.stopping.stop is not None  # else the run goes on without it
            if self.grant.batch and self.leave_in_batch(comes_back=resumed):
                raise
            self.abandon()
            if self.number:
                self.shard.lost(CANCELLED)
            raise
        except LeftInBatch as left:
            self.leave_in_batch()
            self._ctx.stopping.pause(str(left))
        except Exception as error:
            await self.fail(error)
            raise
        await self.land(reply)
        return None

    def leave_in_batch(self, *, comes_back: bool = True) -> bool:
        """Nobody waits here any more. What was not sent yet is taken back; what its service has stays in
        progress and reserved, not in doubt, where somebody comes back for it. False: nobody does."""
        ctx, grant = self._ctx, self.grant
        if ctx.executor.withdraw(grant.traits.asked_as, grant.request.span):
            self.uncount()
        elif comes_back:
            ctx.dispatch.settle(grant, grant.reserved)
        else:
            return False
        return True

    async def carry_out_free(self) -> None:
        """The short path of one task whose call costs nothing: no claim, no doubt, one fact when it is
        over (decision 29)."""
        ctx, grant, state = self._ctx, self.grant, self.shard.tasks[0]
        traits = grant.traits
        if traits.id not in ctx.executor.opened:
            await self._open()
        self._make_ready()
        try:
            reply = await ctx.executor.ask(traits.id, grant.request, tell_nobody)
        except asyncio.CancelledError:
            ctx.dispatch.settle(grant, NOTHING)
            raise
        except Exception as error:
            await self.fail(error)
            raise
        if reply.usage is not None or reply.cost_usd is not None or reply.unusable:
            reply = plausible(traits, grant.request, reply)
        if grant.permit.probe or not grant.gauge.pool.throttle.calm:
            ctx.limits.good(grant.gauge, grant.permit, grant.order)
        ctx.dispatch.settle(grant, ONE_CALL)
        key = state.key(traits.takes)
        landed = NewReply(key, traits.answerer, traits.id, reply, 0, not traits.shared)
        ending = state.receive(reply, traits.id, 0, 0)
        if state.pending:
            self._begin_judging()
        fact = EndAttempt(
            run=ctx.record.no, at=ctx.clock.now(), landed=(landed,),
            endings=() if ending is None else (ending,),
            unplaced=state.step.no if state.place is NOWHERE else None,
        )  # fmt: skip
        state.row = (await ctx.store.write(fact))[0]

    # ── before it is sent ──

    async def begin(self, beside: int = 0) -> Claim | None:
        """No call without a fact. A Claim: nothing may be sent. `beside`: an attempt of ours that
        may have the key, which this one is a hedge of."""
        ctx, grant = self._ctx, self.grant
        if grant.traits.id not in ctx.executor.opened or grant.request.ask.holds_files:
            await self._open()
        if grant.traits.metered:
            claim = await self._claim(beside)
            if not claim.attempt:
                self._learn_shortage(claim)
                ctx.dispatch.settle(grant, NOTHING)
                if claim.broke == "now" and not grant.gauge.in_flight:
                    await ctx.store.recover(ctx.clock.now())  # a dead process may hold the money
                return claim
            self.number = claim.attempt
            try:  # what was claimed ahead waits for a slot
                closed = grant.gauge.closed_since(grant.permit) if grant.slot else False
                ready = not closed and (grant.batch or grant.slot or await ctx.dispatch.slot(grant))
            except asyncio.CancelledError:
                self.withdraw()
                raise
            if not ready:
                self.withdraw()
                return NOT_SENT
        self._make_ready()
        return None

    def _make_ready(self) -> None:
        """The request says what it is sent for; the call counts from now on."""
        ctx, request, shard = self._ctx, self.grant.request, self.shard
        ctx.active.tick()
        span = f"{ctx.record.id}:{self.number}" if self.number else ctx.record.id
        self.grant.request = Request(
            request.ask, request.body, request.input_tokens, request.output_tokens, span,
            ctx.place, request.most, None, ctx.server,
            ctx.starts.pop(shard.ids[0], AS_USUAL) if ctx.starts and shard.ids else AS_USUAL,
            request.prefix, request.shared, batch=shard.batch_ask if self.grant.batch else None,
        )  # fmt: skip
        if ctx.settings.keep_prompts:
            self._keep_prompt()
        ctx.counts.calls += 1
        shard.step.calls += 1
        for state in shard.tasks:
            state.calls += 1
            state.begun()

    async def _open(self) -> None:
        try:
            await self._ctx.executor.open(self.grant.traits.id)
            await self._ctx.contents.keep(self.grant.request.ask)
        except BaseException:
            self._ctx.dispatch.settle(self.grant, NOTHING)
            raise

    async def _claim(self, beside: int) -> Claim:
        ctx, shard, grant = self._ctx, self.shard, self.grant
        traits, now, month = grant.traits, ctx.clock.now(), grant.gauge.month
        self.keys = tuple([state.key(traits.takes) for state in shard.tasks])
        fact = StartAttempt(
            run=ctx.record.no, step=shard.step.no, session=ctx.record.session, member=traits.id,
            answerer=traits.answerer, keys=self.keys, ids=shard.ids,
            accept=shard.eligible.accept, reserved=grant.reserved.usd,
            reserved_tokens=grant.reserved.tokens, at=now, fresh=ctx.settings.fresh,
            monthly=None if month is None else month.draw(now), why=grant.why, beside=beside,
            take_over=ctx.replies.may_repeat(shard.ids, shard.terms, traits),
            queue=ctx.executor.queue_of(traits.asked_as) if traits.at else "",
            budgets=ctx.steps.shared_limits(shard.step),
            discards=tuple([state.discards for state in shard.tasks if state.discards]),
            apart=shard.apart if traits.at else None,
            unplaced=shard.tasks[0].place is NOWHERE,
        )  # fmt: skip
        try:
            claim: Claim = await ctx.store.write(fact)
        except BaseException:
            ctx.dispatch.settle(grant, NOTHING)
            ctx.store.note(
                ReleaseClaims(ctx.record.session, traits.answerer, fact.keys, fact.at, beside)
            )
            raise
        return claim

    def _learn_shortage(self, claim: Claim) -> None:
        """Before its reservation is given back, which would let the next one try in vain."""
        ctx, month, short = self._ctx, self.grant.gauge.month, claim.short
        if short is None:
            return
        if short.scope:
            ctx.dispatch.refused_outside(short)
        elif month is not None:
            month.refused(short, ctx.clock.monotonic())

    def _keep_prompt(self) -> None:
        """For whoever looks at it later. Nothing waits for it, and nothing depends on it."""
        ctx, shard, traits = self._ctx, self.shard, self.grant.traits
        with suppress(UnicodeEncodeError):  # a text that cannot be sent either
            text = msgspec.json.encode(self.grant.request.ask.conversation())
            keys = tuple([state.key(traits.takes) for state in shard.tasks])
            kept = KeepPrompt(ctx.record.no, shard.step.no, traits.id, shard.ids, keys, text)
            ctx.store.note(kept)

    async def ask(self, tell: Tell | None) -> Reply:
        ctx, grant, self.asked = self._ctx, self.grant, True
        if self.number and not grant.batch:  # else it is when its batch is
            ctx.store.sent.mark(self.number)
        if prefix := grant.permit.writes:
            tell = heard_first(grant.gauge, prefix, ctx.clock, ctx.dispatch.poke, tell)
        name, request = grant.traits.asked_as, grant.request
        reply = await ctx.executor.ask(name, request, tell or tell_nobody)
        reply = plausible(grant.traits, request, reply)
        return await ctx.contents.take_in(reply, request) if reply.files else reply

    # ── what came of it ──

    async def land(self, reply: Reply) -> None:
        """A reply: free the slot, settle the money, and make reply and outcome durable together."""
        ctx, shard, grant = self._ctx, self.shard, self.grant
        actual, bound, _, saved = self._settle(reply)
        landed, endings = self._file(reply, actual.usd)
        if shard.tasks[0].pending:
            self._begin_judging()
        error = None if landed else NONE_NAMED
        if self.number:
            fact = EndAttempt(
                **self.end_fields(actual), landed=landed, endings=endings, error=error,
                usage=reply.usage, unusable=reply.unusable, bound=bound, released=self.keys,
                shared=0 if grant.batch else grant.request.shared, saved=saved,
            )  # fmt: skip
        else:
            fact = EndAttempt(
                run=ctx.record.no, at=ctx.clock.now(), landed=landed, endings=endings, error=error,
                unplaced=shard.step.no if shard.tasks[0].place is NOWHERE else None,
            )  # fmt: skip
        try:
            # or InvalidReply; that it was paid is on record then
            rows = await ctx.store.write(fact)
        finally:
            if grant.gauge.month is not None:
                self._settled()
        for state, row in zip(shard.received, rows, strict=True):
            state.row = row
        if grant.traits.at:
            ctx.executor.forget(grant.traits.asked_as, grant.request.span)

    def _settle(self, reply: Reply) -> Charge:
        """What the reply says about its member, and what it took. Nothing else goes to one that takes
        more than was reserved: it is closed before the slot is free."""
        ctx, grant, usage = self._ctx, self.grant, reply.usage
        gauge, reserved = grant.gauge, grant.reserved
        took = charge(grant.traits, reserved, reply, grant.request.output_tokens)
        if usage is not None and grant.traits.metered:
            ctx.counts.used(usage)
            if gauge.tokens is not None:
                now = ctx.clock.monotonic()
                gauge.correct(now, grant.permit.tokens, reserved.tokens, usage.total)
        ctx.limits.good(gauge, grant.permit, grant.order)
        ctx.limits.overran(gauge, took.overrun)
        ctx.dispatch.settle(grant, took.amount)
        return took

    def _file(
        self, reply: Reply, spent: int
    ) -> tuple[tuple[NewReply, ...], tuple[ItemEnding, ...]]:
        """Take the reply apart, judge each part, and make the records."""
        shard, traits = self.shard, self.grant.traits
        parts = [(shard.tasks[0], reply)] if shard.apart is None else shard.take_apart(reply)
        costs = (spent,) if len(parts) == 1 else shares(spent, len(parts))
        landed, endings = [], []
        for n, (state, part) in enumerate(parts):
            key = state.key(traits.takes)
            one = NewReply(key, traits.answerer, traits.id, part, costs[n], not traits.shared)
            landed.append(one)
            ending = state.receive(part, traits.id, costs[n], n)
            if ending is not None:
                endings.append(ending)
        return tuple(landed), tuple(endings)

    def _begin_judging(self) -> None:
        """Gates of the user's come when the reply is durable; that they began is on record then too."""
        tasks = self.shard.tasks
        if tasks[0].pending and tasks[0].task.terms.nature == "foreign":
            self._ctx.judgings.begin_with(tuple(one.mark() for one in tasks if one.pending))

    async def fail(self, error: Exception) -> None:
        """No reply. Refund what was surely not carried out; what may have been counts as spent."""
        ctx, shard, grant = self._ctx, self.shard, self.grant
        traits = grant.traits
        for state in shard.tasks:  # before others are offered what it held
            state.needs_another()
        if isinstance(error, NeverSubmitted):
            self.uncount()
            ctx.executor.forget(traits.asked_as, grant.request.span)
            return
        ctx.dispatch.failed(grant, shard.ids, error)
        if not traits.metered:
            ctx.dispatch.settle(grant, ONE_CALL)
            fact = RecordFailure(
                run=ctx.record.no, step=shard.step.no, session=ctx.record.session,
                member=traits.id, answerer=traits.answerer, ids=shard.ids, error=one_line(error),
                at=ctx.clock.now(),
            )  # fmt: skip
            await ctx.store.write(fact)
            return
        lost, usage = may_have_run(error), getattr(error, "usage", None)
        spent = cost_of_error(error, grant.reserved)
        ctx.counts.used(usage)
        ctx.limits.overran(grant.gauge, more_than_stated(traits, grant.reserved, spent.usd))
        ctx.dispatch.settle(grant, spent)
        await ctx.store.write(
            EndAttempt(
                **self.end_fields(spent), state="in_doubt" if lost else "error", usage=usage,
                bound=error_is_upper_bound(error), error=one_line(error),
                released=() if lost else self.keys, lost="refused" if isinstance(error, RateLimited) else "",
                endings=shard.failing(str(error)) if traits.agent and not lost else (),
            )
        )  # fmt: skip
        if traits.at and not lost:
            ctx.executor.forget(traits.asked_as, grant.request.span)
        if grant.gauge.month is not None:
            self._settled()

    def abandon(self) -> None:
        """Cancelled in mid-call: the reservation counts as spent, and the attempt is in doubt."""
        ctx, reserved = self._ctx, self.grant.reserved
        ctx.dispatch.settle(self.grant, reserved if self.number else NOTHING)
        if self.number:
            ctx.store.note(EndAttempt(
                **self.end_fields(reserved), state="in_doubt", bound=True, error=CANCELLED,
                lost="cancelled",
            ))  # fmt: skip

    def withdraw(self) -> None:
        """It was claimed, and is not sent: all is given back."""
        self._ctx.dispatch.settle(self.grant, NOTHING)
        fields = self.end_fields(NOTHING)
        self._ctx.store.note(
            EndAttempt(**fields, state="error", error=UNSENT, lost="unsent", released=self.keys)
        )

    def uncount(self) -> None:
        """It counted as a call, but was not sent after all."""
        self._ctx.counts.calls -= 1
        self.shard.step.calls -= 1
        for state in self.shard.tasks:
            state.calls -= 1
        self.withdraw()

    def end_fields(self, spent: Amount) -> dict[str, Any]:
        """What all closing facts have in common. The duration is by a clock that does not jump; stamps
        are for people."""
        ctx, grant = self._ctx, self.grant
        return {
            "run": ctx.record.no, "at": ctx.clock.now(), "attempt": self.number, "cost": spent.usd,
            "tokens": spent.tokens, "took": ctx.active.tick() - grant.started,
            "answerer": grant.traits.answerer, "monthly": grant.gauge.month is not None,
        }  # fmt: skip

    def _settled(self) -> None:
        """What a call took is on record: those who wait for the member's money may try again."""
        month = self.grant.gauge.month
        if month is not None and month.settled():
            self._ctx.dispatch.poke()
