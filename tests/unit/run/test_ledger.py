"""The ledger: settled plus reserved never passes a limit, in any scope and any currency."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fanfold.run.ledger import ONE_CALL, Account, Ledger, Sum
from fanfold.work.task import Budget

FULL_PURSE = Budget(usd=1.0, tokens=1000, calls=10)


def test_what_fits_is_told_from_what_may_fit_later_and_what_never_will() -> None:
    account = Account("run", Budget(usd=100e-9), Sum(usd=40))
    account.reserved_usd = 30
    assert account.fit(Sum(usd=30)) == "fits"
    assert account.fit(Sum(usd=31)) == "wait"
    assert account.fit(Sum(usd=60)) == "wait"
    assert account.fit(Sum(usd=61)) == "never"


def test_each_currency_bounds_by_itself() -> None:
    account = Account("run", FULL_PURSE)
    assert account.fit(Sum(10**9, 1000, 10)) == "fits"
    assert account.fit(Sum(10**9 + 1, 0, 0)) == "never"
    assert account.fit(Sum(0, 1001, 0)) == "never"
    assert account.fit(Sum(0, 0, 11)) == "never"


def test_without_a_limit_everything_fits() -> None:
    assert Account("run", Budget()).fit(Sum(10**18, 10**18, 10**18)) == "fits"


def test_a_budget_of_nothing_allows_only_what_costs_nothing() -> None:
    account = Account("run", Budget.of(usd=0.0))
    assert (account.fit(Sum(usd=1)), account.fit(Sum(calls=1))) == ("never", "fits")


def test_settling_releases_the_reservation_and_keeps_what_was_used() -> None:
    ledger = Ledger(FULL_PURSE)
    chain = ledger.chain("map", Budget(usd=0.5))
    reserved = Sum(1000, 100, 1)
    ledger.reserve(chain, reserved)
    assert [account.reserved_usd for account in chain] == [1000, 1000]
    ledger.settle(chain, reserved, Sum(300, 40, 1))
    for account in chain:
        assert (account.reserved_usd, account.reserved_tokens, account.reserved_calls) == (0, 0, 0)
        assert (account.usd, account.tokens, account.calls) == (300, 40, 1)


def test_the_account_that_cannot_bear_it_is_named() -> None:
    ledger = Ledger(Budget(usd=1.0))
    narrow = ledger.chain("map", Budget(usd=0.1))
    fit, account = ledger.fit(narrow, Sum(usd=200_000_000))
    assert (fit, account.name) == ("never", "step map")
    fit, account = ledger.fit(narrow, Sum(usd=2_000_000_000))
    assert (fit, account.name) == ("never", "run")


def test_what_was_spent_before_counts() -> None:
    ledger = Ledger(Budget(calls=5), Sum(calls=4))
    chain = ledger.chain("map", Budget(), Sum(calls=4))
    assert ledger.fit(chain, ONE_CALL)[0] == "fits"
    ledger.reserve(chain, ONE_CALL)
    assert ledger.fit(chain, ONE_CALL)[0] == "wait"
    ledger.settle(chain, ONE_CALL, ONE_CALL)
    assert ledger.fit(chain, ONE_CALL)[0] == "never"


def test_steps_share_the_account_of_the_run() -> None:
    ledger = Ledger(Budget(calls=3))
    first, second = ledger.chain("a", Budget()), ledger.chain("b", Budget())
    ledger.reserve(first, Sum(calls=2))
    assert ledger.fit(second, Sum(calls=1))[0] == "fits"
    assert ledger.fit(second, Sum(calls=2))[0] == "wait"


def test_the_books_say_where_they_stand() -> None:
    account = Account("run", Budget(usd=2.0), Sum(usd=500_000_000))
    assert repr(account) == "<run: $0.500000 settled, $0.000000 reserved of $2.000000>"


amounts = st.builds(Sum, st.integers(0, 60), st.integers(0, 60), st.integers(0, 2))


@given(st.lists(st.tuples(amounts, st.integers(0, 100), st.booleans()), max_size=40))
def test_whatever_is_reserved_and_settled_the_limits_hold(
    calls: list[tuple[Sum, int, bool]],
) -> None:
    """A call is made only if it fits; it takes at most what was reserved. Random interleaving."""
    ledger = Ledger(Budget(usd=200e-9, tokens=150, calls=9))
    chain = ledger.chain("map", Budget(usd=120e-9))
    flying: list[Sum] = []
    for want, share, lands in calls:
        if ledger.fit(chain, want)[0] == "fits":
            ledger.reserve(chain, want)
            flying.append(want)
        if lands and flying:
            reserved = flying.pop(0)
            used = Sum(reserved.usd * share // 100, reserved.tokens * share // 100, reserved.calls)
            ledger.settle(chain, reserved, used)
        run, step = chain
        assert run.usd + run.reserved_usd <= 200 and step.usd + step.reserved_usd <= 120
        assert run.tokens + run.reserved_tokens <= 150
        assert run.calls + run.reserved_calls <= 9
