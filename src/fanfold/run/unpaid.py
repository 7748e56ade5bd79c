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
    """What a run could not pay for: the dearest at each step. `in_row`: since one was paid."""

    def __init__(self) -> None:
        self.in_row = 0
        self._dearest: dict[str, tuple[CannotPay, str]] = {}  # by step, with the item

    def __bool__(self) -> bool:
        return bool(self._dearest)

    @property
    def dearest(self) -> CannotPay | None:
        return self._worst[0] if self._dearest else None

    @property
    def _worst(self) -> tuple[CannotPay, str, str]:
        """With the item and its step."""
        step = max(self._dearest, key=lambda one: _size(self._dearest[one][0]))
        return (*self._dearest[step], step)

    def add(self, id: str, step: str, short: CannotPay) -> None:
        self.in_row += 1
        known = self._dearest.get(step)
        if known is None or _size(short) > _size(known[0]):
            self._dearest[step] = short, id

    def forget(self, step: str) -> None:
        """What could not be paid there is not needed."""
        self._dearest.pop(step, None)

    @property
    def reason(self) -> str:
        """Why the run pauses at its end, by what is left then. Without a call left it is the same
        for all items of the step, so none is named."""
        short, id, step = self._worst
        account, whose = short.account, f"step {step}, member {short.member}"
        if not account.out_of_calls:
            whose = f"{id}, {whose}"
        return f"out of budget: {account.shortage(short.need)} ({whose})"


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
