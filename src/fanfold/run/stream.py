"""Many tasks at once: a fixed number of workers pull from one iterator; results as they land."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Iterator
from itertools import islice

import msgspec

from fanfold.errors import BadInput, FanfoldError
from fanfold.run.carry import SKIPPED, carry, carry_one_of_many, carry_separately, carry_shard
from fanfold.run.context import Context
from fanfold.run.demand import StepState
from fanfold.run.pool import Feed, Pool, ends_gracefully
from fanfold.run.task_state import NoReply, Shard, TaskState
from fanfold.run.tools import SHARED_ASK
from fanfold.run.unpaid import CannotPay
from fanfold.work.ask import Ask
from fanfold.work.outcome import Outcome
from fanfold.work.shard import Filling, ShardSize
from fanfold.work.split import TakeApart
from fanfold.work.task import Task

CHUNK = 64  # tasks looked up in the journal at once
BACKLOG = 10_000  # facts nobody waits for, before the writer is waited for
MOST_WAITING = 192  # workers of one stream whose replies become durable, where calls are free
ROOM = 4  # results waiting to be fetched, per worker, before the workers wait

Together = Callable[[tuple[TaskState, ...]], tuple[Ask, TakeApart]]
Unit = TaskState | Shard | Task
Do = Callable[[Task], Awaitable[Outcome]]


class Sharding(msgspec.Struct, frozen=True):
    """Several of `of` items in one ask: which ones, `size` says; `together` makes that ask.

    `flaw`: why an item cannot be asked about together with others, asked when `together` fails.
    """

    together: Together
    flaw: Callable[[Task], str | None]
    size: ShardSize
    of: int


class Stream:
    """One pass over tasks: given as an iterable, or as an async one whose tasks come meanwhile.

    Recorded replies are looked up a chunk at a time. With a `do` of their own, tasks are carried
    out by that instead; it looks for itself.
    """

    def __init__(
        self,
        ctx: Context,
        tasks: Iterable[Task] | AsyncIterable[Task],
        shard: Sharding | None,
        step: StepState,
        do: Do | None = None,
    ) -> None:
        self._ctx, self._step = ctx, step
        self._shard, self._carry_out = shard, do
        self._filling: Filling[TaskState] | None = None
        if shard is not None:
            self._filling = Filling(shard.size, shard.of, lambda state: state.task)
        self._source = tasks
        self._tasks: Iterator[Task] = iter(())
        self._feed: Feed[Task] | None = None
        self._units: deque[Unit] = deque()
        self._landed: deque[Outcome] = deque()
        self._room = self._quick = 0
        self._unpaid = False  # some items of this stream could not be paid
        self._fetched: asyncio.Event = asyncio.Event()

    @property
    def workers(self) -> int:
        """A few more than calls at once: some wait for their reply to be durable. Where calls are
        free, which are over soon, most do: the more wait, the fewer commits there are."""
        most = self._step.at_once
        if self._carry_out is not None:
            return most
        return most + max(2, min(3 * most, MOST_WAITING) if self._step.free else most // 4)

    def _grow(self, most: int) -> None:
        self._pool.grow(self.workers)

    async def outcomes(self) -> AsyncGenerator[Outcome, None]:
        """As they land. Raises RunStopped after the last one when the run stopped meanwhile."""
        self._room = self.workers * ROOM
        pool = self._start()
        finished = False
        try:
            while pool.active or self._landed:
                while self._landed:
                    yield self._landed.popleft()
                self._fetched.set()
                if pool.active and not pool.failed:
                    await pool.changed()
                if pool.failed:
                    break
            finished = not pool.failed
        finally:
            await self._end(pool, finished)
        self._raise_if_stopped(pool)

    async def drain(self) -> None:
        """The same, when nobody needs the outcomes here: they are in the journal."""
        pool = self._start()
        finished = False
        try:
            await pool.wait()
            finished = not pool.failed
        finally:
            await self._end(pool, finished)
        self._raise_if_stopped(pool)

    # ── beginning and end ──

    def _start(self) -> Pool[Unit]:
        stopping = self._ctx.stopping
        pool: Pool[Unit] = Pool(
            self.workers, self._do, self._next_unit, lambda: stopping.stop is not None
        )
        self._pool = pool
        if isinstance(self._source, AsyncIterable):
            self._tasks = self._feed = feed = pool.feed(self._source, CHUNK)
            pool.accompany(self._close_at_stop(feed))
        else:
            self._tasks = iter(self._source)
        stopping.streams += 1
        pool.start()
        self._step.grow.append(self._grow)
        return pool

    async def _close_at_stop(self, feed: Feed[Task]) -> None:
        """A source may wait for outcomes that a stopping run no longer brings."""
        await self._ctx.stopping.wait(None)
        feed.close()

    async def _end(self, pool: Pool[Unit], finished: bool) -> None:
        """Cancel what is left. But where the run stops by itself, calls under way come to their
        end, also in a stream that this one takes its tasks from."""
        stopping = self._ctx.stopping
        graceful = stopping.stop is not None and (finished or ends_gracefully())
        if graceful:
            self._room = 0
            self._fetched.set()
        try:
            await pool.end(graceful)
        finally:
            stopping.streams -= 1
            self._step.grow.remove(self._grow)

    def _raise_if_stopped(self, pool: Pool[Unit]) -> None:
        """Where items could not be paid, nothing can be made of all: whoever waits for this stream
        gets that error, and after the last stream the run pauses."""
        stopping = self._ctx.stopping
        if pool.failed:
            assert pool.error is not None
            raise pool.error
        if not stopping.streams:
            stopping.halt_if_unpaid()
        stopping.raise_if_stopping()
        if self._unpaid:
            assert stopping.unpaid.dearest is not None
            raise stopping.unpaid.dearest
        error = pool.error or (self._feed and self._feed.error)
        if error:
            raise error

    # ── one unit of work ──

    async def _do(self, unit: Unit) -> None:
        if not isinstance(unit, TaskState):
            await self._work_otherwise(unit)
        elif unit.reply is None and unit.task.flaw is None:
            try:
                await carry(unit)
            except CannotPay as short:  # the others go on without it
                unit.end_unpaid(short)
            if self._room or unit.final == "unfunded":
                self._land(unit)
        else:
            await self._work_without_asking(unit)
        if self._room and len(self._landed) >= self._room:
            self._fetched.clear()
            await self._fetched.wait()

    async def _work_without_asking(self, state: TaskState) -> None:
        """A recorded reply, or an item nothing can be made of. Others get a turn now and then."""
        if state.task.flaw is None:
            await carry_one_of_many(state)
        else:
            state.end_without(NoReply(state.task.flaw))
        self._land(state)
        await self._breathe()

    async def _breathe(self) -> None:
        self._quick += 1
        if self._quick % CHUNK == 0:
            await asyncio.sleep(0)
            if self._ctx.store.backlog > BACKLOG:
                await self._ctx.store.flush()

    async def _work_otherwise(self, unit: Shard | Task) -> None:
        """A shard, or a task that is carried out by `do`."""
        if isinstance(unit, Shard):
            await carry_shard(unit)
            for state in unit.tasks:
                self._land(state)
            return
        assert self._carry_out is not None
        if unit.id in self._ctx.outcomes.skipped_ids:
            state = TaskState(self._ctx, unit, self._ctx.choose.eligible(unit.terms.who))
            state.end_without(NoReply(SKIPPED, "skipped"))
            self._land(state)
            return
        outcome = await carry_separately(self._ctx, unit, self._carry_out)
        if outcome is None:
            self._unpaid = True
        elif self._room:
            self._landed.append(outcome)
            self._pool.notify()
        await self._breathe()

    def _land(self, state: TaskState) -> None:
        """What could not be paid has not landed."""
        if state.final == "unfunded" and not self._ctx.settings.serving:
            self._unpaid = True
        elif self._room:
            self._landed.append(state.outcome())
            self._pool.notify()

    # ── what to do next ──

    def _next_unit(self) -> Unit | None:
        """None: nothing is there now. A shard that is not full goes out when all has come."""
        units = self._units
        while not units:
            chunk = list(islice(self._tasks, 1 if self._carry_out else CHUNK))
            if not chunk:
                return self._last_unit()
            if self._carry_out is not None and chunk[0].flaw is None:
                return chunk[0]
            for state in self._looked_up(chunk):
                settled = state.reply is not None or state.task.flaw or state.damage
                if self._filling is None or settled:
                    units.append(state)
                else:
                    units.extend(self._filled(state, self._filling))
        return units.popleft()

    def _filled(self, state: TaskState, filling: Filling[TaskState]) -> Iterator[Unit]:
        """The shards that are full with it. An item that belongs into none fails."""
        try:
            full = filling.add(state)
        except FanfoldError as error:
            state.task = msgspec.structs.replace(state.task, flaw=str(error))
            yield state
        else:
            yield from (unit for shard in full for unit in self._grouped(shard))

    def _last_unit(self) -> Unit | None:
        if self._filling is None or (self._feed is not None and not self._feed.complete):
            return None
        self._units.extend(unit for shard in self._filling.rest() for unit in self._grouped(shard))
        return self._units.popleft() if self._units else None

    def _looked_up(self, chunk: list[Task]) -> list[TaskState]:
        """Give each task its recorded reply, if there is one that serves."""
        ctx, who = self._ctx, None
        states: list[TaskState] = []
        groups: dict[int, list[TaskState]] = {}
        for task in chunk:
            if task.terms.who is not who:  # most tasks of a chunk are for the same members
                who = task.terms.who
                eligible = ctx.choose.eligible(who)
                group = groups.setdefault(id(eligible), [])
            states.append(state := TaskState(ctx, task, eligible))
            if task.flaw is None:
                group.append(state)
        for members in filter(None, groups.values()):
            eligible = members[0].eligible
            if eligible.unrecorded and ctx.replies.new_run:
                continue
            if eligible.private:
                self._look_in_outcomes(members)
            self._look_under_keys(members, frozenset(eligible.accept))
        return states

    def _look_in_outcomes(self, states: list[TaskState]) -> None:
        """Replies that serve only this run stand with their outcomes, by position."""
        places: dict[int, list[TaskState]] = {}
        for state in states:
            places.setdefault(state.place.batch, []).append(state)
        for batch, there in places.items():
            positions = [state.place.position for state in there]
            found = self._ctx.replies.recorded_at(batch, there[0].step, positions)
            for state in there if found else ():
                key, known = found.get(state.place.position, (b"", None))
                if known and known.answerer in state.eligible.accept and key in state.ask_keys():
                    state.recall(known)

    def _look_under_keys(self, states: list[TaskState], accept: frozenset[str]) -> None:
        keys = [key for p in states if p.reply is None for key in p.ask_keys()]
        known = self._ctx.replies.recorded_all(keys, accept) if keys else {}
        for state in states if known else ():
            if state.reply is None:
                found = next((known[k] for k in state.ask_keys() if k in known), None)
                if found is not None:
                    state.recall(found)

    def _grouped(self, states: tuple[TaskState, ...]) -> Iterable[Unit]:
        """A shard of one is an ordinary ask, so that its key and its reply are the ordinary ones.

        When no ask can be made of a shard, the items that are why fail, and only they.
        """
        assert self._shard is not None
        if states[0].tools is not None:
            raise BadInput(SHARED_ASK)
        if len(states) < 2:
            return states
        try:
            ask, apart = self._shard.together(states)
        except FanfoldError:
            return self._without_flawed(states, self._shard.flaw)
        return (Shard(states, ask, apart),)

    def _without_flawed(
        self, states: tuple[TaskState, ...], flaw: Callable[[Task], str | None]
    ) -> Iterable[Unit]:
        """Where nobody alone is why, each is asked about on its own."""
        good: list[TaskState] = []
        for state in states:
            why = flaw(state.task)
            if why is None:
                good.append(state)
            else:
                state.task = msgspec.structs.replace(state.task, flaw=why)
        if len(good) == len(states):
            return states
        flawed = [state for state in states if state.task.flaw]
        return (*flawed, *self._grouped(tuple(good)))
