"""What may be spent, what is reserved, what is settled. Synchronous: it decides, others act."""

from __future__ import annotations

from typing import Literal

import msgspec

from fanfold.price import dollars, nanos
from fanfold.work.task import Budget

Fit = Literal["fits", "wait", "never"]


class Sum(msgspec.Struct, frozen=True, gc=False):
    """An amount in all three currencies: nano-dollars, tokens, calls."""

    usd: int = 0
    tokens: int = 0
    calls: int = 0

    def __add__(self, other: Sum) -> Sum:
        return Sum(self.usd + other.usd, self.tokens + other.tokens, self.calls + other.calls)

    def __sub__(self, other: Sum) -> Sum:
        return Sum(self.usd - other.usd, self.tokens - other.tokens, self.calls - other.calls)


ONE_CALL = Sum(calls=1)


class Account:
    """One scope: a run, or a step of it. Settled plus reserved never passes its limits."""

    __slots__ = ("bounded", "calls", "max_calls", "max_tokens", "max_usd", "name",
                 "reserved_calls", "reserved_tokens", "reserved_usd", "tokens", "usd")  # fmt: skip

    def __init__(self, name: str, limit: Budget, spent: Sum = Sum()) -> None:
        self.name = name
        self.max_usd = None if limit.usd is None else nanos(limit.usd)
        self.max_tokens, self.max_calls = limit.tokens, limit.calls
        self.bounded = not (self.max_usd is self.max_tokens is self.max_calls is None)
        self.usd, self.tokens, self.calls = spent.usd, spent.tokens, spent.calls
        self.reserved_usd = self.reserved_tokens = self.reserved_calls = 0

    def fit(self, want: Sum) -> Fit:
        """`wait`: would fit if what is under way cost nothing. `never`: not even then."""
        fits = True
        for limit, settled, reserved, more in (
            (self.max_usd, self.usd, self.reserved_usd, want.usd),
            (self.max_tokens, self.tokens, self.reserved_tokens, want.tokens),
            (self.max_calls, self.calls, self.reserved_calls, want.calls),
        ):
            if limit is None or settled + reserved + more <= limit:
                continue
            if settled + more > limit:
                return "never"
            fits = False
        return "fits" if fits else "wait"

    def left(self) -> Sum:
        """What is neither settled nor reserved; 0 in a currency without a limit."""
        amounts = (
            (self.max_usd, self.usd + self.reserved_usd),
            (self.max_tokens, self.tokens + self.reserved_tokens),
            (self.max_calls, self.calls + self.reserved_calls),
        )
        return Sum(*(0 if most is None else max(0, most - used) for most, used in amounts))

    def lacks(self, want: Sum) -> str:
        """What is in the way of a call, in words."""
        if self.max_usd is not None and self.usd + want.usd > self.max_usd:
            left = dollars(max(0, self.max_usd - self.usd))
            need = dollars(want.usd)
            return (
                f"dollars of the {self.name}: ${left:.6f} left, the next call may cost ${need:.6f}"
            )
        if self.max_tokens is not None and self.tokens + want.tokens > self.max_tokens:
            left_tokens = max(0, self.max_tokens - self.tokens)
            return (
                f"tokens of the {self.name}: {left_tokens} left,"
                f" the next call may take {want.tokens}"
            )
        return f"calls of the {self.name}: all {self.max_calls} were made"

    @property
    def out_of_calls(self) -> bool:
        """No call at all can be made, whichever it is."""
        return self.max_calls is not None and self.calls >= self.max_calls

    def reopen(self, sum: Sum) -> None:
        """What counted as spent is only reserved after all."""
        self.settle(Sum() - sum, Sum() - sum)

    def reserve(self, more: Sum) -> None:
        self.reserved_usd += more.usd
        self.reserved_tokens += more.tokens
        self.reserved_calls += more.calls

    def settle(self, reserved: Sum, actual: Sum) -> None:
        self.reserved_usd -= reserved.usd
        self.reserved_tokens -= reserved.tokens
        self.reserved_calls -= reserved.calls
        self.usd += actual.usd
        self.tokens += actual.tokens
        self.calls += actual.calls

    def __repr__(self) -> str:
        limit = "∞" if self.max_usd is None else f"{dollars(self.max_usd):.6f}"
        return (
            f"<{self.name}: ${dollars(self.usd):.6f} settled, "
            f"${dollars(self.reserved_usd):.6f} reserved of ${limit}>"
        )


Chain = tuple[Account, ...]
"""The accounts that one call is charged to, outermost first."""


class Ledger:
    """The accounts of one run: the run's own, and one for each step."""

    def __init__(self, limit: Budget, spent: Sum = Sum()) -> None:
        self.run = Account("run", limit, spent)

    def chain(self, step: str, limit: Budget, spent: Sum = Sum()) -> Chain:
        return self.run, Account(f"step {step}", limit, spent)

    def fit(self, chain: Chain, want: Sum) -> tuple[Fit, Account]:
        """Whether the whole chain of accounts can bear it, and which one cannot."""
        worst: tuple[Fit, Account] = ("fits", self.run)
        for account in chain:
            if account.bounded and (want is not ONE_CALL or account.max_calls is not None):
                fit = account.fit(want)
                if fit == "never":
                    return fit, account
                if fit == "wait":
                    worst = fit, account
        return worst

    def reserve(self, chain: Chain, want: Sum) -> None:
        if want is ONE_CALL:
            for account in chain:
                account.reserved_calls += 1
            return
        for account in chain:
            account.reserve(want)

    def settle(self, chain: Chain, reserved: Sum, actual: Sum) -> None:
        """The call is over: what was reserved is released, what it really took is settled."""
        if reserved is ONE_CALL and actual is ONE_CALL:
            for account in chain:
                account.reserved_calls -= 1
                account.calls += 1
            return
        for account in chain:
            account.settle(reserved, actual)
