"""Whether a member may be asked now: the verdicts, breakers, and whether it answers at all."""

from __future__ import annotations

from math import ceil
from typing import Literal

import msgspec

from fanfold.run.throttle import SLOWEST_BACKOFF

DOWN = 5  # calls in a row without an answer: who answered before is down
DIFFERENT = 3  # of them at least: one ask that fails again and again says nothing of the others
FIRST_LOOK = 1.0  # seconds until it is looked whether it is back; doubles
PATIENCE = 900.0  # seconds of nothing but silence before one gives up
BreakerState = Literal["closed", "open", "half"]


class Go(msgspec.Struct, frozen=True):
    """Leave to go now."""


class Wait(msgspec.Struct, frozen=True):
    """Not now. `until` is a time to ask again; None: when something is given back."""

    until: float | None = None


class Closed(msgspec.Struct, frozen=True):
    """Nothing is sent there any more; `reason` says why."""

    reason: str


GO = Go()
FULL = Wait()  # all slots are taken
PROBING = Wait()  # one call finds out whether the member is back


class Breaker:
    """Open after a terminal error; when a reset time is known, one probe goes out then."""

    def __init__(self, state: BreakerState = "closed", reason: str = "") -> None:
        self.state, self.reason = state, reason
        self.until: float | None = None
        self.waits = True  # calls wait for `until`; else it is closed for them, and probed then
        self._since: float | None = None  # since when nothing but refusals came
        self._probes = 0  # of these, that probes met

    def trip(self, reason: str, until: float | None, waits: bool = True) -> None:
        """A reset time that is known is not forgotten when another refusal tells none."""
        if until is None and self.state == "open":
            until = self.until
        self.state, self.reason, self.until, self.waits = "open", reason, until, waits

    def refused(self, reason: str, now: float, wait: float, max_wait: float) -> None:
        """Its account is used up, and says when it is not. Probes that are refused again are further and
        further apart, whatever they are told, and are not waited for when nothing else came in
        `max_wait`."""
        if self._since is None or self.state == "closed":
            self._since, self._probes = now, 0
        elif self.state == "half":
            self._probes += 1
        until = now + max(wait, min(SLOWEST_BACKOFF, FIRST_LOOK * 2.0 ** min(self._probes, 10)))
        waited = now - self._since
        given_up = wait <= max_wait < waited
        if given_up:
            reason = (
                f"{reason} (nothing but refusals for {in_words(waited)}; `max_wait` is"
                f" {in_words(max_wait)})"
            )
        self.trip(reason, until, waits=not given_up)

    def probe(self) -> bool:
        """A call goes out; when the breaker was open, it is the probe."""
        if self.state != "open":
            return False
        self.state = "half"
        return True

    def unprobe(self) -> None:
        """The probe was never sent: the next call may be one."""
        if self.state == "half":
            self.state = "open"

    def close(self) -> None:
        self.state = "closed"

    def check(self, now: float, max_wait: float) -> Go | Wait | Closed:
        """Nobody waits longer than `max_wait`: until then it is closed."""
        if self.state == "closed":
            return GO
        if self.state == "half":
            return PROBING
        if self.until is None:
            return Closed(self.reason)
        if now >= self.until:
            return GO
        if not self.waits:
            return Closed(self.reason)
        left = self.until - now
        if left <= max_wait:
            return Wait(self.until)
        told = f"{self.reason}; it can be asked again in {in_words(left)}, and `max_wait` is"
        return Closed(f"{told} {in_words(max_wait)}")


def in_words(seconds: float) -> str:
    """`90 seconds`, `10 minutes`, `5 hours`, `365 days`; rounded up."""
    for name, length in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{ceil(seconds / length)} {name}"
    return f"{ceil(seconds)} seconds"


class Health:
    """Whether a member answers at all. One that never did is not waited for: what is wrong there does
    not pass by waiting. When nothing can have been carried out there (no connection, or an error of
    its own), it counts as unreachable."""

    __slots__ = ("_asks", "_looks", "_lost", "_silent", "_since", "answered", "well")

    def __init__(self) -> None:
        self.answered = self.well = self._lost = False
        self._asks: set[tuple[str, ...]] = set()
        self._silent = self._looks = 0
        self._since = 0.0

    @property
    def down(self) -> bool:
        return self.answered and self._often

    @property
    def unreachable(self) -> bool:
        return not self.answered and not self._lost and self._often

    @property
    def _often(self) -> bool:
        return self._silent >= DOWN and len(self._asks) >= DIFFERENT

    def good(self) -> None:
        self.answered = self.well = True
        self._silent = self._looks = 0
        self._lost = False
        self._asks.clear()

    def silent(self, ids: tuple[str, ...], probe: bool, now: float, lost: bool) -> None:
        """A call about these items brought no answer. `lost`: it may have been carried out."""
        self._lost |= lost
        self.well = False
        if not self._silent:
            self._since = now
        self._silent += 1
        self._looks += probe
        if len(self._asks) < DIFFERENT:
            self._asks.add(ids)

    def next_look(self, now: float) -> float | None:
        """When to look whether it is back; None: it has been down for too long."""
        if now - self._since > PATIENCE:
            return None
        return now + min(SLOWEST_BACKOFF, FIRST_LOOK * 2.0 ** min(self._looks, 10))
