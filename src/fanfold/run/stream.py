"""Many tasks at once: a fixed number of workers pull from one iterator; results as they land."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Iterator
from itertools import islice

import msgspec

from fanfold.errors import FanfoldError, RunStopped
from fanfold.run.carry import carry_apart, carry_or_set_aside, carry_shard
from fanfold.run.engine import Engine
from fanfold.run.inflow import Inflow
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
        self._inflow: Inflow | None = None
        if isinstance(tasks, AsyncIterable):
            self._tasks: Iterator[Task] = (inflow := Inflow(tasks, CHUNK))
            self._inflow = inflow
        else:
            self._tasks = iter(tasks)
        self._units: deque[Unit] = deque()
        self._landed: deque[Outcome] = deque()
        self._room = self._active = self._quick = 0
        self._error: Exception | None = None
        self._aside = False  # some items of this stream could not be paid
        self._arrived: asyncio.Future[None] | None = None
        self._fetched: asyncio.Event = asyncio.Event()

    async def outcomes(self, workers: int) -> AsyncGenerator[Outcome, None]:
        """As they land. Raises RunStopped after the last one when the run stopped meanwhile."""
        self._room = workers * ROOM
        busy, source = self._start(workers)
        gently = False
        try:
            while self._active or self._landed:
                while self._landed:
                    yield self._landed.popleft()
                self._fetched.set()
                if self._active and self._error is None:
                    await self._something_new()
                if self._error is not None:
                    raise self._error
            gently = True
        finally:
            await self._end(busy, source, gently)
        self._raise_if_stopped()

    async def drain(self, workers: int) -> None:
        """The same, when nobody needs the outcomes here: they are in the journal."""
        busy, source = self._start(workers)
        try:
            while self._active and self._error is None:
                await self._something_new()
            if self._error is not None:
                raise self._error
        finally:
            await self._end(busy, source, self._error is None and not self._active)
        self._raise_if_stopped()

    async def _something_new(self) -> None:
        self._arrived = asyncio.get_running_loop().create_future()
        await self._arrived

    def _raise_if_stopped(self) -> None:
        """Where items were set aside, nothing can be made of all: whoever waits for this stream is
        told, and after the last of them the run pauses."""
        engine = self._engine
        if not engine.streams:
            engine.halt_if_short()
        engine.raise_if_stopping()
        if self._aside:
            assert engine.aside.dearest is not None
            raise engine.aside.dearest
        if self._inflow is not None and self._inflow.error is not None:
            raise self._inflow.error

    # ── beginning and end ──

    def _start(self, workers: int) -> tuple[list[asyncio.Task[None]], list[asyncio.Task[None]]]:
        """Those who work, and those who see to it that tasks come."""
        self._active = workers
        self._engine.streams += 1
        busy = [asyncio.create_task(self._work()) for _ in range(workers)]
        if self._inflow is None:
            return busy, []
        sides = (self._pump(self._inflow), self._heed_stop(self._inflow))
        return busy, [asyncio.create_task(side) for side in sides]

    async def _pump(self, inflow: Inflow) -> None:
        """What goes wrong where the tasks come from ends this stream too; when it is the run that
        stops there, what is under way here comes to its end."""
        await inflow.pump()
        if inflow.error is not None and not isinstance(inflow.error, RunStopped):
            self._error = self._error or inflow.error
            self._wake()

    async def _heed_stop(self, inflow: Inflow) -> None:
        """A source may wait for outcomes that a stopping run no longer brings."""
        await self._engine.rest(None)
        inflow.close()

    async def _end(
        self, busy: list[asyncio.Task[None]], source: list[asyncio.Task[None]], gently: bool
    ) -> None:
        """Cancel what is left. But where the run stops by itself, calls under way come to their
        end, also in a stream that this one takes its tasks from."""
        engine = self._engine
        gently = gently or asyncio.current_task() in engine.gently
        if gently and engine.stop is not None:
            engine.gently.update(source)
            self._room = 0
            self._fetched.set()
            if self._inflow is not None:
                self._inflow.close()
            _cancel(source)
        else:
            _cancel([*busy, *source])
        try:
            await self._all_ended([*busy, *source])
        finally:
            engine.streams -= 1
            engine.gently.difference_update(source)

    async def _all_ended(self, tasks: list[asyncio.Task[None]]) -> None:
        """Who cancels this meanwhile because the run stops must wait too; anybody else ends it."""
        gently, cancelled = self._engine.gently, False
        while any(not task.done() for task in tasks):
            try:
                await asyncio.wait(tasks)
            except asyncio.CancelledError:
                cancelled = True
                if asyncio.current_task() not in gently:
                    gently.difference_update(tasks)
                    _cancel(tasks)
        if cancelled:
            raise asyncio.CancelledError

    async def _work(self) -> None:
        engine = self._engine
        try:
            while unit := self._next_unit() or await self._wait_for_unit():
                if engine.stop is not None:
                    return
                if not isinstance(unit, Pursuit):
                    await self._work_otherwise(unit)
                elif unit.reply is None and unit.task.flaw is None:
                    await carry_or_set_aside(unit)
                    self._land(unit)
                else:
                    await self._work_without_asking(unit)
                if self._room and len(self._landed) >= self._room:
                    await self._wait_for_room()
        except Exception as error:
            if engine.stop is None or not isinstance(error, RunStopped):
                self._error = self._error or error
        finally:
            self._active -= 1
            if not self._active or self._error:
                self._wake()

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
            self._aside = True
        elif self._room:
            self._landed.append(outcome)
            self._wake()
        await self._breathe()

    async def _wait_for_room(self) -> None:
        self._fetched.clear()
        await self._fetched.wait()

    def _land(self, pursuit: Pursuit) -> None:
        """What was set aside has not landed."""
        if pursuit.final == "unfunded" and not self._engine.serving:
            self._aside = True
        elif self._room:
            self._landed.append(pursuit.outcome())
            self._wake()

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)

    # ── what to do next ──

    def _next_unit(self) -> Unit | None:
        """None: nothing is there, and for an iterable nothing will be. A shard that is not full
        goes out when all has come."""
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
        if self._filling is None or (self._inflow is not None and not self._inflow.complete):
            return None
        self._units.extend(self._grouped(self._filling.rest()))
        return self._units.popleft() if self._units else None

    async def _wait_for_unit(self) -> Unit | None:
        inflow = self._inflow
        if inflow is None:
            return None
        while await inflow.more() and self._error is None:
            if unit := self._next_unit():
                return unit
        return None if self._error is not None else self._next_unit()

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


def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
