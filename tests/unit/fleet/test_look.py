"""The workers of a run as they are: by the journal where it is settled, by their files where not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from fanfold.fleet.look import RunSnapshot, WorkerReader
from fanfold.fleet.worker_view import Cost, WorkerView
from fanfold.members.agents.worker import EXIT, HOST, LOG, SPEC
from fanfold.price import nanos
from fanfold.testing.clock import EPOCH
from fanfold.work.ask import Usage
from tests.unit.fleet.fleets import worker
from tests.unit.fleet.staged import Stage, sample, small_fleet
from tests.unit.fleet.talk import line, said, tool


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Stage]:
    """A fleet of one, under way for its first time."""
    stage = Stage(tmp_path / "fleet", [worker("a", model="haiku")])
    yield stage
    stage.close()


def seen(stage: Stage, after: float = 30.0, reader: WorkerReader | None = None) -> list[WorkerView]:
    archive, record = stage.look()
    try:
        return (reader or WorkerReader()).read(archive, record, EPOCH + after)
    finally:
        archive.close()


def test_each_task_of_a_fleet_is_there_in_its_order(tmp_path: Path) -> None:
    stage = small_fleet(tmp_path / "fleet")
    found = seen(stage)
    stage.close()
    assert [(one.id, one.state, one.model, one.lane) for one in found] == [
        ("a", "DONE", "haiku", "subscription"), ("b", "FAILED", "sonnet", "subscription"),
        ("c", "RUNNING", "sonnet", "subscription"), ("d", "FAILED", "sonnet", "subscription"),
        ("e-by-codex", "DONE", "gpt-5.5(high)", "subscription"),
    ]  # fmt: skip
    assert [one.error for one in found] == [
        "", "stopped at its budget of $0.5", "", "parent: b failed", "",
    ]  # fmt: skip
    assert [one.depends_on for one in found] == [(), ("a",), ("a",), ("b", "c"), ()]


def test_a_worker_that_ended_is_told_in_full(tmp_path: Path) -> None:
    stage = small_fleet(tmp_path / "fleet")
    found = seen(stage)[0]
    stage.close()
    assert msgspec.structs.asdict(found) == {
        "id": "a", "state": "DONE", "silent": 0.0, "member": "a", "model": "haiku",
        "lane": "subscription", "began": EPOCH, "ended": EPOCH + 5, "heard": EPOCH + 3,
        "cost": Cost(nanos(0.006975), estimated=True), "retries": 0, "cap": nanos(1.0),
        "said": "Hello world", "last": "Hello world", "waits": "", "folder": str(stage.root),
        "failed_parent": False, "waits_for_budget": False,
        "continuing": ("claude", "--resume", "e6960be6-0002-4586-af2b-63bc76920a26"),
        "error": "", "lines": 3, "tail": "result/success", "outputs": ("finding.md",),
        "session": "e6960be6-0002-4586-af2b-63bc76920a26", "turns": 1,
        "usage": Usage(1000, 100), "denied": (), "subtype": "success", "code": 0, "attempt": 1,
        "tries": 1, "depends_on": (), "isolated": False, "place": stage.place("a"),
        "span": f"{stage.record.id}:1",
    }  # fmt: skip


def test_a_codex_worker_has_its_true_state_and_cost(tmp_path: Path) -> None:
    """The original showed it as running at $0, for ever."""
    stage = small_fleet(tmp_path / "fleet")
    found = seen(stage)[4]
    stage.close()
    assert (found.state, found.cost.usd, found.turns, found.tail, found.last) == (
        "DONE", nanos(0.0019), 1, "turn.completed", "Hello world",
    )  # fmt: skip


# ── states ───────────────────────────────────────────────────────────────────────────────────


def test_one_that_has_not_started_is_pending_and_says_for_whom_it_waits(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "fleet", [worker("a"), worker("b"), worker("c", "a", "b")])
    a = stage.starts("a", 0)
    stage.ends("a", a, 5, 0.1)
    found = seen(stage)
    stage.close()
    assert [(one.state, one.last, one.cost) for one in found[1:]] == [
        ("PENDING", "is about to start", Cost()), ("PENDING", "waits for b", Cost()),
    ]  # fmt: skip


def test_one_that_was_claimed_but_left_nothing_yet_runs_as_long_as_somebody_runs_it(
    one: Stage,
) -> None:
    attempt = one.starts("a", 0)
    assert [v.state for v in seen(one)] == ["RUNNING"]
    one.works("a", attempt, b"")
    assert [v.state for v in seen(one)] == ["RUNNING"]
    one.journal.sessions.leave(one.record.session)
    assert [(v.state, v.cost) for v in seen(one)] == [
        ("IN DOUBT", Cost(nanos(0.5), at_most=True)),
    ]  # fmt: skip


def test_silence_is_shown_after_ninety_seconds_and_nothing_else_happens(one: Stage) -> None:
    attempt = one.starts("a", 0)
    one.works("a", attempt, said("one") + said("two"), at=0, seconds=5)
    one.hosted("a", alive=True)
    assert [(v.state, v.stuck, v.silent) for v in seen(one, 100)] == [("RUNNING", False, 90.0)]
    assert [(v.state, v.stuck, v.silent) for v in seen(one, 200)] == [("RUNNING", True, 190.0)]


def test_one_whose_host_is_gone_without_reporting_is_in_doubt(one: Stage) -> None:
    attempt = one.starts("a", 0)
    one.works("a", attempt, said("one"))
    one.hosted("a", alive=False)
    found = seen(one)[0]
    assert (found.state, found.error, found.cost) == (
        "IN DOUBT", "exited without reporting a result", Cost(nanos(0.5), at_most=True),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("log", "code", "why", "state"),
    [
        ("c01_trivial", 0, "", "DONE"),
        ("c01_trivial", 1, "", "FAILED"),
        ("c10_budget", 1, "", "FAILED"),
        ("c18_500_retry2", 1, "", "FAILED"),
        ("c01_trivial", 0, "time", "FAILED"),
        ("c01_trivial", -15, "killed", "KILLED"),
        ("c01_trivial", -9, "cancelled", "KILLED"),
    ],
)
def test_an_end_that_nobody_has_settled_yet_is_shown_as_what_it_is(
    one: Stage, log: str, code: int, why: str, state: str
) -> None:
    """So a fleet says done, also when its supervisor died before it could."""
    attempt = one.starts("a", 0)
    one.works("a", attempt, log)
    one.exits("a", code, 4, why, "so it was")  # type: ignore[arg-type]
    one.crashes()
    assert [(v.state, v.ended, v.code) for v in seen(one)] == [(state, EPOCH + 4, code)]


def test_a_living_worker_of_a_dead_supervisor_runs_on(one: Stage) -> None:
    attempt = one.starts("a", 0)
    one.works("a", attempt, said("one"))
    one.hosted("a", alive=True)
    one.crashes()
    assert [(v.state, v.cost.at_most) for v in seen(one)] == [("RUNNING", False)]


def test_one_that_the_operator_killed_is_killed_and_its_cost_an_estimate(one: Stage) -> None:
    attempt = one.starts("a", 0)
    one.works("a", attempt, said("one"))
    one.exits("a", -15, 8, "killed", "killed by the operator")
    one.ends("a", attempt, 8, 0.02, "a: killed by the operator")
    found = seen(one)[0]
    assert (found.state, found.last, found.error, found.cost, found.code) == (
        "KILLED", "one", "killed by the operator", Cost(nanos(0.02), estimated=True), -15,
    )  # fmt: skip


def test_a_killed_run_leaves_nothing_pending(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "fleet", [worker("a"), worker("b")])
    stage.closes("killed", 9, "killed by the operator")
    assert [one.state for one in seen(stage)] == ["KILLED", "KILLED"]
    stage.close()


def test_a_paused_run_still_has_what_it_did_not_reach(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "fleet", [worker("a"), worker("b")])
    stage.settles("a", "unfunded", "no money")
    stage.settles("b", "cancelled", "interrupted")
    stage.closes("paused", 9, "out of budget: usd")
    found = seen(stage)
    stage.close()
    assert [(one.state, one.last) for one in found] == [
        ("UNFUNDED", "✗ no money"),
        ("PENDING", "waits for a resume: the run is paused: out of budget: usd"),
    ]  # fmt: skip


# ── attempts, logs ───────────────────────────────────────────────────────────────────────────


def test_files_of_another_attempt_are_not_taken_for_this_one(one: Stage) -> None:
    """After a relaunch the folder holds the old worker's record until the new one has begun."""
    first = one.starts("a", 0)
    one.works("a", first, "c01_trivial")
    one.exits("a", 0, 5)
    one.ends("a", first, 5, 0.25)
    second = one.starts("a", 10)
    found = seen(one)[0]
    assert (found.attempt, found.tries, found.place, found.lines) == (second, 2, None, 0)


def test_the_cost_is_of_all_attempts_together(one: Stage) -> None:
    first = one.starts("a", 0)
    one.ends("a", first, 5, 0.25, "a: failed")
    second = one.starts("a", 10)
    one.works("a", second, "c01_trivial", at=10)
    one.exits("a", 0, 15)
    one.ends("a", second, 15, 0.5)
    assert seen(one)[0].cost.usd == nanos(0.75)


def test_a_log_is_read_on_from_where_it_was(one: Stage) -> None:
    attempt = one.starts("a", 0)
    place = one.works("a", attempt, said("one"))
    one.hosted("a", alive=True)
    reader = WorkerReader()
    assert [(v.lines, v.last) for v in seen(one, reader=reader)] == [(1, "one")]
    # what stood before is not looked at again: it could be anything by now
    spoilt = b"x" * (place / LOG).stat().st_size
    (place / LOG).write_bytes(spoilt[:-1] + b"\n" + tool("Write", file_path="/x/out.md"))
    assert [(v.lines, v.tail, v.last) for v in seen(one, reader=reader)] == [
        (2, "assistant", "one")
    ]


def test_the_last_message_is_what_the_agent_said_and_its_doing_only_before_that(one: Stage) -> None:
    """Tools, what they gave, errors of the program and of ours are no words of the agent's."""
    attempt = one.starts("a", 0)
    doing = tool("Write", file_path="/x/out.md")
    one.works("a", attempt, doing)
    one.hosted("a", alive=True)
    assert [v.last for v in seen(one)] == ["🔧 Write /x/out.md"]
    broken = line(type="assistant", message={"model": "<synthetic>", "content": "API Error: 500"})
    one.works("a", attempt, said("now I know") + doing + broken)
    assert [v.last for v in seen(one)] == ["now I know"]
    one.exits("a", 1, 9)
    one.ends("a", attempt, 9, 0.01, "a: API Error: 500")
    assert [(v.last, v.error) for v in seen(one)] == [("now I know", "API Error: 500")]


def test_torn_and_foreign_files_do_no_harm(one: Stage) -> None:
    attempt = one.starts("a", 0)
    place = one.works("a", attempt, bytes(range(256)) * 9)
    for name in (HOST, EXIT):
        (place / name).write_bytes(b'{"code": ')
    assert [v.state for v in seen(one)] == ["RUNNING"]
    (place / SPEC).write_bytes(b"\xff\x00")
    assert [(v.state, v.place) for v in seen(one)] == [("RUNNING", None)]


def test_a_program_that_nobody_knows_is_shown_without_its_words(one: Stage) -> None:
    attempt = one.starts("a", 0)
    one.works("a", attempt, line(type="assistant"), dialect="unheard-of")
    one.exits("a", 0, 3)
    one.ends("a", attempt, 3, 0.1)
    assert [(v.state, v.lines, v.code) for v in seen(one)] == [("DONE", 0, 0)]


# ── finding one ──────────────────────────────────────────────────────────────────────────────


def test_a_worker_is_found_by_its_id_or_the_number_of_its_attempt(tmp_path: Path) -> None:
    stage = small_fleet(tmp_path / "fleet")
    archive, record = stage.look()
    scene = RunSnapshot(archive, record, EPOCH)
    place = stage.place("b")
    found = [scene.find(name) for name in ("b", "#3", "b#3", "b#1", "d", "zz", "")]
    names = scene.names()
    stage.close()
    archive.close()
    assert [None if one is None else one.place for one in found] == [
        place, place, place, None, None, None, None,
    ]  # fmt: skip
    assert names == ["a", "b", "c", "d", "e-by-codex"]


def test_a_plan_that_cannot_be_read_has_no_workers(one: Stage) -> None:
    archive, record = one.look()
    strange = msgspec.structs.replace(record, plan=b'{"a plan": true}')
    assert WorkerReader().read(archive, strange, EPOCH) == []
    assert WorkerReader().read(archive, msgspec.structs.replace(record, plan=b"\xff"), EPOCH) == []
    archive.close()


def test_other_runs_have_the_attempts_that_left_a_place_in_the_store(one: Stage) -> None:
    """An agent in a plan of any shape; an item that was asked twice is told apart by the number."""
    first, second = one.starts("a", 0), one.starts("a", 20)
    for attempt in (first, second):
        home = one.store / "agents" / one.record.id / str(attempt)
        home.parent.mkdir(parents=True, exist_ok=True)
        one.works("a", attempt, sample("c01_trivial")).rename(home)
    one.ends("a", first, 5, 0.25, "a: failed")
    archive, record = one.look()
    plain = msgspec.structs.replace(record, plan=b"")
    found = WorkerReader().read(archive, plain, EPOCH + 30)
    archive.close()
    assert [(v.id, v.state, v.attempt, v.lines) for v in found] == [
        (f"a#{first}", "FAILED", first, 3), (f"a#{second}", "RUNNING", second, 3),
    ]  # fmt: skip
