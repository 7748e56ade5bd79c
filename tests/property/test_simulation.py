"""The promises hold in worlds that follow from a seed; and a simulator that finds nothing proves nothing."""

from __future__ import annotations

import gc
import os
import warnings
from typing import Any

import msgspec
import pytest

from fanfold.testing.simulation.__main__ import carry_out, many
from fanfold.testing.simulation.aims import FACTS, NEEDS, PUTTING
from fanfold.testing.simulation.draw import world_of
from fanfold.testing.simulation.invariants import Invariants, Violation
from fanfold.testing.simulation.places import UNREACHED, await_sites, reason_of, source_of
from fanfold.testing.simulation.services import SentCall, SimulatedService
from fanfold.testing.simulation.shrink import as_test, failure_of, shrink
from fanfold.testing.simulation.simulate import simulate
from fanfold.testing.simulation.storage import new_database
from fanfold.testing.simulation.world import OPERATOR, WORKER, World, WorldFault, WorldJob
from tests.property.defects import DEFECTS, Defect, planted, seeds_until_found

QUICK = ("a claim is not awaited", "what is sent is not marked", "a lost call is refunded",
         "the worst case is never refunded", "a refused call is charged")  # fmt: skip


FIRST = range(0, 2000, 100)


@pytest.mark.parametrize("first", FIRST)
def test_no_promise_is_broken_whatever_happens(first: int) -> None:
    """Each world has a crash at least: at an await, or just before or after a commit."""
    tally = carry_out(first, 100)
    assert tally.failed == ()
    assert (tally.schedules, tally.uncrashed) == (100, 0)


@pytest.mark.sweep
def test_crashes_are_at_every_place_of_the_run_path() -> None:
    """In 10,000 worlds: at almost all awaits of run/ that a simulation can come to, and at each kind of
    fact that few commits have."""
    tally = many(0, 10_000, os.cpu_count() or 1)
    assert tally.failed == ()
    reachable = {site for site in await_sites() if not reason_of(site)}
    assert len(reachable & tally.awaits.keys()) > 0.98 * len(reachable)
    assert all(tally.commits[f"{when} {fact}"] for when in ("before", "after") for fact in FACTS)


def test_whatever_is_said_of_a_place_is_said_of_one_that_is_there() -> None:
    """A line that was changed is not aimed at any more, and nobody would notice."""
    lines = [source_of(site) for site in await_sites()]
    named = [*NEEDS, *UNREACHED, PUTTING, *(one.first for one in NEEDS.values())]
    commits = (*FACTS, "after AnswerOrder")
    assert [
        one for one in named if one not in commits and not any(one in line for line in lines)
    ] == []


def test_a_crash_can_be_at_the_commit_of_a_kind_of_fact() -> None:
    """Also of the operator's process, which gives an order."""
    order = WorldFault("order", at=40, order="pause")
    crash = WorldFault("crash_before", OPERATOR, 1, order="GiveOrder")
    again = WorldFault("crash_after", at=1, order="StartAttempt")
    report = simulate(World(faults=(order, crash, again)))
    assert report.commits == {"before GiveOrder": 1, "after StartAttempt": 1}


def test_a_seed_gives_the_same_schedule_every_time() -> None:
    """Also in a database that another world was in before."""
    db = new_database()
    first = [simulate(world_of(seed), db) for seed in range(8)]
    assert [simulate(world_of(seed)) for seed in range(8)] == first


@pytest.mark.parametrize("defect", [d for d in DEFECTS if d.what in QUICK], ids=lambda d: d.what)
def test_some_defects_are_found_at_once(defect: Defect) -> None:
    assert seeds_until_found(defect, most=40) is not None


@pytest.mark.sweep
@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.what)
def test_every_defect_is_found_within_a_thousand_seeds(defect: Defect) -> None:
    assert seeds_until_found(defect, most=1000) is not None


def test_what_fails_is_made_small_and_printed_as_a_test() -> None:
    """The test fails with the defect, and passes without it."""
    defect = next(one for one in DEFECTS if one.what == "a lost call is refunded")
    db = new_database()
    with planted(defect):
        seed = next(n for n in range(100) if failure_of(world_of(n), db) is not None)
        small = shrink(world_of(seed), most=40)
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


def test_a_run_that_begins_on_a_full_disk_pauses() -> None:
    """Its store was in trouble before the run listened: it went on, could start nothing, and closed as
    complete without outcomes."""
    full = WorldFault("full", at=112, amount=60.0)
    world = World(3380, (WorldJob(pattern="nested", usd=0.002),), faults=(full,), shuffle=False)
    assert simulate(world).faults["full"] == 1


def test_a_defect_of_an_agent_that_was_taken_over_fails_its_item_only() -> None:
    """Nobody heard of it: its attempt was under way for ever, and its run waited."""
    service = SimulatedService("one", ("defect",), kind="agent")
    assert simulate(World(1776, (WorldJob(items=1),), (service,))).statuses == ["complete"]


def test_a_run_that_slept_past_its_lease_does_not_wait_for_workers_for_ever() -> None:
    """No worker takes what a run asked that counts as dead, and the run did not look."""
    world = World(
        796, (WorldJob(items=1),), (SimulatedService("one", kind="workers"),),
        (WorldFault("stop", at=27, amount=30.0),), leases=True, workers=2,
    )  # fmt: skip
    assert simulate(world).statuses == ["complete"]


def test_what_a_finished_run_left_in_a_batch_is_in_doubt() -> None:
    """It was in progress for ever, though nobody would come back for it."""
    services = (SimulatedService("one"), SimulatedService("two", kind="batch", seconds=8.0))
    crash = WorldFault("crash_before", at=1, amount=0.3)
    job = WorldJob(pattern="scatter", items=1, words=2, batch=True)
    assert simulate(World(663, (job,), services, (crash,))).statuses == ["complete"]


def test_results_of_a_batch_that_the_service_refuses_to_show_are_not_written_off() -> None:
    """An answer of 401 or 403 to that question counted as an error of the lines, which cost nothing."""
    script = ("slow", *["ok"] * 7, "quota")
    two = SimulatedService("two", script, kind="batch", concurrency=1)  # type: ignore[arg-type]
    other = WorldJob("b", pattern="divide", gate="judge", escalate=True, on_failure="hold",
                     concurrency=1, usd=0.02, batch=True)  # fmt: skip
    world = World(471, (WorldJob(items=1, batch=True), other), (SimulatedService("one"), two))
    assert simulate(msgspec.structs.replace(world, shuffle=False)).statuses == ["complete"] * 2


def test_a_batch_that_a_service_refuses_to_speak_of_is_not_written_off() -> None:
    """Its quota is used up, or the key is refused meanwhile: what was sent may be billed all the same."""
    services = (
        SimulatedService("one"),
        SimulatedService("two", script=("ok", "quota", "quota"), kind="batch"),
    )
    simulate(World(37111, (WorldJob(items=1, batch=True),), services))


def test_a_kill_that_comes_while_its_run_ends_cancels_nobody() -> None:
    """Its answer was being recorded."""
    simulate(
        World(
            seed=57690,
            jobs=(WorldJob(pattern="resolve", items=1),),
            services=(SimulatedService(name="one", kind="batch"),),
            faults=(WorldFault(kind="order", at=28, order="kill"),),
            leases=True,
        )
    )


def test_a_run_may_be_opened_again_with_less_money_than_an_operator_gave_it() -> None:
    service = SimulatedService("one", kind="workers")
    raised = WorldFault("order", at=57, amount=5.0, order="set budget=9")
    job = WorldJob(pattern="ensemble", hedge=True, usd=0.005)
    simulate(World(2335, (job,), (service,), (raised,), workers=1))


def test_an_input_that_changes_while_it_is_planned_can_be_planned_again() -> None:
    """Its hashes were those of one content, its fingerprint that of another: no resume could go on."""
    for at in (2, 3, 5):
        job = WorldJob(items=2, changes=at)
        world = World(at, (job,), faults=(WorldFault("crash_after", at=6),))
        assert simulate(world).statuses == ["complete"]


def test_the_failed_vote_of_an_agent_that_was_taken_over_does_not_end_its_item() -> None:
    """The item had two outcomes."""
    services = (
        SimulatedService("one", ("ok", "500"), kind="agent", rpm=30),
        SimulatedService("two"),
    )
    job, crash = WorldJob(pattern="nested", items=1, gate="judge"), WorldFault("crash", at=128)
    assert simulate(World(1533, (job,), services, (crash,))).faults["crash"] == 1


def test_a_batch_that_is_followed_by_a_run_without_its_lease_ends_quietly() -> None:
    """Nobody heard of the end of its task, but for a line that Python prints about it."""
    services = (SimulatedService("one"), SimulatedService("two", kind="batch"))
    faults = (
        WorldFault("crash_at", at=2, order="run/adopt.py"),
        WorldFault("cut_off", at=59, amount=25.0),
    )
    world = World(24022, (WorldJob(items=1, batch=True),), services, faults, leases=True)
    assert simulate(world).faults["cut_off"] == 1


def test_a_batch_that_was_claimed_by_a_wrong_clock_is_found_at_once() -> None:
    """Whoever resumed it asked the service every second, until the time of its stamp had come."""
    ahead = WorldFault("jump", at=1, amount=40 * 86400.0)
    crash = WorldFault("crash_at", at=5, order="run/submission.py")
    services = (SimulatedService("one", kind="batch"),)
    report = simulate(World(0, (WorldJob(items=2, batch=True),), services, (ahead, crash)))
    assert (report.faults["crash_at"], report.statuses) == (1, ["complete"])


def test_whoever_has_the_batch_service_may_have_spent_its_month() -> None:
    """The run was told that no member has such a service, and nobody knew what to do."""
    services = (
        SimulatedService("one"),
        SimulatedService("three", ("invalid", "lost_after", "lost_after"), "batch", monthly=0.004),
    )
    other = WorldJob("b", "conduct", words=1, gate="judge", revise=2, hold=True, concurrency=2,
                     usd=0.005)  # fmt: skip
    job = WorldJob(items=4, words=1, concurrency=1, batch=True)
    assert simulate(World(20014, (job, other), services, leases=True)).statuses == ["complete"] * 2


def test_a_batch_waits_for_money_of_the_month_only_as_long_as_another_run_holds_it() -> None:
    """Nobody looked again whether it was given back, and the run waited for ever."""
    one = SimulatedService("one", kind="batch", monthly=0.004, cost=3.0)
    jobs = (WorldJob("a", items=1, batch=True), WorldJob("b", items=1, words=1, batch=True))
    assert simulate(World(1, jobs, (one,))).statuses == ["complete"] * 2


def test_a_hedge_that_a_worker_has_taken_may_be_sent_when_the_other_has_answered() -> None:
    """It is on record as late, with what it costs: no ask is sent that nobody knows of."""
    services = (SimulatedService("one", kind="workers"), SimulatedService("two", seconds=0.0))
    faults = (
        WorldFault("cut_off", 200, at=1, amount=25.0),
        WorldFault("cut_off", 201, at=22, amount=5.0),
    )
    job = WorldJob(pattern="ensemble", items=1, hedge=True)
    report = simulate(World(4506, (job,), services, faults, workers=2))
    assert (report.faults["cut_off"], report.statuses) == (2, ["complete"])


def test_an_answer_that_no_worker_can_send_back_is_an_invalid_one() -> None:
    """Its worker held the ask for ever, and the run waited."""
    service = SimulatedService("one", ("unholdable",), "workers")
    assert simulate(World(1, (WorldJob(items=1),), (service,), workers=1)).statuses == ["complete"]


def test_a_reply_that_cannot_be_stored_does_not_stop_a_store_that_is_in_trouble() -> None:
    """What could not be committed was to be saved beside the store, which such a reply cannot be either: the
    writer ended, and everybody waited."""
    service = SimulatedService("one", ("ok", "unholdable"))
    busy = WorldFault("busy", at=76, amount=5.0)
    world = World(347, (WorldJob(items=4, hedge=True),), (service,), (busy,), shuffle=False)
    assert simulate(world).statuses == ["complete"]


def test_what_a_reply_took_that_cannot_be_stored_is_on_record_before_its_money_is_spent() -> None:
    """A crash in between would have left more on record than the budget."""
    service = SimulatedService("one", ("ok", "unholdable"), cost=0.5)
    job, crash = WorldJob(items=2, concurrency=2, usd=0.002), WorldFault("crash_before", at=6)
    assert simulate(World(287, (job,), (service,), (crash,))).statuses == ["complete"]


def test_a_hedge_that_was_taken_over_twice_does_not_stay_in_progress() -> None:
    """A worker had it; it was found by its claim, which went with the answer of the attempt beside it."""
    faults = (
        WorldFault("crash", at=244, amount=25.0), WorldFault("order", at=93, order="skip i0"),
        WorldFault("crash", at=145, amount=25.0), WorldFault("order", at=112, order="skip i0"),
        WorldFault("cut_off", 200, at=12, amount=5.0), WorldFault("cut_off", 201, at=6, amount=0.3),
    )  # fmt: skip
    service = SimulatedService("one", kind="workers", seconds=4.0)
    job = WorldJob(items=2, gate="judge", asked=True, hedge=True, concurrency=2)
    report = simulate(World(37786, (job,), (service,), faults, workers=2))
    assert (report.faults["crash"], report.statuses) == (2, ["complete"])


def test_of_a_hedged_ask_the_second_is_taken_back_when_a_resumed_run_has_its_answer() -> None:
    """Both were in the queue when the run died; the second was sent though the first was answered."""
    jobs = (
        WorldJob(pattern="resolve", items=4, concurrency=2),
        WorldJob("b", "resolve", 4, gate="python", hedge=True, concurrency=2),
    )
    faults = (
        WorldFault("crash_before", 1, at=3, amount=5.0),
        WorldFault("crash", 1, at=385, amount=25.0),
    )
    service = SimulatedService("one", kind="workers", seconds=4.0, rpm=60)
    world = World(42590, jobs, (service,), faults, shuffle=False, workers=1)
    assert simulate(world).statuses == ["complete", "complete"]


@pytest.mark.parametrize(
    "site", [one for one in sorted(await_sites()) if source_of(one).endswith("in _send")]
)
def test_of_a_hedged_ask_the_other_is_out_of_the_queue_before_the_reply_is_on_record(
    site: str,
) -> None:
    """A run that died in between left it there, and a worker took it although the reply was durable."""
    job = WorldJob(pattern="ensemble", items=2, hedge=True)
    services = (SimulatedService("one"), SimulatedService("two", kind="workers"))
    crash = WorldFault("crash_at", at=1, order=site)
    world = World(301395, (job,), services, (crash,), leases=True, shuffle=False, workers=1)
    assert simulate(world).statuses == ["complete"]


def test_what_a_living_process_has_adopted_is_not_lost_with_the_dead_one_it_is_from() -> None:
    """Another run that waited for the dead one gave it up, and asked again; on a server, it even took the
    lease from who had adopted it."""
    jobs = (WorldJob(items=4, hedge=True),) * 2
    faults = (
        WorldFault("crash", at=112),
        WorldFault("blind", 1, at=12, amount=25.0),
        WorldFault("stop", 201, at=5, amount=25.0),
    )
    service = SimulatedService("one", kind="workers", seconds=4.0)
    report = simulate(World(23755, jobs, (service,), faults, workers=2))
    assert report.statuses == ["complete", "complete"]


def test_what_a_run_holds_in_doubt_is_not_settled_by_a_reply_that_only_another_run_has() -> None:
    """An agent's answer serves only the run that asked: the other one would have asked a second time."""
    jobs = (WorldJob(items=1, words=2, hold=True), WorldJob("b", "nested", 2, 1))
    service = SimulatedService("one", kind="agent")
    report = simulate(World(55087, jobs, (service,), (WorldFault("crash", at=34),)))
    assert report.faults["crash"] == 1


def test_a_request_that_is_called_off_before_it_was_sent_costs_nothing() -> None:
    """Enough others had answered when its task had not begun; it counted as in doubt, at its worst case."""
    services = (
        SimulatedService("one", seconds=4.0, cost=3.0),
        SimulatedService("two", kind="agent", cost=3.0),
        SimulatedService("three", rpm=60),
    )
    faults = (WorldFault("crash", at=26, amount=5.0), WorldFault("crash_after", at=8, amount=25.0))
    job = WorldJob("a", "scatter", 4, 1, gate="python", asked=True, hedge=True, concurrency=2)
    assert simulate(World(3517, (job,), services, faults)).statuses == ["complete"]


def test_what_is_in_a_queue_may_be_sent_when_the_disk_has_lost_the_fact_of_it() -> None:
    """The queue is not on that disk, and no worker looks into the store."""
    services = (SimulatedService("one"), SimulatedService("three", kind="workers"))
    lost = WorldFault("lost_tail", at=20, amount=25.0)
    job = WorldJob(pattern="ensemble", items=2, gate="judge")
    report = simulate(World(14099, (job,), services, (lost,), leases=True, workers=1))
    assert (report.faults["lost_tail"], report.statuses) == (1, ["complete"])


def test_who_paused_a_run_says_that_it_goes_on_also_when_it_is_that_of_another_job() -> None:
    """Two runs of one name: the newer one was paused for a job that was over when it should go on."""
    faults = (WorldFault("crash", at=6), WorldFault("order", at=51, order="pause"))
    jobs = (WorldJob(items=1), WorldJob(items=1))
    service = SimulatedService("one", ("quota",), kind="free")
    report = simulate(World(87041, jobs, (service,), faults))
    assert (report.faults["order"], report.statuses) == (1, ["complete", "complete"])


def test_what_is_in_a_queue_may_be_asked_while_a_resumed_run_plans_changed_items() -> None:
    """Its items were on record when it was put there; the earlier plan is dropped before the new one is
    written."""
    job = WorldJob(gate="judge", concurrency=2, changes=2)
    faults = (
        WorldFault("crash", at=63), WorldFault("cut_off", 200, at=1, amount=0.3),
        WorldFault("cut_off", 201, at=4, amount=0.3),
    )  # fmt: skip
    services = (
        SimulatedService("one", cost=3.0),
        SimulatedService("two"),
        SimulatedService("three", kind="workers", seconds=0.05, concurrency=1),
    )
    assert simulate(World(65994, (job,), services, faults, workers=2)).statuses == ["complete"]
    hedged = WorldJob(pattern="nested", hedge=True, changes=2)
    faults = (
        WorldFault("crash", at=118), WorldFault("stop", at=142, amount=25.0),
        WorldFault("crash_before", at=9, amount=5.0),
    )  # fmt: skip
    slow = SimulatedService("one", ("slow",), kind="workers", seconds=4.0)
    report = simulate(World(64804, (hedged,), (slow,), faults, workers=1))
    assert (report.faults["stop"], report.statuses) == (1, ["flagged"])  # no two of a vote agree


def test_nothing_is_asked_of_a_worker_before_its_item_is_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a run that plans too late would be found at other services only."""
    planned = Invariants._planned

    def unplanned(self: Invariants, call: SentCall, row: Any) -> None:
        for table in ("items", "batches"):
            self._ask(f"delete from {table}")
        planned(self, call, row)

    service = SimulatedService("one", kind="workers")
    monkeypatch.setattr(Invariants, "_planned", unplanned)
    with pytest.raises(Violation, match="not planned"):
        simulate(World(services=(service,), workers=1))


# ── the disk ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["power", "lost_tail", "flip"])
def test_a_disk_that_loses_power_lies_or_decays_breaks_no_promise(kind: Any) -> None:
    """In mid-commit: of what was not synced any sectors are there. A lost tail is lost, and all that is
    still there holds; a flipped bit is never told as right."""
    for seed in range(8):
        lost = WorldFault(kind, at=2 + seed)
        job = WorldJob(items=3, gate="regex", concurrency=1)
        assert simulate(World(seed, (job,), faults=(lost,))).faults[kind] == 1


def test_a_worker_that_starts_when_the_last_job_ends_does_not_stay_for_ever() -> None:
    """It had not begun when all were told to stop, as the store is refused."""
    service = SimulatedService("three", kind="workers")
    world = World(40, services=(service,), faults=(WorldFault("flip", at=1),), workers=2)
    assert simulate(world).statuses == ["flagged"]


def test_a_store_that_does_not_sync_its_commits_is_found() -> None:
    """Else the simulated disk would prove nothing."""
    defect = next(one for one in DEFECTS if one.what == "a commit is not synced")
    worlds = [
        World(seed, (WorldJob(items=4, concurrency=1),), faults=(WorldFault("power", at=7 + seed),))
        for seed in range(6)
    ]
    with planted(defect):
        assert any(failure_of(world, new_database()) for world in worlds)


def test_what_is_said_to_each_item_of_a_shard_is_known_to_the_check_of_results() -> None:
    """It read whole replies only, and called a shard's answers made up (seed 59106)."""
    faults = (WorldFault("flip", at=7, amount=0.3),)
    world = World(59106, (WorldJob(items=2, shard=2),), faults=faults, shuffle=False)
    assert simulate(world).faults["flip"] == 1


def test_a_worker_that_dies_before_it_begins_what_it_took_leaves_nothing_unawaited() -> None:
    """Its warning would be told of whatever else goes on, when the memory is tidied up."""
    service = SimulatedService("three", kind="workers")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for at in range(1, 50):
            faults = (WorldFault("crash", WORKER, at, 5.0),)
            simulate(World(40, (WorldJob(items=3),), (service,), faults, workers=1))
        gc.collect()
    assert [str(one.message) for one in told] == []
