"""A run: opened on a journal, asked to do tasks, closed with a receipt."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from fanfold.clock import Clock, RealClock
from fanfold.errors import BadInput
from fanfold.journal.apply import CloseRun, DropBatch, PlanBatch
from fanfold.journal.facts import RunRecord
from fanfold.journal.journal import Journal
from fanfold.run.carry import carry
from fanfold.run.choose import Chooser, Company
from fanfold.run.engine import Engine, Stop
from fanfold.run.ledger import Ledger, Sum
from fanfold.run.limits import Limits
from fanfold.run.pursuit import Pursuit
from fanfold.run.receipt import Tally, receipt, status_of
from fanfold.run.stream import Sharding, Stream
from fanfold.work.item import Item, Source, canonical, digest
from fanfold.work.outcome import Outcome, Part, Receipt
from fanfold.work.task import Budget, Task, Terms, Who

_encode = msgspec.json.Encoder().encode


class Batch(msgspec.Struct, frozen=True):
    """Items that were planned together: their ids and hashes are in the journal."""

    no: int
    source: Source
    size: int


class Statistics(NamedTuple):
    """Where a run stands, for those who watch it. Money in nano-dollars."""

    planned: int
    done: int
    in_flight: int
    passed: int
    kicked_back: int
    retries: int
    calls: int
    reused: int
    cost: int
    reserved: int
    budget: int | None
    seconds: float


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How a run is carried out; what is done is in its tasks.

    `retry_in_doubt`: ids whose attempts in doubt may be repeated; None means all of them.
    """

    budget: Budget = Budget()
    max_concurrency: int = 64
    fresh: bool = False
    seed: int = 0
    retry_in_doubt: frozenset[str] | None = frozenset()


def _fingerprint(source: Source) -> str:
    try:
        return source.fingerprint()
    except (UnicodeError, TypeError, OverflowError) as error:
        raise BadInput(f"the items are not plain JSON: {error}") from None


class Run:
    """`do` one task or `stream` many; a pattern is ordinary Python over these two."""

    def __init__(
        self,
        journal: Journal,
        record: RunRecord,
        company: Company,
        settings: Settings,
        clock: Clock | None = None,
    ) -> None:
        self.record, self.settings = record, settings
        self.clock = clock or RealClock()
        rng = random.Random(settings.seed)
        limits = Limits(settings.max_concurrency, rng)
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
        engine.no, engine.session, engine.rng = record.no, record.session, rng
        engine.fresh, engine.retry_in_doubt = settings.fresh, settings.retry_in_doubt
        engine.new = not record.resumed
        engine.spent_before(spent)
        engine.ask_power = self.do
        full = Stop("paused", "the disk is full; make room, then resume")
        journal.when_low_on_space(lambda: engine.halt(full))
        self._began = self.clock.monotonic()
        self._chooser = engine.choose = Chooser(company, limits, self._began)
        if settings.budget.seconds is not None:
            engine.dispatch.deadline = self._began + settings.budget.seconds - record.active
        self._journal = journal
        self._batches = self._planned = 0
        self._result: Any = None
        self._flaw: str | None = None
        self.closing: Receipt | None = None  # the closing account, once the run is closed

    # ── planning ──

    async def plan(self, source: Source, terms: Terms, last: Terms | None = None) -> Batch:
        """Enumerate a batch: ids and hashes go into the journal before anything is asked.

        `terms` is the first step its items go through, `last` the one where they leave the flow.
        """
        await self.begin(terms)
        last_step = self._engine.open_step(last or terms).no
        no, self._batches = self._batches, self._batches + 1
        self._engine.last_steps[no] = last_step
        fingerprint = _fingerprint(source)
        known = self._journal.read.batch(self.record.no, no)
        if known is not None and known[0] == fingerprint:
            size = known[1]
        else:
            if self.record.resumed:  # what an earlier invocation planned, in part or otherwise
                await self._journal.write(DropBatch(self.record.no, no))
            size = await self._journal.plan_items(self._rows(source, no))
            self._refuse_duplicates(source, no)
            await self._journal.write(PlanBatch(self.record.no, no, fingerprint, size, last_step))
        self._planned += size
        return Batch(no, source, size)

    def _rows(self, source: Source, no: int) -> Iterator[tuple[int, int, int, str, bytes]]:
        run = self.record.no
        for position, item in source.walk():
            try:
                item.id.encode()
                yield run, no, position, item.id, digest(canonical(item.data))[:8]
            except (UnicodeError, TypeError, OverflowError) as error:
                raise BadInput(
                    f"item {position} ({item.id!a}) is not plain JSON: {error}"
                ) from None

    def _refuse_duplicates(self, source: Source, no: int) -> None:
        found = self._journal.read.duplicate(self.record.no, no)
        if found is not None:
            id, first, second = found
            where = getattr(source, "where", "item {}".format)
            raise BadInput(
                f"the id {id!r} stands twice: {where(first)} and {where(second)}; make ids unique"
            )

    def remaining(self, batch: Batch, terms: Terms) -> Iterator[tuple[int, Item]]:
        """The batch's items, those without an outcome first, so that a resumed run gets going."""
        step = self._engine.open_step(terms).no
        done = self._journal.read.settled(self.record.no, batch.no, step, batch.size)
        self._engine.on_record[batch.no, step] = done
        yield from batch.source.walk(done)
        if any(done):
            yield from batch.source.walk(bytes(not flag for flag in done))

    # ── asking ──

    async def begin(self, terms: Terms) -> None:
        """Open a step: find who may answer and get them ready, so that what is wrong shows early."""
        self._engine.open_step(terms)
        circles = [terms.who, *(Who(members=(id,)) for id in terms.escalate)]
        for who in circles:
            for candidate in self._engine.circle(who).candidates:
                await self._engine.open_member(candidate.member)

    def reads_messages(self, terms: Terms) -> bool:
        """Does anyone who may answer read the rendered prompt? Functions receive the item instead."""
        circles = [terms.who, *(Who(members=(id,)) for id in terms.escalate)]
        members = [c.traits for who in circles for c in self._engine.circle(who).candidates]
        return any(traits.takes == "messages" or traits.sees_ask for traits in members)

    async def do(self, task: Task) -> Outcome:
        """Carry one task to its outcome. A recorded reply is used instead of a new call."""
        engine = self._engine
        engine.open_step(task.terms)
        pursuit = Pursuit(engine, task, engine.circle(task.terms.who))
        known = engine.recorded(pursuit.ask_keys(), pursuit.circle)
        if known is not None:
            pursuit.recall(known)
        await carry(pursuit)
        return pursuit.outcome()

    async def stream(
        self, tasks: Iterable[Task], shard: Sharding | None = None
    ) -> AsyncIterator[Outcome]:
        """Carry many tasks of one step to their outcomes; outcomes come as they land."""
        stream, workers = self._stream(tasks, shard)
        if stream is not None:
            async for outcome in stream.outcomes(workers):
                yield outcome

    async def drain(self, tasks: Iterable[Task], shard: Sharding | None = None) -> None:
        """As `stream`, when the outcomes are wanted only in the journal."""
        stream, workers = self._stream(tasks, shard)
        if stream is not None:
            await stream.drain(workers)
        await self._journal.flush()

    def _stream(self, tasks: Iterable[Task], shard: Sharding | None) -> tuple[Stream | None, int]:
        """A few more workers than calls at once: some wait for their reply to be durable."""
        rest = iter(tasks)
        first = next(rest, None)
        if first is None:
            return None, 0
        self._engine.open_step(first.terms)
        concurrency = first.terms.concurrency
        return Stream(self._engine, chain((first,), rest), shard), concurrency + max(
            2, concurrency // 4
        )

    def passed(self, batch: Batch, terms: Terms) -> Iterator[Part]:
        """What passed a step, in planned order, one at a time, from the journal."""
        return self._journal.read.parts(self.record.no, batch.no, self._engine.steps[terms.step].no)

    # ── stopping and closing ──

    def pause(self, reason: str) -> None:
        """No new call; what is under way ends by itself, then the run can be resumed."""
        self._engine.halt(Stop("paused", reason))

    def kill(self, reason: str) -> None:
        self._engine.stop = Stop("killed", reason)

    @property
    def stopping(self) -> Stop | None:
        return self._engine.stop

    def flawed(self, reason: str) -> None:
        """The result could not be made as planned: the run ends flagged."""
        self._flaw = self._flaw or reason

    def set_result(self, value: Any) -> None:
        self._result = value

    def statistics(self) -> Statistics:
        engine, account = self._engine, self._engine.ledger.run
        counts = engine.counts
        return Statistics(
            self._planned, counts.done, engine.limits.in_flight, counts.states["passed"],
            counts.kicks, counts.retries, counts.calls, counts.reused, account.usd,
            account.reserved_usd, account.max_usd, self.clock.monotonic() - self._began,
        )  # fmt: skip

    def receipt(self, tally: Tally | None = None) -> Receipt:
        """The account as it stands; the closing one comes from `close`."""
        record = self._journal.read.find(self.record.id)
        assert record is not None
        return receipt(self._journal.read, record, self._engine.counts, tally)

    @property
    def spool(self) -> Path:
        return self._journal.store.spool()

    async def close(self) -> Receipt:
        """Close the books: every planned item has an outcome, and the account adds up."""
        engine = self._engine
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

    def _end(self, tally: Tally, planned: int) -> tuple[str, str | None]:
        engine = self._engine
        if engine.stop is not None:
            return engine.stop.status, engine.stop.reason
        if engine.held:
            return "paused", f"{engine.held} failed items are held; resume to try them again"
        if tally["in_doubt"]:
            return "paused", "items in doubt are held; resume with --retry-in-doubt to repeat them"
        return ("flagged", self._flaw) if self._flaw else (status_of(tally, planned), None)
