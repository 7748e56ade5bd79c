"""Budgets of the month. The journal decides, for all processes at once; here is what a run makes
of its answer: a member whose budget does not suffice is shut, for a while or until the month turns.
"""

from __future__ import annotations

from math import inf

from fanfold.clock import Clock
from fanfold.journal.answers import Claim
from fanfold.journal.decide import month_bounds, month_of
from fanfold.journal.facts import MonthlyLimit
from fanfold.price import nanos
from fanfold.run.limits import Closed, Gauge, Shut, Wait
from fanfold.work.member import Traits

FIRST_LOOK, LONGEST_LOOK = 0.05, 1.0  # seconds until it is tried again whether there is money now


class Months:
    """Synchronous: `draw` is what a start names, `shut` and `settled` are what came of it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._month = ""
        self._first = self._after = 0.0
        self._drawn: set[tuple[str, str]] = set()
        self._looks: dict[str, int] = {}

    def draw(self, traits: Traits, at: float) -> MonthlyLimit | None:
        """What a member may take in the month of `at`. The first time, this is added up anew."""
        if traits.budget_usd_month is None:
            return None
        if not self._first <= at < self._after:
            self._month = month_of(at)
            self._first, self._after = month_bounds(self._month)
        pair = traits.id, self._month
        anew = pair not in self._drawn
        self._drawn.add(pair)
        return MonthlyLimit(self._month, nanos(traits.budget_usd_month), anew)

    def shut(self, gauge: Gauge, claim: Claim) -> None:
        """The journal refused. Cases: the budget of a run above is used up; the member's is; or
        others' calls may still give something back."""
        traits, now = gauge.traits, self._clock.monotonic()
        if claim.broke == "never" and claim.why:
            gauge.shut = Shut(inf, Closed(claim.why, unfunded=True))
            return
        if claim.broke == "never":
            budget = traits.budget_usd_month or 0.0
            reason = (
                f"{traits.id}: the next call does not fit its budget of the month: ${budget:,.2f}"
            )
            turns = now + self._after - self._clock.now()
            gauge.shut = Shut(turns, Closed(reason, unfunded=True))
            return
        looks = self._looks[traits.id] = self._looks.get(traits.id, 0) + 1
        until = now + min(LONGEST_LOOK, FIRST_LOOK * 2.0 ** min(looks - 1, 10))
        gauge.shut = Shut(until, Wait(until))

    def settled(self, gauge: Gauge) -> bool:
        """It is on record what a call took. True: that may be what another one waits for."""
        self._looks.pop(gauge.traits.id, None)
        if gauge.shut is None or isinstance(gauge.shut.verdict, Closed):
            return False
        gauge.shut = None
        return True
