"""Why calls wait, looked at from outside: what `dispatch` decides is asked again, without deciding.

The process of a run notes it when it changes, so that status, the page and the feed can say it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fanfold.clock import Clock
from fanfold.journal.contract import Store
from fanfold.journal.facts import NoteWaits
from fanfold.run.demand import Candidate, Demand
from fanfold.run.dispatch import Dispatch
from fanfold.run.limits import Gauge
from fanfold.work.budget import fit_all
from fanfold.work.waiting import WaitingCalls

SOON, LATER = 1.0, 5.0  # seconds between two notes: if a reason has changed, if only numbers have
MOST = 12  # reasons that are noted


class WaitNotes:
    """Looks again and again, and notes what has changed."""

    def __init__(self, store: Store, run: int, clock: Clock, dispatch: Dispatch) -> None:
        self._store, self._run, self._clock, self._dispatch = store, run, clock, dispatch
        self._noted: tuple[WaitingCalls, ...] = ()
        self._at = 0.0

    def look(self) -> None:
        found, now = waiting_calls(self._dispatch, self._clock), self._clock.monotonic()
        other = [_reason(one) for one in found] != [_reason(one) for one in self._noted]
        if found != self._noted and now - self._at >= (SOON if other else LATER):
            self._noted, self._at = found, now
            self._store.note(NoteWaits(self._run, self._clock.now(), found))


def _reason(one: WaitingCalls) -> tuple[str, str, int | None]:
    """All but what changes from moment to moment; a reset time is a reason of its own."""
    reset = one.until if one.why in ("breaker", "refused") else None
    return one.why, one.who, None if reset is None else round(reset)


def waiting_calls(dispatch: Dispatch, clock: Clock) -> tuple[WaitingCalls, ...]:
    """Those who wait for the same together, most first; and members whose breaker is open."""
    now, found = clock.monotonic(), dict[tuple[str, str], WaitingCalls]()
    for one in (*_queued(dispatch, now), *_retried(dispatch), *_closed(dispatch)):
        before = found.get((one.why, one.who))
        many = one.calls + (0 if before is None else before.calls)
        found[one.why, one.who] = msgspec.structs.replace(before or one, calls=many)
    ahead = clock.now() - now
    shown = sorted(found.values(), key=lambda one: -one.calls)[:MOST]
    return tuple(_at_wall_clock(one, ahead) for one in shown)


def _at_wall_clock(one: WaitingCalls, ahead: float) -> WaitingCalls:
    return one if one.until is None else msgspec.structs.replace(one, until=one.until + ahead)


def _queued(dispatch: Dispatch, now: float) -> Iterator[WaitingCalls]:
    for demand, many in dispatch.queues.groups():
        yield msgspec.structs.replace(_why(dispatch, demand, now), calls=many)
    for grant, _ in dispatch.claimed:
        slow = _slowed_down(grant.traits.id, grant.gauge)
        yield msgspec.structs.replace(slow or WaitingCalls("slot", grant.traits.id, 0), calls=1)


def _retried(dispatch: Dispatch) -> Iterator[WaitingCalls]:
    soonest: dict[str, float] = {}
    for one in dispatch.queues.retries.values():
        soonest[one.member] = min(one.until, soonest.get(one.member, one.until))
    for one in dispatch.queues.retries.values():
        yield WaitingCalls("retry", one.member, 1, soonest[one.member])


def _closed(dispatch: Dispatch) -> Iterator[WaitingCalls]:
    for id, gauge in dispatch.limits.gauges.items():
        if (one := _broken(id, gauge)) is not None:
            yield one


def _broken(id: str, gauge: Gauge) -> WaitingCalls | None:
    for breaker in (gauge.pool.breaker, gauge.breaker):
        if breaker.state == "open":
            return WaitingCalls("breaker", id, 0, breaker.until, breaker.reason)
    return None


def _slowed_down(id: str, gauge: Gauge) -> WaitingCalls | None:
    cap = gauge.pool.throttle.cap
    if cap is None or gauge.pool.in_flight < int(cap):
        return None
    return WaitingCalls("refused", id, 0, None, f"slowed down to {int(cap)} at once")


def _why(dispatch: Dispatch, demand: Demand, now: float) -> WaitingCalls:
    """What keeps the first of a queue; of several members the one that is best for it."""
    step, limits = demand.step, dispatch.limits
    if dispatch.held is not None:
        return WaitingCalls("paused", "", 0, None, dispatch.held)
    if step.full:
        return WaitingCalls("slot", "", 0, None, f"{step.concurrency} of step {step.name} at once")
    if limits.full:
        return WaitingCalls("slot", "", 0, None, f"{limits.max_concurrency} in all at once")
    found = [_of_member(dispatch, demand, one, now) for one in demand.candidates]
    open_ones = [one for one in found if one.why != "breaker"]
    return (open_ones or found or [WaitingCalls("slot", "", 0)])[0]


def _of_member(dispatch: Dispatch, demand: Demand, one: Candidate, now: float) -> WaitingCalls:
    """As `Gauge.check` and then the accounts say it."""
    gauge, id, throttle = one.gauge, one.traits.id, one.gauge.pool.throttle
    request, amount = demand.request(one)
    if (broken := _broken(id, gauge)) is not None:
        return broken
    if "half" in (gauge.breaker.state, gauge.pool.breaker.state) or gauge.probing(now):
        return WaitingCalls("probe", id, 0)
    if gauge.in_flight >= gauge.most:
        return WaitingCalls("slot", id, 0, None, f"{gauge.most} at once")
    if (slow := _slowed_down(id, gauge)) is not None:
        return slow
    if throttle.blocked_until > now:
        return WaitingCalls("refused", id, 0, throttle.blocked_until, "asked too often")
    for rate, name, want in (
        (gauge.requests, "rpm", 1.0),
        (gauge.tokens, "tpm", gauge.estimate(amount.tokens)),
    ):
        if rate is not None and (until := rate.ready_at(now, want)) > now:
            return WaitingCalls("rate", id, 0, until, name)
    if request.prefix and (after := gauge.caches.wait(request.prefix, now)) is not None:
        return WaitingCalls("cache", id, 0, after)
    shared = [shared.account(now) for shared in dispatch.shared(one)]
    fit, account = fit_all((*demand.step.accounts, *shared), amount)
    if fit != "fits":
        return WaitingCalls("money", account.name, 0, None, account.short_now(amount))
    return WaitingCalls("slot", id, 0)
