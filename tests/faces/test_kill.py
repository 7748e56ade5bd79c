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

from fanfold.fleet.runs import reading
from tests.faces.cli import Ended, environment, fanfold, started
from tests.faces.fleet_root import Root, lives
from tests.faces.test_launch import Project
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path)
    yield made
    if (tmp_path / ".fanfold").exists():
        made.fanfold("kill", ".", "all", "--force")


def receipt(team: Root) -> dict[str, Any]:
    shown: dict[str, Any] = team.ok("status", team.name, "--json").receipt
    return shown


def in_registry(team: Root) -> list[str]:
    file = team.folder / "state/fanfold/registry.json"
    return [entry["name"] for entry in json.loads(file.read_text())]


def orders(team: Root) -> list[tuple[str, str, str, str]]:
    """What was ordered, and what came of it."""
    with reading(team.store) as archive:
        (run,) = archive.read.runs()
        given = archive.read.orders(run.no)
    assert all(one.by for one in given)
    return [(one.what, one.value, one.state, one.said) for one in given]


# ── one worker ───────────────────────────────────────────────────────────────────────────────


def test_one_worker_is_ended_with_its_grandchild_and_no_other(team: Root) -> None:
    """`a` is not `ab`, nor `a-2`; a child in a session of its own goes too."""
    child = team.folder / "child"
    team.write(
        {
            "a": f"I am a\nSTART {child}\nWAIT {team.gate('a')}",
            "ab": team.waits("ab"),
            "a-2": team.waits("a-2"),
            "b": "I am b",
        },
        b=["a"],
    )
    team.launch()
    programs = {id: team.program(id) for id in ("a", "ab", "a-2")}
    wait_until(child.exists)
    grandchild = int(child.read_text())
    assert lives(grandchild)
    ended = team.fanfold("kill", "team", "a")
    assert ended == Ended(0, "killed a; again: fanfold relaunch team a\n", "")
    assert [lives(programs[id]) for id in programs] == [False, True, True]
    assert not lives(grandchild)
    assert json.loads((team.root / "workers/a/exit.json").read_text())["why"] == "killed"
    wait_until(lambda: team.states()["b"] == "FAILED")
    assert orders(team) == [("kill", "a", "done", "")]
    assert team.states() == {"a": "KILLED", "ab": "RUNNING", "a-2": "RUNNING", "b": "FAILED"}
    again = team.fanfold("kill", "team", "a")
    assert (again.code, again.err) == (0, "")
    assert again.out.startswith("a is not running, it ended failed: a: killed by the operator")
    for id in ("ab", "a-2"):
        team.gate(id).touch()
    wait_until(lambda: team.status() == "flagged")
    assert team.states() == {"a": "KILLED", "ab": "DONE", "a-2": "DONE", "b": "FAILED"}


def test_a_worker_that_is_just_being_started_is_ended_too(team: Root) -> None:
    """It has no files yet: they are made when its worktree is, and that takes a while."""
    team.write({"a": team.waits("a"), "b": team.waits("b")})
    fleet = team.root / "fleet.json"
    stated = json.loads(fleet.read_text())
    stated["workers"][0]["isolation"] = "worktree"
    fleet.write_text(json.dumps(stated))
    begun = team.folder / "begun"
    commit = ["-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "--allow-empty"]
    for words in (["init"], [*commit, "-m", "first"]):
        subprocess.run(["git", *words, "--quiet"], cwd=team.root, check=True)
    hook = team.root / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    waits = f"touch {begun}; until test -e {team.gate('tree')}; do sleep 0.05; done"
    hook.write_text(f"#!/bin/sh\n{waits}\n")
    hook.chmod(0o755)
    team.launch()
    wait_until(begun.exists)
    b = team.program("b")
    with started(team.folder, "kill", "team", "a", **team.env) as killing:
        killing.until(lambda: ("kill", "a", "done", "") in orders(team))
        team.gate("tree").touch()
        ended = killing.end()
    assert ended == Ended(0, "killed a; again: fanfold relaunch team a\n", "")
    assert json.loads((team.root / "workers/a/exit.json").read_text())["why"] == "killed"
    assert lives(b)
    wait_until(lambda: team.states() == {"a": "KILLED", "b": "RUNNING"})


def test_a_worker_whose_supervisor_is_dead_is_ended_all_the_same(team: Root) -> None:
    team.write({"a": team.waits("a"), "b": team.waits("b")})
    said = team.launch()
    a, b = team.program("a"), team.program("b")
    os.kill(said["pid"], signal.SIGKILL)
    wait_until(lambda: not lives(said["pid"]))
    ended = team.ok("kill", str(team.root), "b", "--json").receipt
    assert ended == {"run": said["run"], "name": "team", "killed": ["b"], "over": [], "left": [],
                     "said": ""}  # fmt: skip
    assert (lives(a), lives(b)) == (True, False)
    assert orders(team) == [("kill", "b", "done", "by whoever gave it")]
    team.gate("a").touch()
    assert team.fanfold("resume", "team", "--quiet").code == 1
    assert team.states() == {"a": "DONE", "b": "KILLED"}, "what was killed is not started again"


def test_a_worker_of_a_container_that_is_gone_can_be_started_again_as_the_refusal_says(
    team: Root,
) -> None:
    """Nobody can see that it is gone, so nothing is started beside it before the operator says so."""
    team.write({"a": team.waits("a")})
    said = team.launch()
    program, file = team.program("a"), team.root / "workers/a/host.json"
    record = json.loads(file.read_text())
    for pid in (said["pid"], record["host"]["pid"], program):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not lives(said["pid"]) and not lives(program))
    file.write_text(json.dumps({**record, "host": {**record["host"], "namespace": 1},
                                "program": {**record["program"], "namespace": 1}}))  # fmt: skip
    again = team.fanfold("relaunch", "team", "a")
    assert again == Ended(2, "", "fanfold: a is running; first: fanfold kill team a\n")
    why = "it may be at work in another container, whose processes cannot be seen from here"
    remedy = f"end it there, or once that is gone remove {file}"
    ended = team.fanfold("kill", "team", "a")
    assert ended == Ended(3, "", f"fanfold: could not be ended: a: {why}; {remedy}\n")
    file.unlink()
    team.gate("a").touch()
    team.ok("relaunch", "team", "a")
    wait_until(lambda: team.states() == {"a": "DONE"})


def test_what_is_not_there_is_refused_with_the_nearest_id(team: Root) -> None:
    team.write({"scout": team.waits("scout")})
    team.launch()
    ended = team.fanfold("kill", "team", "scuot")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "fanfold: team has no worker 'scuot': did you mean `scout`?\n"
    ended = team.fanfold("kill", "crow", "scout")
    assert (ended.code, "no run 'crow'" in ended.err or "no such store" in ended.err) == (2, True)


def test_a_command_has_no_worker_so_only_the_whole_run_can_be_killed(project: Project) -> None:
    project.launched()
    project.until_both_are_under_way()
    ended = project.fanfold("kill", "wait", "0")
    text = "0 is done by waiter, which is not an agent: only the whole run can be killed:"
    assert ended == Ended(2, "", f"fanfold: {text} fanfold kill wait all\n")


# ── all of it ────────────────────────────────────────────────────────────────────────────────


def test_all_ends_the_workers_the_supervisor_and_the_run(team: Root) -> None:
    child = team.folder / "child"
    team.write(
        {"a": f"I am a\nSTART {child}\nWAIT {team.gate('a')}", "b": team.waits("b"), "c": "I am c"},
        c=["a", "b"],
    )
    said = team.launch()
    programs = [team.program("a"), team.program("b")]
    wait_until(child.exists)
    ended = team.ok("kill", "team", "all")
    assert ended.out == f"killed team ({said['run']}): a, b\n"
    assert [lives(pid) for pid in (*programs, int(child.read_text()))] == [False] * 3
    wait_until(lambda: not lives(said["pid"]))  # it has let go of the run, and only has to end
    assert in_registry(team) == []
    assert orders(team) == [("kill", "", "done", "")], "its supervisor carried it out"
    shown = fanfold(team.folder, "status", str(team.root), "--json", **team.env).receipt
    assert {one["id"]: one["status"] for one in shown["workers"]} == {
        "a": "KILLED", "b": "KILLED", "c": "KILLED",
    }  # fmt: skip
    log = (team.root / "logs/supervisor.log").read_text()
    assert "team killed: killed by the operator" in log
    assert "2 failed, 1 cancelled" in log


def test_all_without_a_supervisor_closes_the_run_as_killed(team: Root) -> None:
    team.write({"a": team.waits("a"), "b": "I am b"}, b=["a"])
    said = team.launch()
    program = team.program("a")
    team.answered("a")
    os.kill(said["pid"], signal.SIGKILL)
    wait_until(lambda: not lives(said["pid"]))
    assert team.ok("kill", str(team.root), "all", "--force").out.startswith("killed team (")
    assert not lives(program)
    (row,) = json.loads(team.ok("status", "--json", "--store", str(team.store)).out)
    assert (row["status"], row["reason"], row["planned"]) == ("killed", "killed by the operator", 2)
    assert 0 < row["cost_usd"] < 0.5 and row["cost_at_most"], (
        "by its log, not all that was reserved"
    )
    resumed = team.fanfold("resume", str(team.root), "--json", "--quiet")
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
def test_all_closes_the_windows(team: Root) -> None:
    team.write({"a": team.waits("a")})
    team.ok("launch", str(team.root))
    team.program("a")
    env = environment(team.folder, team.env)
    subprocess.run(["tmux", "new-session", "-d", "-s", "mine"], env=env, check=True)
    team.ok("kill", "team", "all")
    listed = subprocess.run(["tmux", "list-sessions", "-F", "#{session_name}"], env=env,
                            capture_output=True, text=True, check=True)  # fmt: skip
    assert listed.stdout == "mine\n"
    subprocess.run(["tmux", "kill-server"], env=env, check=True)
