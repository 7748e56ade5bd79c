"""Budgets that other processes draw on too, as a run knows them; the store itself decides."""

from __future__ import annotations

from fanfold.journal.answers import Shortage
from fanfold.journal.decide import month_bounds
from fanfold.journal.limits import MonthlyLimit
from fanfold.run.months import FIRST_LOOK, LONGEST_LOOK, MonthBudget, SharedBudget
from fanfold.testing.member import traits
from fanfold.work.budget import Amount

JULY = month_bounds("2025-07")[0]
LIMIT = 20_000_000_000


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


def month() -> tuple[Hands, MonthBudget]:
    clock = Hands()
    return clock, MonthBudget(traits("haiku", budget_usd_month=20.0), clock)


def short(settled: int, reserved: int = 0, *, final: bool = False) -> Shortage:
    return Shortage("", LIMIT, settled, reserved, final)


def test_a_start_names_the_month_and_the_limit_and_adds_up_anew_once_a_month() -> None:
    _, budget = month()
    june, july = "2025-06", "2025-07"
    drawn = [budget.draw(at) for at in (JULY - 1000, JULY - 0.001, JULY, JULY + 9)]
    assert drawn == [
        MonthlyLimit(june, LIMIT, anew=True), MonthlyLimit(june, LIMIT),
        MonthlyLimit(july, LIMIT, anew=True), MonthlyLimit(july, LIMIT),
    ]  # fmt: skip


def test_what_does_not_fit_never_does_until_the_month_turns_and_less_still_fits() -> None:
    clock, budget = month()
    budget.refused(short(LIMIT - 100), clock.monotonic())
    account = budget.account(clock.monotonic())
    assert [account.fit(Amount(usd=usd)) for usd in (101, 100)] == ["never", "fits"]
    assert account.shortage(Amount(usd=101)) == (
        "haiku: the next call does not fit its budget of the month: $20.00"
    )
    clock.wall = JULY
    assert budget.account(clock.monotonic()).fit(Amount(usd=LIMIT)) == "fits"


def test_while_others_hold_money_it_is_looked_again_ever_more_rarely() -> None:
    clock, budget = month()
    waits = []
    for _ in range(8):
        budget.refused(short(0, LIMIT), clock.monotonic())
        assert budget.account(clock.monotonic()).fit(Amount(usd=1)) == "wait"
        assert budget.look_at is not None
        waits.append(round(budget.look_at - clock.monotonic(), 6))
    assert waits == [FIRST_LOOK * 2**n for n in range(5)] + [LONGEST_LOOK] * 3
    assert budget.account(clock.monotonic() + LONGEST_LOOK).fit(Amount(usd=1)) == "fits"


def test_what_is_given_back_here_ends_the_wait_at_once() -> None:
    clock, budget = month()
    budget.refused(short(0, LIMIT), clock.monotonic())
    assert (budget.settled(), budget.account(clock.monotonic()).fit(Amount(usd=1))) == (
        True,
        "fits",
    )
    assert budget.settled() is False


def test_what_is_reserved_here_stays_when_others_are_forgotten() -> None:
    clock, budget = month()
    budget.account(clock.monotonic()).reserve(Amount(usd=300))
    budget.refused(short(0, 500), clock.monotonic())
    assert budget.account(clock.monotonic()).reserved_usd == 800
    assert budget.settled()
    assert budget.account(clock.monotonic()).reserved_usd == 300


def test_within_a_surrounding_run_nobody_waits_for_what_is_reserved() -> None:
    """It may be held for whoever would wait."""
    outer = SharedBudget("run outer", 1000)
    outer.refused(Shortage("run outer", 1000, 200, 700, True), 0.0)
    account = outer.account(0.0)
    assert [account.fit(Amount(usd=usd)) for usd in (101, 100)] == ["never", "fits"]
    assert account.shortage(Amount(usd=101)).startswith("dollars of the run outer: $0.000000 left")
