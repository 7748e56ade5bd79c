"""How long a run has been active is on record while it runs, for when its process dies."""

from __future__ import annotations

from fanfold.clock import Clock
from fanfold.journal.contract import Store
from fanfold.journal.facts import Heartbeat

EVERY = 1.0  # seconds


class Pulse:
    """Goes with the facts of calls that begin or end: it needs neither a timer nor a commit of its
    own. So a call that takes hours, as an agent's does, is not counted while it is under way."""

    def __init__(self, journal: Store, clock: Clock) -> None:
        self._journal, self._clock = journal, clock
        self.run = 0
        self.began = self._next = clock.monotonic()

    def beat(self) -> float:
        """The monotonic time."""
        now = self._clock.monotonic()
        if now >= self._next:
            self._next = now + EVERY
            self._journal.note(Heartbeat(self.run, now - self.began))
        return now
