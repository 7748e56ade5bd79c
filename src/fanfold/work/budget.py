"""Amounts, and accounts that bound them: one mechanism for the budget of a run, of a step and of a
member's month. Synchronous: it decides, others act."""

from __future__ import annotations

from typing import Literal

import msgspec

from fanfold.price import dollars, nanos
from fanfold.work.outcome import StopCause
from fanfold.work.task import Budget

Fit = Literal["fits", "wait", "never"]
_UNLIMITED = 1 << 120


class Amount(msgspec.Struct, frozen=True, gc=False):
    """Nano-dollars, tokens and calls together."""

    usd: int = 0
    tokens: int = 0
    calls: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.usd + other.usd, self.tokens + other.tokens, self.calls + other.calls)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.usd - other.usd, self.tokens - other.tokens, self.calls - other.calls)

    def at_least(self, other: Amount) -> Amount:
        """Of each the larger."""
        return Amount(
            max(self.usd, other.usd), max(self.tokens, other.tokens), max(self.calls, other.calls)
        )

    def times(self, many: int) -> Amount:
        return Amount(many * self.usd, many * self.tokens, many * self.calls)


NOTHING = Amount()
ONE_CALL = Amount(calls=1)


def combined(stated: Budget, more: Budget | None) -> Budget:
    """A budget with other amounts: those that are stated count."""
    if more is None:
        return stated
    said = {name: getattr(more, name) for name in more.__struct_fields__}
    return msgspec.structs.replace(stated, **{k: v for k, v in said.items() if v is not None})


class Account:
    """The budget of one scope. Settled plus reserved never exceeds its limits. `step`: it is that
    of a step. `monthly`: it begins anew with each month. `final`: nobody may wait for what is reserved
    there, since it may be held by whoever waits for the call."""

    __slots__ = ("bounded", "calls", "final", "limit", "max_calls", "max_tokens", "max_usd", "monthly",
                 "most", "name", "reserved_calls", "reserved_tokens", "reserved_usd", "step",
                 "tokens",
                 "usd")  # fmt: skip

    def __init__(self, name: str, limit: Budget, spent: Amount = NOTHING, step: str = "") -> None:
        self.name, self.step, self.monthly, self.final = name, step, False, False
        self.set_limit(limit)
        self.usd, self.tokens, self.calls = spent.usd, spent.tokens, spent.calls
        self.reserved_usd = self.reserved_tokens = self.reserved_calls = 0

    def set_limit(self, limit: Budget) -> None:
        """Below what is settled and reserved nothing is cut, but nothing more fits."""
        self.limit = limit
        self.max_usd = None if limit.usd is None else nanos(limit.usd)
        self.max_tokens, self.max_calls = limit.tokens, limit.calls
        limits = (self.max_usd, self.max_tokens, self.max_calls)
        self.bounded = limits != (None, None, None)
        self.most = tuple(_UNLIMITED if most is None else most for most in limits)

    def fit(self, want: Amount) -> Fit:
        """`wait`: would fit if what is in flight cost nothing. `never`: not even then."""
        return fit_all((self,), want)[0]

    def remaining(self) -> Amount:
        """What is neither settled nor reserved; 0 where there is no limit."""
        amounts = (
            (self.max_usd, self.usd + self.reserved_usd),
            (self.max_tokens, self.tokens + self.reserved_tokens),
            (self.max_calls, self.calls + self.reserved_calls),
        )
        return Amount(*(0 if most is None else max(0, most - used) for most, used in amounts))

    def short_now(self, want: Amount) -> str:
        """Why a call of this amount has to wait for what is in flight, for people."""
        left = self.remaining()
        if self.max_usd is not None and want.usd > left.usd:
            return (
                f"${dollars(left.usd):.6f} is free, the next call may cost ${dollars(want.usd):.6f}"
            )
        if self.max_tokens is not None and want.tokens > left.tokens:
            return f"{left.tokens} tokens are free, the next call may take {want.tokens}"
        return f"{left.calls} calls are free"

    def shortage(self, want: Amount) -> str:
        """Why a call of this amount is refused, for people."""
        if self.max_usd is not None and self.usd + want.usd > self.max_usd:
            remaining = dollars(max(0, self.max_usd - self.usd))
            need = dollars(want.usd)
            return (
                f"dollars of the {self.name}: ${remaining:.6f} left,"
                f" the next call may cost ${need:.6f}"
            )
        if self.max_tokens is not None and self.tokens + want.tokens > self.max_tokens:
            tokens = max(0, self.max_tokens - self.tokens)
            return f"tokens of the {self.name}: {tokens} left, the next call may take {want.tokens}"
        made = f"all {self.max_calls} were made" if self.max_calls != 1 else "the only one was made"
        return f"calls of the {self.name}: {made}"

    def cause(self, want: Amount) -> StopCause:
        """The same, for programs."""
        if self.monthly:
            return StopCause("monthly_budget")
        if self.max_usd is not None and self.usd + want.usd > self.max_usd:
            return StopCause("budget", "usd", self.step)
        tokens = self.max_tokens is not None and self.tokens + want.tokens > self.max_tokens
        return StopCause("budget", "tokens" if tokens else "calls", self.step)

    @property
    def out_of_calls(self) -> bool:
        """No call at all can be made, whatever it costs."""
        return self.max_calls is not None and self.calls >= self.max_calls

    def reopen(self, amount: Amount) -> None:
        """What counted as spent is only reserved after all."""
        self.settle(NOTHING - amount, NOTHING - amount)

    def reserve(self, more: Amount) -> None:
        reserve_all((self,), more)

    def settle(self, reserved: Amount, actual: Amount) -> None:
        settle_all((self,), reserved, actual)

    def __repr__(self) -> str:
        limit = "∞" if self.max_usd is None else f"{dollars(self.max_usd):.6f}"
        return (
            f"<{self.name}: ${dollars(self.usd):.6f} settled, "
            f"${dollars(self.reserved_usd):.6f} reserved of ${limit}>"
        )


Accounts = tuple[Account, ...]
"""Those that one call is charged to, outermost first."""


def fit_all(accounts: Accounts, want: Amount) -> tuple[Fit, Account]:
    """Whether all of them can bear it, and if not, which one cannot."""
    worst: tuple[Fit, Account] = ("fits", accounts[0])
    for one in accounts:
        if not one.bounded:
            continue
        usd, tokens, calls = one.usd + want.usd, one.tokens + want.tokens, one.calls + want.calls
        most_usd, most_tokens, most_calls = one.most
        if usd > most_usd or tokens > most_tokens or calls > most_calls:
            return "never", one
        if (
            usd + one.reserved_usd > most_usd
            or tokens + one.reserved_tokens > most_tokens
            or calls + one.reserved_calls > most_calls
        ):
            if one.final:
                return "never", one
            worst = "wait", one
    return worst


def reserve_all(accounts: Accounts, want: Amount) -> None:
    for one in accounts:
        one.reserved_usd += want.usd
        one.reserved_tokens += want.tokens
        one.reserved_calls += want.calls


def settle_all(accounts: Accounts, reserved: Amount, actual: Amount) -> None:
    """The call has ended: its reservation is released, and what it really took is settled."""
    for one in accounts:
        one.reserved_usd -= reserved.usd
        one.reserved_tokens -= reserved.tokens
        one.reserved_calls -= reserved.calls
        one.usd += actual.usd
        one.tokens += actual.tokens
        one.calls += actual.calls
