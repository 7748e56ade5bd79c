"""`run.events()`: what happens in a run, in order, on record when it is told, until it is closed."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress

import pytest

from fanfold.errors import RunStopped
from fanfold.observe.script import open_run
from fanfold.patterns.map_reduce import map_reduce
from fanfold.run.events import RunEvent
from fanfold.testing.member import Scripted
from fanfold.work.ask import Ask, Reply, Usage


def answer(ask: Ask, n: int) -> Reply | Exception:
    return Reply(f"reply {n}", usage=Usage(10, 5))


async def looked_on() -> tuple[list[RunEvent], float]:
    async with open_run("talk", members=[Scripted(answer)], store="memory:") as run:
        events = run.events()
        seen = asyncio.ensure_future(_all(events))
        done = await map_reduce(run, ["a", "b", "c"], prompt="Say {{ item.value }}")
    return await seen, done.receipt.cost_usd


async def _all(events: object) -> list[RunEvent]:
    return [event async for event in events]  # type: ignore[attr-defined]


def test_each_call_and_each_outcome_is_told_once_and_the_costs_add_up() -> None:
    told, cost = asyncio.run(looked_on())
    assert Counter(event.kind for event in told) == {"asked": 3, "answered": 3, "ended": 3}
    for kind in ("asked", "answered", "ended"):
        assert len({event.ids for event in told if event.kind == kind}) == 3
    answered = sum(event.cost_usd for event in told if event.kind == "answered")
    assert answered == pytest.approx(cost)
    first = {event.ids: n for n, event in reversed(list(enumerate(told)))}
    assert all(told[n].kind == "asked" for n in first.values()), "a call before its end"
    assert {event.state for event in told if event.kind == "ended"} == {"passed"}


def test_they_end_with_the_run_however_it_ends() -> None:
    async def main() -> list[RunEvent]:
        with suppress(RunStopped):
            async with open_run("talk", members=[Scripted(answer)], store="memory:") as run:
                events = run.events()
                run.pause("enough")
        return await _all(events)

    assert asyncio.run(main()) == []
