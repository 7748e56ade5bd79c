"""Items that cannot be paid while others can: they are set aside, and the run pauses at its end."""

from __future__ import annotations

from contextvars import ContextVar

from fanfold.errors import RunStopped
from fanfold.price import worst
from fanfold.run.ledger import ONE_CALL, Account, Sum
from fanfold.run.want import Candidate, Want

OVERHEAD = 1024  # tokens of a request at least, as its worst case is counted
MANY = 10_000  # in a row, and none that could be paid in between: the rest is not looked at


APART: ContextVar[bool] = ContextVar("apart", default=False)
"""Set while one of many planned items is carried by a way of its own (a vote, a nested pattern): an
ask inside that cannot be paid ends this item and not the run."""


class SetAside(RunStopped):
    """This task cannot be paid; another one perhaps can. `need` is what it would take, `account`
    the one that cannot bear it. `last`: no other is looked at after it."""

    last = False

    def __init__(self, account: Account, need: Sum, member: str) -> None:
        self.account, self.need, self.member = account, need, member
        super().__init__(f"out of budget: {account.lacks(need)}")


class Aside:
    """What a run has set aside: how many, and the dearest of them. `row`: since one was paid."""

    def __init__(self) -> None:
        self.count = self.row = 0
        self.dearest: SetAside | None = None
        self._id = self._whose = ""

    def __bool__(self) -> bool:
        return self.count > 0

    def add(self, id: str, step: str, gone: SetAside) -> None:
        self.count += 1
        self.row += 1
        if self.dearest is None or _size(gone) > _size(self.dearest):
            self.dearest = gone
            self._id, self._whose = id, f"step {step}, member {gone.member}"

    @property
    def reason(self) -> str:
        """Why the run pauses at its end, going by what is left then. Without a call left it is the
        same for all items of the step, so none is named."""
        assert self.dearest is not None
        account = self.dearest.account
        whose = self._whose if account.out_of_calls else f"{self._id}, {self._whose}"
        return f"out of budget: {account.lacks(self.dearest.need)} ({whose})"


def _size(gone: SetAside) -> tuple[int, int]:
    return gone.need.usd, gone.need.tokens


def least(want: Want, candidate: Candidate) -> Sum:
    """What an ask without a text would take at worst. What an agent takes does not follow from its
    ask, so nothing is known there."""
    request, sum = want.request(candidate)
    price = candidate.traits.price
    if sum is ONE_CALL:
        return sum
    if request.most is not None or price is None:
        return ONE_CALL
    return Sum(worst(price, OVERHEAD, request.output_tokens), OVERHEAD + request.output_tokens, 1)
