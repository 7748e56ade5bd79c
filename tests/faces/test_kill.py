"""`fanfold kill`: exactly what is named, with all that it started; judged by processes and files."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faces.cli import Ended, environment, fanfold, started
from tests.faces.fleet_root import Root, fleet, lives
from tests.faces.test_launch import Project
from tests.waiting import wait_until

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Root]:
    with fleet(tmp_path) as root:
        yield root


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path)
    yield made
    if (tmp_path / ".fanfold").exists():
        made.fanfold("kill", ".", "all", "--force")


def receipt(crew: Root) -> dict[str, Any]:
    shown: dict[str, Any] = crew.ok("status", crew.name, "--json").receipt
    return shown


def in_registry(crew: Root) -> list[str]:
    file = crew.folder / "state/fanfold/registry.json"
    return [entry["name"] for entry in json.loads(file.read_text())]


# ── one worker ───────────────────────────────────────────────────────────────────────────────


def test_one_worker_is_ended_with_its_grandchild_and_no_other(crew: Root) -> None:
    """`a` is not `ab`, nor `a-2`; a child in a session of its own goes too."""
    child = crew.folder / "child"
    crew.write(
        {
            "a": f"I am a\nSTART {child}\nWAIT {crew.gate('a')}",
            "ab": crew.waits("ab"),
            "a-2": crew.waits("a-2"),
            "b": "I am b",
        },
        b=["a"],
    )
    crew.launch()
    programs = {id: crew.program(id) for id in ("a", "ab", "a-2")}
    wait_until(child.exists)
    grandchild = int(child.read_text())
    assert lives(grandchild)
    ended = crew.fanfold("kill", "crew", "a")
    assert ended == Ended(0, "killed a; again: fanfold relaunch crew a\n", "")
    assert [lives(programs[id]) for id in programs] == [False, True, True]
    assert not lives(grandchild)
    assert json.loads((crew.root / "workers/a/exit.json").read_text())["why"] == "killed"
    wait_until(lambda: crew.states()["b"] == "FAILED")
    assert crew.states() == {"a": "KILLED", "ab": "RUNNING", "a-2": "RUNNING", "b": "FAILED"}
    again = crew.fanfold("kill", "crew", "a")
    assert (again.code, again.err) == (0, "")
    assert again.out.startswith("a is not running, it ended failed: a: killed by the operator")
    for id in ("ab", "a-2"):
        crew.gate(id).touch()
    wait_until(lambda: crew.status() == "flagged")
    assert crew.states() == {"a": "KILLED", "ab": "DONE", "a-2": "DONE", "b": "FAILED"}


def test_a_worker_whose_supervisor_is_dead_is_ended_all_the_same(crew: Root) -> None:
    crew.write({"a": crew.waits("a"), "b": crew.waits("b")})
    said = crew.launch()
    a, b = crew.program("a"), crew.program("b")
    os.kill(said["pid"], signal.SIGKILL)
    wait_until(lambda: not lives(said["pid"]))
    ended = crew.ok("kill", str(crew.root), "b", "--json").receipt
    assert ended == {"run": said["run"], "name": "crew", "killed": ["b"], "over": [], "left": [],
                     "said": ""}  # fmt: skip
    assert (lives(a), lives(b)) == (True, False)
    crew.gate("a").touch()
    assert crew.fanfold("resume", "crew", "--quiet").code == 1
    assert crew.states() == {"a": "DONE", "b": "KILLED"}, "what was killed is not started again"


def test_what_is_not_there_is_refused_with_the_nearest_id(crew: Root) -> None:
    crew.write({"scout": crew.waits("scout")})
    crew.launch()
    ended = crew.fanfold("kill", "crew", "scuot")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "fanfold: crew has no worker 'scuot': did you mean `scout`?\n"
    ended = crew.fanfold("kill", "crow", "scout")
    assert (ended.code, "no run 'crow'" in ended.err or "no such store" in ended.err) == (2, True)


def test_a_command_has_no_worker_so_only_the_whole_run_can_be_killed(project: Project) -> None:
    project.launched()
    project.until_both_are_under_way()
    ended = project.fanfold("kill", "wait", "0")
    text = "0 is done by waiter, which is not an agent: only the whole run can be killed:"
    assert ended == Ended(2, "", f"fanfold: {text} fanfold kill wait all\n")


# ── all of it ────────────────────────────────────────────────────────────────────────────────


def test_all_ends_the_workers_the_supervisor_and_the_run(crew: Root) -> None:
    child = crew.folder / "child"
    crew.write(
        {"a": f"I am a\nSTART {child}\nWAIT {crew.gate('a')}", "b": crew.waits("b"), "c": "I am c"},
        c=["a", "b"],
    )
    said = crew.launch()
    programs = [crew.program("a"), crew.program("b")]
    wait_until(child.exists)
    ended = crew.ok("kill", "crew", "all")
    assert ended.out == f"killed crew ({said['run']}): a, b\n"
    assert [lives(pid) for pid in (*programs, int(child.read_text()))] == [False] * 3
    wait_until(lambda: not lives(said["pid"]))  # it has let go of the run, and only has to end
    assert in_registry(crew) == []
    assert not any((crew.store / "orders").iterdir())
    shown = fanfold(crew.folder, "status", str(crew.root), "--json", **crew.env).receipt
    assert {one["id"]: one["status"] for one in shown["workers"]} == {
        "a": "KILLED", "b": "KILLED", "c": "KILLED",
    }  # fmt: skip
    log = (crew.root / "logs/supervisor.log").read_text()
    assert "crew killed: killed by the operator" in log
    assert "2 failed, 1 cancelled" in log


def test_all_without_a_supervisor_closes_the_run_as_killed(crew: Root) -> None:
    crew.write({"a": crew.waits("a"), "b": "I am b"}, b=["a"])
    said = crew.launch()
    program = crew.program("a")
    os.kill(said["pid"], signal.SIGKILL)
    wait_until(lambda: not lives(said["pid"]))
    assert crew.ok("kill", str(crew.root), "all", "--force").out.startswith("killed crew (")
    assert not lives(program)
    (row,) = json.loads(crew.ok("status", "--json", "--store", str(crew.store)).out)
    assert (row["status"], row["reason"], row["planned"]) == ("killed", "killed by the operator", 2)
    assert 0 < row["cost_usd"] < 0.5 and row["cost_at_most"], (
        "by its log, not all that was reserved"
    )
    resumed = crew.fanfold("resume", str(crew.root), "--json", "--quiet")
    assert resumed.code == 1, resumed
    account = resumed.receipt
    assert (account["failed"], account["in_doubt"], account["calls"]) == (2, 0, 0)
    assert account["cost_usd"] == row["cost_usd"], "its log was read before"


def test_a_run_of_commands_is_killed_whole(project: Project) -> None:
    said = project.launched()
    project.until_both_are_under_way()
    ended = project.fanfold("kill", "wait", "all", "--json")
    assert (ended.code, ended.receipt["run"]) == (0, said["run"])
    wait_until(lambda: not lives(int(str(said["pid"]))))
    shown = project.fanfold("status", "wait", "--json").receipt
    assert (shown["status"], shown["in_doubt"]) == ("killed", 2)
    assert project.fanfold("kill", "wait", "all").code == 0, "nothing is left to end"


def test_a_run_in_the_foreground_is_killed_too(project: Project) -> None:
    with started(project.folder, "run", "plan.yaml", "--quiet") as run:
        run.until(lambda: bool(project.fanfold("status", "wait").code == 0))
        project.until_both_are_under_way()
        assert project.fanfold("kill", "wait", "all").code == 0
        assert run.end().code == 3
    assert project.status() == "killed"


def test_a_paused_run_is_marked_killed(project: Project) -> None:
    said = project.launched()
    project.until_both_are_under_way()
    os.kill(int(str(said["pid"])), signal.SIGTERM)
    log = project.folder / ".fanfold/logs/wait.log"
    wait_until(lambda: "stopping" in log.read_text())
    project.gate.touch()
    wait_until(lambda: project.status() == "paused")
    assert project.fanfold("kill", "wait", "all").code == 0
    shown = project.fanfold("status", "wait", "--json").receipt
    assert (shown["status"], shown["passed"]) == ("killed", 2)


@needs_tmux
def test_all_closes_the_windows(crew: Root) -> None:
    crew.write({"a": crew.waits("a")})
    crew.ok("launch", str(crew.root))
    crew.program("a")
    env = environment(crew.folder, crew.env)
    subprocess.run(["tmux", "new-session", "-d", "-s", "mine"], env=env, check=True)
    crew.ok("kill", "crew", "all")
    listed = subprocess.run(["tmux", "list-sessions", "-F", "#{session_name}"], env=env,
                            capture_output=True, text=True, check=True)  # fmt: skip
    assert listed.stdout == "mine\n"
    subprocess.run(["tmux", "kill-server"], env=env, check=True)
