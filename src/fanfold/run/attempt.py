"""One call of one member: claim, ask, settle, each on record before the next."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec

from fanfold.errors import InvalidReply
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
    actual_cost,
    cost_of_error,
    error_is_upper_bound,
    is_upper_bound,
    may_have_run,
    one_line,
    overrun,
    plausible,
    shares,
)
from fanfold.run.grant import Grant
from fanfold.run.task_state import NOWHERE, Shard, TaskState
from fanfold.work.ask import Reply
from fanfold.work.budget import NOTHING, ONE_CALL, Amount
from fanfold.work.member import Event, Request, Tell, tell_nobody

CANCELLED = "cancelled in mid-call"
NOT_SENT = Claim(broke="now")  # its member was closed while it was claimed: another, or later


class Attempt:
    """Owns the grant, the number on record and the money of one call, from claim to closing fact.

    `number` is 0 for a call that costs nothing: it has no claim, and one fact when it is over.
    """

    __slots__ = ("_ctx", "grant", "number", "shard")

    def __init__(self, ctx: Context, shard: Shard, grant: Grant) -> None:
        self._ctx, self.shard, self.grant = ctx, shard, grant
        self.number = 0

    async def carry_out(self) -> Claim | None:
        """None: the replies have landed in the shard. A Claim: somebody else has (or had) the key,
        or there is no money or no slot for it: another member may take it, or this one later.

        Raises what the member raised, after it was recorded and the money was settled.
        """
        refused = await self.begin()
        if refused is not None:
            return refused
        tell = self.shard.tell
        if tell is not None:
            id = self.grant.traits.id
            tell(Event("note", f"{id} is asked", {"member": id}))
        try:
            reply = await self.ask(tell)
        except asyncio.CancelledError:
            self.abandon()
            if self.number:
                self.shard.lost(CANCELLED)
            raise
        except Exception as error:
            await self.fail(error)
            raise
        await self.land(reply)
        return None

    async def carry_out_free(self) -> None:
        """The short path of one task whose call costs nothing: no claim, no doubt, one fact when it is
        over (decision 29)."""
        ctx, grant, state = self._ctx, self.grant, self.shard.tasks[0]
        traits = grant.traits
        if not ctx.executor.is_open(traits.id):
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
        reply = plausible(traits, grant.request, reply)
        if grant.permit.probe or not grant.gauge.pool.calm:
            ctx.limits.good(grant.gauge, grant.permit, grant.order)
        ctx.dispatch.settle(grant, ONE_CALL)
        landed = self._landed(state, reply, 0)
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
        if not ctx.executor.is_open(grant.traits.id):
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
            if not await self._slot():
                self.withdraw()
                return NOT_SENT
        self._make_ready()
        return None

    def _make_ready(self) -> None:
        """The request says what it is sent for; the call counts from now on."""
        ctx, request = self._ctx, self.grant.request
        ctx.active.tick()
        span = f"{ctx.record.id}:{self.number}" if self.number else ctx.record.id
        self.grant.request = Request(
            request.ask, request.body, request.input_tokens, request.output_tokens, span,
            ctx.place, request.most,
        )  # fmt: skip
        if ctx.settings.keep_prompts:
            self._keep_prompt()
        self._count(1)

    async def _open(self) -> None:
        try:
            await self._ctx.executor.open(self.grant.traits.id)
        except BaseException:
            self._ctx.dispatch.settle(self.grant, NOTHING)
            raise

    async def _claim(self, beside: int) -> Claim:
        ctx, shard, grant = self._ctx, self.shard, self.grant
        traits, now, month = grant.traits, ctx.clock.now(), grant.gauge.month
        fact = StartAttempt(
            run=ctx.record.no, step=shard.step.no, session=ctx.record.session, member=traits.id,
            answerer=traits.answerer, keys=shard.keys(traits.takes), ids=shard.ids,
            accept=shard.eligible.accept, reserved=grant.reserved.usd,
            reserved_tokens=grant.reserved.tokens, at=now, fresh=ctx.settings.fresh,
            monthly=None if month is None else month.draw(now), why=grant.why, beside=beside,
            take_over=ctx.replies.may_repeat(shard.ids, shard.terms, traits),
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

    async def _slot(self) -> bool:
        """What was claimed ahead waits for a slot. False: its member cannot be asked now."""
        grant = self.grant
        if grant.slot:
            return not grant.gauge.closed_since(grant.permit)
        try:
            return await self._ctx.dispatch.slot(grant)
        except asyncio.CancelledError:
            self.withdraw()
            raise

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
            keys = shard.keys(traits.takes)
            ctx.store.note(
                KeepPrompt(ctx.record.no, shard.step.no, traits.id, shard.ids, keys, text)
            )

    def _count(self, change: int) -> None:
        self._ctx.counts.calls += change
        self.shard.step.calls += change
        for state in self.shard.tasks:
            state.calls += change

    async def ask(self, tell: Tell | None) -> Reply:
        grant = self.grant
        if self.number:
            self._ctx.store.sent.mark(self.number)
        reply = await self._ctx.executor.ask(grant.traits.id, grant.request, tell or tell_nobody)
        return plausible(grant.traits, grant.request, reply)

    # ── what came of it ──

    async def land(self, reply: Reply) -> None:
        """A reply: free the slot, settle the money, and make reply and outcome durable together."""
        ctx, shard, grant = self._ctx, self.shard, self.grant
        traits, gauge = grant.traits, grant.gauge
        actual = actual_cost(traits, grant.reserved, reply)
        if traits.metered:
            self._learn(reply, actual)
        elif grant.permit.probe or not gauge.pool.calm:
            ctx.limits.good(gauge, grant.permit, grant.order)
        ctx.dispatch.settle(grant, actual)
        landed, endings = self._file(reply, actual.usd)
        self._begin_judging()
        error = None if landed else "the reply named none of the items"
        if self.number:
            fact = self._end(actual, EndAttempt(
                run=ctx.record.no, at=ctx.clock.now(), landed=landed, endings=endings, error=error,
                usage=reply.usage, unusable=reply.unusable, bound=is_upper_bound(traits, reply),
                released=shard.keys(traits.takes),
            ))  # fmt: skip
        else:
            fact = EndAttempt(
                run=ctx.record.no, at=ctx.clock.now(), landed=landed, endings=endings, error=error,
                unplaced=shard.step.no if shard.tasks[0].place is NOWHERE else None,
            )  # fmt: skip
        try:
            shard.filed(await ctx.store.write(fact))
        except InvalidReply as invalid:  # a text that no file can hold; it was paid for
            if self.number:
                changes = {"state": "error", "error": str(invalid), "landed": (), "endings": ()}
                await ctx.store.write(msgspec.structs.replace(fact, **changes))
            raise
        finally:
            self._settled()

    def _learn(self, reply: Reply, actual: Amount) -> None:
        """What the reply says about its member. Nothing else goes to one that takes more than was
        reserved: it is closed before the slot is free."""
        ctx, grant = self._ctx, self.grant
        if reply.usage is not None:
            ctx.counts.used(reply.usage)
            now = ctx.clock.monotonic()
            grant.gauge.correct(now, grant.permit.tokens, grant.reserved.tokens, reply.usage.total)
        ctx.limits.good(grant.gauge, grant.permit, grant.order)
        self._close_if_over(reply, actual)

    def _close_if_over(self, reply: Reply, actual: Amount) -> None:
        grant = self.grant
        if why := overrun(grant.traits, grant.request, grant.reserved, reply, actual):
            self._ctx.limits.trip(grant.gauge, "member", why, None)

    def _file(
        self, reply: Reply, spent: int
    ) -> tuple[tuple[NewReply, ...], tuple[ItemEnding, ...]]:
        """Take the reply apart, judge each part, and make the records."""
        shard, traits = self.shard, self.grant.traits
        if shard.apart is None:
            state = shard.tasks[0]
            landed = self._landed(state, reply, spent)
            ending = state.receive(reply, traits.id, spent, 0)
            return (landed,), () if ending is None else (ending,)
        parts = shard.take_apart(reply)
        costs = shares(spent, len(parts))
        landeds, endings = [], []
        for n, (state, part) in enumerate(parts):
            landeds.append(self._landed(state, part, costs[n]))
            ending = state.receive(part, traits.id, costs[n], n)
            if ending is not None:
                endings.append(ending)
        return tuple(landeds), tuple(endings)

    def _landed(self, state: TaskState, reply: Reply, spent: int) -> NewReply:
        traits = self.grant.traits
        key = state.key(traits.takes)
        return NewReply(key, traits.answerer, traits.id, reply, spent, not traits.shared)

    def _begin_judging(self) -> None:
        """Gates of the user's come when the reply is durable; that they began is on record then too."""
        tasks = self.shard.tasks
        if tasks[0].pending and tasks[0].task.terms.nature == "foreign":
            self._ctx.judgings.begin_with(tuple(one.mark() for one in tasks if one.pending))

    async def fail(self, error: Exception) -> None:
        """No reply. Refund what was surely not carried out; what may have been counts as spent."""
        ctx, shard, grant = self._ctx, self.shard, self.grant
        ctx.dispatch.failed(grant, shard.ids, error)
        traits = grant.traits
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
        ctx.dispatch.settle(grant, spent)
        await ctx.store.write(
            self._end(spent, EndAttempt(
                run=ctx.record.no, at=ctx.clock.now(), state="in_doubt" if lost else "error",
                usage=usage, bound=error_is_upper_bound(error), error=one_line(error),
                released=() if lost else shard.keys(traits.takes),
                endings=shard.failing(str(error)) if traits.agent and not lost else (),
            ))
        )  # fmt: skip
        self._settled()

    def abandon(self) -> None:
        """Cancelled in mid-call: the reservation counts as spent, and the attempt is in doubt."""
        ctx, reserved = self._ctx, self.grant.reserved
        ctx.dispatch.settle(self.grant, reserved if self.number else NOTHING)
        if self.number:
            ctx.store.note(
                self._end(reserved, EndAttempt(
                    run=ctx.record.no, at=ctx.clock.now(), state="in_doubt", bound=True,
                    error=CANCELLED, lost="cancelled",
                ))
            )  # fmt: skip

    def withdraw(self) -> None:
        """It was claimed, and is not sent: all is given back."""
        ctx = self._ctx
        ctx.dispatch.settle(self.grant, NOTHING)
        ctx.store.note(
            self._end(NOTHING, EndAttempt(
                run=ctx.record.no, at=ctx.clock.now(), state="error", error=UNSENT, lost="unsent",
                released=self.shard.keys(self.grant.traits.takes),
            ))
        )  # fmt: skip

    def uncount(self) -> None:
        """It counted as a call, but was not sent after all."""
        self._count(-1)
        self.withdraw()

    def lose_race(self, reply: Reply | None) -> None:
        """Another's answer came first. What it took is known when it answered too; else, cancelled,
        its reservation counts as spent. Either way there is no doubt about the key."""
        ctx, grant = self._ctx, self.grant
        spent = (
            grant.reserved if reply is None else actual_cost(grant.traits, grant.reserved, reply)
        )
        usage = None if reply is None else reply.usage
        ctx.counts.used(usage)
        if reply is not None:
            self._close_if_over(reply, spent)
        ctx.dispatch.settle(grant, spent)
        ctx.store.note(
            self._end(spent, EndAttempt(
                run=ctx.record.no, at=ctx.clock.now(), state="late", usage=usage,
                unusable="" if reply is None else reply.unusable,
                error="another answer came first",
                bound=reply is None or is_upper_bound(grant.traits, reply),
                released=self.shard.keys(grant.traits.takes),
            ))
        )  # fmt: skip

    def _end(self, spent: Amount, what: EndAttempt) -> EndAttempt:
        """The closing fact: `what` came of it, and what all have in common. Its duration is by a clock
        that does not jump; stamps are for people."""
        ctx, grant = self._ctx, self.grant
        ended: EndAttempt = msgspec.structs.replace(
            what, attempt=self.number, cost=spent.usd, tokens=spent.tokens,
            took=ctx.active.tick() - grant.started, answerer=grant.traits.answerer,
            monthly=grant.gauge.month is not None,
        )  # fmt: skip
        return ended

    def _settled(self) -> None:
        """What a call took is on record: those who wait for the member's money may try again."""
        month = self.grant.gauge.month
        if month is not None and month.settled():
            self._ctx.dispatch.poke()
