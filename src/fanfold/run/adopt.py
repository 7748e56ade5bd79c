"""A resumed run looks for the agents that its dead process left at work, and for asks that it had put
into a queue, and takes them over.

A worker that is still there is waited for, one that ended meanwhile is harvested from its log. The
attempt is the same as before: its reply lands under its key, where the task finds it, and nothing
is paid again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec

from fanfold.errors import CalledOff, MemberError, RunStopped, StoreError, Terminal
from fanfold.journal.answers import LostAttempt
from fanfold.journal.facts import UNSENT, AdoptAttempts, EndAttempt, ItemEnding, NewReply
from fanfold.run.context import Context
from fanfold.run.cost import (
    charge,
    cost_of_error,
    error_is_upper_bound,
    may_have_run,
    one_line,
    shares,
)
from fanfold.run.demand import Candidate
from fanfold.run.stopping import Stop
from fanfold.run.submission import read_by
from fanfold.run.task_state import NONE_NAMED
from fanfold.work.ask import Ask, Reply
from fanfold.work.batch import AT_BATCH, LeftInBatch, NeverSubmitted
from fanfold.work.budget import NOTHING, Amount
from fanfold.work.item import Item
from fanfold.work.member import Request, tell_nobody
from fanfold.work.usage import with_plausible_usage


class Adopted:
    """The agents that a run took over. They are carried on beside its tasks; a task that wants the
    same waits for them."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._tasks: set[asyncio.Task[None]] = set()

    async def take_over(self) -> int:
        """Those of this run whose members know of them; how many."""
        ctx = self._ctx
        agents = {}
        for lost in ctx.store.read.attempts_in_doubt(ctx.record.no):
            known = len(lost.keys) == 1 or lost.shard is not None
            candidate = ctx.choose.known(lost.member) if known else None
            if candidate is not None and lost.queue == AT_BATCH:
                candidate = ctx.choose.by_batch(candidate)
            if candidate is not None and self._can_be_found(lost, candidate):
                agents[lost.no] = Adoption(ctx, lost, candidate)
        if not agents:
            return 0
        _make_rivals(agents.values())
        self._take_over_batches([one for one in agents.values() if one.lost.submission])
        for number, adoption in agents.items():
            if await adoption.look():  # else, should we die too, it would count as never sent
                ctx.store.sent.mark(number)
        fact = AdoptAttempts(ctx.record.no, ctx.record.session, tuple(agents))
        for number in await ctx.store.write(fact):
            adoption = agents[number]
            ctx.steps.reopen(adoption.lost.step, adoption.reserved)
            if adoption.has_trace:
                task = asyncio.ensure_future(adoption.carry_on())
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            else:
                await adoption.never_began()
        return len(self._tasks)

    def _take_over_batches(self, adoptions: list[Adoption]) -> None:
        """What a service has is followed by submission; each line then has its trace."""
        ctx = self._ctx
        records = {one.no: one for one in ctx.store.read.submissions(ctx.record.no)}
        groups: dict[int, list[Adoption]] = {}
        for one in adoptions:
            groups.setdefault(one.lost.submission, []).append(one)
        for no, lines in groups.items():
            record, name = records[no], lines[0].name
            requests = [read_by(record.reading, one.span) for one in lines]
            ctx.executor.take_over(name, record, requests)

    def _can_be_found(self, lost: LostAttempt, candidate: Candidate) -> bool:
        """An agent where it was started, or any ask in the queue that it was put into."""
        return self._ctx.executor.can_find(candidate.traits.asked_as, lost.queue)

    async def end(self, *, killed: bool) -> None:
        """They end by themselves, as all that is in flight; a killed run waits for none. What is in batches
        is left there when the run stops."""
        tasks = tuple(self._tasks)
        for task in tasks if killed else ():
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)


def _make_rivals(adoptions: Iterable[Adoption]) -> None:
    """Of a hedged ask both requests may have been left."""
    groups: dict[tuple[object, ...], list[Adoption]] = {}
    for one in adoptions:
        groups.setdefault((one.lost.keys, one.lost.answerer), []).append(one)
    for group in groups.values():
        for one in group:
            one.rivals = [other for other in group if other is not one]


class Adoption:
    """One of them: its money, its slot, its key. `rivals`: other requests for the same."""

    def __init__(self, ctx: Context, lost: LostAttempt, candidate: Candidate) -> None:
        self._ctx, self.lost, self._candidate = ctx, lost, candidate
        self.reserved = Amount(lost.cost, lost.tokens, 1)
        about = Ask(items=tuple(Item(id, None) for id in lost.ids))
        self.span, self.name = f"{ctx.record.id}:{lost.no}", candidate.traits.asked_as
        self._request = Request(about, span=self.span, store=ctx.place, queue=lost.queue)
        self.has_trace = False
        self.rivals: list[Adoption] = []

    async def look(self) -> bool:
        self.has_trace = await self._ctx.executor.has_trace(self.name, self._request)
        return self.has_trace

    async def never_began(self) -> None:
        """A worker's trace is durable before it is started. There is none: the process died before."""
        run, keys = self._ctx.record.no, self.lost.keys
        what = EndAttempt(
            run=run, at=self._now, state="error", error=UNSENT, lost="unsent", released=keys
        )
        await self._end(NOTHING, what)

    async def carry_on(self) -> None:
        ctx, lost, gauge = self._ctx, self.lost, self._candidate.gauge
        permit = None
        if lost.queue != AT_BATCH:
            permit = ctx.limits.take(gauge, ctx.clock.monotonic(), 0)
        marks = tuple((key, lost.answerer) for key in lost.keys)
        mine = ctx.replies.begin(marks)
        try:
            reply = await ctx.executor.adopt(self.name, self._request, tell_nobody)
            if reply is None:
                raise MemberError(f"{lost.member}: nothing is left of it", lost=True)
            for other in self.rivals:  # before it is on record that they are not wanted any more
                await ctx.executor.take_back(other.name, other.span)
            await ctx.contents.store_outputs(reply.files)
            await self._land(with_plausible_usage(reply))
        except LeftInBatch as left:
            ctx.stopping.halt(Stop("paused", str(left)))
        except NeverSubmitted:
            await self.never_began()
        except (RunStopped, StoreError):
            raise
        except Exception as error:  # of the member, also when it is a defect
            await self._fail(error)
        finally:
            if permit is not None:
                ctx.limits.give(gauge, permit)
            ctx.replies.end(marks, mine)
            ctx.dispatch.poke()  # somebody may wait for just this slot

    async def _land(self, reply: Reply) -> None:
        lost, traits = self.lost, self._candidate.traits
        actual, bound, *_ = charge(traits, self.reserved, reply, self._request.output_tokens)
        self._ctx.counts.used(reply.usage)
        parts = self._parts(reply)
        costs = shares(actual.usd, len(parts))
        landed = tuple(
            NewReply(key, lost.answerer, lost.member, part, cost, not traits.shared)
            for (key, part), cost in zip(parts, costs, strict=True)
        )
        await self._end(actual, EndAttempt(
            run=self._ctx.record.no, at=self._now, usage=reply.usage, unusable=reply.unusable,
            bound=bound, released=lost.keys, landed=landed, error=None if landed else NONE_NAMED,
        ))  # fmt: skip

    def _parts(self, reply: Reply) -> list[tuple[bytes, Reply]]:
        """The reply under its key; that to several items, as each of them would have got it."""
        lost = self.lost
        if lost.shard is None:
            return [(lost.keys[0], reply)]
        apart = lost.shard.apart
        found = apart(reply)
        keys = zip(apart.ids, lost.shard.keys, strict=True)
        return [(key, found[id]) for id, key in keys if id in found]

    async def _fail(self, error: Exception) -> None:
        """It brought nothing: an agent's item has failed, unless it is in doubt as before. One that was
        only called off with its run may be started anew, and what is no agent is asked again."""
        ctx, lost = self._ctx, self.lost
        spent, doubt = cost_of_error(error, self.reserved), may_have_run(error)
        again = isinstance(error, CalledOff) or lost.ids[0] in ctx.settings.anew
        over = self._candidate.traits.agent and not (doubt or again)
        usage = getattr(error, "usage", None)
        ctx.counts.used(usage)
        await self._end(spent, EndAttempt(
            run=ctx.record.no, at=self._now, state="in_doubt" if doubt else "error",
            usage=usage, bound=error_is_upper_bound(error), error=one_line(error),
            released=() if doubt else lost.keys, endings=self._endings(error) if over else (),
        ))  # fmt: skip
        if isinstance(error, Terminal) and error.scope != "ask":
            ctx.limits.trip(self._candidate.gauge, error.scope, str(error), None)
        if over:
            failed = {(key, lost.answerer): str(error) for key in lost.keys}
            ctx.replies.failed_adoptions.update(failed)

    def _endings(self, error: Exception) -> tuple[ItemEnding, ...]:
        """In the same fact, so that no crash in between has the worker started again."""
        lost = self.lost
        if lost.unplaced:  # who wanted it goes on without it
            return ()
        places = self._ctx.store.read.item_positions(self._ctx.record.no, lost.ids[0])
        if len(places) != 1:
            return ()
        ((batch, position),) = places
        return (ItemEnding(batch, position, lost.step, "failed", (one_line(error),), lost.member),)

    async def _end(self, spent: Amount, what: EndAttempt) -> None:
        """On record first, then in the accounts."""
        ended = msgspec.structs.replace(
            what, attempt=self.lost.no, cost=spent.usd, tokens=spent.tokens,
            answerer=self.lost.answerer, monthly=self._candidate.gauge.month is not None,
        )  # fmt: skip
        await self._ctx.store.write(ended)
        if ended.state != "in_doubt" and ended.lost != "unsent":  # which must stay known as such
            self._ctx.executor.forget(self.name, self._request.span)
        self._ctx.steps.settle(self.lost.step, self.reserved, spent)

    @property
    def _now(self) -> float:
        return self._ctx.clock.now()
