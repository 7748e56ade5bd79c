"""The status of a fleet: the original's table, in narrow and in wide terminals, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fanfold.fleet.look import WorkerReader
from fanfold.fleet.report import workers_sections
from fanfold.fleet.status import (
    FleetStatus,
    Sort,
    Supervisor,
    amount,
    cost_of_cap,
    fleet_json,
    fleet_status,
    ordered,
    supervisor_of,
)
from fanfold.fleet.worker_view import Cost, WorkerState, WorkerView
from fanfold.observe.status import summarize
from fanfold.observe.table import cells_wide
from fanfold.price import nanos
from fanfold.testing.clock import EPOCH
from tests.unit.fleet.fleets import worker
from tests.unit.fleet.staged import Stage, small_fleet

RUN = "01JXT21Q00ABCDEFGHJKMNPQRS"


def status_of(stage: Stage, after: float, **changes: Any) -> FleetStatus:
    """As `fanfold status` sees it; id, root and process are those of the examples."""
    archive, record = stage.look()
    now = EPOCH + after
    summary = summarize(archive.read, record, archive.sessions.alive, now)
    found = FleetStatus(
        summary=msgspec.structs.replace(
            summary, run=msgspec.structs.replace(record, id=RUN),
            receipt=msgspec.structs.replace(summary.receipt, run=RUN),
        ),
        workers=WorkerReader().read(archive, record, now), now=now, root="/srv/fleet",
        supervisor=supervisor_of(archive.files, record),
    )  # fmt: skip
    archive.close()
    if found.supervisor.pid is not None:
        found = msgspec.structs.replace(found, supervisor=Supervisor("alive", 4711))
    return msgspec.structs.replace(found, **changes)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = small_fleet(tmp_path_factory.mktemp("table") / "fleet")
    yield made
    made.close()


def test_a_narrow_terminal_gets_what_matters_most(stage: Stage) -> None:
    lines = fleet_status(status_of(stage, 30), width=80).splitlines()
    assert lines == [
        "Fleet Status — 2025-06-15 15:07:10 UTC",
        f"Fleet: demo (run {RUN})",
        "Fleet root: /srv/fleet",
        "Elapsed: 30s",
        "",
        "ID          STATUS   MODEL     ELAPSED              COST  LAST MSG",
        "─" * 80,
        "a           DONE     haiku     5.0s     ~$0.0070 / $1.00  Hello world",
        "b           FAILED   sonnet    14s        ~$0.63 / $1.00  ✗ stopped at its budg…",
        "c           RUNNING  sonnet    23s        ~$0.19 / $1.00  done",
        "d           FAILED   sonnet    -               - / $1.00  ✗ parent: b failed",
        "e-by-codex  DONE     gpt-5.5…  8.0s     ~$0.0019 / $1.00  Hello world",
        "─" * 80,
        "Fleet Summary: Total: 5  Running: 1  Done: 2  Failed: 2  Stuck: 0",
        "  Total Cost: ~$0.83",
        "budget: $0.64 spent  $1.20 reserved  of $5.00  billing: subscription",
        "supervisor: alive (pid 4711)",
        "~ estimated: by list prices, or no bill by the dollar",
        "over: b $0.13 more than was reserved",
    ]


def test_what_is_beyond_a_reservation_is_a_bound_where_the_cost_is_one(stage: Stage) -> None:
    status = status_of(stage, 30)
    cost = Cost(nanos(2), at_most=True, over=nanos(0.14))
    one = msgspec.structs.replace(status.workers[0], cost=cost)
    shown = msgspec.structs.replace(status, workers=(one,))
    assert "over: a ≤$0.14 more than was reserved" in fleet_status(shown).splitlines()
    report = [line for _, lines in workers_sections(shown, {}) for line in lines]
    assert "More than was reserved: `a` ≤$0.14." in report


def test_a_wide_terminal_gets_all_columns_of_the_original_and_the_details(stage: Stage) -> None:
    lines = fleet_status(status_of(stage, 630), width=200, verbose=True).splitlines()
    assert lines[5] == (
        "ID          STATUS          MODEL          ELAPSED  LAST ACTIVITY              COST  RETRIES"
        "  LAST MSG"
    )
    assert lines[7:17] == [
        "a           DONE            haiku          5.0s     10m 27s ago    ~$0.0070 / $1.00        0"
        "  Hello world",
        "    ↳ lines=3  tail=result/success  outputs=finding.md  turns=1  tokens=1,100  exit=0"
        "  subscription",
        f"    ↳ to continue it: cd {stage.root} && claude --resume"
        " e6960be6-0002-4586-af2b-63bc76920a26",
        "b           FAILED          sonnet         14s      10m 19s ago      ~$0.63 / $1.00        0"
        "  ✗ stopped at its budget of $0.5",
        "    ✗ stopped at its budget of $0.5",
        "    ↳ lines=5  tail=result/error_max_budget_usd  outputs=-  turns=2  tokens=1,100  exit=1"
        "  subscription",
        f"    ↳ to continue it: cd {stage.root} && claude --resume"
        " 9f4affdf-49f3-41e0-8095-2bc0d728369c",
        "c           stuck? 10m 15s  sonnet         10m 23s  10m 15s ago      ~$0.19 / $1.00        0"
        "  done",
        "    ↳ lines=8  tail=assistant  outputs=-  turns=3  tokens=64,675  subscription",
        "    ↳ session 71321460-a747-40e7-97b5-ed2d77ef445c",
    ]
    assert lines[24] == (
        "Fleet Summary: Total: 5  Running: 0  Done: 2  Failed: 2  Stuck: 1  Total Cost: ~$0.83"
    )


def test_no_line_is_wider_than_the_terminal_but_what_is_to_be_copied(stage: Stage) -> None:
    for after in (30, 630, 90_000):
        status = status_of(stage, after)
        for width in range(70, 220):
            for verbose in (False, True):
                text = fleet_status(status, width=width, verbose=verbose)
                lines = [one for one in text.splitlines() if "to continue it:" not in one]
                assert max(map(cells_wide, lines)) <= width


def test_long_names_are_cut_in_the_middle_so_that_they_stay_apart(stage: Stage) -> None:
    ids = [f"research-the-market-of-{where}-in-2026" for where in ("europe", "asia")]
    views = [WorkerView(id=id, state="RUNNING", last="x" * 90) for id in ids]
    lines = fleet_status(status_of(stage, 30, workers=views), width=80).splitlines()
    assert [line.split()[0] for line in lines if line.startswith("research")] == [
        "research-the…ope-in-2026", "research-the…sia-in-2026",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("by", "ids"),
    [
        ("planned", "run stuck done poor failed over waits"),
        ("attention", "stuck failed over poor waits run done"),
        ("cost", "over stuck run done poor failed waits"),
        ("name", "done failed over poor run stuck waits"),
    ],
)
def test_workers_are_sorted_as_one_likes(by: Sort, ids: str) -> None:
    views = [
        WorkerView(id="run", state="RUNNING", cost=Cost(3)),
        WorkerView(id="stuck", state="RUNNING", silent=100.0, cost=Cost(4)),
        WorkerView(id="done", state="DONE", cost=Cost(2)),
        WorkerView(id="poor", state="UNFUNDED"),
        WorkerView(id="failed", state="FAILED"),
        WorkerView(id="over", state="DONE", cost=Cost(9), cap=8),
        WorkerView(id="waits", state="PENDING", waits_for_budget=True),
    ]
    assert [one.id for one in ordered(views, by)] == ids.split()


def test_strange_ids_models_and_messages_cannot_break_a_line(stage: Stage) -> None:
    odd = WorkerView(
        id="x" * 90, state="RUNNING", model="日本語" * 20, began=EPOCH,
        last="\x1b[2Jtwo\nlines\t🔧" * 40, session="\x00",
    )  # fmt: skip
    status = status_of(stage, 30, workers=[odd])
    lines = fleet_status(status, width=80, verbose=True).splitlines()
    assert max(map(cells_wide, lines)) <= 80
    assert "\x1b" not in "".join(lines)


def test_a_finished_fleet_says_so(tmp_path: Path) -> None:
    """The original never did."""
    stage = Stage(tmp_path / "fleet", [worker("a", model="haiku")])
    attempt = stage.starts("a", 0)
    stage.works("a", attempt, "c01_trivial")
    stage.exits("a", 0, 5)
    stage.ends("a", attempt, 5, 0.006975)
    stage.closes("complete", 5)
    status = status_of(stage, 500)
    stage.close()
    assert status.over
    assert fleet_status(status, width=80).splitlines()[3:] == [
        "Elapsed: 5.0s",
        "",
        "ID  STATUS  MODEL  ELAPSED  ACTIVITY              COST  RETRIES  LAST MSG",
        "─" * 76,
        "a   DONE    haiku  5.0s     8m ago    ~$0.0070 / $1.00        0  Hello world",
        "─" * 76,
        "Fleet Summary: Total: 1  Running: 0  Done: 1  Failed: 0  Stuck: 0",
        "  Total Cost: ~$0.0070",
        "budget: $0.0070 spent  no limit  billing: subscription",
        "supervisor: finished",
        "~ estimated: by list prices, or no bill by the dollar",
    ]


def test_a_fleet_whose_supervisor_died_says_who_lives_on_and_how_to_go_on(tmp_path: Path) -> None:
    stage = small_fleet(tmp_path / "fleet")
    stage.crashes()
    status = status_of(stage, 30)
    stage.close()
    assert (status.over, fleet_status(status, width=120).splitlines()[-7:]) == (
        False,
        [
            "Fleet Summary: Total: 5  Running: 1  Done: 2  Failed: 2  Stuck: 0  Total Cost: ~$0.83",
            "run: crashed: its process died; 1 of its workers live on",
            "budget: ≤$1.84 spent  of $5.00  billing: subscription",
            "supervisor: dead",
            "~ estimated: by list prices, or no bill by the dollar",
            "over: b $0.13 more than was reserved",
            f"to continue: fanfold resume {RUN}",
        ],
    )


def test_other_states_are_counted_where_there_are_any(tmp_path: Path) -> None:
    states: list[WorkerState] = ["PENDING", "KILLED", "IN DOUBT", "UNFUNDED", "SKIPPED", "DONE"]
    stage = Stage(tmp_path / "fleet", [worker("a")])
    views = [WorkerView(id=state, state=state, cost=Cost(nanos(0.25))) for state in states]
    status = status_of(stage, 1, workers=views)
    stage.close()
    assert fleet_status(status, width=200).splitlines()[-3] == (
        "Fleet Summary: Total: 6  Running: 0  Done: 1  Failed: 0  Stuck: 0  Pending: 1  Killed: 1"
        "  In doubt: 1  Unfunded: 1  Skipped: 1  Total Cost: $1.50"
    )


def test_with_little_height_those_that_need_no_attention_are_left_out(stage: Stage) -> None:
    views = [WorkerView(id=f"w{n:02}", state="DONE" if n % 4 else "RUNNING") for n in range(40)]
    status = status_of(stage, 30, workers=views)
    lines = fleet_status(status, width=80, height=24).splitlines()
    shown = [line.split()[0] for line in lines if line.startswith("w")]
    assert (len(lines) <= 24, "… and" in "".join(lines)) == (True, True)
    assert {f"w{n:02}" for n in range(0, 40, 4)} - set(shown) == set()
    assert shown == sorted(shown)


@pytest.mark.parametrize(
    ("cost", "text"),
    [
        (Cost(), "-"),
        (Cost(0), "$0.00"),
        (Cost(nanos(0.41)), "$0.41"),
        (Cost(nanos(0.41), estimated=True), "~$0.41"),
        (Cost(nanos(0.41), estimated=True, at_most=True), "≤$0.41"),
    ],
)
def test_a_cost_says_how_certain_it_is(cost: Cost, text: str) -> None:
    assert amount(cost) == text


@pytest.mark.parametrize(
    ("cap", "tries", "text"),
    [(None, 1, "$0.41"), (nanos(0.5), 1, "$0.41 / $0.50"), (nanos(0.5), 2, "$0.41 / $0.50 each")],
)
def test_a_cost_stands_beside_the_cap_of_each_attempt(
    cap: int | None, tries: int, text: str
) -> None:
    one = WorkerView(id="a", cost=Cost(nanos(0.41)), cap=cap, tries=tries)
    assert cost_of_cap(one) == text


def test_programs_get_the_names_of_the_original_and_ours(stage: Stage) -> None:
    told = fleet_json(status_of(stage, 630))
    assert {name: told[name] for name in told if name != "workers"} == {
        "fleet_root": "/srv/fleet", "timestamp": "2025-06-15T15:17:10Z", "elapsed_seconds": 630,
        "summary": {"total": 5, "running": 0, "done": 2, "failed": 2, "stuck": 1,
                    "total_cost": pytest.approx(0.829, abs=0.01), "pending": 0, "killed": 0,
                    "in_doubt": 0, "unfunded": 0, "skipped": 0, "estimated": True, "at_most": False,
                    "overrun_usd": 0.13},
        "budget": {"spent_usd": 0.638875, "reserved_usd": 1.2, "limit_usd": 5.0, "overrun_usd": 0.0},
        "liveness": {"launcher_pid": 4711, "launcher_alive": True, "supervisor": "alive"},
    }  # fmt: skip
    assert told["workers"][0] == {
        "id": "a", "status": "DONE", "model": "haiku", "elapsed": "5.0s",
        "last_activity": "10m 27s ago", "cost": 0.006975, "max_budget_usd": 1.0, "retries": 0,
        "last_msg": "Hello world", "waits": "",
        "continue": f"cd {stage.root} && claude --resume e6960be6-0002-4586-af2b-63bc76920a26",
        "member": "a", "lane": "subscription", "estimated": True,
        "at_most": False, "overrun_usd": 0.0, "elapsed_seconds": 5.0, "silent_seconds": 0.0, "lines": 3,
        "tail": "result/success", "outputs": ["finding.md"],
        "session": "e6960be6-0002-4586-af2b-63bc76920a26", "turns": 1,
        "tokens": {"input": 1000, "output": 100, "cache_read": 0, "cache_write": 0},
        "exit_code": 0, "error": "", "attempt": 1, "attempts": 1, "depends_on": [], "denied": [],
        "place": str(stage.place("a")),
    }  # fmt: skip
    assert [(one["status"], one["silent_seconds"]) for one in told["workers"]] == [
        ("DONE", 0), ("FAILED", 0), ("STUCK", 615.0), ("FAILED", 0), ("DONE", 0),
    ]  # fmt: skip
