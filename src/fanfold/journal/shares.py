"""One run carried out by several processes: who takes part, which portion of the limits each has, and who
works on which positions of a batch. The facts, and what is on record.

The process that the run belongs to leads: it plans, makes the reduce and closes the run. The others work on
ranges of a batch that it divides. A portion is an interval of 0 … WHOLE; those of two processes never
overlap, so what they take together is never more than the whole.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

WHOLE = 1 << 30
LEAST, MOST = 8, 4096  # positions in one range


class JoinRun(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A process takes part in a run, as long as `lead` leads it. Answer: False if it does not."""

    run: int
    session: str
    lead: str


class TakePortion(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Of all limits, from `low` up to `high`. Answer: False if another has some of that."""

    run: int
    session: str
    low: int
    high: int


class NoteShare(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """How far a process is that takes part. `wants`: it has something to do. `stop`: why the run ends
    early, as it found out; `counts`: what it did. Both are JSON, or empty."""

    run: int
    session: str
    wants: bool
    stop: bytes = b""
    counts: bytes = b""


class LeaveRun(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """These take part no more, or are dead: their portions and what they did not finish are free."""

    run: int
    sessions: tuple[str, ...]


class DivideBatch(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A planned batch is open, at one step, for all who take part. `unit`: ranges are of so many positions
    or a multiple. `state`: what a process must know of the plan's steps so far, as JSON."""

    run: int
    lead: str
    batch: int
    step: int
    size: int
    unit: int
    state: bytes


class TakeRange(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A range of positions that nobody works on, for this process. Answer: TakenRange, or None if the
    batch is not open any more, or not led by `lead`."""

    run: int
    session: str
    lead: str


class EndRange(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """All items of the range that begins there have their outcome."""

    run: int
    session: str
    first: int


class EndDivision(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """All items of the batch have their outcome at the step."""

    run: int


ShareFact = (
    JoinRun | TakePortion | NoteShare | LeaveRun | DivideBatch | TakeRange | EndRange | EndDivision
)


class TakenRange(msgspec.Struct, frozen=True):
    """From `first` up to `end`; empty: nothing is left. `others`: there are ranges that others work on."""

    first: int
    end: int
    others: bool = False


class DividedBatch(msgspec.Struct, frozen=True):
    """A batch that is open; see `DivideBatch`."""

    lead: str
    batch: int
    step: int
    size: int
    state: bytes


class Sharer(msgspec.Struct, frozen=True):
    """A process that takes part, or did (`gone`); see `NoteShare` and `TakePortion`."""

    session: str
    low: int
    high: int
    wants: bool
    gone: bool
    stop: bytes
    counts: bytes


# ── decisions ────────────────────────────────────────────────────────────────────────────────


class Portion(NamedTuple):
    """An interval of all limits."""

    low: int
    high: int

    def of(self, limit: int) -> int:
        """Of a number of slots: those of portions that make up the whole add up to all of them. One that
        is not empty has at least one."""
        if self.low >= self.high:
            return 0
        return max(1, self.high * limit // WHOLE - self.low * limit // WHOLE)

    @property
    def fraction(self) -> float:
        return max(0, self.high - self.low) / WHOLE

    def within(self, other: Portion) -> Portion:
        """What is in both."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Portion(low, high) if low < high else NO_PORTION


NO_PORTION, ALL = Portion(0, 0), Portion(0, WHOLE)


def wanted_portion(sharers: list[Sharer], session: str, seats: int) -> Portion:
    """An equal part for each of the first `seats` that have something to do, as far as nobody else has
    that now: the largest piece of it that is free."""
    eager = [one.session for one in sharers if one.wants and not one.gone][:seats]
    if session not in eager:
        return NO_PORTION
    place, many = eager.index(session), len(eager)
    low, high = -(-place * WHOLE // many), -(-(place + 1) * WHOLE // many)
    free = [Portion(low, high)]
    for one in sharers:
        if one.session != session and one.low < one.high:
            free = [
                piece
                for part in free
                for piece in (
                    Portion(part.low, min(part.high, one.low)),
                    Portion(max(part.low, one.high), part.high),
                )
                if piece.low < piece.high
            ]
    return max(free, key=lambda piece: piece.high - piece.low, default=NO_PORTION)


def range_size(remaining: int, sharers: int, unit: int) -> int:
    """The less is left, the smaller: so all end at about the same time. The first of all leaves most for
    those who join later."""
    size = max(LEAST, min(MOST, remaining // (4 * max(2, sharers))))
    return min(remaining, -(-size // unit) * unit)
