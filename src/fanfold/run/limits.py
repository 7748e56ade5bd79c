"""How fast and how many at once. Synchronous: `check` says go or when, `take` and `give` count."""

from __future__ import annotations

import random
from math import inf

import msgspec

from fanfold.errors import MemberError, RateLimited, Terminal, Transient
from fanfold.journal.shares import ALL, Portion
from fanfold.run.breaker import FULL, GO, PATIENCE, Breaker, Closed, Go, Health, Wait, in_words
from fanfold.run.months import MonthBudget
from fanfold.run.prompt_cache import PromptCaches
from fanfold.run.throttle import SLOWEST_BACKOFF, Rate, Throttle, backoff
from fanfold.work.member import Traits

PROBE = 2.0  # seconds that the others wait for the first request: a refusal comes sooner
MAX_WAIT = 600.0  # seconds that a run waits at most when a member says when to come back


class Permit(msgspec.Struct, frozen=True):
    """Leave that was taken: the tokens of the call, and is it the probe of a breaker? `writes`: others
    wait for it, since its service will keep what they share."""

    tokens: float = 0.0
    probe: bool = False
    writes: str = ""


PLAIN = Permit()


class SharedPool:
    """Members that share one account: adaptive concurrency and a breaker for all of them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.in_flight = 0
        self.throttle = Throttle()
        self.breaker = Breaker()


class Gauge:
    """One member: its concurrency, its rates, its budget of the month, what its calls usually take.
    `ahead`: calls that are claimed while they wait for a slot. `stated`: its limits, of all processes of the
    run together."""

    def __init__(
        self, traits: Traits, pool: SharedPool, now: float, max_wait: float = MAX_WAIT
    ) -> None:
        self.traits, self.pool = traits, pool
        self.max_wait = inf if traits.agent else max_wait
        self.in_flight = self.ahead = 0
        self._portion, self.stated = ALL, traits.limits
        self.most = traits.limits.concurrency
        self.requests = Rate(traits.limits.rpm, now) if traits.limits.rpm else None
        self.tokens = Rate(traits.limits.tpm, now) if traits.limits.tpm else None
        self.breaker = Breaker()
        self.health = Health()
        self.caches = PromptCaches()
        self.month: MonthBudget | None = None
        self.proven = not traits.remote  # its address, key and model are right, as far as one knows
        self.probe_until = 0.0
        self._share = 1.0  # of the worst case that calls really take, learned
        pool.throttle.ceiling += self.most

    def check(self, now: float, worst_tokens: int, prefix: str = "") -> Go | Wait | Closed:
        pool = self.pool
        if pool.breaker.state != "closed" or self.breaker.state != "closed":
            for breaker in (pool.breaker, self.breaker):
                verdict = breaker.check(now, self.max_wait)
                if verdict is not GO:
                    return verdict
        if not self.proven and self.probing(now):
            return Wait(self.probe_until)
        cap = pool.throttle.cap
        if self.in_flight >= self.most or (cap is not None and pool.in_flight >= int(cap)):
            return FULL
        ready = pool.throttle.blocked_until
        if self.requests is not None:
            ready = max(ready, self.requests.ready_at(now, 1.0))
        if self.tokens is not None:
            ready = max(ready, self.tokens.ready_at(now, self.estimate(worst_tokens)))
        if prefix and (until := self.caches.wait(prefix, now)) is not None:
            ready = max(ready, until)
        return GO if ready <= now else Wait(ready)

    def probing(self, now: float, prefix: str = "") -> bool:
        """Its first request is under way: it shows whether address, key and model are right; or the
        first with this prefix."""
        if prefix and self.caches.wait(prefix, now) is not None:
            return True
        return not self.proven and self.in_flight > 0 and now < self.probe_until

    def update(self, traits: Traits, now: float) -> None:
        """Its limits and its switch may have changed; all else stays as it was."""
        for name in ("concurrency", "rpm", "tpm"):
            if (value := getattr(traits.limits, name)) != getattr(self.traits.limits, name):
                self.set_limit(name, value, now)
        if traits.enabled != self.traits.enabled:
            self.switch(on=traits.enabled, why="switched off (enabled: false)")
        self.traits = traits

    def switch(self, *, on: bool, why: str = "switched off by the operator") -> None:
        """Nothing new is sent there, or again."""
        self.breaker = Breaker() if on else Breaker("open", why)

    def set_limit(self, limit: str, value: int | None, now: float) -> None:
        self.stated = msgspec.structs.replace(self.stated, **{limit: value})
        match limit:
            case "rpm":
                self.requests = Rate(value, now) if value else None
            case "tpm":
                self.tokens = Rate(value, now) if value else None
        self.take_portion(self._portion, now)

    def take_portion(self, portion: Portion, now: float) -> None:
        """So much of its limits is for this process; others have the rest."""
        self._portion, stated = portion, self.stated
        most = portion.of(stated.concurrency)
        self.pool.throttle.ceiling += most - self.most
        self.most = most
        for rate, per_minute in ((self.requests, stated.rpm), (self.tokens, stated.tpm)):
            if rate is not None and per_minute is not None:
                rate.change(per_minute * portion.fraction, now)

    def estimate(self, worst_tokens: int) -> float:
        return worst_tokens * self._share

    @property
    def down(self) -> bool:
        """It is silent now: calls wait until it is back, or go elsewhere if it never answered."""
        return self.breaker.state != "closed" and (self.health.down or self.health.unreachable)

    def never_reached(self, error: Exception) -> bool:
        """It never answered, and no call of this kind can have been carried out there."""
        refused = isinstance(error, Transient) and not error.lost
        return refused and self.traits.remote and not self.health.answered

    def closed_since(self, permit: Permit) -> bool:
        """A breaker has opened after this permit was taken: it is worth nothing any more."""
        return not (permit.probe or self.breaker.state == "closed" == self.pool.breaker.state)

    def correct(self, now: float, admitted: float, worst: int, actual: int) -> None:
        """The usage is known: put the bucket right and learn from it."""
        if self.tokens is None:
            return
        self.tokens.take(now, actual - admitted)
        if worst:
            share = min(1.0, actual / worst)
            self._share = share if self._share == 1.0 else 0.9 * self._share + 0.1 * share


class Limits:
    """All gauges and pools of a run, and the cap for the whole process."""

    def __init__(
        self, max_concurrency: int, rng: random.Random, max_wait: float = MAX_WAIT
    ) -> None:
        self.max_concurrency, self.max_wait = max_concurrency, max_wait
        self.in_flight = 0
        self.gauges: dict[str, Gauge] = {}
        self.pools: dict[str, SharedPool] = {}
        self.portion = ALL
        self._rng = rng

    def add(
        self, traits: Traits, now: float, *, month: MonthBudget | None = None, proven: bool = False
    ) -> Gauge:
        """`proven`: it has answered before, so its address, key and model are right."""
        name = traits.pool or traits.id
        pool = self.pools.setdefault(name, SharedPool(name))
        gauge = self.gauges[traits.id] = Gauge(traits, pool, now, self.max_wait)
        gauge.month, gauge.proven = month, gauge.proven or proven
        if self.portion is not ALL:
            gauge.take_portion(self.portion, now)
        return gauge

    def take_portion(self, portion: Portion, now: float) -> None:
        """So much of what members allow is for this process; see `run/shares`."""
        self.portion = portion
        for gauge in self.gauges.values():
            gauge.take_portion(portion, now)

    @property
    def full(self) -> bool:
        return self.in_flight >= self.max_concurrency

    def set_concurrency(self, most: int) -> None:
        self.max_concurrency = most

    def take(self, gauge: Gauge, now: float, worst_tokens: int, prefix: str = "") -> Permit:
        """Count a call in: of the process, the account and the member."""
        pool, tokens = gauge.pool, gauge.tokens
        if not gauge.proven and not gauge.in_flight:
            gauge.probe_until = now + PROBE
        self.in_flight += 1
        pool.in_flight += 1
        gauge.in_flight += 1
        pool.throttle.sent += 1
        if gauge.requests is not None:
            gauge.requests.take(now, 1.0)
        admitted = 0.0
        if tokens is not None:
            admitted = gauge.estimate(worst_tokens)
            tokens.take(now, admitted)
        writes = prefix if prefix and gauge.caches.sent(prefix, now) else ""
        if pool.breaker.state == "closed" == gauge.breaker.state:
            return PLAIN if tokens is None and not writes else Permit(admitted, False, writes)
        probe = any([pool.breaker.probe(), gauge.breaker.probe()])
        return Permit(admitted, probe, writes)

    def give(self, gauge: Gauge, permit: Permit) -> None:
        self.in_flight -= 1
        gauge.pool.in_flight -= 1
        gauge.in_flight -= 1
        if permit.writes:
            gauge.caches.gone(permit.writes)
        if permit.probe:
            gauge.pool.breaker.unprobe()
            gauge.breaker.unprobe()

    # ── what came of a call ──

    def good(self, gauge: Gauge, permit: Permit, order: int) -> None:
        """An answer came. `order`: the number of the call among those of the pool."""
        if permit.writes:
            gauge.caches.began(permit.writes)
        pool = gauge.pool
        gauge.proven = True
        if not gauge.health.well:
            gauge.health.good()
        if pool.throttle.calm and not permit.probe:
            return
        pool.throttle.good(order, pool.in_flight)
        if permit.probe:
            for breaker in (gauge.pool.breaker, gauge.breaker):
                if breaker.state == "half":
                    breaker.close()

    def refused(
        self, gauge: Gauge, order: int, now: float, told: RateLimited, repeated: bool
    ) -> None:
        """The member was asked too often. Nobody waits longer than `max_wait`: an account that says so,
        or has given nothing but refusals for so long, is closed; then it is looked at again."""
        pool, wait = gauge.pool, told.retry_after
        gauge.proven = True
        pool.throttle.stated = gauge.requests is not None or gauge.tokens is not None
        pool.throttle.refused(order, now, pool.in_flight, wait, self._rng.random())
        if not repeated:
            pool.throttle.refusals.refused(order)
        if wait is not None and wait > self.max_wait:
            self.trip(gauge, "pool", str(told), now + wait)
            return
        waited = pool.throttle.refusing_for(now)
        if waited and waited + (wait or 0.0) > self.max_wait and not gauge.traits.agent:
            until = f"it can be asked again in {in_words(wait)}, " if wait else ""
            why = f"nothing but refusals for {in_words(waited)}; {until}`max_wait` is"
            reason = f"{told} ({why} {in_words(self.max_wait)})"
            pool.breaker.trip(reason, now + (wait or SLOWEST_BACKOFF), waits=False)

    def backoff(self, refusals: int, retry_after: float | None) -> float:
        """Seconds that a call waits by itself which was refused so many times; 0 where it is closed."""
        if retry_after is not None and retry_after > self.max_wait:
            return 0.0
        return min(self.max_wait, backoff(refusals, retry_after, self._rng.random()))

    def failed(self, gauge: Gauge, permit: Permit, now: float) -> None:
        """A probe that failed sends the breaker back to open, for a while."""
        if permit.probe:
            for breaker in (gauge.pool.breaker, gauge.breaker):
                if breaker.state == "half":
                    breaker.trip(breaker.reason, now + SLOWEST_BACKOFF)

    def silent(
        self, gauge: Gauge, permit: Permit, ids: tuple[str, ...], now: float, error: MemberError
    ) -> None:
        """No answer came about these items. Who is silent again and again is down: one call at a time
        goes out to see whether it is back. The others wait for that only if it answered before."""
        health, reason = gauge.health, str(error)
        health.silent(ids, permit.probe, now, error.lost)
        gone = health.down or (health.unreachable and gauge.traits.remote)
        if gone and (permit.probe or gauge.breaker.state == "closed"):
            until = health.next_look(now)
            if until is None:
                reason = f"{reason} (nothing else for {PATIENCE / 60:g} minutes)"
            gauge.breaker.trip(reason, until, waits=health.answered)
        self.failed(gauge, permit, now)

    def closed(self, gauge: Gauge, error: Terminal, now: float) -> None:
        """The member or its account takes nothing more; until a reset time, if it says one."""
        breaker = gauge.pool.breaker if error.scope == "pool" else gauge.breaker
        if error.reset_after is None:
            breaker.trip(str(error), None)
        else:
            breaker.refused(str(error), now, error.reset_after, gauge.max_wait)

    def overran(self, gauge: Gauge, reason: str) -> None:
        """Nothing more goes to a member that takes more than it states; "": it does not."""
        if reason:
            self.trip(gauge, "member", reason, None)

    def trip(self, gauge: Gauge, scope: str, reason: str, until: float | None) -> None:
        (gauge.pool.breaker if scope == "pool" else gauge.breaker).trip(reason, until)
