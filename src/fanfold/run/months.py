"""Budgets that other processes draw on too: a member's budget of the month, those of runs around this
one, and its own where several processes carry it out.

The store knows what all processes spend and has the last word at each claim. What it says when it
refuses is learned here, so that calls which do not fit are not tried again and again; smaller ones
still go.
"""

from __future__ import annotations

from datetime import UTC, datetime

from fanfold.clock import Clock
from fanfold.journal.answers import Currency, Shortage
from fanfold.journal.limits import MonthlyLimit
from fanfold.price import dollars, nanos
from fanfold.work.budget import Account, Amount
from fanfold.work.member import Traits
from fanfold.work.task import Budget

FIRST_LOOK, LONGEST_LOOK = 0.05, 1.0  # seconds until it is tried again whether there is money now


class SharedBudget:
    """Synchronous. `look_at`: when money that other processes hold may have been given back."""

    def __init__(self, name: str, limit: int, unit: Currency = "usd") -> None:
        self._name, self._limit, self._unit = name, limit, unit
        self._others = 0  # reserved by others, when the store last said so
        self._looks = 0
        self.look_at: float | None = None
        self._account = self._new()

    def _new(self) -> Account:
        limit = dollars(self._limit) if self._unit == "usd" else self._limit
        return Account(self._name, Budget.of(**{self._unit: limit}))

    def account(self, now: float) -> Account:
        if self.look_at is not None and now >= self.look_at:
            self._forget_others()
        return self._account

    def refused(self, short: Shortage, now: float) -> None:
        """The store refused a claim: learn what it knows. What this process has in flight may be in
        its figures too; counted twice, it only delays the next try, until `look_at` at most.
        `final`: nobody waits for what is reserved there."""
        account = self._account
        self._forget_others()
        setattr(account, self._unit, short.settled + (short.reserved if short.final else 0))
        if not short.final:
            self._others = short.reserved
            self._reserve(self._others)
        self._looks += 1
        self.look_at = now + min(LONGEST_LOOK, FIRST_LOOK * 2.0 ** min(self._looks - 1, 10))

    def settled(self) -> bool:
        """It is on record what a call took. True: that may be what another one waits for."""
        self._looks = 0
        if self.look_at is None:
            return False
        self._forget_others()
        return True

    def _forget_others(self) -> None:
        self._reserve(-self._others)
        self._others, self.look_at = 0, None

    def _reserve(self, more: int) -> None:
        reserved = f"reserved_{self._unit}"
        setattr(self._account, reserved, getattr(self._account, reserved) + more)


class MonthAccount(Account):
    """One month of a member."""

    __slots__ = ("_member",)

    def __init__(self, member: str, limit: int) -> None:
        super().__init__("month", Budget.of(usd=dollars(limit)))
        self._member, self.monthly = member, True

    def shortage(self, want: Amount) -> str:
        budget = dollars(self.max_usd or 0)
        return f"{self._member}: the next call does not fit its budget of the month: ${budget:,.2f}"


class MonthBudget(SharedBudget):
    """What a member may take in a month, in all runs of the store."""

    def __init__(self, traits: Traits, clock: Clock) -> None:
        assert traits.budget_usd_month is not None
        super().__init__(traits.id, nanos(traits.budget_usd_month))
        self._clock = clock
        self._month = ""
        self._begins = self._ends = 0.0  # of the month, by the wall clock
        self._added_up = False

    def _new(self) -> Account:
        return MonthAccount(self._name, self._limit)

    def account(self, now: float) -> Account:
        self._turn(self._clock.now())
        return super().account(now)

    def refused(self, short: Shortage, now: float) -> None:
        self._turn(self._clock.now())
        super().refused(short, now)

    def draw(self, at: float) -> MonthlyLimit:
        """What a start names. The first of a month has the store add up anew what was spent."""
        self._turn(at)
        anew, self._added_up = not self._added_up, True
        return MonthlyLimit(self._month, self._limit, anew)

    def _turn(self, at: float) -> None:
        """In another month nothing is settled yet; what is in flight keeps its own account."""
        if self._begins <= at < self._ends:
            return
        first = datetime.fromtimestamp(at, UTC).replace(
            day=1, hour=0, minute=0, second=0, microsecond=0
        )
        after = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
        self._month = first.strftime("%Y-%m")
        self._begins, self._ends = first.timestamp(), after.timestamp()
        self._account, self._others, self._added_up, self.look_at = self._new(), 0, False, None
