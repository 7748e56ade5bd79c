"""What a store is: durable facts in, questions answered, a stream of what was committed.

Nobody outside `journal/` knows which backend there is. `opening` opens them by place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from fanfold.journal.answers import (
    AnsweredItems,
    AttemptRecord,
    BinnedCalls,
    CallHistory,
    CallTime,
    DaySpending,
    EndedItem,
    ItemFilter,
    KeptPrompt,
    KnownReply,
    ListedItem,
    LostAttempt,
    MemberActivity,
    MemberTotal,
    MonthUse,
    OrderRecord,
    PlannedItem,
    Spent,
    StepEnding,
    StepOutcome,
    TimeBins,
    Unsettled,
)
from fanfold.journal.facts import AttemptState, Fact, OrderState, RunRecord
from fanfold.journal.stream import Commit, Subscriber
from fanfold.work.ask import Reply
from fanfold.work.member import MemberStats
from fanfold.work.outcome import Missing, Part, Saving, State

PlannedRow = tuple[int, int, int, str, bytes]
"""Run, batch, position, id and hash of a planned item."""


class Patience(NamedTuple):
    """Seconds to wait for a store that another process keeps locked: until the operator is told,
    until the run pauses, and between tries."""

    notice: float = 5.0
    limit: float = 300.0
    between: float = 1.0


# ── who is alive ─────────────────────────────────────────────────────────────────────────────

Life = Literal["alive", "dead", "unknown"]
"""`unknown`: nobody can tell now (no permission, an I/O error, a server that does not answer).
It must never count as dead: the calls of a living session would be paid twice."""


class SessionOwner(msgspec.Struct, frozen=True):
    """One process, known for certain: numbers are used again, but not with the same start time
    (in ticks since the boot of the machine, which has the id `boot`). Without a /proc, 0 and ""."""

    pid: int
    started: int = 0
    boot: str = ""


class Sessions(Protocol):
    """The sessions of a store. One that was entered is alive until `leave`, or until its process dies.

    How that is known is the backend's: a lock that the kernel frees with the process, or a lease that
    the session renews and that ends by the clock of the store's server. With a lease the owner must
    notice that it could not renew it, and stop, before others may call it dead; and `life` compares
    times of one clock only. Nothing else here needs a file system that sessions share.
    """

    def enter(self) -> str:
        """A new session of this process."""

    def leave(self, session: str) -> None: ...

    def life(self, session: str) -> Life: ...

    def alive(self, session: str) -> bool:
        """Alive or unknown: only what is surely dead counts as dead."""

    def bury(self, sessions: Collection[str]) -> None:
        """They are dead: whatever one of them still writes is refused."""

    def owner(self, session: str) -> SessionOwner | None:
        """The process of a session on this machine; None when it is over, elsewhere, or not known."""


class SentMarks(Protocol):
    """Which claimed attempts were really sent, known more cheaply than by a durable fact."""

    def mark(self, attempt: int) -> None:
        """It is sent from now on. Survives the process, perhaps not the machine. StoreFenced: it must
        not be sent, for this process may count as dead."""

    def unsent(self, attempts: Mapping[int, str]) -> tuple[int, ...]:
        """Those, each with its dead session, that were surely never sent; others are in doubt."""

    def forget(self, sessions: Collection[str]) -> None:
        """These are dead, and their attempts are settled."""


# ── questions ────────────────────────────────────────────────────────────────────────────────


class RunQuestions(Protocol):
    """What a running run asks. `run`, `batch` and `step` are numbers."""

    def find(self, name_or_id: str) -> RunRecord | None:
        """By id, by the beginning of an id, or by name; the newest of that name wins."""

    def step_names(self, run: int) -> list[str]: ...

    def step_notes(self, run: int) -> dict[int, str]:
        """What is to be said of steps, by their numbers; see `NameStep`."""

    def planned(self, run: int) -> int: ...

    def batches(self, run: int) -> dict[str, tuple[int, str, int]]:
        """Those that were planned completely, by name: number, fingerprint and size."""

    def duplicate(self, run: int, batch: int) -> tuple[str, int, int] | None:
        """A duplicate id of a batch, with two of its positions."""

    def planned_items(self, run: int, batch: int, first: int, most: int) -> list[tuple[str, bytes]]:
        """Ids and hashes as planned, from position `first` on."""

    def item_positions(self, run: int, id: str) -> list[tuple[int, int]]:
        """Batch and position of the planned items with this id."""

    def tally(self, run: int) -> dict[State, int]:
        """Items by outcome; each once, where it left the flow."""

    def settled(self, run: int, batch: int, step: int, size: int) -> bytearray:
        """One byte per position: in which state this step ended with a reply (1 is the first of
        STATES), or 0 where it did not."""

    def parts(self, run: int, batch: int, step: int) -> Iterator[Part]:
        """What passed a step, in planned order. Raises StoreError at one that is damaged."""

    def items_behind(self, run: int, batch: int, step: int) -> Iterator[str]:
        """The ids of those."""

    def items_missing(
        self, run: int, batch: int, step: int, first: int = 0, end: int | None = None
    ) -> Iterator[Missing]:
        """Items that did not pass it, at the positions from `first` up to `end`."""

    def reasons(self, run: int, states: Sequence[State]) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The items that ended in one of `states`, each with why."""

    def known(
        self, keys: Iterable[bytes], accept: frozenset[str], run: int, fresh: bool = False
    ) -> dict[bytes, KnownReply]:
        """Recorded replies that serve these keys: of an accepted answerer, and not another run's
        private ones. With `fresh`, only replies of this run. The newest of several counts."""

    def known_at(
        self, run: int, batch: int, step: int, positions: Iterable[int]
    ) -> dict[int, tuple[bytes, KnownReply]]:
        """Replies that are stored with their outcomes, by position, each with the key it answers."""

    def attempt_state(self, number: int) -> str: ...

    def newest(
        self, run: int, states: Sequence[AttemptState], limit: int = 10
    ) -> list[AttemptRecord]:
        """The last attempts in one of `states`, newest first."""

    def attempts_in_doubt(self, run: int) -> list[LostAttempt]: ...

    def gate_crashes(self, run: int) -> dict[bytes, int]:
        """In how many sessions the process ended while the reply to an ask was judged, by key."""

    def spent(self, run: int) -> dict[int, Spent]:
        """By step."""

    def free_calls(self, run: int) -> dict[int, int]:
        """Calls of functions and the like, by step; they have no attempts of their own."""

    def runs_below(self, run: int) -> dict[int, str | None]:
        """The run and all that were started on its behalf, at any depth, each once: number to the
        span that started it. The first one has no span here, whatever started it."""

    def spent_below(self, run: int) -> dict[str, tuple[int, int]]:
        """By the span of this run that started them: what the runs below cost in all, and for how
        many of their attempts that is an upper bound."""

    def savings(self, run: int) -> tuple[Saving, ...]:
        """What cascades saved, by step: those where somebody else settled at least one item."""

    def call_history(self, member: str, answerer: str, step: str) -> CallHistory | None:
        """At this step, whichever run it was; else at all steps; None when it was never asked."""

    def member_stats(self, member: str, answerer: str, step: str | None) -> MemberStats | None:
        """How well and how fast it answered at this step (None: at all of them), in any run."""

    def latencies(self, member: str, answerer: str, step: str) -> list[float]:
        """How long the newest calls at this step took, the last one last; without hedges."""

    def tasks_asked(self, run: int, step: str) -> int:
        """How many tasks of a run's step were asked, whatever came of it; refusals do not count."""

    def has_answered(self, member: str, answerer: str) -> bool:
        """Whether it ever did, at any step."""

    def month_use(self, member: str, month: str) -> MonthUse:
        """From the attempts themselves, for a member that may have had no budget so far."""

    def month_uses(self, month: str) -> dict[str, MonthUse]:
        """By member; those that had no budget in this month are not among them."""

    def orders(self, run: int, states: Sequence[OrderState] = ()) -> list[OrderRecord]:
        """In the order they were given; of these states, or all."""

    def unbooked_seconds(self, run: int) -> float:
        """Active seconds of a process that has not closed the run, by its last heartbeat."""


class ReportQuestions(RunQuestions, Protocol):
    """What reports ask besides."""

    def runs(self) -> list[RunRecord]: ...

    def records(self, numbers: Sequence[int]) -> list[RunRecord]: ...

    def names(self) -> list[str]: ...

    def endings(self, run: int, states: Sequence[State], limit: int = 1000) -> list[EndedItem]:
        """Items that ended in one of `states`. A damaged reply is reported as a reason."""

    def revised(self, run: int) -> int:
        """Items that passed after a reply of theirs was kicked back: two or more replies came."""

    def revised_ids(self, run: int, limit: int) -> list[str]:
        """The first of these items, in planned order."""

    def has_item(self, run: int, id: str) -> bool: ...

    def item_ids(self, run: int) -> list[str]:
        """The first of them, in planned order; enough to find one that is spelled alike."""

    def find_items(self, run: int, id: str) -> list[PlannedItem]:
        """An id may be in several batches of a run."""

    def step_endings(self, run: int, item: PlannedItem) -> list[StepEnding]:
        """By step, in their order."""

    def item_attempts(self, run: int, id: str) -> list[AttemptRecord]:
        """All attempts at asks that the item was in, in their order."""

    def replies_to(self, keys: Iterable[bytes]) -> dict[bytes, Reply]:
        """The newest recorded reply to each of these asks, whoever gave it, in whichever run."""

    def kept_prompts(self, run: int, id: str) -> list[KeptPrompt]:
        """In the order in which they were sent; none where the plan does not keep them."""

    def step_outcomes(self, run: int, ids: Iterable[str]) -> dict[tuple[int, str], StepOutcome]:
        """By step and item, how it ended there."""

    def attempts(self, run: int, limit: int = 100_000) -> list[AttemptRecord]: ...

    def attempts_by_number(self, numbers: Sequence[int]) -> Iterator[tuple[int, AttemptRecord]]:
        """Each with the number of its run, in their order."""

    def attempts_to_show(self, runs: Iterable[int], most: int) -> list[int]:
        """Of each step and member those that gave no reply and then the dearest, at most so many."""

    def unsettled(self, run: int, state: Literal["started", "in_doubt"]) -> Unsettled: ...

    def by_member(self, run: int) -> dict[tuple[int, str], Spent]:
        """By step and member."""

    def member_totals(self, runs: Iterable[int]) -> list[MemberTotal]: ...

    def answered_items(self, run: int) -> dict[tuple[int, str], AnsweredItems]:
        """By step and member: whose replies are behind the run's outcomes. Under the member "" those
        that have none, with the calls that were made for them."""

    def member_activity(self, run: int) -> list[MemberActivity]:
        """The busiest first."""

    def session_spans(self, run: int) -> list[tuple[float, float]]:
        """From the first sign of life of each process to its last, in order; they may overlap."""

    def session_began(self, run: int, session: str) -> float | None:
        """When a session's first attempt started."""

    def call_times(self, run: int, most: int) -> list[CallTime]: ...

    def binned_calls(self, run: int, bins: TimeBins, members: Sequence[str]) -> list[BinnedCalls]:
        """What of a call is after the end of the bins is not counted."""

    def list_items(self, run: int, wanted: ItemFilter) -> list[ListedItem]:
        """In planned order, each with its last outcome."""

    def step_tally(self, run: int) -> dict[tuple[int, State], int]:
        """How many items ended at each step, and how."""

    def costs_over_time(self, run: int, origin: float, width: float) -> list[tuple[int, int, int]]:
        """Of the calls that ended, by bins of `width` seconds since `origin`: bin, cost, calls."""

    def spending(self, start: float) -> list[DaySpending]:
        """Of all runs, from the attempts that began at `start` or later."""


# ── the store ────────────────────────────────────────────────────────────────────────────────


class StoreView(Protocol):
    """A store opened only to read: it never creates or changes anything."""

    @property
    def place(self) -> str:
        """What a user gives to --store for it."""

    @property
    def files(self) -> Path:
        """A local folder for files that belong to it: workers, spooled inputs, orders."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the operator should know: that something is missing which was recorded."""

    @property
    def read(self) -> ReportQuestions:
        """Only what is durable is seen."""

    @property
    def sessions(self) -> Sessions: ...

    @property
    def sent(self) -> SentMarks:
        """Only to ask which were not sent."""

    @property
    def position(self) -> int:
        """That of the newest commit. Read it before the tables, then follow from there."""

    def since(self, position: int) -> list[Commit] | None:
        """What was committed after a position, by whichever process, in order and without gaps: the
        first thousand commits, in the light form (see `stream`). None: some of them are gone already;
        read the tables again."""

    def close(self) -> None: ...


class Store(StoreView, Protocol):
    """An open store. One for each place and process."""

    @property
    def backlog(self) -> int:
        """How many facts wait to be committed."""

    @property
    def commits(self) -> int: ...

    def write(self, fact: Fact) -> asyncio.Future[Any]:
        """The future resolves when the fact is durable, with its answer."""

    def note(self, fact: Fact) -> None:
        """A fact nobody waits for. It is durable after the next `flush` at the latest."""

    async def flush(self) -> None:
        """Everything handed in so far is durable when this returns."""

    async def plan_items(self, rows: Iterator[PlannedRow]) -> int:
        """Stream planned ids and hashes in, a chunk at a time. Returns how many."""

    async def recover(self, now: float) -> int:
        """Attempts whose process is surely dead are in doubt from now on. Returns how many."""

    async def lose(self, attempts: tuple[int, ...], now: float) -> None:
        """Their process is dead: they are in doubt, except those whose end it saved elsewhere."""

    def spool(self) -> Path:
        """Where inputs that can be read only once are kept."""

    def subscribe(self, hook: Subscriber) -> Callable[[], None]:
        """`hook` is called on the loop after each commit of this process, in their order, with the
        facts and their answers. Returns what ends the subscription. One that raises is reported to
        the loop's exception handler, and stays subscribed."""

    def when_in_trouble(self, act: Callable[[str], None]) -> None:
        """Called with the reason when nothing new may start: the disk is full, or the store is
        locked for long, damaged, moved or deleted. What is in progress is still recorded."""

    def when_waiting(self, tell: Callable[[str], None]) -> None:
        """Called with a line for the operator while another process keeps the store locked."""
