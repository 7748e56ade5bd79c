"""Who takes the next task, and may it go now? Decided without a loop; waiting is tested with one."""

from __future__ import annotations

import asyncio
import time
from random import Random

import msgspec
import pytest

from fanfold.errors import RateLimited, RunStopped
from fanfold.price import Price
from fanfold.run.breaker import FULL, Wait
from fanfold.run.demand import Candidate, Demand, StepState
from fanfold.run.dispatch import Dispatch
from fanfold.run.grant import Grant, NobodyLeft, Unfunded
from fanfold.run.limits import Limits
from fanfold.run.loop import run_sync
from fanfold.testing.clock import VirtualClock, run_virtual
from fanfold.testing.member import Scripted, traits
from fanfold.work.ask import Ask, Message, Reply
from fanfold.work.budget import Account, Amount
from fanfold.work.member import MemberLimits, Request, Traits
from fanfold.work.task import Budget

ASK = Ask((Message("user", "hello"),))
WORST = (1024 + 5) * 1000 + 100 * 5000  # nano-dollars of one call of a scripted member


class Desk:
    """A dispatch with everything around it, at a time that the test sets."""

    def __init__(self, *members: Traits, budget: Budget = Budget(), concurrency: int = 8) -> None:
        self.now = 0.0
        self.run, self.limits = Account("run", budget), Limits(64, Random(0))
        self.dispatch = Dispatch(self.limits, lambda: self.now)
        self.step = StepState(0, "map", concurrency, (self.run, Account("step map", Budget())))
        self.candidates = tuple(
            Candidate(Scripted(lambda ask, n: Reply("ok"), like), self.limits.add(like, 0.0), like)
            for like in members or (traits("a"),)
        )

    def graded(self, *grades: int) -> Desk:
        """The same, with its members in classes."""
        self.candidates = tuple(
            msgspec.structs.replace(one, grade=grade, why=f"class {grade}")
            for one, grade in zip(self.candidates, grades, strict=True)
        )
        return self

    def want(self, *, claim_ahead: bool = False) -> Demand:
        return Demand(ASK, self.candidates, "queue", self.step, claim_ahead)

    def decide(self, want: Demand | None = None) -> Grant | Wait:
        return self.dispatch.decide(want or self.want())

    def granted(self, want: Demand | None = None) -> Grant:
        decision = self.decide(want)
        assert isinstance(decision, Grant)
        return decision

    async def admitted(self) -> Grant:
        """With a slot."""
        grant = await self.dispatch.admit(self.want())
        try:
            if grant.slot or await self.dispatch.slot(grant):
                return grant
        except asyncio.CancelledError:
            self.dispatch.settle(grant, Amount())
            raise
        assert self.dispatch.halted is not None
        raise self.dispatch.halted


def test_a_grant_reserves_the_worst_case_and_a_slot() -> None:
    desk = Desk(budget=Budget(usd=1.0))
    grant = desk.granted()
    assert grant.reserved == Amount(WORST, 1024 + 5 + 100, 1)
    assert desk.run.reserved_usd == WORST
    assert (desk.step.in_flight, desk.limits.in_flight, grant.gauge.in_flight) == (1, 1, 1)
    desk.dispatch.settle(grant, Amount(50, 10, 1))
    assert (desk.run.reserved_usd, desk.run.usd) == (0, 50)
    assert (desk.step.in_flight, desk.limits.in_flight, grant.gauge.in_flight) == (0, 0, 0)


def test_a_full_step_waits() -> None:
    desk = Desk(concurrency=1)
    desk.granted()
    assert desk.decide() is FULL


def test_money_that_may_come_back_is_waited_for_and_missing_money_is_told() -> None:
    desk = Desk(budget=Budget(usd=WORST * 1.5 / 1e9))
    first = desk.granted()
    assert desk.decide() == Wait(None)
    desk.dispatch.settle(first, Amount(WORST, 1, 1))
    with pytest.raises(Unfunded, match="out of budget: dollars of the run"):
        desk.decide()


def test_the_time_budget_is_one_too() -> None:
    desk = Desk()
    desk.dispatch.deadline = 10.0
    desk.granted()
    desk.now = 10.0
    with pytest.raises(Unfunded, match="seconds of the run"):
        desk.decide()


def test_load_is_spread_and_the_one_that_failed_comes_last() -> None:
    desk = Desk(traits("a"), traits("b"), traits("c"))
    first = [desk.granted().traits.id for _ in range(3)]
    assert sorted(first) == ["a", "b", "c"]
    want = desk.want()
    want.avoid = "a"
    assert {desk.granted(want).traits.id for _ in range(2)} == {"b", "c"}


def test_a_full_member_leaves_the_task_to_another() -> None:
    few = MemberLimits(concurrency=1)
    desk = Desk(traits("a", limits=few), traits("b", limits=few))
    assert {desk.granted().traits.id for _ in range(2)} == {"a", "b"}
    assert desk.decide() == Wait(None)


def test_when_all_are_closed_nobody_is_left_and_the_reasons_are_told_once() -> None:
    desk = Desk(traits("a", pool="p"), traits("b", pool="p"))
    desk.limits.trip(desk.candidates[0].gauge, "pool", "a: key refused (401)", None)
    with pytest.raises(NobodyLeft) as caught:
        desk.decide()
    assert str(caught.value).count("key refused (401)") <= 2 and "\n" not in str(caught.value)


def test_a_closed_member_is_passed_over() -> None:
    desk = Desk(traits("a"), traits("b"))
    desk.limits.trip(desk.candidates[0].gauge, "pool", "gone", None)
    assert [desk.granted().traits.id for _ in range(3)] == ["b", "b", "b"]


def test_the_earliest_of_several_times_is_waited_for() -> None:
    desk = Desk(traits("a"), traits("b"))
    desk.limits.trip(desk.candidates[0].gauge, "pool", "quota", 300.0)
    desk.limits.trip(desk.candidates[1].gauge, "pool", "quota", 200.0)
    assert desk.decide() == Wait(200.0)


def test_a_member_that_is_too_dear_is_passed_over_for_one_that_is_not() -> None:
    desk = Desk(traits("dear", max_tokens=10**9), traits("cheap"), budget=Budget(usd=1.0))
    assert [desk.granted().traits.id for _ in range(4)] == ["cheap"] * 4


def test_only_when_nobody_can_be_paid_the_money_is_missing() -> None:
    desk = Desk(traits("a", max_tokens=10**9), traits("b", max_tokens=10**9), budget=Budget(usd=1))
    with pytest.raises(Unfunded):
        desk.decide()


# ── waiting ──────────────────────────────────────────────────────────────────────────────────


def test_first_come_first_served() -> None:
    async def main(clock: VirtualClock) -> list[int]:
        desk = Desk(concurrency=1)
        order: list[int] = []

        async def go(n: int) -> None:
            grant = await desk.admitted()
            order.append(n)
            await clock.sleep(1.0)
            desk.dispatch.settle(grant, Amount(calls=1))

        await asyncio.gather(*(go(n) for n in range(6)))
        return order

    assert run_virtual(main) == [0, 1, 2, 3, 4, 5]


def test_one_who_leaves_the_queue_does_not_hold_up_those_behind() -> None:
    async def main(clock: VirtualClock) -> bool:
        desk = Desk(concurrency=1)
        holder = await desk.admitted()
        leaver = asyncio.ensure_future(desk.admitted())
        behind = asyncio.ensure_future(desk.admitted())
        await clock.sleep(1.0)
        leaver.cancel()
        desk.dispatch.settle(holder, Amount(calls=1))
        return isinstance(await behind, Grant)

    assert run_virtual(main)


def test_one_cancelled_in_the_moment_of_its_turn_passes_it_on() -> None:
    async def main(clock: VirtualClock) -> tuple[bool, int]:
        desk = Desk(concurrency=1)
        holder = await desk.admitted()
        head = asyncio.ensure_future(desk.admitted())
        behind = asyncio.ensure_future(desk.admitted())
        await clock.sleep(1.0)
        desk.dispatch.settle(holder, Amount(calls=1))
        head.cancel()
        granted = isinstance(await behind, Grant)
        return granted, desk.step.in_flight

    assert run_virtual(main) == (True, 1)


def test_a_halt_sends_all_who_wait_away() -> None:
    async def main(clock: VirtualClock) -> list[str]:
        desk = Desk(concurrency=1)
        await desk.admitted()
        waiting = [asyncio.ensure_future(desk.admitted()) for _ in range(3)]
        await clock.sleep(1.0)
        desk.dispatch.halt(RunStopped("paused: enough"))
        return [str(error) for error in await asyncio.gather(*waiting, return_exceptions=True)]

    assert run_virtual(main) == ["paused: enough"] * 3


# ── classes ──────────────────────────────────────────────────────────────────────────────────

ONE_AT_ONCE = MemberLimits(concurrency=1)


def test_a_worse_class_is_not_for_when_a_better_one_is_busy() -> None:
    desk = Desk(traits("a", limits=ONE_AT_ONCE), traits("b")).graded(0, 1)
    first = desk.granted()
    assert (first.traits.id, first.why) == ("a", "class 0")
    assert desk.decide() == Wait(None)
    desk.dispatch.settle(first, Amount())
    assert desk.granted().traits.id == "a"


def test_nor_when_it_has_to_wait_for_its_rate_or_after_a_refusal() -> None:
    desk = Desk(traits("a"), traits("b")).graded(0, 1)
    grant = desk.granted()
    desk.limits.refused(grant.gauge, grant.order, 0.0, RateLimited("429", retry_after=20.0), False)
    desk.dispatch.settle(grant, Amount())
    decision = desk.decide()
    assert isinstance(decision, Wait) and decision.until is not None
    assert 20.0 <= decision.until <= 20.25


def test_nor_when_money_may_come_back() -> None:
    desk = Desk(traits("a"), traits("b", price=Price()), budget=Budget(usd=WORST * 1.5 / 1e9))
    desk.graded(0, 1).granted()
    assert desk.decide() == Wait(None)


def test_but_when_it_is_closed_or_its_breaker_is_open_or_it_is_too_dear() -> None:
    for until in (None, 50.0):
        desk = Desk(traits("a"), traits("b")).graded(0, 1)
        desk.limits.trip(desk.candidates[0].gauge, "pool", "bad key", until)
        grant = desk.granted()
        assert (grant.traits.id, grant.why) == ("b", "class 1; a cannot be used now")
    desk = Desk(traits("a"), traits("b", price=Price()), budget=Budget(usd=WORST * 0.5 / 1e9))
    assert desk.graded(0, 1).granted().traits.id == "b"


def test_or_when_it_failed_for_this_very_task() -> None:
    desk = Desk(traits("a"), traits("b"), traits("c")).graded(0, 1, 2)
    want = desk.want()
    taken = []
    for _ in range(5):
        grant = desk.granted(want)
        taken.append((grant.traits.id, grant.why))
        want.failed(grant.traits.id)
    assert taken == [
        ("a", "class 0"),
        ("b", "class 1; after a failed"),
        ("c", "class 2; after a and b failed"),
        ("a", "class 0; after a, b and c failed"),
        ("b", "class 1; after a, b and c failed"),
    ]
    assert desk.granted().traits.id == "a"


def test_the_past_decides_between_those_that_are_equally_free() -> None:
    desk = Desk(traits("a"), traits("b"), traits("c"))
    desk.step.past = {"a": (3, 0), "b": (0, 2), "c": (0, 5)}
    assert [desk.granted().traits.id for _ in range(3)] == ["b", "c", "a"]


def test_who_is_too_small_is_left_out_unless_all_are() -> None:
    small, large = traits("small", context=110), traits("large", context=4096)
    desk = Desk(small, large)
    long = Ask((Message("user", "x" * 100),))
    assert [c.traits.id for c in Demand(long, desk.candidates, "queue", desk.step).candidates] == [
        "large"
    ]
    assert len(desk.want().candidates) == 2
    longest = Ask((Message("user", "x" * 100_000),))
    assert len(Demand(longest, desk.candidates, "queue", desk.step).candidates) == 2


def test_wants_that_wait_for_others_do_not_wait_behind_each_other() -> None:
    desk = Desk(traits("small", context=110), traits("large", context=4096)).graded(0, 1)
    long = Demand(Ask((Message("user", "x" * 100),)), desk.candidates, "queue", desk.step)
    plain, retried = desk.want(), desk.want()
    retried.failed("small")
    assert (long.queue, plain.queue, retried.queue) == ("large", "queue", "queue without small")


# ── a member that can do with less ──


class Modest(Scripted):
    """Its worst case is 100 nano-dollars; 40 would do."""

    def prepare(self, ask: Ask) -> Request:
        return Request(ask, b"", 1, 1, most=100, least=40)


def modest(budget: int) -> Desk:
    desk = Desk(budget=Budget(usd=budget / 1e9))
    (one,) = desk.candidates
    member = Modest(lambda ask, n: Reply("ok"), one.traits)
    desk.candidates = (msgspec.structs.replace(one, member=member),)
    return desk


def test_where_the_most_never_fits_it_goes_with_what_is_left() -> None:
    """What is granted is reserved and told to the member; nothing is passed."""
    grant = modest(70).granted()
    assert (grant.reserved.usd, grant.request.most) == (70, 70)


def test_while_the_most_may_fit_later_it_waits_for_it() -> None:
    desk = modest(150)
    assert desk.granted().reserved.usd == 100
    assert isinstance(desk.decide(), Wait)


def test_it_waits_for_its_least_while_others_may_give_back() -> None:
    desk = modest(99)
    first = desk.granted()
    assert isinstance(desk.decide(), Wait)
    desk.dispatch.settle(first, Amount(50, 2, 1))
    assert desk.granted().reserved.usd == 49


def test_with_less_than_its_least_it_is_unfunded() -> None:
    desk = modest(39)
    with pytest.raises(Unfunded):
        desk.decide()


# ── claimed ahead ────────────────────────────────────────────────────────────────────────────


def test_while_all_slots_are_taken_a_few_calls_are_claimed_ahead() -> None:
    """They have their reservation, and no slot."""
    desk = Desk(concurrency=1)
    desk.granted()
    ahead = [desk.dispatch.decide(desk.want(claim_ahead=True)) for _ in range(3)]
    grants = [one for one in ahead if isinstance(one, Grant)]
    assert [one.slot for one in grants] == [False, False]
    assert ahead[2] is FULL
    assert (desk.run.reserved_usd, desk.step.in_flight, desk.step.ahead) == (3 * WORST, 1, 2)


def test_those_get_the_next_slots_in_their_order() -> None:
    async def main(clock: VirtualClock) -> list[list[bool]]:
        desk = Desk(concurrency=1)
        first = await desk.admitted()
        grants = [await desk.dispatch.admit(desk.want(claim_ahead=True)) for _ in range(2)]
        waits = [asyncio.ensure_future(desk.dispatch.slot(one)) for one in grants]
        seen = []
        for ending in (first, grants[0]):
            await clock.sleep(1.0)
            desk.dispatch.settle(ending, Amount(calls=1))
            await clock.sleep(1.0)
            seen.append([one.done() and one.result() for one in waits])
        return seen

    assert run_virtual(main) == [[True, False], [True, True]]


def test_agents_and_what_costs_nothing_are_not_claimed_ahead() -> None:
    for like in (traits("a", agent=True), traits("a", metered=False)):
        desk = Desk(like, concurrency=1)
        desk.granted()
        assert isinstance(desk.dispatch.decide(desk.want(claim_ahead=True)), Wait)


def test_whether_a_member_is_back_is_tried_when_there_is_a_slot() -> None:
    """Claimed ahead it was given back at once, and claimed again, as fast as the store could write."""
    desk = Desk(traits("a"), concurrency=1)
    first = desk.granted()
    desk.limits.trip(first.gauge, "member", "the quota is used up", 10.0)
    desk.now = 10.0
    assert isinstance(desk.dispatch.decide(desk.want(claim_ahead=True)), Wait)
    desk.dispatch.settle(first, Amount(calls=1))
    assert desk.granted(desk.want(claim_ahead=True)).permit.probe


def test_where_there_is_a_choice_it_is_made_when_there_is_a_slot() -> None:
    desk = Desk(traits("a"), traits("b"), concurrency=1)
    desk.granted()
    assert isinstance(desk.dispatch.decide(desk.want(claim_ahead=True)), Wait)


def test_nothing_is_sent_to_a_member_that_was_closed_meanwhile_or_when_the_run_stops() -> None:
    async def main(clock: VirtualClock) -> list[bool]:
        seen = []
        for stop in (True, False):
            desk = Desk(concurrency=1)
            await desk.admitted()
            grant = await desk.dispatch.admit(desk.want(claim_ahead=True))
            waits = asyncio.ensure_future(desk.dispatch.slot(grant))
            await clock.sleep(1.0)
            if stop:
                desk.dispatch.halt(RunStopped("paused: enough"))
            else:
                desk.limits.trip(grant.gauge, "pool", "bad key", None)
                desk.dispatch.poke()
            seen.append(await waits)
            desk.dispatch.settle(grant, Amount())
            assert (desk.step.ahead, desk.run.reserved_usd) == (0, WORST)
        return seen

    assert run_virtual(main) == [False, False]


def test_one_claimed_ahead_waits_for_its_members_rate() -> None:
    """Nothing else would wake it."""

    async def main(clock: VirtualClock) -> float:
        desk = Desk(traits("a", limits=MemberLimits(concurrency=1, rpm=6)))
        desk.dispatch = Dispatch(desk.limits, clock.monotonic)
        first = await desk.admitted()
        grant = await desk.dispatch.admit(desk.want(claim_ahead=True))
        began = clock.monotonic()
        desk.dispatch.settle(first, Amount(calls=1))
        assert await desk.dispatch.slot(grant)
        return clock.monotonic() - began

    assert run_virtual(main) > 5.0


def test_a_wait_of_less_than_a_millisecond_does_not_stop_a_run() -> None:
    """What uvloop gives for one is no timer, and does not know its time."""

    async def main() -> float:
        begun = time.monotonic()
        desk = Desk(traits("a", limits=MemberLimits(concurrency=64, rpm=120_000)), concurrency=64)
        desk.dispatch = Dispatch(desk.limits, lambda: time.monotonic() - begun)

        async def work() -> None:
            for _ in range(60):
                desk.dispatch.settle(await desk.admitted(), Amount(calls=1))

        await asyncio.gather(*[work() for _ in range(60)])
        return desk.run.calls

    assert run_sync(main()) == 3600
