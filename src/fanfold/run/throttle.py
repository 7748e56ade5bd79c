"""How fast a member may be asked: the rates it states, and how many calls its account takes at once,
learned from what it refuses (429, 529). Synchronous."""

from __future__ import annotations

from bisect import bisect, insort
from math import ceil, log, sqrt

HEADROOM = 0.98  # of a stated rate, so that a server's own clock never sees us above it
SLOWEST_BACKOFF = 60.0
FIRST_BACKOFF = 0.05  # seconds, of a single call; doubles
SHORT = 1.0  # seconds: shorter waits are believed for a few refusals
BELIEVED = 8  # holds without an answer between them
CHANCE = 1e-5  # a row of refusals that chance brings about more often than this says nothing
LEAST = 0.1  # of the calls refused by chance: this is assumed where less is known
FEW = 8  # calls at once: as long as there are no more after a cut, one refusal is a row
RARE = 0.03  # of the calls refused by chance, at most, for that
RARELY_TOLD = 0.01  # the same, for a single one with a stated wait to hold all calls
ROUND = 16  # calls, at least, before the share of refusals says anything
RECENT = 64  # results, about, that the recent share of refusals is of
TOO_MANY = 0.15  # of the calls refused, above what slowing down does not change
SIGMAS = 2.5  # so many standard deviations above what chance refuses is no accident either
MOST = 0.5  # of the calls refused: more than this always is our own rate
RARELY = (
    1e-6  # one ask that chance refuses so often in a row, less often than this, is the cause itself
)
NEVER = 1 << 62
KEPT = 65_536  # orders of refused calls that are remembered


def backoff(refusals: int, retry_after: float | None, jitter: float) -> float:
    """Seconds that a call waits which was refused so many times; `jitter` is between 0 and 1."""
    doubled = FIRST_BACKOFF * 2.0 ** min(refusals - 1, 10)
    own = min(SLOWEST_BACKOFF, doubled) * (0.5 + jitter / 2)
    return own if retry_after is None else _at_least(retry_after + jitter * 0.25, own)


def _at_least(told: float, own: float) -> float:
    """A wait of less than a second, or of none, that leads to refusals again and again says nothing."""
    return told if told >= SHORT else max(told, own)


class Rate:
    """A bucket that fills evenly. It may go into debt, which later calls wait out."""

    def __init__(self, per_minute: float, now: float) -> None:
        self.per_second = per_minute * HEADROOM / 60.0
        self.capacity = max(1.0, self.per_second)
        self.level = self.capacity
        self.at = now

    def change(self, per_minute: float, now: float) -> None:
        """Another rate from now on; what is in the bucket stays, as far as it holds that."""
        self._fill(now)
        self.per_second = per_minute * HEADROOM / 60.0
        self.capacity = max(1.0, self.per_second)
        self.level = min(self.level, self.capacity)

    def ready_at(self, now: float, amount: float) -> float:
        """When `amount` may go; more than the bucket holds may go when it is full."""
        self._fill(now)
        lacking = min(amount, self.capacity) - self.level
        return now if lacking <= 1e-9 else now + lacking / self.per_second

    def take(self, now: float, amount: float) -> None:
        self._fill(now)
        self.level -= amount

    def _fill(self, now: float) -> None:
        if now > self.at:
            self.level = min(self.capacity, self.level + (now - self.at) * self.per_second)
            self.at = now


class Refusals:
    """Is it the ask, or our speed? An account refuses an ask again and again: what became of the first
    calls for other asks that were sent after its own first one? Repeated calls do not count: asks that
    are refused for ever would vouch for each other, and under a strict limit all are repeated.
    """

    def __init__(self) -> None:
        self._refused: list[int] = []  # first calls, in the order of sending
        self._repeats: list[int] = []
        self._floor = 0

    def refused(self, order: int) -> None:
        insort(self._refused, order)
        self._forget()

    def repeated(self, order: int) -> None:
        self._repeats.append(order)
        self._forget()

    def _forget(self) -> None:
        if len(self._refused) + len(self._repeats) > KEPT:
            self._floor = sorted(self._refused + self._repeats)[KEPT // 2]
            for orders in (self._refused, self._repeats):
                del orders[: bisect(orders, self._floor)]

    def needed(self, first: int, ended: int) -> int:
        """How often an ask must have been refused until chance is no explanation any more. `first`: its
        first call; `ended`: so many calls have been sent and have ended. Where no other was answered
        since, it may be the account, however often: `max_wait` says when that is closed."""
        first = max(first, self._floor)
        refused, repeats = _after(self._refused, first), _after(self._repeats, first)
        others = ended - first - repeats
        if others <= refused:
            return NEVER
        share = (refused + 1) / (others + 2)
        return ceil(log(RARELY) / log(max(LEAST, share)))


def _after(orders: list[int], first: int) -> int:
    return len(orders) - bisect(orders, first)


class Throttle:
    """Additive increase, multiplicative decrease, on the share of calls that are refused.

    A refusal among answers delays only its own call. From the first one on, calls are counted in rounds:
    so many that are sent one after the other. When too large a share of a round is refused, the calls at
    once are halved. Where less than half was refused because we are too fast, half the speed is slow
    enough: if still many are refused in the next round, our speed is not the cause, and the cut is taken
    back. Calls refused in a row halve as well, and hold all calls for as long as the member says, else
    for 1 s, doubling. With few calls at once, one is a row. A single one with a stated wait holds all
    without halving, unless such are known to be chance; if calls that were sent after it, before it was
    known, are answered again and again, it was chance, and nobody is held any longer.

    Calls are known by their number in the order of sending, and a round is weighed by what became of just
    its own: refusals arrive long before answers, so that by order of arrival all looks refused.
    """

    def __init__(self) -> None:
        self.cap: float | None = None  # calls at once; None: as many as the members allow
        self.ceiling = 0
        self.stated = False  # whether the rates of the account are
        self.sent = 0
        self.blocked_until = 0.0
        self.first_refusal: float | None = None  # since when there are nothing but refusals
        self.refusals = Refusals()
        self._row: set[int] = set()  # numbers of calls that were refused lately
        self._holds = self._spared = 0
        self._since = 0  # the last call before the round that is counted
        self._cut_at = 0  # the last call before the last cut: it says nothing about that
        self._held_for = 0  # the call after whose refusal all were held
        self._held_at = 0  # the last call before that
        self._counting = False
        self._size = self._good = self._refused = 0  # of that round
        self._recent = 0.0  # the share of refusals lately
        self._share = 0.0  # the same, before the last cut
        self._before: float | None = None  # the cap before the last cut
        self._on_trial = False
        self._noise = 0.0  # the share of refusals that no cut has changed
        self._usual = 0.0  # the share of them while there is no cap
        self.calm = True  # nothing was refused lately: answers need not be counted

    def refusing_for(self, now: float) -> float:
        """Seconds of nothing but refusals."""
        return 0.0 if self.first_refusal is None else now - self.first_refusal

    def _is_calm(self) -> bool:
        return self.cap is None and not self._counting and self.first_refusal is None

    def good(self, order: int, in_flight: int) -> None:
        """An answer came: grow back by about one slot per round of answers."""
        self._holds = 0
        self.first_refusal = None
        self._recent -= self._recent / RECENT
        if self.cap is not None:
            self.cap += 1.0 / self.cap
            if self.cap >= self.ceiling:
                self.cap = None
        if self._held_for < order <= self._since:
            self._spare(order, 1)
        elif order > self._since and self._counting:
            self._good += order <= self._since + self._size
            self._weigh(order, in_flight)
        self.calm = self._is_calm()

    def refused(
        self, order: int, now: float, in_flight: int, retry_after: float | None, jitter: float
    ) -> None:
        """Cases: sent before the last cut, about which it says nothing; in a row; sent before the round
        began; a single one with a stated wait; the first one; one of many."""
        if self.first_refusal is None:
            self.first_refusal = now
        self._recent += (1.0 - self._recent) / RECENT
        if order <= (self._since if retry_after is None else self._cut_at):
            self._late(order, now, retry_after, jitter)
        elif self._in_row(order) >= self._needed(retry_after is not None, in_flight):
            self._hold(now, retry_after, jitter)
            self._on_trial, self._share = self._recent < MOST, self._recent
            self._cut(in_flight)
            self._held_for, self._held_at = order, self.sent
        elif order <= self._since:
            self._late(order, now, retry_after, jitter)
        elif retry_after is not None and self._chance < RARELY_TOLD:
            self._hold(now, retry_after, jitter)
            self._held_for, self._held_at = order, 0
            self._begin_round(in_flight)
        elif not self._counting:  # the first one: a round begins after it
            self._begin_round(in_flight)
        else:
            self._refused += order <= self._since + self._size
            self._weigh(order, in_flight)
        self.calm = self._is_calm()

    def _late(self, order: int, now: float, retry_after: float | None, jitter: float) -> None:
        """It was sent before all were held, or before the round that is counted."""
        if order > self._held_for:
            self._spare(order, -1)
        if retry_after is not None and now < self.blocked_until:
            self.blocked_until = max(self.blocked_until, now + retry_after + jitter * 0.25)

    # ── refusals in a row ──

    @property
    def _chance(self) -> float:
        """The share of calls that are refused whatever we do, as far as is known."""
        return max(self._noise, self._usual)

    def _needed(self, told: bool, in_flight: int) -> int:
        """How many in a row are no accident. `told`: the member says how long to wait; then it takes
        fewer, and one is enough where its rates are stated: we are close to them."""
        if self._chance < RARE:
            cap = float("inf") if self.cap is None else self.cap
            if (told and (self.stated or cap < 3)) or (not told and cap <= FEW):
                return 1
            if told:
                return 2 if min(cap, in_flight) <= FEW else 3
        return ceil(log(CHANCE) / log(min(0.9, max(LEAST, self._chance))))

    def _spare(self, order: int, balance: int) -> None:
        """What became of calls that were sent after the one for whose refusal others were held. If it
        is answers again and again, such refusals are chance: so few are no row any more, nobody is held
        any longer, and the cut is taken back."""
        self._spared = max(0, self._spared + balance)
        if self._spared >= FEW:
            self._spared, self._usual = 0, max(self._usual, LEAST)
            self.blocked_until = 0.0
            if order <= self._held_at == self._cut_at:
                self.cap, self._held_at = self._before, 0

    def _in_row(self, order: int) -> int:
        """How many calls around this one were refused, all of them one after the other."""
        if len(self._row) > 1024:
            self._row = {one for one in self._row if one > order - 512}
        self._row.add(order)
        first = last = order
        while first - 1 in self._row:
            first -= 1
        while last + 1 in self._row:
            last += 1
        return last - first + 1

    def _hold(self, now: float, retry_after: float | None, jitter: float) -> None:
        self._holds += 1
        self._spared = max(0, self._spared - 1)  # one for one is a limit, and no chance
        holds = self._holds if retry_after is None else max(0, self._holds - BELIEVED)
        pause = min(SLOWEST_BACKOFF, 0.5 * 2.0 ** min(holds, 10)) * (0.5 + jitter / 2)
        if retry_after is not None:
            told = retry_after + jitter * 0.25
            pause = _at_least(told, pause) if holds else told
        self.blocked_until = max(self.blocked_until, now + pause)

    # ── the share of refusals ──

    def _cut(self, in_flight: int) -> None:
        self._before = self.cap
        self.cap = max(1.0, min(self.cap or float("inf"), in_flight) / 2)
        self._row.clear()
        self._begin_round(in_flight)
        self._cut_at = self.sent

    def _begin_round(self, in_flight: int) -> None:
        self._since, self._counting = self.sent, True
        self._size = ceil(max(ROUND, self.cap or in_flight))
        self._good = self._refused = 0

    def _weigh(self, order: int, in_flight: int) -> None:
        """A round is over when all its calls have ended, or many later ones have; before that when enough
        of them were refused. What is still under way counts as not refused. Cases: the last cut changed
        nothing; too many; few."""
        share, limit = self._refused / self._size, self._limit()
        ended = self._good + self._refused == self._size or order > self._since + 3 * self._size
        if not ended and (self._on_trial or share <= limit):
            return
        self._counting = False
        if self._on_trial and share >= self._share / 4:
            self.cap, self._on_trial = self._before, False
            self._noise = max(self._noise, share, self._share)
        elif share > limit:
            self._on_trial, self._share = share < MOST, share
            self._cut(in_flight)
        else:
            self._on_trial = False
            self._noise = min(self._noise, (self._noise + share) / 2)
            if self.cap is None:
                self._usual = (self._usual + share) / 2

    def _limit(self) -> float:
        """The share of refusals in a round that is too many for chance."""
        usual = min(MOST, max(LEAST, self._chance))
        spread = sqrt(usual * (1.0 - usual) / self._size)
        return max(self._noise + TOO_MANY, usual + SIGMAS * spread)
