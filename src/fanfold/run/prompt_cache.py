"""Which beginnings of asks the service of a member keeps by now.

What it keeps can be read only once the reply to the ask that wrote it has begun; asks that start
together all write it, and all pay for that. So one goes first, and the others of that member wait for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from fanfold.clock import Clock
from fanfold.work.member import Event, Tell

LIFETIME = 300.0  # seconds since the last use; each use renews it
FIRST_WAIT = 20.0  # seconds that the others wait at most


class PromptCaches:
    """By the digest of what asks share. Times are those of the run's own clock."""

    def __init__(self) -> None:
        self._writing: dict[str, float] = {}
        self._until: dict[str, float] = {}

    def wait(self, prefix: str, now: float) -> float | None:
        """Until when to wait for the reply to the ask that writes it; None: go."""
        since = self._writing.get(prefix)
        return None if since is None or now >= since + FIRST_WAIT else since + FIRST_WAIT

    def sent(self, prefix: str, now: float) -> bool:
        """An ask goes out. Whether it is one that writes, for which others wait."""
        if prefix in self._writing:
            return False
        if now < self._until.get(prefix, -LIFETIME):
            self._until[prefix] = now + LIFETIME
            return False
        self._writing[prefix] = now
        return True

    def began(self, prefix: str, now: float | None = None) -> None:
        """The reply to the ask that writes it has begun: it can be read from now on. Without a time
        it counts from when that was sent."""
        since = self._writing.pop(prefix, None)
        if since is not None:
            self._until[prefix] = (since if now is None else now) + LIFETIME

    def gone(self, prefix: str) -> None:
        """That ask has ended. If nothing was heard of its reply, the next one writes."""
        self._writing.pop(prefix, None)


class HasCaches(Protocol):
    """The gauge of a member."""

    caches: PromptCaches
    proven: bool


def heard_first(
    gauge: HasCaches, prefix: str, clock: Clock, poke: Callable[[], None], tell: Tell | None
) -> Tell:
    """For an ask that others wait for: at the first sign of its reply they are let go. A reply that
    begins proves address, key and model, too."""
    waits = True

    def hear(event: Event) -> None:
        nonlocal waits
        if waits:
            waits = False
            gauge.proven = True
            gauge.caches.began(prefix, clock.monotonic())
            poke()
        if tell is not None:
            tell(event)

    return hear
