"""When does an ask that is under way get a second request? Pure: times in, a decision out."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable
from heapq import merge

from fanfold.work.member import Traits
from fanfold.work.task import Hedge

LEAST = 20  # calls of a member at the step, before what is usual is known
NEWEST = 512  # of them are looked at
SLOW = 0.95  # of the calls took less: what is above is worth a second request
PROGRAMS = ("command", "function")  # they may have effects


class Latencies:
    """How long the newest calls of a member took, and since when others wait.

    Calls that still wait count as well, and so do those that were called off: they take at least
    as long as they have waited (the estimate of Kaplan and Meier). Without them the first answers,
    which are the quick ones, would say that everything else is slow.
    """

    def __init__(self, seconds: Iterable[float] = ()) -> None:
        self._newest = deque([(one, 0) for one in seconds], NEWEST)
        self._sorted = sorted(self._newest)
        self._waiting: list[float] = []
        self._known: float | None = None
        self._stale = 0

    def began(self, at: float) -> None:
        self._waiting.append(at)

    def ended(self, began: float) -> None:
        """It waits no longer; it failed, or `took` says how long it took."""
        self._waiting.remove(began)

    def took(self, seconds: float, *, at_least: bool = False) -> None:
        """`at_least`: nobody waited for the answer any longer."""
        one = (seconds, int(at_least))
        if len(self._newest) == NEWEST:
            del self._sorted[bisect_left(self._sorted, self._newest[0])]
        self._newest.append(one)
        insort(self._sorted, one)
        self._stale -= 1

    def slow(self, share: float, now: float) -> float | None:
        """What this share of calls does not pass; None while nobody can tell. It is worked out
        anew when a sixteenth of what is known is new."""
        if len(self._newest) < LEAST:
            return None
        if self._stale <= 0 or self._known is None:
            self._known, self._stale = self._quantile(share, now), len(self._newest) // 16
        return self._known

    def _quantile(self, share: float, now: float) -> float | None:
        waiting = sorted((now - began, 1) for began in self._waiting)
        left, still_waiting = len(self._sorted) + len(waiting), 1.0
        for seconds, at_least in merge(self._sorted, waiting):
            if not at_least:
                still_waiting *= 1.0 - 1.0 / left
                if still_waiting <= 1.0 - share + 1e-9:
                    return seconds
            left -= 1
        return None


class Hedging:
    """One step of a run: what is usual there, and how many second requests it may still make."""

    def __init__(self, stated: Hedge, before: Callable[[Traits], Iterable[float]]) -> None:
        self._stated, self._before = stated, before
        self._times: dict[str, Latencies] = {}
        self.asks = self.hedges = 0

    def patience(self, traits: Traits, now: float) -> float | None:
        """Seconds that an ask may wait for this member's answer; None: nobody can tell yet.

        Who allows fewer than 5 % extra calls spends them on the slowest of the slow.
        """
        if self._stated.after is not None:
            return self._stated.after
        return self.times(traits).slow(max(SLOW, 1.0 - self._stated.extra), now)

    @property
    def allowed(self) -> bool:
        """One more stays within the stated share of the calls made so far."""
        return self.hedges + 1 <= self._stated.extra * self.asks + 1e-9

    def times(self, traits: Traits) -> Latencies:
        times = self._times.get(traits.id)
        if times is None:
            times = self._times[traits.id] = Latencies(self._before(traits))
        return times


def repeatable(traits: Traits) -> bool:
    """Asking twice does no harm: a model. Agents and programs may have effects."""
    return traits.metered and not traits.agent and traits.kind not in PROGRAMS
