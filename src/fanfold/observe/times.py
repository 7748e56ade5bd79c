"""When each member was at work, on one axis of time: pauses between processes are left out.

A few calls are bars of their own. Many are added up in bins, so that a picture of a million calls
is as small as one of a thousand.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate

import msgspec

from fanfold.journal.answers import BinnedCalls, CallTime, MemberActivity, TimeBins
from fanfold.journal.contract import ReportQuestions
from fanfold.journal.facts import AttemptState

BINS = 240
MOST_BARS = 400
MOST_LANES = 24
MOST_ROWS = 12
MOST_STRETCHES = 40
_SHORT = 0.02  # a pause below this share of the whole is drawn as it is


class Bar(msgspec.Struct, frozen=True):
    """One call, in seconds on the axis; calls at the same time stand in different rows."""

    start: float
    end: float
    row: int
    state: AttemptState
    no: int


class Lane(msgspec.Struct, frozen=True):
    """One member: its calls as bars, or `levels`: how many were under way in each bin, on average."""

    worker: MemberActivity
    bars: tuple[Bar, ...] = ()
    levels: tuple[float, ...] = ()

    @property
    def rows(self) -> int:
        return 1 + max((bar.row for bar in self.bars), default=0)


class Times(msgspec.Struct, frozen=True):
    """`breaks`: where on the axis a pause was left out; `others`: so many members are not shown."""

    seconds: float
    lanes: tuple[Lane, ...]
    breaks: tuple[float, ...] = ()
    others: int = 0


class _Stretch(msgspec.Struct, frozen=True):
    """A time without a pause, and where on the axis it begins."""

    start: float
    end: float
    offset: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


def times(read: ReportQuestions, run: int) -> Times | None:
    """None where no attempt is on record, or none took any time."""
    stretches = _stretches(read.session_spans(run))
    whole = sum(one.seconds for one in stretches)
    workers = read.member_activity(run)
    if not whole > 0 or not any(one.seconds for one in workers):
        return None
    shown = workers[:MOST_LANES]
    if sum(one.calls for one in workers) <= MOST_BARS:
        lanes = _barred(shown, read.call_times(run, MOST_BARS), stretches)
    else:
        lanes = _levelled(read, run, shown, stretches)
    breaks = tuple(one.offset for one in stretches[1:])
    return Times(whole, tuple(lanes), breaks, len(workers) - len(shown))


def _stretches(sessions: list[tuple[float, float]]) -> list[_Stretch]:
    """Those that overlap are one, and those that follow each other closely."""
    gap = _SHORT * sum(end - start for start, end in sessions)
    merged = _merged(sessions, gap)
    if len(merged) > MOST_STRETCHES:
        merged = _merged(sessions, float("inf"))
    offsets = accumulate((end - start for start, end in merged), initial=0.0)
    return [_Stretch(start, end, offset) for (start, end), offset in zip(merged, offsets)]  # noqa: B905 - one offset more: the end


def _merged(spans: Iterable[tuple[float, float]], gap: float) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for start, end in spans:
        if merged and start - merged[-1][1] <= gap:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


# ── each call ────────────────────────────────────────────────────────────────────────────────


def _barred(
    workers: Sequence[MemberActivity], calls: list[CallTime], stretches: list[_Stretch]
) -> list[Lane]:
    by_member: dict[str, list[CallTime]] = defaultdict(list)
    for call in calls:
        by_member[call.member].append(call)
    return [Lane(one, bars=_bars(by_member[one.member], stretches)) for one in workers]


def _bars(calls: list[CallTime], stretches: list[_Stretch]) -> tuple[Bar, ...]:
    free: list[float] = []  # when each row is free again
    bars = []
    for call in calls:
        stretch = next(s for s in reversed(stretches) if s.start <= call.started)
        start = stretch.offset + call.started - stretch.start
        end = stretch.offset + min(call.ended, stretch.end) - stretch.start
        row = next((n for n, until in enumerate(free) if until <= start), len(free))
        if row == MOST_ROWS:
            row = min(range(MOST_ROWS), key=free.__getitem__)
        free[row:] = [end, *free[row + 1 :]]
        bars.append(Bar(start, max(start, end), row, call.state, call.no))
    return tuple(bars)


# ── many of them ─────────────────────────────────────────────────────────────────────────────


def _levelled(
    read: ReportQuestions, run: int, workers: Sequence[MemberActivity], stretches: list[_Stretch]
) -> list[Lane]:
    width = sum(one.seconds for one in stretches) / BINS
    names = [one.member for one in workers]
    heaps: dict[str, list[BinnedCalls]] = defaultdict(list)
    for one in stretches:
        bins = TimeBins(one.start, one.end, one.start - one.offset, width)
        for heap in read.binned_calls(run, bins, names):
            heaps[heap.member].append(heap)
    return [Lane(one, levels=_levels(heaps[one.member], width)) for one in workers]


def _levels(heaps: list[BinnedCalls], width: float) -> tuple[float, ...]:
    busy, through = [0.0] * (BINS + 1), [0] * (BINS + 2)
    for heap in heaps:
        first, last = min(heap.first, BINS), min(heap.last, BINS)
        if first == last:
            busy[first] += heap.over - heap.began
            continue
        busy[first] += heap.calls * (first + 1) * width - heap.began
        busy[last] += heap.over - heap.calls * last * width
        through[first + 1] += heap.calls
        through[last] -= heap.calls
    whole = list(accumulate(through))
    return tuple(busy[n] / width + whole[n] for n in range(BINS))
