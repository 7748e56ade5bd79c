"""What this invocation of a run did so far, and how items ended: counted, and on record."""

from __future__ import annotations

from fanfold.clock import Clock
from fanfold.journal.contract import Store
from fanfold.journal.facts import EndAttempt, EndItems, Heartbeat, ItemEnding, NewReply
from fanfold.run.demand import StepState
from fanfold.run.stopping import Stop, Stopping
from fanfold.work.ask import Usage
from fanfold.work.outcome import STATES, State
from fanfold.work.task import Place, Task

EVERY = 1.0  # seconds between two heartbeats


class Counts:
    def __init__(self) -> None:
        self.states: dict[State, int] = dict.fromkeys(STATES, 0)
        self.calls = self.reused = self.retries = self.kicks = self.hedged = 0
        self.tokens = Usage()

    def used(self, usage: Usage | None) -> None:
        if usage is not None:
            was = self.tokens
            self.tokens = Usage(
                was.input + usage.input, was.output + usage.output,
                was.cache_read + usage.cache_read, was.cache_write + usage.cache_write,
            )  # fmt: skip

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


class Outcomes:
    """`held`: failed items that wait for a resume. `skipped_ids`: items that an operator leaves out, if
    they are not asked yet."""

    def __init__(
        self, store: Store, run: int, clock: Clock, counts: Counts, stopping: Stopping
    ) -> None:
        self._store, self._run, self._clock = store, run, clock
        self._counts, self._stopping = counts, stopping
        self._last_steps: dict[int, int] = {}
        self._recorded: dict[tuple[int, int], bytearray] = {}
        self.held = 0
        self.skipped_ids: set[str] = set()

    def expect(self, batch: int, last_step: int) -> None:
        """The items of a batch leave the flow at this step."""
        self._last_steps[batch] = last_step

    def recall(self, batch: int, step: int, size: int) -> bytearray:
        """The outcomes of earlier invocations at a step: by position a number of STATES, or 0."""
        found = self._store.read.settled(self._run, batch, step, size)
        self._recorded[batch, step] = found
        return found

    def left_flow(self, batch: int, step: int, state: State) -> bool:
        """An item of the batch that ended so at a step goes no further."""
        return state != "passed" or self._last_steps.get(batch, step) == step

    def on_record(self, place: Place, step: StepState, state: State) -> bool:
        """An earlier invocation of this run recorded this very outcome."""
        states = self._recorded.get((place.batch, step.no))
        return states is not None and states[place.position] == STATES.index(state) + 1

    def count(self, place: Place, step: StepState, state: State) -> None:
        """An item counts once, where it leaves the flow."""
        if state != "passed" or self._last_steps.get(place.batch, step.no) == step.no:
            self._counts.states[state] += 1

    def note(self, ending: ItemEnding, kept: NewReply | None) -> None:
        """`kept`: a reply that is stored with the outcome."""
        if kept is None:
            self._store.note(EndItems(self._run, (ending,)))
        else:
            self._store.note(
                EndAttempt(run=self._run, at=self._clock.now(), landed=(kept,), endings=(ending,))
            )

    def item_failed(self, task: Task, reason: str) -> None:
        match task.terms.on_failure:
            case "skip":
                pass
            case "hold":
                self.held += 1
            case "abort":
                self._stopping.halt(Stop("aborted", f"{task.id}: {reason}"))
