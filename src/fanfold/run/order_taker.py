"""The process of a run carries out the orders to it: each once, on record before it takes effect.

A crash in between repeats nothing: what was set is set again when the run is resumed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, get_args

import msgspec

from fanfold.errors import BadInput, FanfoldError
from fanfold.journal.answers import AttemptRecord, OrderRecord
from fanfold.journal.facts import AnswerOrder, AttemptState, GiveOrder
from fanfold.run.context import Context
from fanfold.run.govern import Governor
from fanfold.run.orders import (
    KILLED,
    LASTING,
    LOOK,
    NOTIFY,
    OF_STARTS,
    VERBS,
    Change,
    Verb,
    WorkerMessage,
    halted,
    parse_change,
)
from fanfold.run.stopping import Stop
from fanfold.run.waiting import WaitNotes
from fanfold.work.budget import combined
from fanfold.work.member import NextStart
from fanfold.work.nearest import remedy
from fanfold.work.task import Budget

SETTLED_WITHIN = 10.0  # seconds for agents that were killed to be settled
_TOO_LATE = "the process that it was for has ended"
_message = msgspec.json.Decoder(WorkerMessage).decode
_encode = msgspec.json.Encoder().encode
Effect = Callable[[], None]
HANDED = "its program has the message and reads it after the step that it is at"
AT_NEXT_START = "it gets the message at its next start: its program takes none while it works"


def _nothing() -> None:
    """It is done already."""


class OrderTaker:
    """Carries out the orders to one run, as its process. `leave`: how that hands the run over to another
    one; `read_roster`: reads its members again, and gives what puts them in place. None where it cannot."""

    def __init__(self, ctx: Context, governor: Governor) -> None:
        self._ctx, self._governor, self._since = ctx, governor, ctx.clock.now()
        self._waits = WaitNotes(ctx.store, ctx.record.no, ctx.clock, ctx.dispatch)
        self.leave: Callable[[], Effect] | None = None
        self.read_roster: Callable[[], Effect] | None = None
        self._main: asyncio.Task[Any] | None = None
        self._killing: asyncio.Task[None] | None = None  # until the main task is cancelled
        self._over = False  # the work has ended: what is ordered changes nothing any more
        self._taking = False  # what becomes of an order is being recorded

    @asynccontextmanager
    async def taking(self, restated: frozenset[str], *, taken_over: bool) -> AsyncIterator[None]:
        """Meanwhile, orders that anybody gives to this run by its store are carried out. `taken_over`: see
        `Settings`."""
        if self._ctx.record.resumed:
            await self.begin(restated, taken_over=taken_over)
        async with self.until_killed(self._watch()):
            yield

    @asynccontextmanager
    async def until_killed(self, watch: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
        """Meanwhile `watch` looks for orders, one of which may end this."""
        self._main, self._over = asyncio.current_task(), False
        watching = asyncio.create_task(watch)
        try:
            yield
        except asyncio.CancelledError:
            if self._main is None or self._killing is None:
                raise
            self._main.uncancel()  # that was us
            raise self._ctx.stopping.error() from None
        finally:
            self._over = True
            if not self._taking:
                watching.cancel()
            if self._killing is not None:
                self._killing.cancel()
            tasks = [watching] if self._killing is None else [watching, self._killing]
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self) -> None:
        """Until it is cancelled, or the work is over: what becomes of an order that it has taken up then is
        on record."""
        ctx = self._ctx
        while not self._over:
            with suppress(FanfoldError):  # a store in trouble pauses the run by itself
                for order in ctx.store.read.orders(ctx.record.no, ("given",)):
                    if order.what != NOTIFY and not self._over:
                        await self._take_up(order)
                self._waits.look()
            if not self._over:
                await asyncio.sleep(LOOK)

    async def _take_up(self, order: OrderRecord) -> None:
        self._taking = True
        try:
            await self.take(order)
        finally:
            self._taking = False

    async def begin(
        self, restated: frozenset[str] = frozenset(), *, taken_over: bool = False
    ) -> None:
        """When a run is resumed: what lasts holds again, except for steps whose budget was stated
        again; what was given meanwhile is carried out, or too late. It is not paused any more; but it is
        as before where it was only taken over from a process that died."""
        store, run, now = self._ctx.store, self._ctx.record.no, self._ctx.clock.now()
        if (last := halted(store.read, run)) is not None and taken_over:
            effect, _ = self.effect(last)
            effect()
        elif last is not None:
            order = await store.write(GiveOrder(run, now, "a new process", "resume"))
            await store.write(AnswerOrder(order, now, "done"))
        for order in store.read.orders(run):
            late = order.what not in LASTING and order.at < self._since and not taken_over
            if order.state == "given" and late:
                await store.write(AnswerOrder(order.no, now, "refused", _TOO_LATE))
            elif order.state == "given":
                await self.take(order)
            elif order.state == "done" and order.what in LASTING:
                if order.what in OF_STARTS and self._started_since(order):
                    continue
                if order.what == "tell" and await self._delivered(order):
                    continue
                change = parse_change(order.value) if order.what == "set" else None
                if change and change.field == "budget" and change.name in ("", *restated):
                    continue  # the budget of the run is on record with it
                with suppress(BadInput):  # a member that is not there any more
                    effect, _ = self.effect(order)
                    effect()

    async def give_here(self, what: Verb, value: str) -> None:
        """An order of this process itself."""
        store, run = self._ctx.store, self._ctx.record.no
        now, by = self._ctx.clock.now(), f"process {os.getpid()}"
        number: int = await store.write(GiveOrder(run, now, by, what, value))
        order = OrderRecord(number, run, now, by, what, value, "given", None, "")
        if said := await self.take(order):
            raise BadInput(said)

    async def take(self, order: OrderRecord) -> str:
        """Why it was refused; empty when it is done. It may have been taken up before."""
        ctx, said = self._ctx, ""
        try:
            effect, budget = self.effect(order)
        except BadInput as error:
            await ctx.store.write(AnswerOrder(order.no, ctx.clock.now(), "refused", str(error)))
            return str(error)
        if order.what == "tell":
            there = await self._delivered(order)
            effect, said = (_nothing, HANDED) if there else (effect, AT_NEXT_START)
        fact = AnswerOrder(order.no, ctx.clock.now(), "done", said, budget)
        if await ctx.store.write(fact) and not self._over:
            effect()
            ctx.dispatch.queues.look_again()
            ctx.dispatch.poke()
        return ""

    # ── what it does ──

    def effect(self, order: OrderRecord) -> tuple[Effect, bytes | None]:
        """What is to be done once the answer is on record; and the run's new budget. Raises BadInput
        when it cannot be."""
        dispatch, value = self._ctx.dispatch, order.value
        match order.what:
            case "pause" if dispatch.held is not None:
                raise BadInput("it is paused already")
            case "pause":
                return lambda: dispatch.hold(f"paused by {order.by}"), None
            case "resume" if dispatch.held is None:
                raise BadInput("it is not paused")
            case "resume":
                return self._go_on, None
            case "approve":
                return self._governor.approve_all, None
            case "skip":
                return self._skip(value), None
            case "set":
                return self._set(parse_change(value))
            case "continue" | "tell":
                return self._next_start(order), None
            case "stop":
                why = value or f"stopped by {order.by}"
                return lambda: self._ctx.stopping.halt(Stop("paused", why)), None
            case "kill" if value:
                return self._end_worker(value), None
            case "kill":
                return self._kill, None
            case "hand-over" if self.leave is not None:
                return self.leave(), None
            case "hand-over":
                where = "it runs in the foreground, which cannot hand it over"
                raise BadInput(f"{where}; stop it there with Ctrl-C first")
        raise BadInput(f"{order.what!r} is no order; there are {', '.join(VERBS)}")

    def _go_on(self) -> None:
        """The time of the pause does not count as active."""
        ctx = self._ctx
        ctx.active.began += ctx.dispatch.release()

    def _at_work(self) -> list[AttemptRecord]:
        """The attempts of agents."""
        read, gauges = self._ctx.store.read, self._ctx.limits.gauges
        started = read.newest(self._ctx.record.no, ("started",), limit=1000)
        return [one for one in started if one.member in gauges and gauges[one.member].traits.agent]

    def _end_worker(self, id: str) -> Effect:
        if not any(id in one.ids for one in self._at_work()):
            raise BadInput(f"no agent is at work for {id!r}")
        return lambda: self._ctx.executor.end_agents("killed", KILLED, id)

    def _kill(self) -> None:
        """No new call. Agents are ended and settled by what they left; then the rest is cancelled."""
        self._ctx.stopping.halt(Stop("paused", KILLED))
        self._ctx.stopping.kill(KILLED)
        self._killing = asyncio.ensure_future(self._end_all())

    async def _end_all(self) -> None:
        """It is repeated until none is at work: one may be starting right now."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + SETTLED_WITHIN
        while self._at_work() and loop.time() < deadline:
            self._ctx.executor.end_agents("killed", KILLED)
            await asyncio.sleep(LOOK / 5)
        if self._main is not None and not self._main.cancelling():
            self._main.cancel()

    def _last(self, id: str) -> AttemptRecord | None:
        """The last attempt of an agent for an item."""
        ctx = self._ctx
        for one in ctx.store.read.newest(ctx.record.no, get_args(AttemptState), limit=100_000):
            candidate = ctx.choose.known(one.member) if id in one.ids else None
            if candidate is not None and candidate.traits.agent:
                return one
        return None

    def _started_since(self, order: OrderRecord) -> bool:
        tell = order.what == "tell"
        last = self._last(_message(order.value).worker if tell else order.value)
        return last is not None and last.started > order.at

    async def _delivered(self, order: OrderRecord) -> bool:
        """Whether the agent that was last started has a message, now or since before: it is given once."""
        ctx, told = self._ctx, _message(order.value)
        last = self._last(told.worker)
        candidate = None if last is None else ctx.choose.known(last.member)
        if last is None or candidate is None:
            return False
        span = f"{ctx.record.id}:{last.no}"
        return await ctx.executor.deliver(last.member, span, ctx.place, order.no, told.text)

    def _next_start(self, order: OrderRecord) -> Effect:
        ctx = self._ctx
        told = _message(order.value) if order.what == "tell" else WorkerMessage(order.value, "")
        id = told.worker
        if not ctx.store.read.find_items(ctx.record.no, id):
            raise BadInput(f"there is no worker {id!r}")
        last = self._last(id)
        if order.what == "continue" and last is None:
            raise BadInput(f"no agent has worked for {id!r} yet")

        def note() -> None:
            before = ctx.starts.get(id, NextStart())
            if told.text or last is None:
                after = NextStart(before.continues, (*before.messages, told.text))
            else:
                after = NextStart(f"{ctx.record.id}:{last.no}", before.messages)
            ctx.starts[id] = after

        return note

    def _skip(self, id: str) -> Effect:
        read, run, outcomes = self._ctx.store.read, self._ctx.record.no, self._ctx.outcomes
        if not (planned := read.find_items(run, id)):
            raise BadInput(f"there is no item {id!r}")
        for item in planned:
            for one in read.step_endings(run, item):
                if outcomes.left_flow(item.batch, one.step, one.state):
                    raise BadInput(f"item {id!r} has ended already: {one.state}")
        return lambda: outcomes.skipped_ids.add(id)

    def _set(self, change: Change) -> tuple[Effect, bytes | None]:
        ctx, value = self._ctx, change.value
        if change.name:
            return self._set_part(change), None
        if change.field == "roster":
            if self.read_roster is None:
                raise BadInput("its members are not those of a roster file")
            return self.read_roster(), None
        if change.field == "concurrency":
            return lambda: ctx.limits.set_concurrency(value), None
        self._refuse_unpriced(value)
        budget = combined(ctx.account.limit, value)
        return lambda: self._set_budget(budget), _encode(budget)

    def _set_budget(self, budget: Budget) -> None:
        ctx = self._ctx
        ctx.account.set_limit(budget)
        ctx.dispatch.forget_outside()
        if budget.seconds is not None:
            ctx.dispatch.deadline = ctx.active.began + budget.seconds - ctx.record.active
        ctx.steps.look_at_dollars()

    def _refuse_unpriced(self, budget: Budget) -> None:
        """Under a dollar budget nobody may be asked whose price is not known."""
        if budget.usd is not None and self._ctx.account.max_usd is None:
            for gauge in self._ctx.limits.gauges.values():
                if gauge.traits.metered and gauge.traits.price is None:
                    who = gauge.traits.id
                    raise BadInput(f"member {who} has no known price, so it has no dollar budget")

    def _set_part(self, change: Change) -> Effect:
        ctx, name, value = self._ctx, change.name, change.value
        gauge = ctx.limits.gauges.get(name)
        if change.field in ("limits", "enabled", "cap"):
            if gauge is None and ctx.choose.known(name) is None:
                raise BadInput(f"no member {name!r}: {remedy(name, ctx.choose.ids)}")
            gauge = ctx.limits.gauges[name]
            if change.field == "enabled":
                return lambda: gauge.switch(on=value)
            if change.field == "cap" and (not gauge.traits.agent or gauge.traits.at):
                raise BadInput(f"member {name!r} is not an agent of this machine")
            if change.field == "cap":
                return lambda: ctx.executor.set_cap(name, value)
            now = ctx.clock.monotonic()
            return lambda: gauge.set_limit(change.limit, value, now)
        self._check_step(name)
        if change.field == "budget" and value.seconds is not None:
            raise BadInput("`seconds` are of the whole run, not of a step")
        if change.field == "budget" and value.usd is not None:
            self._refuse_unpriced(value)
        return lambda: ctx.steps.change(name, change.field, value)

    def _check_step(self, name: str) -> None:
        """Of a script nobody knows which are still to come."""
        ctx, known = self._ctx, self._ctx.settings.steps
        if name in ctx.steps.by_name or any(f"{name}.".startswith(f"{one}.") for one in known):
            return
        if ctx.choose.known(name) is not None:
            what = f"{name}.limits.concurrency=N, {name}.limits.rpm=N and {name}=off"
            raise BadInput(f"{name!r} is a member, not a step: there are {what}")
        if known:
            raise BadInput(f"no step {name!r}: {remedy(name, known)}")
