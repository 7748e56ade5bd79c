"""Many tasks at once: a fixed number of workers pull from one iterator; results as they land."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Iterator
from itertools import islice

import msgspec

from fanfold.errors import FanfoldError
from fanfold.run.carry import carry_apart, carry_or_set_aside, carry_shard
from fanfold.run.engine import Engine
from fanfold.run.pool import Feed, Pool, ends_gracefully
from fanfold.run.pursuit import Group, NoReply, Pursuit
from fanfold.work.ask import Ask, Reply
from fanfold.work.outcome import Outcome
from fanfold.work.split import Filling
from fanfold.work.task import Task

CHUNK = 64  # tasks looked up in the journal at once
BACKLOG = 10_000  # facts nobody waits for, before the writer is waited for
ROOM = 4  # results waiting to be fetched, per worker, before the workers wait

Together = Callable[[tuple[Pursuit, ...]], tuple[Ask, Callable[[Reply], dict[str, Reply]]]]
Unit = Pursuit | Group | Task
Way = Callable[[Task], Awaitable[Outcome]]


class Sharding(msgspec.Struct, frozen=True):
    """Several items in one ask: at most so many, or so many tokens. `together` makes that ask.

    `flaw`: why an item cannot be asked about together with others, asked when `together` fails.
    """

    together: Together
    size: Callable[[Task], int]
    flaw: Callable[[Task], str | None]
    items: int | None = None
    tokens: int | None = None


class Stream:
    """One pass over tasks: given as an iterable, or as an async one whose tasks come meanwhile.

    Recorded replies are looked up a chunk at a time. With a `way` of their own, tasks are carried
    out by that instead; it looks for itself.
    """

    def __init__(
        self,
        engine: Engine,
        tasks: Iterable[Task] | AsyncIterable[Task],
        shard: Sharding | None,
        way: Way | None = None,
    ) -> None:
        self._engine = engine
        self._shard, self._way = shard, way
        self._filling: Filling[Pursuit] | None = None
        if shard is not None:
            size = shard.size
            self._filling = Filling(shard.items, shard.tokens, lambda p: size(p.task))
        self._source = tasks
        self._tasks: Iterator[Task] = iter(())
        self._feed: Feed[Task] | None = None
        self._units: deque[Unit] = deque()
        self._landed: deque[Outcome] = deque()
        self._room = self._quick = 0
        self._unpaid = False  # some items of this stream could not be paid
        self._fetched: asyncio.Event = asyncio.Event()

    async def outcomes(self, workers: int) -> AsyncGenerator[Outcome, None]:
        """As they land. Raises RunStopped after the last one when the run stopped meanwhile."""
        self._room = workers * ROOM
        pool = self._start(workers)
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

    async def drain(self, workers: int) -> None:
        """The same, when nobody needs the outcomes here: they are in the journal."""
        pool = self._start(workers)
        finished = False
        try:
            await pool.wait()
            finished = not pool.failed
        finally:
            await self._end(pool, finished)
        self._raise_if_stopped(pool)

    # ── beginning and end ──

    def _start(self, workers: int) -> Pool[Unit]:
        engine = self._engine
        pool: Pool[Unit] = Pool(workers, self._do, self._next_unit, lambda: engine.stop is not None)
        self._pool = pool
        if isinstance(self._source, AsyncIterable):
            self._tasks = self._feed = feed = pool.feed(self._source, CHUNK)
            pool.accompany(self._close_at_stop(feed))
        else:
            self._tasks = iter(self._source)
        engine.streams += 1
        pool.start()
        return pool

    async def _close_at_stop(self, feed: Feed[Task]) -> None:
        """A source may wait for outcomes that a stopping run no longer brings."""
        await self._engine.rest(None)
        feed.close()

    async def _end(self, pool: Pool[Unit], finished: bool) -> None:
        """Cancel what is left. But where the run stops by itself, calls under way come to their
        end, also in a stream that this one takes its tasks from."""
        graceful = self._engine.stop is not None and (finished or ends_gracefully())
        if graceful:
            self._room = 0
            self._fetched.set()
        try:
            await pool.end(graceful)
        finally:
            self._engine.streams -= 1

    def _raise_if_stopped(self, pool: Pool[Unit]) -> None:
        """Where items could not be paid, nothing can be made of all: whoever waits for this stream
        gets that error, and after the last stream the run pauses."""
        engine = self._engine
        if pool.failed:
            assert pool.error is not None
            raise pool.error
        if not engine.streams:
            engine.halt_if_short()
        engine.raise_if_stopping()
        if self._unpaid:
            assert engine.aside.dearest is not None
            raise engine.aside.dearest
        error = pool.error or (self._feed and self._feed.error)
        if error:
            raise error

    # ── one unit of work ──

    async def _do(self, unit: Unit) -> None:
        if not isinstance(unit, Pursuit):
            await self._work_otherwise(unit)
        elif unit.reply is None and unit.task.flaw is None:
            await carry_or_set_aside(unit)
            self._land(unit)
        else:
            await self._work_without_asking(unit)
        if self._room and len(self._landed) >= self._room:
            self._fetched.clear()
            await self._fetched.wait()

    async def _work_without_asking(self, pursuit: Pursuit) -> None:
        """A recorded reply, or an item nothing can be made of. Others get a turn now and then."""
        if pursuit.task.flaw is None:
            await carry_or_set_aside(pursuit)
        else:
            pursuit.end_without(NoReply(pursuit.task.flaw))
        self._land(pursuit)
        await self._breathe()

    async def _breathe(self) -> None:
        self._quick += 1
        if self._quick % CHUNK == 0:
            await asyncio.sleep(0)
            if self._engine.journal.backlog > BACKLOG:
                await self._engine.journal.flush()

    async def _work_otherwise(self, unit: Group | Task) -> None:
        """A shard, or a task that has a way of its own."""
        if isinstance(unit, Group):
            await carry_shard(unit)
            for pursuit in unit.pursuits:
                self._land(pursuit)
            return
        assert self._way is not None
        outcome = await carry_apart(self._engine, unit, self._way)
        if outcome is None:
            self._unpaid = True
        elif self._room:
            self._landed.append(outcome)
            self._pool.notify()
        await self._breathe()

    def _land(self, pursuit: Pursuit) -> None:
        """What could not be paid has not landed."""
        if pursuit.final == "unfunded" and not self._engine.serving:
            self._unpaid = True
        elif self._room:
            self._landed.append(pursuit.outcome())
            self._pool.notify()

    # ── what to do next ──

    def _next_unit(self) -> Unit | None:
        """None: nothing is there now. A shard that is not full goes out when all has come."""
        units = self._units
        while not units:
            chunk = list(islice(self._tasks, 1 if self._way else CHUNK))
            if not chunk:
                return self._last_unit()
            if self._way is not None and chunk[0].flaw is None:
                return chunk[0]
            for pursuit in self._looked_up(chunk):
                settled = pursuit.reply is not None or pursuit.task.flaw or pursuit.damage
                if self._filling is None or settled:
                    units.append(pursuit)
                elif full := self._filling.add(pursuit):
                    units.extend(self._grouped(full))
        return units.popleft()

    def _last_unit(self) -> Unit | None:
        if self._filling is None or (self._feed is not None and not self._feed.complete):
            return None
        self._units.extend(self._grouped(self._filling.rest()))
        return self._units.popleft() if self._units else None

    def _looked_up(self, chunk: list[Task]) -> list[Pursuit]:
        """Give each task its recorded reply, if there is one that serves."""
        engine = self._engine
        pursuits = [Pursuit(engine, task, engine.circle(task.terms.who)) for task in chunk]
        circles: dict[int, list[Pursuit]] = {}
        for pursuit in pursuits:
            if pursuit.task.flaw is None:
                circles.setdefault(id(pursuit.circle), []).append(pursuit)
        for members in circles.values():
            circle = members[0].circle
            if circle.unrecorded and engine.new:
                continue
            if circle.private:
                self._look_in_outcomes(members)
            self._look_under_keys(members, frozenset(circle.accept))
        return pursuits

    def _look_in_outcomes(self, pursuits: list[Pursuit]) -> None:
        """Replies that serve only this run stand with their outcomes, by position."""
        places: dict[int, list[Pursuit]] = {}
        for pursuit in pursuits:
            places.setdefault(pursuit.place.batch, []).append(pursuit)
        for batch, there in places.items():
            positions = [pursuit.place.position for pursuit in there]
            found = self._engine.recorded_at(batch, there[0].step, positions)
            for pursuit in there if found else ():
                key, known = found.get(pursuit.place.position, (b"", None))
                if known and known.answerer in pursuit.circle.accept and key in pursuit.ask_keys():
                    pursuit.recall(known)

    def _look_under_keys(self, pursuits: list[Pursuit], accept: frozenset[str]) -> None:
        engine = self._engine
        keys = [key for p in pursuits if p.reply is None for key in p.ask_keys()]
        known = engine.journal.read.known(keys, accept, engine.no, engine.fresh) if keys else {}
        for pursuit in pursuits if known else ():
            if pursuit.reply is None:
                found = next((known[k] for k in pursuit.ask_keys() if k in known), None)
                if found is not None:
                    pursuit.recall(found)

    def _grouped(self, pursuits: tuple[Pursuit, ...]) -> Iterable[Unit]:
        """A shard of one is an ordinary ask, so that its key and its reply are the ordinary ones.

        When no ask can be made of a shard, the items that are why fail, and only they.
        """
        assert self._shard is not None
        if len(pursuits) < 2:
            return pursuits
        try:
            ask, apart = self._shard.together(pursuits)
        except FanfoldError:
            return self._without_flawed(pursuits, self._shard.flaw)
        return (Group(pursuits, ask, apart),)

    def _without_flawed(
        self, pursuits: tuple[Pursuit, ...], flaw: Callable[[Task], str | None]
    ) -> Iterable[Unit]:
        """Where nobody alone is why, each is asked about on its own."""
        good: list[Pursuit] = []
        for pursuit in pursuits:
            why = flaw(pursuit.task)
            if why is None:
                good.append(pursuit)
            else:
                pursuit.task = msgspec.structs.replace(pursuit.task, flaw=why)
        if len(good) == len(pursuits):
            return pursuits
        flawed = [pursuit for pursuit in pursuits if pursuit.task.flaw]
        return (*flawed, *self._grouped(tuple(good)))
