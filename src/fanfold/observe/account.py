"""All that a report of a run says, gathered once, and when each member worked; pages in Markdown and HTML
are made of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate

import msgspec

from fanfold.journal.answers import (
    AttemptRecord,
    BinnedCalls,
    CallTime,
    EndedItem,
    MemberActivity,
    TimeBins,
)
from fanfold.journal.contract import StoreView
from fanfold.journal.facts import AttemptState
from fanfold.journal.questions import ReportQuestions
from fanfold.observe.shown import inline
from fanfold.observe.status import MemberAccount, RunSummary, accounts, by_member, whole_receipt
from fanfold.observe.tree import RunNode, tree
from fanfold.work.outcome import STATES, Receipt, State

MOST_ITEMS = 100
MOST_REPLIES = 10_000
MOST_DOUBTS = 50
MOST_REVISED = 20
CAUGHT: tuple[State, ...] = ("kicked", "unjudged", "failed")


class MemberWork(msgspec.Struct, frozen=True):
    """A member over all steps; `seconds` are those of its calls, added up."""

    account: MemberAccount
    seconds: float


class Caught(msgspec.Struct, frozen=True):
    """What the gate did. `ended` are the first of `whole` items that did not get through it;
    `revised` items did, after a kick-back, and `ids` are the first of these."""

    ended: tuple[EndedItem, ...]
    whole: int
    revised: int
    ids: tuple[str, ...]


class RunAccount(msgspec.Struct, frozen=True):
    """`receipt` is of all invocations. `times` is None where no call has left its time. `items`: the
    first of those that have an outcome, what did not pass before what did; empty unless asked for."""

    summary: RunSummary
    receipt: Receipt
    members: tuple[MemberWork, ...]
    caught: Caught
    doubts: tuple[AttemptRecord, ...]
    tree: RunNode
    times: Times | None
    items: tuple[EndedItem, ...] = ()


def account(archive: StoreView, summary: RunSummary, *, replies: bool = False) -> RunAccount:
    """A few questions to the store, whatever the number of items and calls. `replies`: with the
    items and what each ended with."""
    read, run = archive.read, summary.run
    found = accounts(read, run, unsent=summary.unsent)
    return RunAccount(
        summary, whole_receipt(summary, found), worked(read, run.no, found),
        _caught(read, summary), tuple(doubtful(read, summary)),
        tree(archive, run), times(read, run.no, summary.unsent), _items(read, summary) if replies else (),
    )  # fmt: skip


def worked(read: ReportQuestions, run: int, found: list[MemberAccount]) -> tuple[MemberWork, ...]:
    """Each member, the most expensive first."""
    spent: dict[str, float] = {}
    for total in read.member_totals([run]):
        spent[total.member] = spent.get(total.member, 0.0) + total.seconds
    return tuple(MemberWork(one, spent.get(one.member, 0.0)) for one in by_member(found))


def _items(read: ReportQuestions, summary: RunSummary) -> tuple[EndedItem, ...]:
    run, made = summary.run.no, summary.receipt
    others = [one for one in STATES if one != "passed" and getattr(made, one)]
    first = read.endings(run, others, MOST_REPLIES) if others else []
    return (*first, *read.endings(run, ("passed",), MOST_REPLIES - len(first)))


def _caught(read: ReportQuestions, summary: RunSummary) -> Caught:
    run = summary.run.no
    whole = sum(getattr(summary.receipt, state) for state in CAUGHT)
    ended = read.endings(run, CAUGHT, MOST_ITEMS) if whole else []
    revised = read.revised(run)
    ids = read.revised_ids(run, MOST_REVISED) if revised else []
    return Caught(tuple(ended), whole, revised, tuple(ids))


def doubtful(read: ReportQuestions, summary: RunSummary) -> list[AttemptRecord]:
    """The newest attempts that were lost under way; those of a dead process are, too."""
    if not summary.in_doubt.attempts:
        return []
    states: list[AttemptState] = ["in_doubt"]
    if summary.status == "crashed":
        states.append("started")
    unsent = {one.no for one in summary.unsent}
    found = read.newest(summary.run.no, states, MOST_DOUBTS + len(unsent))
    return [one for one in found if one.no not in unsent][:MOST_DOUBTS]


def excerpt(one: EndedItem, most: int = 400) -> str:
    """How the reply begins; empty where there is none. What was wrong in it is in the reasons."""
    text = "" if one.value is None else " ".join(inline(one.value).split())
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


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


def times(read: ReportQuestions, run: int, unsent: tuple[AttemptRecord, ...] = ()) -> Times | None:
    """None where no attempt is on record, or none took any time. `unsent` ones are no calls."""
    stretches = _stretches(read.session_spans(run))
    whole = sum(one.seconds for one in stretches)
    workers = read.member_activity(run)
    if not whole > 0 or not any(one.seconds for one in workers):
        return None
    shown = workers[:MOST_LANES]
    if sum(one.calls for one in workers) <= MOST_BARS:
        not_sent = {one.no for one in unsent}
        calls = [one for one in read.call_times(run, MOST_BARS) if one.no not in not_sent]
        lanes = _barred(shown, calls, stretches)
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
