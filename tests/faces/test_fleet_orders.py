"""Orders to a fleet: on record, taken up by its supervisor, kept when it is resumed."""

from __future__ import annotations

import json
import os
import signal

from fanfold.fleet.runs import reading
from tests.faces.fleet_root import Root, lives
from tests.waiting import wait_until


def orders(team: Root) -> list[tuple[str, str, str]]:
    with reading(team.store) as archive:
        given = archive.read.orders(archive.read.runs()[-1].no)
    return [(one.what, one.value, one.state) for one in given]


def cap(team: Root, id: str) -> str:
    """What a worker was started with."""
    words = json.loads((team.root / "workers" / id / "spec.json").read_text())["words"]
    return str(words[words.index("--max-budget-usd") + 1])


def test_the_cap_of_a_worker_is_set_while_the_fleet_runs_and_kept_by_resume(team: Root) -> None:
    team.write({"a": team.waits("a"), "b": team.waits("b"), "c": "I am c"}, b=["a"], c=["b"])
    pid = team.launch()["pid"]
    team.program("a")
    team.ok("set", "team", "b.max_budget_usd=2.5", "c.max_budget_usd=3")
    team.gate("a").touch()
    team.program("b")
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not lives(pid))
    team.gate("b").touch()
    team.ok("resume", "team", "--quiet")
    assert {id: cap(team, id) for id in "abc"} == {"a": "1", "b": "2.5", "c": "3"}
    refused = team.fanfold("set", "team", "b.max_budget_usd=no")
    assert (refused.code, "dollars above 0" in refused.err) == (2, True)


def test_a_cap_that_a_relaunch_states_anew_goes_before_an_order(team: Root) -> None:
    team.write({"a": team.waits("a"), "b": "I am b\nFAIL"})
    team.launch()
    wait_until(lambda: team.states()["b"] == "FAILED")
    team.ok("set", "team", "b.max_budget_usd=2")
    team.prompt("b", "I am b")
    team.ok("relaunch", "team", "b", "--no-tmux")
    wait_until(lambda: team.states()["b"] == "DONE")
    assert cap(team, "b") == "2"
    file = team.root / "fleet.json"
    file.write_text(file.read_text().replace("1.0", "4.0"))
    team.ok("relaunch", "team", "b", "--no-tmux")
    wait_until(lambda: len(list(team.log("b").parent.glob("spec.json.*.bak"))) == 2)
    wait_until(lambda: team.states()["b"] == "DONE")
    assert cap(team, "b") == "4"
    assert orders(team) == [
        ("set", "b.max_budget_usd=2", "done"), ("hand-over", "", "done"), ("hand-over", "", "done"),
        ("set", "b.max_budget_usd=4.0", "done"),
    ]  # fmt: skip
    team.gate("a").touch()
    wait_until(lambda: team.status() == "complete")


def test_that_a_supervisor_was_told_to_end_is_on_record_until_it_is_resumed(team: Root) -> None:
    team.write({"a": team.waits("a"), "b": "I am b"}, b=["a"])
    os.kill(team.launch()["pid"], signal.SIGTERM)
    wait_until(lambda: ("stop", "ended by SIGTERM", "done") in orders(team))
    team.gate("a").touch()
    wait_until(lambda: team.status() == "paused")
    team.ok("resume", "team", "--quiet")
    assert orders(team)[-1] == ("resume", "", "done")
