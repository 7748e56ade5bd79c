"""Fleets of the real claude and codex: `make agents` fetches them. Judged by processes, files and the
model server's books, not by the tool's own word."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.faces.test_agents import ALONE, ROOT, alone, program
from tests.waiting import LONG

pytestmark = pytest.mark.slow

SECONDS = 3 * LONG  # for all of them, of which each has as long
RUNS = Path(__file__).with_name("fleet_runs.py")


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    alone()
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    }
    folder = tmp_path_factory.mktemp("fleets")
    words = [program("claude"), program("codex"), str(folder)]
    command = [*ALONE, sys.executable, str(RUNS), *words]
    ended = subprocess.run(command, env=env, capture_output=True, timeout=SECONDS)
    assert ended.returncode == 0, ended.stderr[-4000:].decode()
    found: dict[str, Any] = msgspec.json.decode(ended.stdout)
    return found


def close(costs: dict[str, list[float]]) -> bool:
    """What we say is within 2 % of the server's books."""
    return all(abs(ours - theirs) <= 0.02 * theirs for ours, theirs in costs.values())


def test_six_workers_of_both_providers_in_a_diamond(seen: dict[str, Any]) -> None:
    first = seen["diamond"]["first"]
    ids = ["top", "left", "right", "bottom", "alone", "last"]
    assert (first["launched"], first["states"]) == (0, dict.fromkeys(ids, "DONE"))
    assert first["outputs"] == {id: ["finding.md"] for id in ids}
    assert close(first["costs"]) and all(theirs > 0 for _, theirs in first["costs"].values())


def test_what_a_dearer_fallback_took_is_in_the_books_and_within_the_budget(
    seen: dict[str, Any],
) -> None:
    """The model asked for costs a third of the one that answered."""
    found = seen["fallback"]
    ours, theirs = found["costs"]["w"]
    assert (found["launched"], found["states"], found["overrun"]) == (0, {"w": "FAILED"}, 0), found
    assert theirs > 0.3, "its last call passed its own budget"
    assert close(found["costs"]) and found["receipt"] == ours


def test_killed_workers_took_what_is_billed_and_at_most_one_call_of_their_context(
    seen: dict[str, Any],
) -> None:
    """A call of each hung when they were killed."""
    found = seen["killed"]
    costs = {id: found["costs"][id] for id in ("a", "ab", "codex")}
    assert all(theirs <= ours < theirs + 1.0 for ours, theirs in costs.values()), costs
    assert {id: found["at_most"][id] for id in costs} == dict.fromkeys(costs, True)


def test_each_began_after_its_parents_had_ended(seen: dict[str, Any]) -> None:
    began = seen["diamond"]["first"]["began"]
    pairs = [("top", "left"), ("top", "right"), ("left", "bottom"), ("right", "bottom"),
             ("bottom", "last")]  # fmt: skip
    assert all(began[parent][1] < began[child][0] for parent, child in pairs), began
    assert began["alone"][0] < began["top"][1], "it did not wait for anybody"


def test_a_worker_of_the_finished_fleet_is_relaunched_and_no_other_is_touched(
    seen: dict[str, Any],
) -> None:
    found = seen["diamond"]
    assert (found["relaunched"], found["untouched"], found["rotated"]) == (0, True, 1)
    assert set(found["states"].values()) == {"DONE"}
    both, second = found["cost"]
    assert both == pytest.approx(2 * second, rel=0.02)
    assert found["prompt"].startswith(
        "You are right. DO:write once more\nSave ALL output files to "
    )


def test_each_goes_wrong_in_its_own_way_and_is_paid_for_what_it_took(seen: dict[str, Any]) -> None:
    found = seen["endings"]
    states = dict.fromkeys(found["states"], "FAILED") | {"fine": "DONE"}
    costs = dict(found["costs"])
    ours, theirs = costs.pop("codex-spends")
    assert 0.98 * theirs <= ours <= theirs + 0.5, "a call under way at the stop counts at its most"
    assert (found["states"], close(costs)) == (states, True), found["costs"]
    said = found["said"]
    assert said["spends"] == "stopped at its budget of $0.1"
    assert said["turns"] == "stopped at its limit of turns: 2"
    assert "(500)" in said["fails"] and said["refuses"] == "the member refused to answer"
    ended = r"ended at \$0\.(66|99)00 of its limit of \$0\.5000"  # a call more if its host is slow
    assert re.match(ended, said["codex-spends"]), said["codex-spends"]
    assert said["after"] == "parent: fails failed"
    assert "| codex-spends | FAILED" in found["report"], "codex is told as it is"


def test_dependents_get_the_results_and_the_work_of_their_parents(seen: dict[str, Any]) -> None:
    """One parent failed, the dependent can do without; each has a worktree of its own."""
    found = seen["handed"]
    assert found["states"] == {
        "look": "DONE", "check": "DONE", "bad": "FAILED", "sum": "DONE", "reads": "DONE",
    }, found  # fmt: skip
    assert found["sent"]["check"].startswith("You are check. DO:note The note is there.\n")
    assert found["sent"]["sum"].endswith("There is no answer for: bad")
    assert found["trees"] == {
        "look": ["look.txt"], "check": ["check.txt", "look.txt"],
        "sum": ["check.txt", "look.txt", "sum.txt"],
        "reads": ["look.txt"],
    }  # fmt: skip
    noted = dict.fromkeys(("look", "check", "sum"), "The note is there.")
    assert found["last"] == noted | {"reads": "I have read it."}


def test_the_command_for_a_session_continues_it(seen: dict[str, Any]) -> None:
    """As a person would, but with one question and no terminal."""
    for id, (ended, before, after) in seen["handed"]["continued"].items():
        assert (ended, after > before) == (0, True), (id, seen["handed"])


def test_one_killed_behind_everybodys_back_is_in_doubt_with_its_session(
    seen: dict[str, Any],
) -> None:
    found = seen["shot"]
    assert found["states"] == {"victim": "IN DOUBT", "other": "DONE"}
    status = msgspec.json.decode(found["status"])
    assert (status["status"], status["in_doubt"]) == ("paused", 1)
    assert found["session"] in found["status"]


def test_when_the_supervisor_is_killed_its_workers_are_adopted_and_not_paid_again(
    seen: dict[str, Any],
) -> None:
    found = seen["orphaned"]
    assert (found["living"], found["crashed"]) == ({"slow": True, "slow-codex": True}, "crashed")
    receipt = found["receipt"]
    assert (found["resumed"], receipt["status"], receipt["passed"]) == (0, "complete", 4)
    assert (receipt["maybe_paid_twice"], receipt["calls"]) == (0, 1), "only `next` was started"
    assert found["asked"] == dict.fromkeys(found["states"], 2), "two requests each, none again"
    assert close(found["costs"])
    assert found["outputs"] == {id: ["finding.md"] for id in found["states"]}


def test_kill_takes_a_grandchild_with_a_session_of_its_own_and_nobody_else(
    seen: dict[str, Any],
) -> None:
    found = seen["killed"]
    assert found["before"] == {"grandchild": True, "a": True, "ab": True, "codex": True}
    assert (found["code"], found["after"]) == (
        0, {"grandchild": False, "a": False, "ab": True, "codex": True},
    )  # fmt: skip
    assert (found["states"]["a"], found["states"]["ab"]) == ("KILLED", "RUNNING")


def test_kill_all_leaves_nobody(seen: dict[str, Any]) -> None:
    found = seen["killed"]
    assert (found["all"], found["run"]) == (0, "killed")
    assert found["left"] == {"a": False, "ab": False, "codex": False}
    assert {found["end"][id] for id in ("a", "ab", "codex")} == {"KILLED"}


def test_a_worker_that_was_stopped_at_its_cap_continues_its_conversation_with_a_raised_one(
    seen: dict[str, Any],
) -> None:
    """The server answers so only if it sees the task of the first start and what tools said then."""
    found = seen["raised"]
    assert found["before"] == {"claude": "FAILED", "codex": "FAILED"}
    assert found["codes"] == {"claude": [0, ""], "codex": [0, ""]}
    assert found["states"] == {"claude": "DONE", "codex": "DONE"}, found
    for id, said in found["last"].items():
        assert re.fullmatch(r"Continued after [1-9]\d* tools\.", said), (id, said)
    assert found["same"] == {"claude": True, "codex": True}
    for ours, theirs in found["costs"].values():  # a call under way at the stop counts at its most
        assert 0.98 * theirs <= ours <= theirs + 0.5, found["costs"]


def test_a_message_reaches_a_claude_at_work_and_a_codex_at_its_next_start(
    seen: dict[str, Any],
) -> None:
    """The model server answered when the message stood in the conversation, and not before."""
    found = seen["told"]
    assert "its program has the message" in found["said"]["claude"]
    assert "gets the message at its next start" in found["said"]["codex"]
    assert found["first"] == {"claude": "DONE", "codex": "KILLED"}, found
    assert found["states"] == dict.fromkeys(("claude", "codex"), "DONE"), found
    assert found["last"] == dict.fromkeys(("claude", "codex"), "I mind the gap.")
    assert found["same"] == {"claude": True, "codex": True}
    assert "told: Mind the gap, claude." in found["view"]
    assert close({"claude": found["costs"]})
