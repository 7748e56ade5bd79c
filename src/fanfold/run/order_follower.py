"""Orders to a run that several processes carry out: one of them leads and answers, here the others follow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from fanfold.errors import BadInput, FanfoldError
from fanfold.journal.answers import OrderRecord
from fanfold.run.context import Context
from fanfold.run.order_taker import AT_NEXT_START, OrderTaker
from fanfold.run.orders import LOOK, held, parse_change

FOLLOWED = ("pause", "resume", "skip", "set", "kill", "continue", "tell")
"""`stop` reaches all by why the one that leads stops; `approve` and `hand-over` are for that one alone."""


class OrderFollower:
    """What another process has answered takes effect here too."""

    def __init__(self, ctx: Context, taker: OrderTaker) -> None:
        self._ctx, self._taker = ctx, taker

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """From the state that all orders so far have led to."""
        read, run = self._ctx.store.read, self._ctx.record.no
        done = read.orders(run, ("done",))
        for order in done:
            self._ctx.counts.orders = order.no
            if order.what in ("set", "skip") and not _is_total(order):
                self._follow(order)
        if (pause := held(read, run)) is not None:
            self._follow(pause)
        async with self._taker.until_killed(self._watch()):
            yield

    async def _watch(self) -> None:
        """Until it is cancelled."""
        ctx = self._ctx
        while True:
            with suppress(FanfoldError):
                for order in ctx.store.read.orders(ctx.record.no, ("done",)):
                    if order.no > ctx.counts.orders:
                        self._follow(order)
                        ctx.counts.orders = order.no
                        ctx.dispatch.queues.look_again()
                        ctx.dispatch.poke()
            await asyncio.sleep(LOOK)

    def _follow(self, order: OrderRecord) -> None:
        if order.what not in FOLLOWED or (order.what == "tell" and order.said != AT_NEXT_START):
            return
        with suppress(BadInput):  # it is nothing for this process
            effect, _ = self._taker.effect(order)
            effect()


def _is_total(order: OrderRecord) -> bool:
    """The budget of the run, which is on record with it."""
    change = parse_change(order.value) if order.what == "set" else None
    return change is not None and change.field == "budget" and not change.name
