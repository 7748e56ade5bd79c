"""What is on record or in flight, which is not asked for again; what this invocation did so far, and how
items ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from math import inf
from typing import TypeAlias

import msgspec

from fanfold.clock import Clock
from fanfold.journal.answers import KnownReply
from fanfold.journal.contract import Store
from fanfold.journal.facts import EndAttempt, EndItems, Heartbeat, ItemEnding, NewReply, RunRecord
from fanfold.run.demand import Eligible, StepState
from fanfold.run.needs import NeededCalls
from fanfold.run.planning import Batch
from fanfold.run.settings import Settings
from fanfold.run.stopping import Stop, Stopping
from fanfold.work.ask import Usage
from fanfold.work.member import Traits
from fanfold.work.outcome import STATES, State
from fanfold.work.task import NOBODY, Place, Task, Terms, asks_of

EVERY = 1.0  # seconds between two heartbeats


Mark: TypeAlias = tuple[bytes, str]
"""What is in flight: a key, and an answerer whose reply would serve."""


class Replies:
    """`new_run`: nothing of this run was on record before it was opened.
    `failed_adoptions`: what was adopted and brought no reply, and why."""

    def __init__(self, store: Store, record: RunRecord, settings: Settings) -> None:
        self._store, self._run, self._fresh = store, record.no, settings.fresh
        self._retry_in_doubt = settings.retry_in_doubt
        self.new_run = not record.resumed
        self.in_flight: dict[Mark, asyncio.Future[None]] = {}
        self.failed_adoptions: dict[Mark, str] = {}

    def recorded(self, keys: Iterable[bytes], eligible: Eligible) -> KnownReply | None:
        if self.new_run and eligible.unrecorded:
            return None
        return next(iter(self.recorded_all(keys, frozenset(eligible.accept)).values()), None)

    def recorded_all(
        self, keys: Iterable[bytes], accept: frozenset[str]
    ) -> dict[bytes, KnownReply]:
        return self._store.read.known(keys, accept, self._run, self._fresh)

    def recorded_at(
        self, batch: int, step: StepState, positions: list[int]
    ) -> dict[int, tuple[bytes, KnownReply]]:
        """Those that are stored with the outcomes of items, by position."""
        return self._store.read.known_at(self._run, batch, step.no, positions)

    def begin(self, marks: tuple[Mark, ...]) -> asyncio.Future[None]:
        """These are in flight until `end`; who wants the same waits for the future."""
        mine = asyncio.get_running_loop().create_future()
        for mark in marks:
            self.in_flight[mark] = mine
        return mine

    def end(self, marks: tuple[Mark, ...], mine: asyncio.Future[None]) -> None:
        for mark in marks:
            if self.in_flight.get(mark) is mine:
                del self.in_flight[mark]
        if not mine.done():
            mine.set_result(None)

    def may_repeat(self, ids: tuple[str, ...], terms: Terms, traits: Traits) -> bool:
        """May an attempt in doubt be repeated? As the step says; agents are held by default."""
        policy = terms.in_doubt or ("hold" if traits.agent else "retry")
        if policy == "retry" or self._retry_in_doubt is None:
            return True
        return all(id in self._retry_in_doubt for id in ids)

    def may_ask_again(self, id: str) -> bool:
        """May a task whose recorded reply is damaged be asked again? Only if the operator said so:
        it was paid."""
        return self._retry_in_doubt is None or id in self._retry_in_doubt


class ShareCounts(msgspec.Struct, frozen=True):
    """What one of several processes of a run did. `steps`: calls and reused replies, by name; `added`:
    what it saw in an input besides that which was planned; `process`: its host and its number there;
    `orders`: the number of the last order that it has taken up."""

    states: dict[State, int]
    calls: int
    reused: int
    retries: int
    kicks: int
    cost: int
    held: int
    added: str | None
    steps: dict[str, tuple[int, int]]
    process: str = ""
    orders: int = 0


class Counts:
    """`others`: what other processes of the same run did; `orders`: see `ShareCounts`."""

    def __init__(self) -> None:
        self.others: tuple[ShareCounts, ...] = ()
        self.orders = 0
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

    def whole(self) -> Counts:
        """With what other processes did."""
        if not self.others:
            return self
        total = Counts()
        total.others, total.hedged, total.tokens = self.others, self.hedged, self.tokens
        total.states = {
            s: n + sum(o.states[s] for o in self.others) for s, n in self.states.items()
        }
        for name in ("calls", "reused", "retries", "kicks"):
            setattr(total, name, sum(getattr(one, name) for one in (self, *self.others)))
        return total

    def of_step(self, name: str, calls: int, reused: int) -> tuple[int, int]:
        """The same for one step."""
        more = [one.steps.get(name, (0, 0)) for one in self.others]
        return calls + sum(one[0] for one in more), reused + sum(one[1] for one in more)


class ActiveTime:
    """How long a run has been active, on record while it runs, for when its process dies.

    It goes with the facts of calls that begin or end: it needs neither a timer nor a commit of its
    own. So a call that takes hours, as an agent's does, is not counted while it is in flight."""

    def __init__(self, store: Store, clock: Clock, run: int, *, booked: bool = True) -> None:
        """`booked`: this process is the one whose time counts."""
        self._store, self._clock, self._run = store, clock, run
        self.began = self._next = clock.monotonic()
        if not booked:
            self._next = inf

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
        self.needs = NeededCalls()

    def expect(self, batch: Batch, last_step: int, terms: Terms) -> None:
        """The items of a batch leave the flow at this step; on these terms they are asked about first."""
        self._last_steps[batch.no] = last_step
        for one in () if terms.who == NOBODY else (terms, *asks_of(terms.gate)):
            self.needs.expect(one, batch.size)

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
            if state != "passed":
                self.needs.leave(place.batch, step.name)

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
