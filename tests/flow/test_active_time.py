"""Time: what a process was active for is counted by a clock that does not jump, and for one that died
only as far as it is on record. Stamps are for people; no duration is a difference of two of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fanfold.journal import opening
from fanfold.journal.opening import open_store
from fanfold.journal.questions import ReportQuestions
from fanfold.observe.status import summarize
from fanfold.run.record import reopen
from fanfold.testing.clock import VirtualClock, run_virtual
from fanfold.testing.member import Scripted
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.task import Budget
from tests.flow.simulation import Camera, Scene, carry_out, outcomes, play, words

DAYS = 5 * 86_400.0


def fine(ask: Ask, n: int) -> Reply:
    return Reply("fine", usage=Usage(1, 1))


class Later(VirtualClock):
    """The wall clock stands elsewhere; a process that is started later, say."""

    def __init__(self, by: float) -> None:
        super().__init__()
        self._by = by

    def now(self) -> float:
        return super().now() + self._by


class Jumping(VirtualClock):
    """The wall clock is set, forward or back, two seconds after the process began."""

    def __init__(self, by: float) -> None:
        super().__init__()
        self._by = by

    def now(self) -> float:
        return super().now() + (self._by if self.monotonic() > 2.0 else 0.0)


def played(scene: Scene, clock: VirtualClock, resume: bool = False) -> Any:
    async def main(_: VirtualClock) -> Any:
        journal = open_store(scene.store, thread=False)
        try:
            return await carry_out(journal, scene, clock, resume)
        finally:
            journal.close()

    return run_virtual(main)


def crashed(folder: Path, after: float) -> tuple[Path, float]:
    """The store of a process that died when calls of a second each had gone on for so long; and for
    how long it was active by then. Two calls at once."""
    scene = Scene(
        folder / "store", (Scripted(fine, latency=1.0),), words(40),
        how={"concurrency": 2, "reduce": None},
    )  # fmt: skip
    clock = VirtualClock()
    camera = Camera(scene.store, folder / "images", clock.monotonic)
    play(scene, after_commit=camera)
    found = [(image, at) for image, at in camera.seen.items() if at <= after]
    return found[-1]


def scene_at(store: Path, **budget: Any) -> Scene:
    return Scene(
        store, (Scripted(fine, latency=1.0),), words(40), Budget(**budget),
        how={"concurrency": 2, "reduce": None},
    )  # fmt: skip


def test_the_time_between_a_crash_and_the_resume_is_not_active(memory_path: Path) -> None:
    """Killed after 3 s of 30, resumed five days later: about 27 are left."""
    image, active = crashed(memory_path, 3.0)
    receipt = played(scene_at(image, seconds=30.0), Later(DAYS), resume=True)
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 40})
    assert active - 1.5 <= receipt.seconds - 18.0 <= active + 1.5


def test_what_a_dead_process_was_active_for_counts_against_the_budget(memory_path: Path) -> None:
    """As far as is known: to about a second. A crash does not make a budget new again."""
    image, active = crashed(memory_path, 10.0)

    async def reopened(clock: VirtualClock) -> float:
        journal = open_store(image, thread=False)
        try:
            earlier = journal.read.find("scene")
            assert earlier is not None
            return (await reopen(journal, earlier, Later(DAYS), Budget())).active
        finally:
            journal.close()

    assert active - 1.5 <= run_virtual(reopened) <= active + 0.1


def looked_at(store: Path, look: Any) -> Any:
    archive = opening.look(store)
    try:
        run = archive.read.find("scene")
        assert run is not None
        return look(archive.read, run)
    finally:
        archive.close()


def test_an_attempt_that_ended_by_a_crash_has_no_known_duration(memory_path: Path) -> None:
    image, _ = crashed(memory_path, 3.0)
    played(scene_at(image), Later(DAYS), resume=True)

    def look(read: ReportQuestions, run: Any) -> None:
        tried = read.attempts(run.no)
        lost = [one for one in tried if one.again]
        assert lost and all(one.took is None for one in lost)
        assert all(one.took == pytest.approx(1.0, abs=0.01) for one in tried if not one.again)
        assert sum(read.step_seconds(run.no).values()) < 30
        assert max(read.latencies("scripted", "scripted:scripted", "map")) < 1.1

    looked_at(image, look)


def test_status_of_a_crashed_run_shows_the_time_it_was_active(memory_path: Path) -> None:
    image, active = crashed(memory_path, 10.0)

    def look(read: ReportQuestions, run: Any) -> float:
        return summarize(read, run, lambda session: False, run.created + DAYS).seconds

    assert active - 1.5 <= looked_at(image, look) <= active + 0.1


@pytest.mark.parametrize("by", [DAYS, -DAYS])
def test_a_clock_that_jumps_books_no_days(memory_path: Path, by: float) -> None:
    """Neither as active time, nor for a call under way, a step or a member's usual time."""
    scene = scene_at(memory_path / "store", seconds=100.0)
    receipt = played(scene, Jumping(by))
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 40})
    assert receipt.seconds == pytest.approx(20.0, abs=0.5)
    assert sum(step.seconds for step in receipt.steps) == pytest.approx(20.0, abs=1.5)

    def look(read: ReportQuestions, run: Any) -> None:
        assert all(one.took == pytest.approx(1.0, abs=0.01) for one in read.attempts(run.no))
        times = read.latencies("scripted", "scripted:scripted", "map")
        assert max(times) == pytest.approx(1.0, abs=0.01)
        (worker,) = read.member_activity(run.no)
        assert worker.seconds == pytest.approx(40.0, abs=0.5)

    looked_at(scene.store, look)
