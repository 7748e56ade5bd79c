"""What a running run asks of a store, and what reports ask: the same for every backend."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, Protocol

from fanfold.journal.answers import (
    AnsweredItems,
    AttemptRecord,
    BinnedCalls,
    CallHistory,
    CallTime,
    EndedItem,
    GivenReply,
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
from fanfold.journal.costs import DaySpending, ReplyCosts
from fanfold.journal.facts import AttemptState, NoteWaits, OrderState, RunRecord
from fanfold.journal.shares import DividedBatch, Sharer
from fanfold.journal.submissions import InBatches, SubmissionRecord
from fanfold.work.member import MemberStats
from fanfold.work.outcome import Missing, Part, Saving, State


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

    def session_of(self, number: int) -> str:
        """Of an attempt in progress; "" when it has ended."""

    def newest(
        self, run: int, states: Sequence[AttemptState], limit: int = 10
    ) -> list[AttemptRecord]:
        """The last attempts in one of `states`, newest first."""

    def attempts_in_doubt(self, run: int) -> list[LostAttempt]:
        """Those that nobody has repeated, and those that a batch service has."""

    def submissions(self, run: int) -> list[SubmissionRecord]:
        """Batches at the services of members, in the order in which they were made."""

    def in_batches(self, run: int) -> InBatches:
        """What batch services have of a run."""

    def submitted_before(self) -> list[str]:
        """The ids that services gave to batches, in any run."""

    def gate_crashes(self, run: int) -> dict[bytes, int]:
        """In how many sessions the process ended while the reply to an ask was judged, by key."""

    def spent(self, run: int) -> dict[int, Spent]:
        """By step."""

    def step_seconds(self, run: int) -> dict[int, float]:
        """By step, for how long a call of it was in progress. Takes seconds for a million calls."""

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

    def attached(self, run: int) -> dict[str, bytes]:
        """The files that went with asks of a run: name to hash."""

    def content(self, hash: bytes) -> bytes | None:
        """What is in a file of this hash; None: it is not here, or damaged."""

    def has_content(self, hash: bytes) -> bool: ...

    def orders(self, run: int, states: Sequence[OrderState] = ()) -> list[OrderRecord]:
        """In the order they were given; of these states, or all."""

    def waits(self, run: int) -> NoteWaits | None:
        """Why calls of a run wait, as its process last noted; None: none does, or it is over."""

    def led_by(self, run: int) -> tuple[str, str]:
        """Its status, and the session of the process that it belongs to."""

    def sharers(self, run: int) -> list[Sharer]:
        """The processes that take part in it, in the order in which they joined."""

    def division(self, run: int) -> DividedBatch | None:
        """The batch that they may take ranges of now."""

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

    def replies_to(self, keys: Iterable[bytes]) -> dict[bytes, list[GivenReply]]:
        """The recorded replies to each of these asks, whoever gave them, in whichever run: the newest
        last."""

    def kept_prompts(self, run: int, id: str) -> list[KeptPrompt]:
        """In the order in which they were sent; none where the plan does not keep them."""

    def step_outcomes(self, run: int, ids: Iterable[str]) -> dict[tuple[int, str], StepOutcome]:
        """By step and item, how it ended there."""

    def open_attempts(self) -> list[tuple[int, str]]:
        """Those in progress, each with its session, of all runs; not those that a service has."""

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

    def reply_costs(self, run: int) -> ReplyCosts: ...
