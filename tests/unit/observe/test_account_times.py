"""When members were at work: bars for a few calls, levels for many, pauses left out."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple

import pytest

from fanfold.journal import opening
from fanfold.journal.facts import AttemptState, EndAttempt, LoseAttempts, StartAttempt
from fanfold.journal.opening import open_store
from fanfold.observe.account import BINS, MOST_BARS, Bar, Times, times
from fanfold.observe.status import summarize
from fanfold.run.loop import run_sync
from fanfold.run.record import start
from fanfold.testing.clock import VirtualClock
from fanfold.work.task import Budget
from tests.unit.observe.runs import answering, contracts, crashed, ran, reviewed


class Call(NamedTuple):
    """An attempt; without an end it is under way."""

    member: str
    start: float
    end: float | None
    session: str = "s"
    state: AttemptState = "ok"
    error: str | None = None
    lost: bool = False


def _start(run: int, n: int, one: Call) -> StartAttempt:
    return StartAttempt(
        run=run, step=0, session=one.session, member=one.member, answerer="x",
        keys=(n.to_bytes(16, "big"),), ids=(str(n),), accept=(), reserved=1, reserved_tokens=1,
        at=one.start,
    )  # fmt: skip


def _over(run: int, attempt: int, n: int, one: Call) -> EndAttempt | LoseAttempts:
    assert one.end is not None
    if one.lost:
        return LoseAttempts((attempt,), one.end)
    return EndAttempt(
        run=run, attempt=attempt, at=one.end, released=(n.to_bytes(16, "big"),), state=one.state,
        error=one.error,
    )  # fmt: skip


def recorded(store: Path, calls: list[Call]) -> Times | None:
    """The times of a run with these attempts; one without an end is under way."""

    async def main() -> int:
        journal = open_store(store, thread=False)
        try:
            record = await start(journal, "r", VirtualClock(), Budget())
            numbered = list(enumerate(calls))
            claims = await asyncio.gather(
                *(journal.write(_start(record.no, n, one)) for n, one in numbered)
            )
            await asyncio.gather(
                *(
                    journal.write(_over(record.no, claim.attempt, n, one))
                    for claim, (n, one) in zip(claims, numbered, strict=True)
                    if one.end is not None
                )
            )
            return record.no
        finally:
            journal.close()

    no = run_sync(main())
    archive = opening.look(store)
    try:
        return times(archive.read, no)
    finally:
        archive.close()


def test_calls_at_once_stand_in_rows(tmp_path: Path) -> None:
    found = recorded(
        tmp_path / "s",
        [
            Call("a", 100, 104),
            Call("a", 101, 103),
            Call("a", 103, 106),
            Call("b", 100, 110, state="error"),
        ],
    )
    assert found is not None
    assert (found.seconds, found.breaks, found.others) == (10.0, (), 0)
    assert {lane.worker.member: lane.bars for lane in found.lanes} == {
        "a": (Bar(0, 4, 0, "ok", 1), Bar(1, 3, 1, "ok", 2), Bar(3, 6, 1, "ok", 3)),
        "b": (Bar(0, 10, 0, "error", 4),),
    }


def test_a_pause_between_processes_is_left_out(tmp_path: Path) -> None:
    found = recorded(tmp_path / "s", [Call("a", 100, 104, "one"), Call("a", 90_000, 90_006, "two")])
    assert found is not None
    assert (found.seconds, found.breaks) == (10.0, (4.0,))
    assert [(bar.start, bar.end) for bar in found.lanes[0].bars] == [(0, 4), (4, 10)]


def test_what_was_lost_with_its_process_ends_where_it_began(tmp_path: Path) -> None:
    died = Call("a", 102, 80_000, "one", state="in_doubt", lost=True)
    found = recorded(
        tmp_path / "s", [Call("a", 100, 104, "one"), died, Call("a", 80_001, 80_003, "two")]
    )
    assert found is not None
    assert found.seconds == 6.0
    assert [(bar.start, bar.end) for bar in found.lanes[0].bars] == [(0, 4), (2, 2), (4, 6)]


def test_many_calls_are_levels_that_add_up(tmp_path: Path) -> None:
    many = MOST_BARS + 80
    calls = [Call("a", 1000 + n * 0.5, 1000 + n * 0.5 + 2.0) for n in range(many)]
    found = recorded(tmp_path / "s", calls)
    assert found is not None
    (lane,) = found.lanes
    assert (lane.bars, len(lane.levels)) == ((), BINS)
    width = found.seconds / BINS
    assert sum(lane.levels) * width == pytest.approx(2.0 * many)
    assert max(lane.levels) == pytest.approx(4.0)
    assert lane.levels[0] == pytest.approx((3 * width - 0.5 - 1.0) / width)


def test_levels_go_round_a_pause_too(tmp_path: Path) -> None:
    first = [Call("a", 1000 + n, 1001 + n, "one") for n in range(300)]
    later = [Call("a", 50_000 + n, 50_001 + n, "two") for n in range(180)]
    found = recorded(tmp_path / "s", first + later)
    assert found is not None
    assert (found.seconds, found.breaks) == (480.0, (300.0,))
    assert found.lanes[0].levels == pytest.approx([1.0] * BINS)


def test_without_a_call_that_took_time_there_is_nothing_to_show(tmp_path: Path) -> None:
    assert recorded(tmp_path / "a", []) is None
    assert recorded(tmp_path / "b", [Call("a", 5, 5), Call("a", 9, 9, state="error")]) is None


def test_real_runs(tmp_path: Path) -> None:
    reviewed(tmp_path / "a")
    crashed(tmp_path / "b")
    ran(tmp_path / "c", "fine", [answering()], contracts(30), concurrency=30)
    for store, name, calls in (
        ("a", "contract-review", 16),
        ("b", "nightly", 12),
        ("c", "fine", 30),
    ):
        archive = opening.look(tmp_path / store)
        record = archive.read.find(name)
        assert record is not None
        unsent = summarize(archive.read, record, lambda _: False, 0.0, archive.sent).unsent
        found = times(archive.read, record.no, unsent)
        archive.close()
        assert found is not None
        assert sum(len(lane.bars) for lane in found.lanes) == calls
        assert max(bar.row for lane in found.lanes for bar in lane.bars) < 12
