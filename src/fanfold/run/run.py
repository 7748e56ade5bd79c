"""A run: opened on a journal, asked to do tasks, closed with a receipt."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing
from functools import partial
from itertools import chain
from typing import Any, TypeVar, cast

import msgspec

from fanfold.clock import Clock, RealClock
from fanfold.journal.contract import Store
from fanfold.journal.facts import CloseRun, ItemEnding, NewReply, RunRecord
from fanfold.run.adopt import adopt_all
from fanfold.run.aside import APART, SetAside
from fanfold.run.books import Books
from fanfold.run.carry import carry, carry_apart, carry_or_set_aside
from fanfold.run.choose import Chooser, Company, used_up
from fanfold.run.engine import Engine, Stop
from fanfold.run.govern import Governor
from fanfold.run.judging import Judgings
from fanfold.run.ledger import Ledger, Sum
from fanfold.run.limits import Limits
from fanfold.run.planning import Batch, Planning
from fanfold.run.pursuit import NoReply, Pursuit
from fanfold.run.receipt import Tally, status_of
from fanfold.run.settings import Settings
from fanfold.run.stream import Sharding, Stream, Way
from fanfold.work.ask import Ask, Reply
from fanfold.work.item import Item, Source
from fanfold.work.member import Adopts, Tell, Traits
from fanfold.work.outcome import Outcome, Receipt, State, Verdict
from fanfold.work.task import Place, Task, Terms, Who, asks_of

_encode = msgspec.json.Encoder().encode
T = TypeVar("T")
Carry = Callable[[Pursuit], Awaitable[None]]


class Run(Books):
    """`do` one task or `stream` many; a pattern is ordinary Python over these two."""

    def __init__(
        self,
        journal: Store,
        record: RunRecord,
        company: Company,
        settings: Settings,
        clock: Clock | None = None,
    ) -> None:
        self.record, self.settings = record, settings
        self.clock = clock or RealClock()
        rng = random.Random(settings.seed)
        limits = Limits(company.settings.max_concurrency, rng, company.settings.max_wait)
        free = journal.read.free_calls(record.no)
        spent = {
            no: Sum(s.cost, s.tokens, s.charged + free.pop(no, 0))
            for no, s in journal.read.spent(record.no).items()
        }
        spent.update({no: Sum(calls=calls) for no, calls in free.items()})
        whole = Sum(
            *(sum(getattr(s, c) for s in spent.values()) for c in ("usd", "tokens", "calls"))
        )
        self._engine = engine = Engine(journal, self.clock, Ledger(settings.budget, whole), limits)
        engine.no, engine.id, engine.pulse.run = record.no, record.id, record.no
        engine.session, engine.rng = record.session, rng
        engine.fresh, engine.retry_in_doubt = settings.fresh, settings.retry_in_doubt
        engine.serving, engine.keep_prompts = settings.serving, settings.keep_prompts
        crashes = journal.read.gate_crashes(record.no) if record.resumed else {}
        engine.judgings = Judgings(journal, record.no, record.session, crashes)
        engine.new = not record.resumed
        engine.known_before(journal.read.step_names(record.no), spent)
        engine.ask_power = partial(self._done, way=carry)
        self._began = engine.pulse.began
        priced = settings.budget.usd is not None
        closed = partial(used_up, journal.read, company.traits, self.clock)
        self._chooser = Chooser(
            company, limits, self._began, dollars=priced, closed=closed,
            answered=lambda one: journal.read.has_answered(one.id, one.answerer),
        )  # fmt: skip
        engine.choose, engine.accepts = self._chooser, self._chooser.accepts
        if settings.budget.seconds is not None:
            engine.dispatch.deadline = self._began + settings.budget.seconds - record.active
        self.anew, self.only = settings.anew, settings.only
        engine.anew = settings.anew
        self._journal, self._company = journal, company
        self._whole: Run | None = None
        self._watch_store()
        self._planning = Planning(journal, record, engine.pause)
        engine.planned = lambda: self._planning.planned
        self._governor = Governor(engine, settings.govern, settings.approve)
        self._result: Any = None
        self._flaw: str | None = None
        self.closing: Receipt | None = None  # the closing account, once the run is closed

    async def adopt(self) -> int:
        """Before an earlier run goes on: take over the agents that its dead process left at work."""
        return await adopt_all(self._engine, self._chooser.known)

    def branch(self, record: RunRecord) -> Run:
        """A run of its own on record, on the budget, the limits and the members of this one. Its
        tasks stand alone. It is closed before this one."""
        settings = msgspec.structs.replace(self.settings, serving=True)
        made = Run(self._journal, record, self._company, settings, self.clock)
        made._whole = self
        made._engine.draw_on(self._engine)
        self._watch_store()
        return made

    def _watch_store(self) -> None:
        """The reason may be a full disk, or a store that is locked, damaged, moved or deleted."""
        self._journal.when_in_trouble(lambda why: self._engine.halt(Stop("paused", why)))

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
        last_step = self._engine.open_step(last or terms).no
        batch = await self._planning.plan(source, name or terms.step, last_step)
        self._engine.last_steps[batch.no] = last_step
        return batch

    def recall(self, batch: Batch, terms: Terms) -> bytearray:
        """Which items have their outcome at this step already: not 0, by position."""
        step = self._engine.open_step(terms).no
        done = self._journal.read.settled(self.record.no, batch.no, step, batch.size)
        self._engine.on_record[batch.no, step] = done
        return done

    def remaining(self, batch: Batch, terms: Terms) -> Iterator[tuple[int, Item]]:
        """The batch's items, those without an outcome first, so that a resumed run gets going."""
        done = self.recall(batch, terms)
        yield from batch.source.walk(done)
        if any(done):
            yield from batch.source.walk(bytes(not flag for flag in done))

    # ── asking ──

    async def begin(self, terms: Terms) -> None:
        """Open a step: find who may answer and get them ready, so that what is wrong shows early."""
        self._engine.begin_step(terms)
        await self.prepare(terms)

    async def prepare(self, terms: Terms) -> None:
        """All who may be asked on these terms, and by their gate, are there, priced and open. No
        step of theirs is open yet."""
        asked = [terms, *asks_of(terms.gate)]
        circles = [(who, one.budget) for one in asked for who in one.whos]
        for who, budget in circles:  # first look for all of them, then start the first
            self._engine.check_prices([who], budget)
        for who, _ in circles:
            for candidate in self._engine.circle(who).candidates:
                await self._engine.open_member(candidate.member)

    async def begin_with(self, members: tuple[str, ...]) -> None:
        """Get these ready, without a step of theirs yet: they are there, priced and open."""
        if members:
            self._engine.check_prices([Who(members=members)])
            for candidate in self._engine.circle(Who(members=members)).candidates:
                await self._engine.open_member(candidate.member)

    def traits(self, terms: Terms) -> list[Traits]:
        """Those of all who may answer, also after an escalation."""
        return [c.traits for who in terms.whos for c in self._engine.circle(who).candidates]

    def reads_messages(self, terms: Terms) -> bool:
        """Does anyone who may answer read the rendered prompt? Functions receive the item instead."""
        return any(one.takes == "messages" or one.sees_ask for one in self.traits(terms))

    async def do(self, task: Task, tell: Tell | None = None) -> Outcome:
        """Carry one task to its outcome. A recorded reply is used instead of a new call.

        `tell` hears what a member says while it works: a view, before any gate has seen it.
        """
        try:
            return await self._done(task, carry, tell)
        except SetAside as gone:
            if not APART.get():
                whose = f"step {task.terms.step}, member {gone.member}"
                self._engine.halt(Stop("paused", f"{gone} ({whose})", "unfunded"))
                raise self._engine.stopped() from None
            self._engine.set_aside(task, gone)
            raise

    async def do_or_set_aside(self, task: Task) -> Outcome:
        """The same for one of many planned items: when it cannot be paid, its outcome is `unfunded`
        and the others go on. Call `end_short` when all are done."""
        return await self._done(task, carry_or_set_aside)

    async def do_apart(self, task: Task, way: Callable[[Task], Awaitable[T]]) -> T | None:
        """The same by a way of its own, such as a vote. None: something inside cannot be paid."""
        return await carry_apart(self._engine, task, way)

    def end_short(self) -> None:
        """Before something is made of many items: if some were set aside, the run pauses here."""
        self._engine.halt_if_short()
        self._engine.raise_if_stopping()

    async def _done(self, task: Task, way: Carry, tell: Tell | None = None) -> Outcome:
        engine = self._engine
        engine.open_step(task.terms)
        pursuit = Pursuit(engine, task, engine.circle(task.terms.who))
        pursuit.tell = tell
        if task.flaw is not None:
            pursuit.end_without(NoReply(task.flaw))
            return pursuit.outcome()
        known = engine.recorded(pursuit.ask_keys(), pursuit.circle) or pursuit.recorded_here()
        if known is not None:
            pursuit.recall(known)
        await way(pursuit)
        return pursuit.outcome()

    async def judge(self, task: Task, reply: Reply) -> Verdict:
        """What the task's gate says of a reply that was made of others: a vote, a reduce."""
        return await self._engine.judgings.verdict(task, reply, self.do)

    def settle(self, task: Task, outcome: Outcome) -> Outcome:
        """Write down how an item ended that no single ask decides: a vote, say, or none at all.

        The item is the one at the task's place, the step that of its terms. Calls and costs of the
        asks behind it are on record with those asks, so they are not counted again here.
        """
        engine, place = self._engine, task.place
        if place is None:
            return outcome
        step, kept = engine.open_step(task.terms), None
        if outcome.reply is not None:
            kept = NewReply(task.ask.key("items"), "fanfold", outcome.member or "", outcome.reply,
                          private=True)  # fmt: skip
        engine.note_ending(
            ItemEnding(place.batch, place.position, step.no, outcome.state, outcome.reasons,
                   outcome.member or "", landed=-1 if kept is None else 0), kept,
        )  # fmt: skip
        engine.count(place, step, outcome.state)
        if outcome.state == "failed":
            engine.item_failed(task, "; ".join(outcome.reasons))
        return msgspec.structs.replace(outcome, id=task.id, position=place.position)

    def stands(self, place: Place, terms: Terms, state: State) -> None:
        """An outcome of an earlier invocation counts as it is; nothing is asked or written."""
        self._engine.count(place, self._engine.open_step(terms), state)

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
        way: Way | None = None,
    ) -> AsyncIterator[Outcome]:
        """Carry many tasks of one step to their outcomes; outcomes come as they land.

        Tasks that come only while others are carried out are given as an async iterable, with the
        `terms` they have in common. Both ends are bounded: outcomes that nobody fetches hold up the
        work, and work that does not get on holds up the source of the tasks. With a `way` each task
        is carried to its outcome by that, as many at once as its terms say.
        """
        if isinstance(tasks, AsyncIterable):
            assert terms is not None, "an async iterable of tasks needs their terms"
            workers = self._workers(terms, way)
            stream: Stream | None = Stream(self._engine, tasks, shard, way)
        else:
            stream, workers = self._stream(tasks, shard, way)
        if stream is not None:
            async with aclosing(stream.outcomes(workers)) as landing:
                async for outcome in landing:
                    yield outcome

    async def drain(self, tasks: Iterable[Task], shard: Sharding | None = None) -> None:
        """As `stream`, when the outcomes are wanted only in the journal."""
        stream, workers = self._stream(tasks, shard)
        if stream is not None:
            await stream.drain(workers)
        await self._journal.flush()

    def _stream(
        self, tasks: Iterable[Task], shard: Sharding | None, way: Way | None = None
    ) -> tuple[Stream | None, int]:
        rest = iter(tasks)
        first = next(rest, None)
        if first is None:
            return None, 0
        tasks = chain((first,), rest)
        return Stream(self._engine, tasks, shard, way), self._workers(first.terms, way)

    def _workers(self, terms: Terms, way: Way | None = None) -> int:
        """A few more workers than calls at once: some wait for their reply to be durable."""
        self._engine.open_step(terms)
        return terms.concurrency + (max(2, terms.concurrency // 4) if way is None else 0)

    async def flush(self) -> None:
        """Everything that has landed so far can be read from the journal when this returns."""
        await self._journal.flush()

    # ── stopping and closing ──

    def pause(self, reason: str) -> None:
        """No new call; what is under way ends by itself, then the run can be resumed."""
        self._engine.halt(Stop("paused", reason))

    def kill(self, reason: str) -> None:
        self._engine.stop = Stop("killed", reason)

    def end_agents(self, why: str, said: str) -> None:
        """At the operator's word: all agents at work are ended, with all that they started. Their
        tasks end as failed, and what they took is settled as far as it is known."""
        for member in self._chooser.members:
            if member.traits.agent:
                cast(Adopts, member).end(why, said)

    @property
    def stopping(self) -> Stop | None:
        """Why it ends early; what a branch is part of may be why."""
        return self._engine.stop or (self._whole.stopping if self._whole else None)

    def flawed(self, reason: str) -> None:
        """The result could not be made as planned: the run ends flagged."""
        self._flaw = self._flaw or reason

    def set_result(self, value: Any) -> None:
        self._result = value

    async def close(self) -> Receipt:
        """Close the books: every planned item has an outcome, and the account adds up."""
        engine = self._engine
        await self._let_go()
        await engine.close_members(self._chooser.members)
        await self._journal.flush()
        tally = self._journal.read.tally(self.record.no)
        planned = self._journal.read.planned(self.record.no)
        status, reason = self._end(tally, planned)
        settled = sum(tally.values()) == planned and engine.stop is None
        await self._journal.write(
            CloseRun(run=self.record.no, status=status, reason=reason, at=self.clock.now(),
                     active=self.clock.monotonic() - self._began, result=_encode(self._result),
                     rest=None if settled else engine.stop.rest if engine.stop else "cancelled")
        )  # fmt: skip
        self.closing = self.receipt(tally if settled else None)
        return self.closing

    async def _let_go(self) -> None:
        """What was adopted ends by itself, as all that is under way; a killed run waits for none."""
        adopted = tuple(self._engine.adopted)
        if adopted:
            if self.stopping is not None and self.stopping.status == "killed":
                for task in adopted:
                    task.cancel()
            await asyncio.gather(*adopted, return_exceptions=True)

    def _end(self, tally: Tally, planned: int) -> tuple[str, str | None]:
        engine = self._engine
        if engine.stop is not None:
            return engine.stop.status, engine.stop.reason
        if self._planning.added is not None:
            return "paused", self._planning.added
        if engine.aside:
            return "paused", engine.aside.reason
        if engine.held:
            return "paused", f"{engine.held} failed items are held; resume to try them again"
        left = planned - sum(tally.values()) + tally["cancelled"] + tally["unfunded"]
        if self.only and left:
            return "paused", "the other items were left as they were; resume to carry them out"
        if tally["in_doubt"]:
            return "paused", "items in doubt are held; resume with --retry-in-doubt to repeat them"
        return ("flagged", self._flaw) if self._flaw else (status_of(tally, planned), None)
