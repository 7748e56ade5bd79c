"""What this invocation of a run did so far: for the progress line, the receipt and the record."""

from __future__ import annotations

from fanfold.clock import Clock
from fanfold.journal.contract import Store
from fanfold.journal.facts import Heartbeat
from fanfold.work.ask import Usage
from fanfold.work.outcome import STATES, State

EVERY = 1.0  # seconds


class Counts:
    def __init__(self) -> None:
        self.states: dict[State, int] = dict.fromkeys(STATES, 0)
        self.calls = self.reused = self.retries = self.kicks = self.hedged = 0
        self.tokens = Usage()

    def used(self, usage: Usage | None) -> None:
        if usage is not None:
            self.tokens += usage

    @property
    def done(self) -> int:
        return sum(self.states.values())


class ActiveTime:
    """How long a run has been active, on record while it runs, for when its process dies.

    It goes with the facts of calls that begin or end: it needs neither a timer nor a commit of its
    own. So a call that takes hours, as an agent's does, is not counted while it is in flight."""

    def __init__(self, store: Store, clock: Clock, run: int) -> None:
        self._store, self._clock, self._run = store, clock, run
        self.began = self._next = clock.monotonic()

    def tick(self) -> float:
        """The monotonic time."""
        now = self._clock.monotonic()
        if now >= self._next:
            self._next = now + EVERY
            self._store.note(Heartbeat(self._run, now - self.began))
        return now
