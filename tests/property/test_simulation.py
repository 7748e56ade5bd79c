"""The promises hold in worlds that follow from a seed; and a simulator that finds nothing proves nothing."""

from __future__ import annotations

import pytest

from fanfold.testing.simulation.__main__ import carry_out
from fanfold.testing.simulation.services import SimulatedService
from fanfold.testing.simulation.shrink import as_test, failure_of, shrink
from fanfold.testing.simulation.simulate import simulate
from fanfold.testing.simulation.storage import new_database
from fanfold.testing.simulation.world import World, WorldFault, WorldJob, world_of
from tests.property.defects import DEFECTS, Defect, planted, seeds_until_found

QUICK = ("a claim is not awaited", "what is sent is not marked", "a repeated doubt is not recorded",
         "the worst case is never refunded", "what a dead process had sent is refunded")  # fmt: skip


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_no_promise_is_broken_whatever_happens(first: int) -> None:
    """Each world has a crash at least: at an await, or just before or after a commit."""
    tally = carry_out(first, 100)
    assert tally.failed == []
    assert sum(tally.crashes.values()) >= 100


@pytest.mark.sweep
@pytest.mark.parametrize("first", range(0, 2000, 500))
def test_no_promise_is_broken_in_two_thousand_worlds(first: int) -> None:
    assert carry_out(first, 500).failed == []


def test_a_seed_gives_the_same_schedule_every_time() -> None:
    """Also in a database that another world was in before."""
    db = new_database()
    first = [simulate(world_of(seed), db) for seed in range(8)]
    assert [simulate(world_of(seed)) for seed in range(8)] == first


@pytest.mark.parametrize("defect", [d for d in DEFECTS if d.what in QUICK], ids=lambda d: d.what)
def test_some_defects_are_found_at_once(defect: Defect) -> None:
    assert seeds_until_found(defect, most=10) is not None


@pytest.mark.sweep
@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.what)
def test_every_defect_is_found_within_a_thousand_seeds(defect: Defect) -> None:
    assert seeds_until_found(defect, most=1000) is not None


def test_what_fails_is_made_small_and_printed_as_a_test() -> None:
    """The test fails with the defect, and passes without it."""
    defect = next(one for one in DEFECTS if one.what == "what is sent is not marked")
    db = new_database()
    with planted(defect):
        seed = next(n for n in range(100) if failure_of(world_of(n), db) is not None)
        small = shrink(world_of(seed), most=150)
        error = failure_of(small, db)
        assert error is not None
        assert len(repr(small)) < len(repr(world_of(seed)))
    names: dict[str, object] = {}
    exec(as_test(small, error), names)
    test = names[f"test_seed_{seed}"]
    assert callable(test)
    test()
    with planted(defect), pytest.raises(AssertionError, match="billed"):
        test()


# ── what it has found ────────────────────────────────────────────────────────────────────────


def test_a_run_can_be_resumed_after_an_item_of_it_was_skipped() -> None:
    """It was refused for ever, since the item had ended already."""
    skipped = WorldFault("order", at=40, order="skip i1")
    crashed = WorldFault("crash_before", at=1000)
    assert (
        simulate(World(jobs=(WorldJob(items=3, concurrency=1),), faults=(skipped, crashed))).steps
        > 0
    )


def test_a_task_whose_parent_was_kicked_does_not_hold_its_run() -> None:
    """Nothing comes of trying it again: the run paused at every resume."""
    job = WorldJob(pattern="graph", items=2, words=1, revise=0, on_failure="hold")
    assert simulate(World(jobs=(job,), services=(SimulatedService("one", ("empty",)),))).steps > 0


def test_a_pause_that_came_too_late_does_not_hold_the_next_process() -> None:
    """An order that does not last is for the process that was there."""
    late = WorldFault("order", at=60, order="pause")
    assert (
        simulate(
            World(jobs=(WorldJob(items=1),), faults=(late, WorldFault("crash_after", at=1000)))
        ).steps
        > 0
    )


def test_a_vote_without_a_decision_is_on_record_also_when_the_disk_is_full() -> None:
    """Its outcome was left out as if a reply of it were saved elsewhere, and the run closed without it."""
    full = WorldFault("full", at=96, amount=200.0)
    job = WorldJob(pattern="nested", items=2, concurrency=8)
    assert simulate(World(20429, (job,), faults=(WorldFault("crash_after", at=1), full))).steps > 0
