"""A run: opened on a journal, asked to do tasks, closed with a receipt."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, contextmanager
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import msgspec

from fanfold.clock import Clock, RealClock
from fanfold.journal.contract import Store
from fanfold.journal.facts import AddRun, CloseRun, ItemEnding, NewReply, RunRecord
from fanfold.members.entry import ScriptedEntry
from fanfold.run.adopt import Adopted
from fanfold.run.carry import carry, carry_one_of_many, carry_separately
from fanfold.run.context import Shared, build, share
from fanfold.run.figures import RunFigures
from fanfold.run.govern import Governor
from fanfold.run.member_sources import MemberSource, with_members
from fanfold.run.order_follower import OrderFollower
from fanfold.run.order_taker import Effect, OrderTaker
from fanfold.run.orders import Verb
from fanfold.run.planning import Batch
from fanfold.run.record import new_id, recorded_result
from fanfold.run.settings import Settings
from fanfold.run.shares import RunShare
from fanfold.run.stopping import Stop
from fanfold.run.stream import Do, Sharding, Stream
from fanfold.run.task_state import NoReply, TaskState
from fanfold.run.unpaid import SEPARATE, CannotPay
from fanfold.work.ask import Ask, Reply
from fanfold.work.item import Item, Source
from fanfold.work.member import Member, Tell, Traits
from fanfold.work.outcome import Missing, Outcome, Receipt, State, StopCause, Verdict
from fanfold.work.task import AskPower, Place, Task, Terms, Who, asks_of

T = TypeVar("T")
CarryOut = Callable[[TaskState], Awaitable[None]]


class Run(RunFigures):
    """`do` one task or `stream` many; a pattern is ordinary Python over these two."""

    def __init__(
        self,
        store: Store,
        record: RunRecord,
        source: MemberSource,
        settings: Settings,
        clock: Clock | None = None,
        whole: Run | None = None,
    ) -> None:
        """`whole`: the run that this one is a branch of."""
        clock = clock or RealClock()
        shared = whole._shared if whole else share(store, record, source, settings, clock)
        self._shared: Shared = shared
        self._source, self._whole = source, whole
        self._ctx = build(store, record, settings, clock, shared, self._carried)
        self.record, self.settings, self.clock = record, settings, clock
        self.anew, self.only = settings.anew, settings.only
        self._governor = Governor(self._ctx, settings.govern, settings.approve)
        self._adopted = Adopted(self._ctx)
        self._orders = OrderTaker(self._ctx, self._governor)
        self.after_all_calls = self._ctx.stopping.after_all_calls
        self.end_patterns = self._ctx.stopping.end_patterns
        self._result, self._flaw = b"null", None
        self.at_close = []
        self.left_out: list[Missing] = []  # passed, but behind a reduce that failed
        self.closing = None  # the closing account, once the run is closed
        self.share = RunShare(self._ctx) if settings.lead else None
        if whole is None:
            store.when_in_trouble(lambda why: self._ctx.stopping.halt(Stop("paused", why)))

    async def adopt(self) -> int:
        """Before an earlier run goes on: take over the agents that its dead process left at work."""
        return await self._adopted.take_over()

    async def branch(self, name: str, parent: str) -> Run:
        """A part of this run that is on record as a run of its own, below the span `parent`, on the
        budget, the limits and the members of this one, so that each call is counted once. Its tasks
        do not stop one another.

        Close it before this one. It has the same session: if the process dies, both have crashed.
        """
        now = self.clock.now()
        record = RunRecord(
            id=new_id(self.clock, now), name=name, created=now, session=self.record.session,
            budget=self.record.budget, parent=parent, tags=self.record.tags,
        )  # fmt: skip
        no: int = await self.store.write(AddRun(record))
        settings = msgspec.structs.replace(self.settings, serving=True, lead="")
        record = msgspec.structs.replace(record, no=no)
        return Run(self.store, record, self._source, settings, self.clock, whole=self)

    def taking_orders(self) -> AbstractAsyncContextManager[None]:
        """Meanwhile, orders that anybody gives to this run by its store are carried out; by all of its
        processes, if there are several."""
        told, share = self.settings, self.share
        if share is not None and not share.leads:
            return share.sharing(OrderFollower(self._ctx, self._orders).following())
        taking = self._orders.taking(told.restated, taken_over=told.taken_over)
        return taking if share is None else share.sharing(taking)

    def hands_over(self, leave: Callable[[], Effect]) -> None:
        """How its process leaves the run to another one, or why not (BadInput); called when on record."""
        self._orders.leave = leave

    # ── members ──

    def register(self, *members: Member | ScriptedEntry) -> None:
        """From now on these may answer too, in this run: whoever waits for somebody who fits looks
        again. One whose id is there already: its slots, its rates and `enabled` count from now on,
        the rest stays as it was."""
        self.update_members(with_members(self._source, members))

    def follows_roster(self, read: Callable[[], MemberSource]) -> None:
        """How its members are read again when an operator orders that; `read` may raise BadInput."""
        self._orders.read_roster = lambda: partial(self.update_members, read())

    def update_members(self, source: MemberSource) -> None:
        """Other members from now on, see `Chooser.update`; what is under way goes on."""
        self._source = source
        self._ctx.choose.update(source)
        self._ctx.dispatch.members_changed()

    async def order(self, what: Verb, value: str = "") -> None:
        """The same for one given here: on record, and in effect when this returns. Raises BadInput when
        it is refused."""
        await self._orders.give_here(what, value)

    @contextmanager
    def resizing(self, terms: Terms, resize: Callable[[int], None]) -> Iterator[None]:
        """`resize` is called with the `concurrency` of the step, now and when an order changes it."""
        step = self._ctx.steps.open(terms)
        step.grow.append(resize)
        try:
            resize(step.concurrency)
            yield
        finally:
            step.grow.remove(resize)

    # ── planning ──

    async def plan(
        self, source: Source, terms: Terms, last: Terms | None = None, name: str | None = None
    ) -> Batch:
        """Enumerate a batch: ids and hashes go into the journal before anything is asked.

        `terms` is the first step its items go through, `last` the one where they leave the flow.
        `name` is how a resumed run finds the batch again; a pattern that plans several at once, in
        an order that may change, must give each a name of its own.
        """
        await self.begin(terms)
        last_step = self._ctx.steps.open(last or terms).no
        batch = await self._ctx.planning.plan(source, name or terms.step, last_step)
        self._ctx.outcomes.expect(batch, last_step, terms)
        return batch

    def recall(self, batch: Batch, terms: Terms) -> bytearray:
        """Which items have their outcome at this step already: not 0, by position."""
        return self._ctx.outcomes.recall(batch.no, self._ctx.steps.open(terms).no, batch.size)

    def remaining(self, batch: Batch, terms: Terms) -> Iterator[tuple[int, Item]]:
        """The batch's items, those without an outcome first, so that a resumed run gets going."""
        done = self.recall(batch, terms)
        for position, item in batch.source.walk(done):
            if not self.only or item.id in self.anew:
                yield position, item
        if any(done):
            yield from batch.source.walk(bytes(not flag for flag in done))

    # ── asking ──

    async def begin(self, terms: Terms) -> None:
        """Open a step: find who may answer and get them ready, so that what is wrong shows early."""
        self.check_open()
        self._ctx.steps.begin(terms)
        await self.prepare(terms)

    def note_step(self, name: str, note: str) -> None:
        """What reports say of a step: that it was not taken, say."""
        self._ctx.steps.note(name, note)

    async def prepare(self, terms: Terms) -> None:
        """All who may be asked on these terms, and by their gate, are there, priced and open. No
        step of theirs is open yet."""
        asked = [terms, *asks_of(terms.gate)]
        for one in asked:  # first look for all of them, then start the first
            self._ctx.choose.check(one)
        for one in asked:
            await self._ctx.choose.get_ready(one)

    async def begin_with(self, members: tuple[str, ...]) -> None:
        """Get these ready, without a step of theirs yet: they are there, priced and open."""
        if members:
            self._ctx.choose.check_prices([Who(members=members)])
            await self._ctx.choose.open(Who(members=members))

    def traits(self, terms: Terms) -> list[Traits]:
        """Those of all who may answer, also after an escalation."""
        return [c.traits for who in terms.whos for c in self._ctx.choose.eligible(who).candidates]

    def reads_messages(self, terms: Terms) -> bool:
        """Does anyone who may answer read the rendered prompt? Functions receive the item instead."""
        return any(one.takes == "messages" or one.sees_ask for one in self.traits(terms))

    async def do(self, task: Task, tell: Tell | None = None) -> Outcome:
        """Carry one task to its outcome. A recorded reply is used instead of a new call.

        `tell` hears what a member says while it works: a view, before any gate has seen it.
        """
        try:
            return await self._carried(task, tell=tell)
        except CannotPay as short:
            stopping = self._ctx.stopping
            if not SEPARATE.get():
                whose = f"step {task.terms.step}, member {short.member}"
                stopping.halt(Stop("paused", f"{short} ({whose})", "unfunded", short.cause))
                raise stopping.error() from None
            stopping.skip_unpaid(task, short)
            raise

    async def do_one_of_many(self, task: Task) -> Outcome:
        """The same for one of many planned items: when it cannot be paid, its outcome is `unfunded`
        and the others go on. Call `pause_if_unpaid` when all are done."""
        return await self._carried(task, carry_one_of_many)

    async def do_separately(self, task: Task, do: Callable[[Task], Awaitable[T]]) -> T | None:
        """The same by a nested pattern, such as a vote. None: something inside cannot be paid."""
        return await carry_separately(self._ctx, task, do)

    def pause_if_unpaid(self) -> None:
        """Before something is made of many items: if some could not be paid, the run pauses here."""
        self._ctx.stopping.halt_if_unpaid()
        self._ctx.stopping.raise_if_stopping()

    async def _carried(
        self, task: Task, carry_out: CarryOut = carry, tell: Tell | None = None
    ) -> Outcome:
        ctx = self._ctx
        ctx.steps.open(task.terms)
        eligible = ctx.choose.eligible(task.terms.who)
        if task.terms.tools is not None or eligible.tools is not None:
            await ctx.choose.open_tools(task.terms)
        state = TaskState(ctx, task, eligible, tell)
        if task.flaw is not None:
            state.end_without(NoReply(task.flaw))
            return state.outcome()
        known = ctx.replies.recorded(state.ask_keys(), state.eligible) or state.recorded_here()
        if known is not None:
            state.recall(known)
        await carry_out(state)
        return state.outcome()

    async def judge(
        self, task: Task, reply: Reply, ask: AskPower | None = None
    ) -> tuple[State, Verdict]:
        """How a reply that was made of others (a vote, a reduce) ends by the task's gate and filter."""
        return await self._ctx.judgings.judge(task, reply, ask or self.do)

    def settle(self, task: Task, outcome: Outcome) -> Outcome:
        """Write down how an item ended that no single ask decides: a vote, say, or none at all.

        The item is the one at the task's place, the step that of its terms. Calls and costs of the
        asks behind it are on record with those asks, so they are not counted again here.
        """
        outcomes, place = self._ctx.outcomes, task.place
        if place is None:
            return outcome
        step, kept = self._ctx.steps.open(task.terms), None
        if outcome.reply is not None:
            kept = NewReply(task.ask.key("items"), "fanfold", outcome.member or "", outcome.reply,
                          private=True)  # fmt: skip
        outcomes.note(
            ItemEnding(place.batch, place.position, step.no, outcome.state, outcome.reasons,
                   outcome.member or "", landed=-1 if kept is None else 0,
                   by_parent=outcome.by_parent), kept,
        )  # fmt: skip
        outcomes.count(place, step, outcome.state)
        if outcome.state == "failed" and not outcome.by_parent:
            outcomes.item_failed(task, "; ".join(outcome.reasons))
        return msgspec.structs.replace(outcome, id=task.id, position=place.position)

    def count_recorded(self, place: Place, terms: Terms, state: State) -> None:
        """An outcome of an earlier invocation counts as it is; nothing is asked or written."""
        self._ctx.outcomes.count(place, self._ctx.steps.open(terms), state)

    async def govern(self, terms: Terms, asks: Iterable[Ask]) -> None:
        """Before a stage whose size was not known at the start: may so many asks be made?

        Raises RunStopped when they may not: the run pauses, and says how to approve them.
        """
        await self._governor.allow(terms, asks)

    async def stream(
        self,
        tasks: Iterable[Task] | AsyncIterable[Task],
        shard: Sharding | None = None,
        terms: Terms | None = None,
        do: Do | None = None,
    ) -> AsyncGenerator[Outcome, None]:
        """Carry many tasks of one step to their outcomes; outcomes come as they land.

        Tasks that come only while others are carried out are given as an async iterable, with the
        `terms` they have in common. Both ends are bounded: outcomes that nobody fetches hold up the
        work, and work that does not get on holds up the source of the tasks. `do`: each task is carried to
        its outcome by that, as many at once as its terms say.
        """
        if isinstance(tasks, AsyncIterable):
            assert terms is not None, "an async iterable of tasks needs their terms"
            step = self._ctx.steps.open(terms)
            stream: Stream | None = Stream(self._ctx, tasks, shard, step, do)
        else:
            stream = self._stream(tasks, shard, do)
        if stream is not None:
            async with aclosing(stream.outcomes()) as landing:
                async for outcome in landing:
                    yield outcome

    async def drain(self, tasks: Iterable[Task], shard: Sharding | None = None) -> None:
        """As `stream`, when the outcomes are wanted only in the journal."""
        stream = self._stream(tasks, shard)
        if stream is not None:
            await stream.drain()
        await self.store.flush()

    def _stream(
        self, tasks: Iterable[Task], shard: Sharding | None, do: Do | None = None
    ) -> Stream | None:
        first = next(rest := iter(tasks), None)
        if first is None:
            return None
        step = self._ctx.steps.open(first.terms)
        return Stream(self._ctx, chain((first,), rest), shard, step, do)

    async def flush(self) -> None:
        """Everything that has landed so far can be read from the journal when this returns."""
        await self.store.flush()

    # ── stopping and closing ──

    def pause(self, reason: str, cause: StopCause | None = None) -> None:
        """No new call; what is under way ends by itself, then the run can be resumed."""
        self._ctx.stopping.halt(Stop("paused", reason, cause=cause))

    def kill(self, reason: str) -> None:
        self._ctx.stopping.kill(reason)

    @property
    def stopping(self) -> Stop | None:
        """Why it ends early; what a branch is part of may be why."""
        return self._ctx.stopping.stop or (self._whole.stopping if self._whole else None)

    def flawed(self, reason: str) -> None:
        """The result could not be made as planned: the run ends flagged."""
        self._flaw = self._flaw or reason

    def set_result(self, value: Any) -> None:
        self._result, flaw = recorded_result(value)
        self._flaw = self._flaw or flaw

    async def _let_go(self) -> None:
        """Of members and agents; all that landed is durable then."""
        stop = self.stopping
        await self._adopted.end(killed=stop is not None and stop.status == "killed")
        if self._whole is None:
            await self._ctx.executor.close()
        await self.store.flush()

    async def leave(self) -> None:
        """As one of several processes that carry it out: others go on."""
        assert self.share is not None
        await self._let_go()
        await self.share.leave()

    async def close(self) -> Receipt:
        """Close the books: every planned item has an outcome, and the account adds up."""
        run = self.record.no
        if self.share is not None:
            await self.share.close()
        await self._let_go()
        stop = self._ctx.stopping.stop
        tally, planned = self.store.read.tally(run), self.store.read.planned(run)
        status, reason = self._ending(tally, planned)
        lacking = stop or self.unpaid
        settled = sum(tally.values()) == planned and stop is None
        await self.store.write(
            CloseRun(run=run, status=status, reason=reason, at=self.clock.now(),
                     active=self.clock.monotonic() - self._ctx.active.began,
                     result=self._result,
                     rest=None if settled else stop.rest if stop else "cancelled",
                     cause=None if lacking is None else lacking.cause)
        )  # fmt: skip
        self.closing = self.receipt(tally if settled else None)
        for tell in self.at_close:
            tell(self.closing)
        return self.closing
