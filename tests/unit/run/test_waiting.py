"""Why calls wait, as the process of a run notes it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from fanfold.clock import Clock
from fanfold.errors import RateLimited, Terminal
from fanfold.run.waiting import waiting_calls
from fanfold.testing.member import traits
from fanfold.work.budget import Amount
from fanfold.work.member import MemberLimits
from fanfold.work.task import Budget
from fanfold.work.waiting import WaitingCalls
from tests.unit.run.test_dispatch import WORST, Desk


class DeskClock:
    """The desk's own time, which begins at 0 in both."""

    def __init__(self, desk: Desk) -> None:
        self.now = self.monotonic = lambda: desk.now


def waits(desk: Desk) -> tuple[WaitingCalls, ...]:
    return waiting_calls(desk.dispatch, cast(Clock, DeskClock(desk)))


def queued(desk: Desk, many: int, look: Callable[[], Awaitable[None]]) -> None:
    """So many calls wait while it is looked."""

    async def main() -> None:
        tasks = [asyncio.ensure_future(desk.dispatch.admit(desk.want())) for _ in range(many)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await look()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(main())


def case_step() -> tuple[Desk, WaitingCalls]:
    desk = Desk(concurrency=1)
    desk.granted()
    return desk, WaitingCalls("slot", "", 3, None, "1 of step map at once")


def case_member() -> tuple[Desk, WaitingCalls]:
    desk = Desk(traits("a", limits=MemberLimits(concurrency=2)))
    desk.granted(), desk.granted()
    return desk, WaitingCalls("slot", "a", 3, None, "2 at once")


def case_money() -> tuple[Desk, WaitingCalls]:
    desk = Desk(budget=Budget(usd=(WORST + 1000) / 1e9))
    desk.granted()
    said = f"$0.000001 is free, the next call may cost ${WORST / 1e9:.6f}"
    return desk, WaitingCalls("money", "run", 3, None, said)


def case_rate() -> tuple[Desk, WaitingCalls]:
    desk = Desk(traits("a", limits=MemberLimits(rpm=60)))
    desk.granted()
    return desk, WaitingCalls("rate", "a", 3, pytest.approx(1.0, abs=0.1), "rpm")


def case_refused() -> tuple[Desk, WaitingCalls]:
    desk = Desk(traits("a", limits=MemberLimits(concurrency=1)))
    grant = desk.granted()
    desk.dispatch.failed(grant, ("i",), RateLimited("slow down", retry_after=30.0))
    desk.limits.give(grant.gauge, grant.permit)
    grant.slot, desk.step.in_flight = False, 0
    return desk, WaitingCalls("refused", "a", 3, pytest.approx(30.0, abs=0.5), "asked too often")


def case_breaker() -> tuple[Desk, WaitingCalls]:
    desk = Desk()
    grant = desk.granted()
    desk.dispatch.failed(grant, ("i",), Terminal("quota used up", scope="pool", reset_after=90.0))
    return desk, WaitingCalls("breaker", "a", 3, 90.0, "quota used up")


def case_paused() -> tuple[Desk, WaitingCalls]:
    desk = Desk()
    desk.dispatch.hold("paused by ann")
    return desk, WaitingCalls("paused", "", 3, None, "paused by ann")


CASES = [case_step, case_member, case_money, case_rate, case_refused, case_breaker, case_paused]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_those_who_wait_are_told_with_why(case: Callable[[], tuple[Desk, WaitingCalls]]) -> None:
    desk, wanted = case()

    async def look() -> None:
        assert waits(desk) == (wanted,)

    queued(desk, 3, look)
    assert [one for one in waits(desk) if one.calls] == [], "nobody is left"


def test_a_breaker_is_told_of_though_nobody_waits_for_it() -> None:
    desk = Desk(traits("a"), traits("b"))
    grant = desk.granted()
    desk.dispatch.failed(grant, ("i",), Terminal("bad key", scope="member"))
    desk.dispatch.settle(grant, Amount())
    who = grant.traits.id
    assert waits(desk) == (WaitingCalls("breaker", who, 0, None, "bad key"),)


def test_calls_that_were_refused_wait_by_themselves() -> None:
    desk = Desk()
    queues = desk.dispatch.queues
    with queues.backing_off("a", 5.0, bool), queues.backing_off("a", 3.0, bool):
        assert waits(desk) == (WaitingCalls("retry", "a", 2, 3.0),)
    assert waits(desk) == ()
