"""`fanfold relaunch`: one worker again, with its prompt as it is now; all others untouched."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

import pytest

from tests.faces.cli import Ended, fanfold, started
from tests.faces.fleet_root import Root, fleet, lives
from tests.faces.test_launch import Project
from tests.waiting import wait_until


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Root]:
    with fleet(tmp_path) as root:
        yield root


def digests(crew: Root, *ids: str) -> dict[str, str]:
    """Of all files that workers left."""
    return {
        str(file): blake2b(file.read_bytes()).hexdigest()
        for id in ids
        for file in sorted((crew.root / "workers" / id).glob("*"))
        if file.is_file()
    }


def said(crew: Root, id: str) -> str:
    """The answer of a worker, from its log."""
    last = crew.log(id).read_text().splitlines()[-1]
    return str(json.loads(last)["result"])


def test_on_a_finished_fleet_one_worker_and_those_that_lacked_it(crew: Root) -> None:
    """The original's second defect: edit one prompt, relaunch that worker, after all is over."""
    crew.write(
        {"a": "I am a", "b": "I am b\nFAIL", "c": "I am c", "d": "I am d", "e": "I am e"},
        c=["b"], d=["c", "a"], e=["a"],
    )  # fmt: skip
    first = crew.launch()
    wait_until(lambda: crew.status() == "flagged")
    assert crew.states() == {"a": "DONE", "b": "FAILED", "c": "FAILED", "d": "FAILED", "e": "DONE"}
    others, log = digests(crew, "a", "e"), crew.log("b").read_bytes()
    crew.prompt("b", "I am b, better")
    ended = crew.ok("relaunch", "crew", "b", "--no-tmux")
    assert ended.out.splitlines()[0] == f"relaunched b of crew ({first['run']}): 5 workers"
    wait_until(lambda: crew.status() == "complete")
    assert set(crew.states().values()) == {"DONE"}
    assert said(crew, "b") == "I am b, better"
    (old,) = crew.log("b").parent.glob("session.jsonl.*.bak")
    assert old.read_bytes() == log
    assert digests(crew, "a", "e") == others
    assert crew.runs() == 1
    passed = digests(crew, "a", "c", "d", "e")
    crew.ok("relaunch", str(crew.root), "b", "--no-tmux")
    wait_until(lambda: len(list(crew.log("b").parent.glob("session.jsonl.*.bak"))) == 2)
    wait_until(lambda: crew.status() == "complete")
    assert digests(crew, "a", "c", "d", "e") == passed, "dependents that passed stay as they are"
    assert crew.fanfold("resume", str(crew.root), "--quiet").code == 0, "it knows the new prompt"


def test_while_others_run_they_are_adopted_and_not_started_again(crew: Root) -> None:
    crew.write({"a": crew.waits("a"), "b": "I am b\nFAIL", "c": "I am c"}, c=["a"])
    first = crew.launch()
    program = crew.program("a")
    wait_until(lambda: crew.states()["b"] == "FAILED")
    crew.prompt("b", crew.waits("b"))
    second = crew.ok("relaunch", "crew", "b", "--no-tmux", "--json").receipt
    assert (second["run"], second["pid"] != first["pid"]) == (first["run"], True)
    wait_until(lambda: not lives(first["pid"]))
    crew.program("b")
    assert (lives(program), crew.program("a") == program) == (True, True)
    assert crew.states() == {"a": "RUNNING", "b": "RUNNING", "c": "PENDING"}
    crew.gate("a").touch()
    wait_until(lambda: crew.states()["c"] == "DONE")
    assert crew.states() == {"a": "DONE", "b": "RUNNING", "c": "DONE"}
    crew.gate("b").touch()
    wait_until(lambda: crew.status() == "complete")


def test_it_is_refused_while_it_or_what_depends_on_it_runs(crew: Root) -> None:
    crew.write({"a": "I am a", "b": crew.waits("b")}, b=["a"])
    crew.launch()
    program = crew.program("b")
    first = crew.fanfold("relaunch", "crew", "b")
    assert first == Ended(2, "", "fanfold: b is running; first: fanfold kill crew b\n")
    second = crew.fanfold("relaunch", "crew", "a")
    text = "b is running, which depends on a; first: fanfold kill crew b"
    assert second == Ended(2, "", f"fanfold: {text}\n")
    third = crew.fanfold("relaunch", "crew", "bb")
    assert third == Ended(2, "", "fanfold: there is no worker 'bb': did you mean `b`?\n")
    assert lives(program)


def test_a_killed_fleet_gets_back_that_worker_only(crew: Root) -> None:
    crew.write({"a": crew.waits("a"), "b": crew.waits("b"), "c": "I am c"}, c=["b"])
    crew.launch()
    crew.program("a"), crew.program("b")
    crew.ok("kill", "crew", "all")
    crew.prompt("a", "I am a again")
    crew.ok("relaunch", str(crew.root), "a", "--no-tmux")
    wait_until(lambda: crew.status() == "paused")
    states = crew.states()
    assert (states["a"], states["b"]) == ("DONE", "KILLED")
    assert states["c"] not in ("DONE", "RUNNING")
    assert not list((crew.root / "workers/b").glob("*.bak"))


def test_after_a_crash_the_living_are_adopted(crew: Root) -> None:
    crew.write({"a": crew.waits("a"), "b": "I am b\nFAIL"})
    first = crew.launch()
    program = crew.program("a")
    wait_until(lambda: crew.states()["b"] == "FAILED")
    os.kill(first["pid"], signal.SIGKILL)
    wait_until(lambda: not lives(first["pid"]))
    crew.prompt("b", "I am b, better")
    crew.ok("relaunch", "crew", "b", "--no-tmux")
    wait_until(lambda: crew.states()["b"] == "DONE")
    assert (lives(program), crew.program("a") == program) == (True, True)
    crew.gate("a").touch()
    wait_until(lambda: crew.status() == "complete")


def test_of_two_at_once_one_is_refused(crew: Root) -> None:
    crew.write({"a": "I am a"})
    crew.launch()
    wait_until(lambda: crew.status() == "complete")
    crew.prompt("a", crew.waits("a"))
    words = ("relaunch", str(crew.root), "a", "--no-tmux")
    with (
        started(crew.folder, *words, **crew.env) as one,
        started(crew.folder, *words, **crew.env) as two,
    ):
        ended = sorted((one.end(), two.end()))
    assert [e.code for e in ended] == [0, 2], ended
    assert ended[1].err.count("\n") == 1
    assert len(list(crew.log("a").parent.glob("session.jsonl.*.bak"))) <= 1


def test_new_fields_of_the_worker_count_and_new_parents_are_refused(crew: Root) -> None:
    crew.write({"a": "I am a", "b": "I am b"})
    crew.launch()
    wait_until(lambda: crew.status() == "complete")
    fleet_file = crew.root / "fleet.json"
    stated = json.loads(fleet_file.read_text())
    stated["workers"][1]["model"] = "haiku"
    fleet_file.write_text(json.dumps(stated))
    crew.ok("relaunch", "crew", "b", "--no-tmux")
    wait_until(lambda: crew.status() == "complete")
    spec = json.loads((crew.root / "workers/b/spec.json").read_text())
    assert "haiku" in spec["words"]
    stated["workers"][1]["depends_on"] = ["a"]
    fleet_file.write_text(json.dumps(stated))
    ended = crew.fanfold("relaunch", "crew", "b", "--no-tmux")
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
