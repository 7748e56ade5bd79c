"""`fanfold status` and `fanfold report` of a fleet, as a person types them."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.faces.cli import environment, fanfold, started
from tests.faces.fleet_root import fleet
from tests.unit.fleet.fleets import worker
from tests.unit.fleet.staged import Stage, small_fleet
from tests.unit.fleet.talk import said
from tests.waiting import LONG, wait_until


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = small_fleet(tmp_path / "a fleet's root")
    yield made
    made.close()


def test_a_fleet_is_named_by_its_folder_or_its_run(stage: Stage, tmp_path: Path) -> None:
    by_folder = fanfold(tmp_path, "status", "a fleet's root", COLUMNS="80")
    by_name = fanfold(stage.root, "status", "demo", COLUMNS="80")
    assert (by_folder.code, by_folder.err, by_name.code) == (0, "", 0)
    for shown in (by_folder.out, by_name.out):
        lines = shown.splitlines()
        assert lines[1:3] == [
            f"Fleet: demo (run {stage.record.id})",
            f"Fleet root: {stage.root}"[:79] + "…"
            if len(f"Fleet root: {stage.root}") > 80
            else f"Fleet root: {stage.root}",
        ]
        assert max(map(len, lines)) <= 80
        assert [line.split()[:2] for line in lines[7:12]] == [
            ["a", "DONE"], ["b", "FAILED"], ["c", "stuck?"], ["d", "FAILED"],
            ["e-by-codex", "DONE"],
        ]  # fmt: skip
        assert f"supervisor: alive (pid {os.getpid()})" in lines


def test_programs_get_the_receipt_and_the_workers_in_one_object(stage: Stage) -> None:
    ended = fanfold(stage.root, "status", ".", "--json")
    told = msgspec.json.decode(ended.out)
    assert (ended.code, ended.err) == (0, "")
    assert [(one["id"], one["status"], one["cost"]) for one in told["workers"]] == [
        ("a", "DONE", 0.006975), ("b", "FAILED", 0.63), ("c", "STUCK", pytest.approx(0.19, abs=0.01)),
        ("d", "FAILED", None), ("e-by-codex", "DONE", 0.0019),
    ]  # fmt: skip
    assert (told["planned"], told["passed"], told["failed"], told["name"]) == (5, 2, 2, "demo")
    assert told["liveness"]["launcher_pid"] == os.getpid()


def test_workers_are_sorted_on_the_command_line_for_one_run_only(stage: Stage) -> None:
    dearest = fanfold(stage.root, "status", "demo", "--sort", "cost", COLUMNS="80").out
    assert [line.split()[0] for line in dearest.splitlines()[7:12]] == [
        "b", "c", "a", "e-by-codex", "d",
    ]  # fmt: skip
    urgent = msgspec.json.decode(
        fanfold(stage.root, "status", "demo", "--sort", "attention", "--json").out
    )
    assert [one["id"] for one in urgent["workers"]] == ["c", "b", "d", "a", "e-by-codex"]
    refused = fanfold(stage.root, "status", "--sort", "cost")
    said = "fanfold: --sort is for the workers of one run: fanfold status RUN --sort cost\n"
    assert (refused.code, refused.err) == (2, said)


def test_watching_ends_with_the_fleet_and_ends_nothing(stage: Stage) -> None:
    with started(stage.root, "status", "demo", "--watch", COLUMNS="80") as program:
        program.until(lambda: "supervisor: alive" in program.shown)
        stage.exits("c", 0, 40)
        stage.ends("c", 4, 40, 0.2)
        stage.closes("flagged", 41)
        ended = program.end()
    assert (ended.code, ended.err) == (0, "")
    last = ended.out[ended.out.rindex("Fleet Status") :].splitlines()
    assert [line.split()[:2] for line in last[7:12]][2] == ["c", "DONE"]
    assert "supervisor: finished" in last
    assert (stage.place("c") / "session.jsonl").exists()


def test_on_a_terminal_it_is_redrawn_in_place_without_being_erased_first(stage: Stage) -> None:
    leader, follower = pty.openpty()
    env = environment(stage.root, {"COLUMNS": "80", "LINES": "40", "TERM": "xterm"})
    program = subprocess.Popen(
        [sys.executable, "-m", "fanfold", "status", "demo", "--watch"], cwd=stage.root, env=env,
        stdin=follower, stdout=follower, stderr=follower, start_new_session=True,
    )  # fmt: skip
    os.close(follower)
    try:
        shown = read_until(leader, b"", lambda text: text.count(b"\x1b[H") >= 2)
        program.send_signal(2)
        program.wait(LONG)
    finally:
        program.kill()
        program.wait()
        os.close(leader)
    assert (shown.count(b"\x1b[2J"), program.returncode) == (1, 0)
    second = shown.split(b"\x1b[H")[2]
    assert re.match(rb"Fleet Status [^\n]*\x1b\[K\r\nFleet: demo", second)


def read_until(handle: int, shown: bytes, enough: object) -> bytes:
    while not enough(shown):  # type: ignore[operator]
        ready, _, _ = select.select([handle], [], [], 20)
        assert ready, shown
        shown += os.read(handle, 65536)
    return shown


def test_the_report_of_a_fleet_has_the_sections_of_the_original(stage: Stage) -> None:
    ended = fanfold(stage.root, "report", "demo", "--output", "report.md")
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    titles = [
        line for line in (stage.root / "report.md").read_text().splitlines() if line[:2] in ("# ", "##")
    ]  # fmt: skip
    assert [title for title in titles if not title.startswith("###")] == [
        "# Fleet Report: demo", "## Workers", "## Output Files", "## Errors",
        "## Failed For A Parent", "## Billing", "## Sessions", "## Receipt",
    ]  # fmt: skip


def test_other_runs_have_their_account_and_below_it_the_agents_at_work(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "plan", [worker("a"), worker("b")], script=True)
    first, second = stage.starts("a", 0), stage.starts("b", 1)
    stage.works("a", first, "c01_trivial")
    stage.exits("a", 0, 5)
    stage.ends("a", first, 5, 0.006975)
    stage.works("b", second, said("still at it"))
    stage.hosted("b", alive=True)
    shown = fanfold(stage.root, "status", stage.record.id, COLUMNS="80")
    told = fanfold(stage.root, "status", stage.record.id, "--json")
    followed = fanfold(stage.root, "view", stage.record.id, "b")
    stage.exits("b", 0, 9)
    stage.ends("b", second, 9, 0.01)
    stage.closes("complete", 9)
    after = fanfold(stage.root, "status", stage.record.id, COLUMNS="80")
    stage.close()
    lines = shown.out.splitlines()
    assert lines[0] == f"run         demo ({stage.record.id})"
    at = lines.index("workers")
    assert [line.split()[:2] for line in lines[at + 1 :]] == [
        ["ID", "STATUS"], ["a", "DONE"], ["b", "stuck?"],
    ]  # fmt: skip
    assert lines[-1].endswith("still at it")
    assert [one["id"] for one in msgspec.json.decode(told.out)["workers"]] == ["a", "b"]
    assert followed.out.endswith("still at it\n")
    assert "workers" not in after.out.splitlines()


@pytest.mark.parametrize(
    "spoilt", ["spec.json", "host.json", "exit.json", "session.jsonl", "session.times"]
)
@pytest.mark.parametrize("content", [b"", b'{"torn', b"\x00\xff\xfe" * 999])
def test_torn_files_of_workers_are_no_reason_not_to_show_the_rest(
    stage: Stage, spoilt: str, content: bytes
) -> None:
    for id in ("a", "b", "c", "e-by-codex"):
        (stage.place(id) / spoilt).write_bytes(content)
    ended = fanfold(stage.root, "status", "demo", "-v", COLUMNS="100")
    assert (ended.code, ended.err) == (0, "")
    assert "a           DONE" in ended.out


def test_a_run_that_is_nowhere_is_refused(stage: Stage) -> None:
    for command in (["status"], ["report"], ["feed"], ["view"]):
        words = [*command, "nothing", *(["a"] if command == ["view"] else [])]
        ended = fanfold(stage.root, *words)
        assert (ended.code, ended.out, ended.err) == (
            2, "", "fanfold: no run 'nothing'; there are: demo\n",
        )  # fmt: skip


def test_those_who_wait_are_told_that_their_run_is_stopping(tmp_path: Path) -> None:
    """Also while others are at work: nothing more will start, whatever it waited for before."""
    with fleet(tmp_path) as team:
        team.write({"a": team.waits("a"), "b": "I am b"}, b=["a"])
        pid = team.launch()["pid"]
        team.program("a")
        os.kill(pid, signal.SIGTERM)

        def told() -> str:
            return str(team.ok("status", "team", "--json").receipt["workers"][1]["last_msg"])

        wait_until(lambda: told() == "waits for a resume: the run is stopping: ended by SIGTERM")
        team.gate("a").touch()
        wait_until(lambda: told() == "waits for a resume: the run is paused: ended by SIGTERM")
