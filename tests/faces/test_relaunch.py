"""`fanfold relaunch`: one worker again, with its prompt as it is now; all others untouched."""

from __future__ import annotations

import json
import os
import signal
from hashlib import blake2b
from pathlib import Path

import pytest

from tests.faces.cli import Ended, fanfold, started
from tests.faces.fleet_root import Root, lives
from tests.faces.test_launch import Project
from tests.waiting import wait_until

pytestmark = pytest.mark.slow


def digests(team: Root, *ids: str) -> dict[str, str]:
    """Of all files that workers left."""
    return {
        str(file): blake2b(file.read_bytes()).hexdigest()
        for id in ids
        for file in sorted((team.root / "workers" / id).glob("*"))
        if file.is_file()
    }


def said(team: Root, id: str) -> str:
    """The answer of a worker, from its log."""
    last = team.log(id).read_text().splitlines()[-1]
    return str(json.loads(last)["result"])


def kept(team: Root, id: str) -> int:
    """How many logs of earlier starts there are: as often it was started again."""
    return len(list(team.log(id).parent.glob("session.jsonl.*.bak")))


def test_on_a_finished_fleet_one_worker_and_those_that_lacked_it(team: Root) -> None:
    """The original's second defect: edit one prompt, relaunch that worker, after all is over."""
    team.write(
        {"a": "I am a", "b": "I am b\nFAIL", "c": "I am c", "d": "I am d", "e": "I am e"},
        c=["b"], d=["c", "a"], e=["a"],
    )  # fmt: skip
    first = team.launch()
    wait_until(lambda: team.status() == "flagged")
    assert team.states() == {"a": "DONE", "b": "FAILED", "c": "FAILED", "d": "FAILED", "e": "DONE"}
    others, log = digests(team, "a", "e"), team.log("b").read_bytes()
    team.prompt("b", "I am b, better")
    ended = team.ok("relaunch", "team", "b", "--no-tmux")
    assert ended.out.splitlines()[0] == f"relaunched b of team ({first['run']}): 5 workers"
    wait_until(lambda: team.status() == "complete")
    assert set(team.states().values()) == {"DONE"}
    assert said(team, "b") == "I am b, better"
    (old,) = team.log("b").parent.glob("session.jsonl.*.bak")
    assert old.read_bytes() == log
    assert digests(team, "a", "e") == others
    assert team.runs() == 1
    passed = digests(team, "a", "c", "d", "e")
    team.ok("relaunch", str(team.root), "b", "--no-tmux")
    wait_until(lambda: kept(team, "b") == 2)
    wait_until(lambda: team.status() == "complete")
    assert digests(team, "a", "c", "d", "e") == passed, "dependents that passed stay as they are"
    assert team.fanfold("resume", str(team.root), "--quiet").code == 0, "it knows the new prompt"


def test_while_others_run_they_are_adopted_and_not_started_again(team: Root) -> None:
    team.write({"a": team.waits("a"), "b": "I am b\nFAIL", "c": "I am c"}, c=["a"])
    first = team.launch()
    program = team.program("a")
    wait_until(lambda: team.states()["b"] == "FAILED")
    team.prompt("b", team.waits("b"))
    second = team.ok("relaunch", "team", "b", "--no-tmux", "--json").receipt
    assert (second["run"], second["pid"] != first["pid"]) == (first["run"], True)
    wait_until(lambda: not lives(first["pid"]))
    team.program("b")
    assert (lives(program), team.program("a") == program) == (True, True)
    wait_until(lambda: team.states()["b"] == "RUNNING")
    assert team.states() == {"a": "RUNNING", "b": "RUNNING", "c": "PENDING"}
    team.gate("a").touch()
    wait_until(lambda: team.states()["c"] == "DONE")
    assert team.states() == {"a": "DONE", "b": "RUNNING", "c": "DONE"}
    team.gate("b").touch()
    wait_until(lambda: team.status() == "complete")


def test_those_that_were_adopted_before_are_adopted_again(team: Root) -> None:
    team.write({"a": team.waits("a"), "b": "I am b\nFAIL"})
    team.launch()
    program = team.program("a")
    wait_until(lambda: team.states()["b"] == "FAILED")
    for earlier in (1, 2):
        team.prompt("b", "I am b, better")
        team.ok("relaunch", "team", "b", "--no-tmux")
        wait_until(lambda many=earlier: kept(team, "b") == many)
        wait_until(lambda: team.states()["b"] == "DONE")
    assert (team.states()["a"], lives(program)) == ("RUNNING", True)
    team.gate("a").touch()
    wait_until(lambda: team.status() == "complete")


def test_it_is_refused_while_it_or_what_depends_on_it_runs(team: Root) -> None:
    team.write({"a": "I am a", "b": team.waits("b")}, b=["a"])
    team.launch()
    program = team.program("b")
    first = team.fanfold("relaunch", "team", "b")
    assert first == Ended(2, "", "fanfold: b is running; first: fanfold kill team b\n")
    second = team.fanfold("relaunch", "team", "a")
    text = "b is running, which depends on a; first: fanfold kill team b"
    assert second == Ended(2, "", f"fanfold: {text}\n")
    third = team.fanfold("relaunch", "team", "bb")
    assert third == Ended(2, "", "fanfold: there is no worker 'bb': did you mean `b`?\n")
    assert lives(program)


def test_a_killed_fleet_gets_back_that_worker_only(team: Root) -> None:
    team.write({"a": team.waits("a"), "b": team.waits("b"), "c": "I am c"}, c=["b"])
    team.launch()
    team.program("a"), team.program("b")
    team.ok("kill", "team", "all")
    team.prompt("a", "I am a again")
    team.ok("relaunch", str(team.root), "a", "--no-tmux")
    wait_until(lambda: team.status() == "paused")
    states = team.states()
    assert (states["a"], states["b"]) == ("DONE", "KILLED")
    assert states["c"] not in ("DONE", "RUNNING")
    assert not list((team.root / "workers/b").glob("*.bak"))


def test_after_a_crash_the_living_are_adopted(team: Root) -> None:
    team.write({"a": team.waits("a"), "b": "I am b\nFAIL"})
    first = team.launch()
    program = team.program("a")
    wait_until(lambda: team.states()["b"] == "FAILED")
    os.kill(first["pid"], signal.SIGKILL)
    wait_until(lambda: not lives(first["pid"]))
    team.prompt("b", "I am b, better")
    team.ok("relaunch", "team", "b", "--no-tmux")
    wait_until(lambda: team.states()["b"] == "DONE")
    assert (lives(program), team.program("a") == program) == (True, True)
    team.gate("a").touch()
    wait_until(lambda: team.status() == "complete")


def test_of_two_at_once_one_is_refused(team: Root) -> None:
    team.write({"a": "I am a"})
    team.launch()
    wait_until(lambda: team.status() == "complete")
    team.prompt("a", team.waits("a"))
    words = ("relaunch", str(team.root), "a", "--no-tmux")
    with (
        started(team.folder, *words, **team.env) as one,
        started(team.folder, *words, **team.env) as two,
    ):
        ended = sorted((one.end(), two.end()))
    assert [e.code for e in ended] == [0, 2], ended
    assert ended[1].err.count("\n") == 1
    assert len(list(team.log("a").parent.glob("session.jsonl.*.bak"))) <= 1


def test_new_fields_of_the_worker_count_and_new_parents_are_refused(team: Root) -> None:
    team.write({"a": "I am a", "b": "I am b"})
    team.launch()
    wait_until(lambda: team.status() == "complete")
    fleet_file = team.root / "fleet.json"
    stated = json.loads(fleet_file.read_text())
    stated["workers"][1]["model"] = "haiku"
    fleet_file.write_text(json.dumps(stated))
    team.ok("relaunch", "team", "b", "--no-tmux")
    wait_until(lambda: team.status() == "complete")
    spec = json.loads((team.root / "workers/b/spec.json").read_text())
    assert "haiku" in spec["words"]
    stated["workers"][1]["depends_on"] = ["a"]
    fleet_file.write_text(json.dumps(stated))
    ended = team.fanfold("relaunch", "team", "b", "--no-tmux")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "the `depends_on` of b has changed" in ended.err


# ── plans ────────────────────────────────────────────────────────────────────────────────────


def test_a_run_in_the_foreground_cannot_hand_over(tmp_path: Path) -> None:
    project = Project(tmp_path)
    graph = "steps: [{graph: {tasks: [{id: a, prompt: x, member: waiter},"
    (tmp_path / "plan.yaml").write_text(
        f"name: wait\n{graph} {{id: b, prompt: y, member: fails}}]}}}}]\n"
    )
    with (tmp_path / "roster.yaml").open("a") as roster:
        roster.write("  - {id: fails, kind: command, cmd: ['false'], effects: true}\n")
    with started(tmp_path, "run", "plan.yaml", "--quiet") as run:
        run.until((tmp_path / ".fanfold/journal.db").exists)
        run.until(lambda: " failed" in fanfold(tmp_path, "status", "wait").out)
        refused = project.fanfold("relaunch", "wait", "b")
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert "runs in the foreground, which cannot hand it over" in refused.err
        project.gate.touch()
        assert run.end().code == 1
    project.launched("--name", "far")
    wait_until(lambda: "1 failed" in fanfold(tmp_path, "status", "far").out)


def test_only_tasks_of_a_graph_can_be_relaunched(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.launched()
    project.finish()
    ended = project.fanfold("relaunch", "wait", "0")
    assert ended.code == 2
    assert ended.err.startswith("fanfold: only tasks of a graph can be relaunched")
