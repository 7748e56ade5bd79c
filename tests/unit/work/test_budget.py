"""Accounts: settled plus reserved never passes a limit, in any scope and any currency."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fanfold.work.budget import (
    ONE_CALL,
    Account,
    Accounts,
    Amount,
    fit_all,
    reserve_all,
    settle_all,
)
from fanfold.work.task import Budget

ALL = Budget(usd=1.0, tokens=1000, calls=10)


def of_a_step(
    run: Budget, step: Budget = Budget(), spent: Amount = Amount(), name: str = "map"
) -> Accounts:
    return Account("run", run, spent), Account(f"step {name}", step, spent)


def test_what_fits_is_told_from_what_may_fit_later_and_what_never_will() -> None:
    account = Account("run", Budget(usd=100e-9), Amount(usd=40))
    account.reserved_usd = 30
    assert account.fit(Amount(usd=30)) == "fits"
    assert account.fit(Amount(usd=31)) == "wait"
    assert account.fit(Amount(usd=60)) == "wait"
    assert account.fit(Amount(usd=61)) == "never"


def test_each_currency_bounds_by_itself() -> None:
    account = Account("run", ALL)
    assert account.fit(Amount(10**9, 1000, 10)) == "fits"
    assert account.fit(Amount(10**9 + 1, 0, 0)) == "never"
    assert account.fit(Amount(0, 1001, 0)) == "never"
    assert account.fit(Amount(0, 0, 11)) == "never"


def test_without_a_limit_everything_fits() -> None:
    assert Account("run", Budget()).fit(Amount(10**18, 10**18, 10**18)) == "fits"


def test_a_budget_of_nothing_allows_only_what_costs_nothing() -> None:
    account = Account("run", Budget.of(usd=0.0))
    assert (account.fit(Amount(usd=1)), account.fit(Amount(calls=1))) == ("never", "fits")


def test_settling_releases_the_reservation_and_keeps_what_was_used() -> None:
    accounts = of_a_step(ALL, Budget(usd=0.5))
    reserved = Amount(1000, 100, 1)
    reserve_all(accounts, reserved)
    assert [account.reserved_usd for account in accounts] == [1000, 1000]
    settle_all(accounts, reserved, Amount(300, 40, 1))
    for account in accounts:
        assert (account.reserved_usd, account.reserved_tokens, account.reserved_calls) == (0, 0, 0)
        assert (account.usd, account.tokens, account.calls) == (300, 40, 1)


def test_the_account_that_cannot_bear_it_is_named() -> None:
    narrow = of_a_step(Budget(usd=1.0), Budget(usd=0.1))
    fit, account = fit_all(narrow, Amount(usd=200_000_000))
    assert (fit, account.name) == ("never", "step map")
    fit, account = fit_all(narrow, Amount(usd=2_000_000_000))
    assert (fit, account.name) == ("never", "run")


def test_what_was_spent_before_counts() -> None:
    accounts = of_a_step(Budget(calls=5), spent=Amount(calls=4))
    assert fit_all(accounts, ONE_CALL)[0] == "fits"
    reserve_all(accounts, ONE_CALL)
    assert fit_all(accounts, ONE_CALL)[0] == "wait"
    settle_all(accounts, ONE_CALL, ONE_CALL)
    assert fit_all(accounts, ONE_CALL)[0] == "never"


def test_steps_share_the_account_of_the_run() -> None:
    run = Account("run", Budget(calls=3))
    first, second = (run, Account("a", Budget())), (run, Account("b", Budget()))
    reserve_all(first, Amount(calls=2))
    assert fit_all(second, Amount(calls=1))[0] == "fits"
    assert fit_all(second, Amount(calls=2))[0] == "wait"


def test_the_books_say_where_they_stand() -> None:
    account = Account("run", Budget(usd=2.0), Amount(usd=500_000_000))
    assert repr(account) == "<run: $0.500000 settled, $0.000000 reserved of $2.000000>"


amounts = st.builds(Amount, st.integers(0, 60), st.integers(0, 60), st.integers(0, 2))


@given(st.lists(st.tuples(amounts, st.integers(0, 100), st.booleans()), max_size=40))
def test_whatever_is_reserved_and_settled_the_limits_hold(
    calls: list[tuple[Amount, int, bool]],
) -> None:
    """A call is made only if it fits; it takes at most what was reserved. Random interleaving."""
    accounts = of_a_step(Budget(usd=200e-9, tokens=150, calls=9), Budget(usd=120e-9))
    flying: list[Amount] = []
    for want, share, lands in calls:
        if fit_all(accounts, want)[0] == "fits":
            reserve_all(accounts, want)
            flying.append(want)
        if lands and flying:
            reserved = flying.pop(0)
            used = Amount(
                reserved.usd * share // 100, reserved.tokens * share // 100, reserved.calls
            )
            settle_all(accounts, reserved, used)
        run, step = accounts
        assert run.usd + run.reserved_usd <= 200 and step.usd + step.reserved_usd <= 120
        assert run.tokens + run.reserved_tokens <= 150
        assert run.calls + run.reserved_calls <= 9
