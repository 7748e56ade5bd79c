"""Items that cannot be paid while others can: they are skipped, and the run pauses at its end."""

from __future__ import annotations

from contextvars import ContextVar

from fanfold.errors import RunStopped
from fanfold.price import worst
from fanfold.run.demand import Candidate, Demand
from fanfold.work.budget import ONE_CALL, Account, Amount

OVERHEAD = 1024  # tokens of a request at least, as its worst case is counted
MANY = 10_000  # in a row, and none that could be paid in between: the rest is not tried


SEPARATE: ContextVar[bool] = ContextVar("separate", default=False)
"""Set while one of many planned items is carried out by a nested pattern (a vote, a pipeline): an ask
inside that cannot be paid ends this item and not the run."""


class CannotPay(RunStopped):
    """This task cannot be paid; another one perhaps can. `need` is what it would take, `account`
    the one that cannot bear it. `last`: no other is tried after it."""

    last = False

    def __init__(self, account: Account, need: Amount, member: str) -> None:
        self.account, self.need, self.member = account, need, member
        self.cause = account.cause(need)
        super().__init__(f"out of budget: {account.shortage(need)}")


class Unpaid:
    """What a run could not pay for: how many, and the dearest of them. `in_row`: since one was paid."""

    def __init__(self) -> None:
        self.count = self.in_row = 0
        self.dearest: CannotPay | None = None
        self._id = self._whose = ""

    def __bool__(self) -> bool:
        return self.count > 0

    def add(self, id: str, step: str, short: CannotPay) -> None:
        self.count += 1
        self.in_row += 1
        if self.dearest is None or _size(short) > _size(self.dearest):
            self.dearest = short
            self._id, self._whose = id, f"step {step}, member {short.member}"

    @property
    def reason(self) -> str:
        """Why the run pauses at its end, by what is left then. Without a call left it is the same
        for all items of the step, so none is named."""
        assert self.dearest is not None
        account = self.dearest.account
        whose = self._whose if account.out_of_calls else f"{self._id}, {self._whose}"
        return f"out of budget: {account.shortage(self.dearest.need)} ({whose})"


def _size(short: CannotPay) -> tuple[int, int]:
    return short.need.usd, short.need.tokens


def least(demand: Demand, candidate: Candidate) -> Amount:
    """What an ask without a text would take at worst. What an agent takes does not follow from its
    ask, so nothing is known there."""
    request, amount = demand.request(candidate)
    price = candidate.traits.price
    if amount is ONE_CALL:
        return amount
    if request.most is not None or price is None:
        return ONE_CALL
    return Amount(
        worst(price, OVERHEAD, request.output_tokens), OVERHEAD + request.output_tokens, 1
    )
