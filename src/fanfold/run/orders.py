"""Orders to a run: read from its store while it runs, answered once, kept when it is resumed.

Whoever may write to the store gives them: the command line, the page, a script. The answer is durable
before the order takes effect, so a crash in between repeats nothing: what was set is set again when
the run is resumed.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal

import msgspec

from fanfold.errors import BadInput, FanfoldError
from fanfold.journal.answers import OrderRecord
from fanfold.journal.contract import RunQuestions, Store
from fanfold.journal.facts import AnswerOrder, GiveOrder, RunRecord
from fanfold.journal.opening import open_store
from fanfold.run.context import Context
from fanfold.run.govern import Governor
from fanfold.run.record import RESUMABLE
from fanfold.work.arguments import public
from fanfold.work.budget import combined
from fanfold.work.nearest import remedy
from fanfold.work.options import parse_budget
from fanfold.work.task import Budget

LOOK = 0.5  # seconds between looks at the store
Verb = Literal["pause", "resume", "set", "approve", "skip"]
VERBS: tuple[Verb, ...] = ("pause", "resume", "set", "approve", "skip")
LASTING = ("set", "approve", "skip")
"""What still holds when the run is resumed."""
_LIMITS = ("rpm", "tpm", "concurrency")
_encode = msgspec.json.Encoder().encode
Effect = Callable[[], None]


class Change(msgspec.Struct, frozen=True):
    """One thing that is set: of the run (`name` is empty), of a step or of a member."""

    name: str
    field: Literal["budget", "concurrency", "limits", "enabled"]
    value: Any
    limit: str = ""


def parse_change(text: str) -> Change:
    """`budget=5`, `concurrency=8`, `STEP.concurrency=4`, `STEP.budget=2`, `MEMBER.limits.rpm=60`,
    `MEMBER=off`. Names may have dots."""
    key, equals, value = (part.strip() for part in text.partition("="))
    name, _, field = key.rpartition(".")
    if equals and field == "budget":
        return Change(name, "budget", parse_budget(value, text))
    if equals and field in _LIMITS and name.endswith(".limits"):
        return Change(name.removesuffix(".limits"), "limits", _whole(value, text), field)
    if equals and field == "concurrency":
        return Change(name, "concurrency", _whole(value, text))
    if equals and key and value in ("on", "off"):
        return Change(key, "enabled", value == "on")
    raise BadInput(
        f"{text!r} cannot be set; there are budget=TOTAL, concurrency=N, STEP.budget=TOTAL,"
        " STEP.concurrency=N, MEMBER.limits.rpm=N (or tpm, concurrency) and MEMBER=on|off"
    )


def _whole(value: str, text: str) -> int:
    if not value.isdecimal() or not int(value):
        raise BadInput(f"{text!r}: a whole number from 1 on, not {value!r}")
    return int(value)


def held(read: RunQuestions, run: int) -> OrderRecord | None:
    """The order by which a run that is under way is paused; None: it is not."""
    done = [one for one in read.orders(run, ("done",)) if one.what in ("pause", "resume")]
    return done[-1] if done and done[-1].what == "pause" else None


async def give(store: Store, run: RunRecord, by: str, what: Verb, value: str = "") -> OrderRecord:
    """Give an order to the process of a run and wait for its answer. Where no process runs it, what
    lasts is kept until it is resumed; anything else is refused."""
    if what == "set":
        parse_change(value)
    if run.status not in RESUMABLE:
        raise BadInput(f"{run.name} ({run.id}) is over: {run.status}")
    now = time.time()
    number: int = await store.write(GiveOrder(run.no, now, by, what, value))
    if what not in LASTING and not store.sessions.alive(run.session):
        said = "the run is not under way"
        await store.write(AnswerOrder(number, now, "refused", said))
    while True:
        found = next(one for one in store.read.orders(run.no) if one.no == number)
        if found.state != "given" or not store.sessions.alive(run.session):
            return found
        await asyncio.sleep(LOOK / 5)


@public
async def give_order(store: str, run: str, what: Verb, value: str = "", by: str = "") -> None:
    """Give an order to a run of another process, by its name or id: `pause`, `resume`, `set` (with
    `budget=5` and the like), `approve`, `skip` (with an item's id). Returns when it is carried out; where
    no process runs it, when it is kept. Raises BadInput when it is refused."""
    opened = open_store(store)
    try:
        record = opened.read.find(run)
        if record is None:
            raise BadInput(f"no run {run!r} in {store}")
        given = await give(opened, record, by or f"process {os.getpid()}", what, value)
    finally:
        opened.close()
    if given.state == "refused":
        raise BadInput(f"{record.name} ({record.id}): {given.said}")


class OrderTaker:
    """Carries out the orders to one run, as its process."""

    def __init__(self, ctx: Context, governor: Governor) -> None:
        self._ctx, self._governor = ctx, governor

    async def watch(self) -> None:
        """Until it is cancelled."""
        ctx = self._ctx
        while True:
            with suppress(FanfoldError):  # a store in trouble pauses the run by itself
                for order in ctx.store.read.orders(ctx.record.no, ("given",)):
                    await self.take(order)
            await asyncio.sleep(LOOK)

    async def begin(self, restated: frozenset[str] = frozenset()) -> None:
        """When a run is resumed: what lasts holds again, except for steps whose budget was stated
        again; what was given meanwhile is carried out, or too late. It is not paused any more."""
        store, run, now = self._ctx.store, self._ctx.record.no, self._ctx.clock.now()
        if held(store.read, run) is not None:
            order = await store.write(GiveOrder(run, now, "a new process", "resume"))
            await store.write(AnswerOrder(order, now, "done"))
        for order in store.read.orders(run):
            if order.state == "given":
                await self.take(order)
            elif order.state == "done" and order.what in LASTING:
                change = parse_change(order.value) if order.what == "set" else None
                if change and change.field == "budget" and change.name in ("", *restated):
                    continue  # the budget of the run is on record with it
                effect, _ = self._effect(order)
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
        ctx = self._ctx
        try:
            effect, budget = self._effect(order)
        except BadInput as error:
            await ctx.store.write(AnswerOrder(order.no, ctx.clock.now(), "refused", str(error)))
            return str(error)
        fact = AnswerOrder(order.no, ctx.clock.now(), "done", "", budget)
        if await ctx.store.write(fact):
            effect()
            ctx.dispatch.poke()
        return ""

    # ── what it does ──

    def _effect(self, order: OrderRecord) -> tuple[Effect, bytes | None]:
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
        raise BadInput(f"{order.what!r} is no order; there are {', '.join(VERBS)}")

    def _go_on(self) -> None:
        """The time of the pause does not count as active."""
        ctx = self._ctx
        ctx.active.began += ctx.dispatch.release()

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
        if change.field == "concurrency":
            return lambda: ctx.limits.set_concurrency(value), None
        self._refuse_unpriced(value)
        budget = combined(ctx.account.limit, value)
        return lambda: self._set_budget(budget), _encode(budget)

    def _set_budget(self, budget: Budget) -> None:
        ctx = self._ctx
        ctx.account.set_limit(budget)
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
        if change.field in ("limits", "enabled"):
            if gauge is None and ctx.choose.known(name) is None:
                raise BadInput(f"no member {name!r}: {remedy(name, ctx.choose.ids)}")
            gauge = ctx.limits.gauges[name]
            if change.field == "enabled":
                return lambda: gauge.switch(on=value)
            now = ctx.clock.monotonic()
            return lambda: gauge.set_limit(change.limit, value, now)
        if change.field == "budget" and value.seconds is not None:
            raise BadInput("`seconds` are of the whole run, not of a step")
        if change.field == "budget" and value.usd is not None:
            self._refuse_unpriced(value)
        return lambda: ctx.steps.change(name, change.field, value)
