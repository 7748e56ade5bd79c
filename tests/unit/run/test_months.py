"""What a run makes of a member's budget of the month; the journal itself decides."""

from __future__ import annotations

from fanfold.journal.answers import Claim
from fanfold.journal.decide import month_bounds
from fanfold.journal.facts import MonthlyLimit
from fanfold.run.limits import GO, Closed, Gauge, Pool, Wait
from fanfold.run.months import FIRST_LOOK, LONGEST_LOOK, Months
from fanfold.testing.member import traits

JULY = month_bounds("2025-07")[0]


class Hands:
    """A clock that is moved by hand: wall time and, 1000 s behind July, the monotonic one."""

    def __init__(self) -> None:
        self.wall = JULY - 1000.0

    def now(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.wall - JULY + 1000.0

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("policy does not wait")


def purse() -> tuple[Hands, Months, Gauge]:
    clock = Hands()
    like = traits("haiku", budget_usd_month=20.0)
    return clock, Months(clock), Gauge(like, Pool("haiku"), 0.0)


def test_a_start_names_the_month_and_the_limit_and_adds_up_anew_once_a_month() -> None:
    _, months, gauge = purse()
    june, july = "2025-06", "2025-07"
    drawn = [months.draw(gauge.traits, at) for at in (JULY - 1000, JULY - 0.001, JULY, JULY + 9)]
    limit = 20_000_000_000
    assert drawn == [
        MonthlyLimit(june, limit, anew=True), MonthlyLimit(june, limit),
        MonthlyLimit(july, limit, anew=True), MonthlyLimit(july, limit),
    ]  # fmt: skip


def test_members_without_one_name_nothing() -> None:
    assert purse()[1].draw(traits("free"), JULY) is None


def test_used_up_it_is_closed_until_the_month_turns() -> None:
    clock, months, gauge = purse()
    months.draw(gauge.traits, clock.now())
    months.shut(gauge, Claim(broke="never"))
    closed = Closed(
        "haiku: the next call does not fit its budget of the month: $20.00", unfunded=True
    )
    assert [gauge.check(now, 0) for now in (0.0, 999.9, 1000.0)] == [closed, closed, GO]
    assert months.settled(gauge) is False  # what others give back does not help
    assert gauge.check(1.0, 0) == closed


def test_while_others_hold_money_it_is_looked_again_ever_more_rarely() -> None:
    clock, months, gauge = purse()
    months.draw(gauge.traits, clock.now())
    waits = []
    for _ in range(8):
        months.shut(gauge, Claim(broke="now"))
        verdict = gauge.check(clock.monotonic(), 0)
        assert isinstance(verdict, Wait)
        assert verdict.until is not None
        waits.append(round(verdict.until - clock.monotonic(), 6))
    assert waits == [FIRST_LOOK * 2**n for n in range(5)] + [LONGEST_LOOK] * 3
    assert gauge.check(clock.monotonic() + LONGEST_LOOK, 0) is GO


def test_what_is_given_back_here_ends_the_wait_at_once() -> None:
    clock, months, gauge = purse()
    months.draw(gauge.traits, clock.now())
    months.shut(gauge, Claim(broke="now"))
    assert (months.settled(gauge), gauge.check(clock.monotonic(), 0)) == (True, GO)
    assert months.settled(gauge) is False
