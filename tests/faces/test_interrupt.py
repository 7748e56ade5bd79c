"""Signals and crashes: one stops the run so that it can go on, two cancel it, and kill -9 loses
nothing that was on record."""

from __future__ import annotations

import re
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGKILL, SIGTERM, Signals

import pytest

from fanfold.price import dollars
from fanfold.testing.running import RunningServer, threaded_server
from tests.faces.cli import Ended, fanfold, new_process, started
from tests.faces.project import PRICE, write_project

pytestmark = pytest.mark.slow

UNDER_WAY = re.compile(
    r"stopping: 3 calls are under way and may still cost at most \$(\d+\.\d+)\b.*Ctrl-C again", re.S
)


@pytest.fixture
def folder(tmp_path: Path, server: RunningServer) -> Path:
    """Six items, three at once."""
    write_project(tmp_path / "project", server.url)
    return tmp_path / "project"


def interrupted(folder: Path, server: RunningServer, *signals: Signals) -> Ended:
    """Run the plan with three calls under way; then the signals, each after the last was heard."""
    with new_process(folder, "run", "plan.yaml") as run:
        run.until(lambda: server.totals().in_flight == 3)
        for number in signals:
            run.send(number)
            if number is not SIGKILL:
                run.until_it_says("stopping")
                assert server.totals().in_flight == 3, "it speaks before the calls are over"
        if len(signals) == 1 and signals[0] is not SIGKILL:
            server.release()
        ended = run.end()
    server.release()
    server.wait_idle()
    return ended


def spoken_cost(ended: Ended) -> float:
    found = UNDER_WAY.search(ended.err)
    assert found is not None, ended.err
    return float(found[1])


REASONS = [
    (SIGINT, "interrupted by Ctrl-C"),
    (SIGTERM, "ended by SIGTERM"),
    (SIGHUP, "ended by SIGHUP"),
]


@pytest.mark.parametrize(("number", "reason"), REASONS)
def test_one_signal_pauses_and_the_printed_command_goes_on(
    folder: Path, server: RunningServer, number: Signals, reason: str
) -> None:
    first = interrupted(folder, server, number)
    books = server.books()
    assert (first.code, len(books), books.paid_calls) == (4, 3, 3), "no new call"
    assert spoken_cost(first) >= dollars(books.bill)
    title, items, cost, calls, _ = first.out.splitlines()
    assert title == f"talk paused: {reason}"
    assert items == "3 of 6 done: 3 passed, 3 cancelled"
    assert cost == "cost $0.0780 of $100.00"
    assert calls.startswith("3 calls, 0 reused, 78 tokens, ")
    second = fanfold(folder, *first.resume)
    assert (second.code, second.err) == (0, "")
    assert second.out.splitlines()[:2] == ["talk complete", "6 of 6 done: 6 passed"]
    assert second.out.splitlines()[3].startswith("3 calls, 3 reused, ")
    assert (server.books().paid_calls, server.books().paid_twice()) == (6, {})


@pytest.mark.parametrize("number", [SIGINT, SIGTERM])
def test_two_signals_cancel_and_what_was_under_way_is_in_doubt(
    folder: Path, server: RunningServer, number: Signals
) -> None:
    first = interrupted(folder, server, number, number)
    assert first.code == 3
    assert first.out.startswith("talk killed: cancelled; ")
    shown = fanfold(folder, "status", "talk", "--json").receipt
    assert (shown["status"], shown["calls"], shown["passed"]) == ("killed", 3, 0)
    assert shown["in_doubt"] + shown["cancelled"] == shown["planned"] == 6
    lost = shown["attempts_in_doubt"]
    assert (lost["attempts"], lost["at_most_usd"]) == (3, shown["cost_usd"])
    assert spoken_cost(first) == pytest.approx(lost["at_most_usd"], abs=0.005)
    second = fanfold(folder, *first.resume)
    assert second.code == 0
    assert "6 of 6 done: 6 passed" in second.out
    assert "maybe paid twice: 3 calls, at most $3.49" in second.out
    assert len(server.books().paid_twice()) == 3


def test_after_a_crash_status_tells_of_the_doubts_and_resume_finishes(
    folder: Path, server: RunningServer
) -> None:
    assert interrupted(folder, server, SIGKILL).code == -SIGKILL
    (row,) = [line for line in fanfold(folder, "status").out.splitlines() if "talk" in line]
    assert row.split()[2:4] == ["crashed", "0/6"]
    shown = fanfold(folder, "status", "talk", "--json").receipt
    assert (shown["status"], shown["pending"], shown["planned"]) == ("crashed", 6, 6)
    assert shown["attempts_in_doubt"] == {"attempts": 3, "at_most_usd": shown["cost_usd"]}
    assert shown["attempts_under_way"] == {"attempts": 0, "at_most_usd": 0.0}
    words = shown["resume"].split()
    assert words[:3] == ["fanfold", "resume", shown["run"]]
    ended = fanfold(folder, *words[1:], "--json")
    receipt = ended.receipt
    assert (ended.code, ended.err) == (0, "")
    assert (receipt["passed"], receipt["calls"], receipt["maybe_paid_twice"]) == (6, 6, 3)
    assert receipt["maybe_paid_twice_usd"] == shown["cost_usd"]
    books = server.books()
    assert (books.paid_calls, len(books.paid_twice())) == (9, 3)
    assert dollars(books.bill) <= receipt["cost_usd"]


def test_a_run_that_is_under_way_cannot_be_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    with threaded_server(tmp_path / "books", script="tests.faces.scripts:never") as server:
        write_project(folder, server.url)
        with started(folder, "run", "plan.yaml", "--quiet") as run:
            run.until(lambda: server.totals().in_flight == 3)
            before = fanfold(folder, "status", "talk", "--json").receipt
            refused = fanfold(folder, "resume", "talk")
            after = fanfold(folder, "status", "talk", "--json").receipt
        assert server.totals().asked == 3
    assert (before["status"], before["attempts_under_way"]["attempts"]) == ("running", 3)
    says = (
        f"fanfold: talk ({before['run']}) is already running; see: fanfold status {before['run']}\n"
    )
    assert refused == Ended(2, "", says)
    now = {"seconds": 0, "waits": []}  # how things stand at the moment
    assert after | now == before | now


def test_two_runs_of_one_plan_at_once_pay_each_content_once(tmp_path: Path) -> None:
    with threaded_server(tmp_path / "books", price=PRICE, latency_ms=150) as server:
        folder = tmp_path / "project"
        write_project(folder, server.url, items=12)
        words = ("run", "plan.yaml", "--json", "--quiet")
        with started(folder, *words) as one, started(folder, *words, "--name", "two") as two:
            ended = [one.end(), two.end()]
        books = server.books()
    assert [(e.code, e.err, e.receipt["passed"]) for e in ended] == [(0, "", 12)] * 2
    assert sum(e.receipt["calls"] for e in ended) == 12
    assert [e.receipt["calls"] + e.receipt["reused"] for e in ended] == [12, 12]
    assert (books.paid_calls, books.paid_twice()) == (12, {})
    assert sum(e.receipt["cost_usd"] for e in ended) == pytest.approx(dollars(books.bill))


HOLDS = """\
import pathlib, time

def hold(item):
    pathlib.Path("begun").touch()
    until = time.monotonic() + 600
    while not pathlib.Path("go").exists() and time.monotonic() < until:
        time.sleep(0.01)
    return "held"
"""


@pytest.fixture
def holding(tmp_path: Path) -> Path:
    """A plain function that nothing ends but a file."""
    (tmp_path / "holds.py").write_text(HOLDS)
    member = "{id: f, kind: function, target: 'holds:hold'}"
    (tmp_path / "roster.yaml").write_text(f"members: [{member}]\n")
    (tmp_path / "plan.yaml").write_text(
        "name: held\ninput: {count: 3}\nsteps: [{map: {member: f}}]\n"
    )
    return tmp_path


def test_a_plain_function_that_holds_everything_up_does_not_hold_up_a_signal(holding: Path) -> None:
    with new_process(holding, "run", "plan.yaml") as run:
        run.until((holding / "begun").exists)
        run.send(SIGINT)
        run.until_it_says("stopping: 1 call is under way\nwaiting for it; Ctrl-C again cancels it")
        (holding / "go").touch()
        ended = run.end()
    assert (ended.code, ended.out.splitlines()[:2]) == (
        4, ["held paused: interrupted by Ctrl-C", "1 of 3 done: 1 passed, 2 cancelled"]
    )  # fmt: skip
    for name in ("begun", "go"):
        (holding / name).unlink()
    with new_process(holding, *ended.resume) as run:
        run.until((holding / "begun").exists)
        run.send(SIGINT)
        run.until_it_says("stopping: 1 call is under way")
        run.send(SIGINT)
        ended = run.end()
    assert (ended.code, ended.out.splitlines()[:2]) == (
        3,
        [
            "held killed: cancelled; calls under way may have been carried out",
            "1 of 3 done: 1 passed, 2 cancelled",
        ],
    )


def test_however_often_it_is_interrupted_it_ends_with_its_last_lines(holding: Path) -> None:
    with new_process(holding, "run", "plan.yaml") as run:
        run.until((holding / "begun").exists)
        while run.process.poll() is None:
            run.send(SIGINT)
        ended = run.end()
    assert ended.code == 3
    assert ended.out.startswith("held killed: cancelled; ")
    assert ended.resume[:1] == ["resume"]
    assert "Traceback" not in ended.err
