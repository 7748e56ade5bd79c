"""Orders to a fleet: on record, taken up by its supervisor, kept when it is resumed."""

from __future__ import annotations

import json
import os
import signal

import pytest

from fanfold.fleet.runs import reading
from fanfold.members.agents.continuing import CONTINUE
from tests.faces.fleet_root import Root, lives, under_way
from tests.faces.stand_in import SESSION
from tests.waiting import wait_until

pytestmark = pytest.mark.slow


def orders(team: Root) -> list[tuple[str, str, str]]:
    with reading(team.store) as archive:
        given = archive.read.orders(archive.read.runs()[-1].no)
    return [(one.what, one.value, one.state) for one in given]


def cap(team: Root, id: str) -> str:
    """What a worker was started with."""
    listed = words(team, id)
    return listed[listed.index("--max-budget-usd") + 1]


def words(team: Root, id: str) -> list[str]:
    return [str(one) for one in json.loads(team.written(id, "spec.json"))["words"]]


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


def test_one_that_is_told_to_end_while_nothing_is_under_way_ends_at_once_and_has_it_on_record(
    team: Root,
) -> None:
    team.write({"a": team.waits("a"), "b": "I am b"}, b=["a"])
    pid = team.launch()["pid"]
    team.program("a")
    team.ok("pause", "team")
    team.gate("a").touch()
    wait_until(lambda: under_way(team.store) == 0)
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not lives(pid))
    stop = ("stop", "ended by SIGTERM", "done")
    assert (team.status(), orders(team)) == ("paused", [("pause", "", "done"), stop])


# ── sessions ─────────────────────────────────────────────────────────────────────────────────


def sent(team: Root, id: str) -> str:
    """What a worker was started with."""
    return team.written(id, "prompt.txt")


def test_a_worker_continues_in_its_session_with_a_raised_cap_and_what_it_is_told(
    team: Root,
) -> None:
    team.write({"a": "I am a\nFAIL"})
    team.launch()
    wait_until(lambda: team.status() == "flagged")
    assert "a.max_budget_usd=2, when" in team.ok("set", "team", "a.max_budget_usd=2").out
    assert "gets the message at its next start" in team.ok("tell", "team", "a", "Mind the gap.").out
    team.ok("relaunch", "team", "a", "--continue", "--no-tmux")
    wait_until(lambda: team.status() == "complete")
    assert sent(team, "a") == f"{CONTINUE}\n\nMind the gap."
    assert words(team, "a")[words(team, "a").index("--resume") + 1] == SESSION
    assert cap(team, "a") == "2"
    assert [one[0] for one in orders(team)] == ["set", "tell", "continue"]
    team.prompt("a", "I am another")
    team.ok("relaunch", "team", "a", "--continue", "--no-tmux")
    wait_until(lambda: team.status() == "complete" and "I am another" in sent(team, "a"))
    assert "--resume" in words(team, "a"), "a new prompt is sent in the old session"
    team.ok("relaunch", "team", "a", "--no-tmux")
    wait_until(lambda: "--resume" not in words(team, "a"))
    wait_until(lambda: team.status() == "complete")
    assert sent(team, "a").startswith("I am another"), "from zero, and nothing of earlier orders"


def test_a_worker_that_is_told_something_reads_it_while_it_works(team: Root) -> None:
    heard, later = team.root / "heard.txt", team.root / "later.txt"
    team.write({"a": f"I am a\nHEAR {heard}\nHEAR {later}"})
    pid = team.launch()["pid"]
    team.program("a")
    assert "its program has the message" in team.ok("tell", "team", "a", "Mind the gap.").out
    wait_until(heard.exists)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not lives(pid))
    assert (
        "gets the message at its next start"
        in team.ok("tell", "team", "a", 'And "then"\nthis ✓').out
    )
    team.ok("resume", "team", "--quiet")
    assert (heard.read_text(), later.read_text()) == ("Mind the gap.", 'And "then"\nthis ✓')
    assert team.states() == {"a": "DONE"}, "it was adopted, and has got each message once"
    assert "told: Mind the gap." in team.ok("view", "team", "a").out
    team.ok("relaunch", "team", "a", "--no-tmux")
    team.program("a")
    assert "gap" not in sent(team, "a"), "nothing of earlier messages"


def test_one_that_is_waiting_or_takes_no_messages_is_told_at_its_next_start(team: Root) -> None:
    team.write({"a": team.waits("a"), "b": "I am b"}, b=["a"])
    team.launch()
    team.program("a")
    assert "gets the message at its next start" in team.ok("tell", "team", "b", "Be brief.").out
    team.gate("a").touch()
    wait_until(lambda: team.status() == "complete")
    assert sent(team, "b").startswith("I am b") and sent(team, "b").endswith("\n\nBe brief.")


def test_resume_continues_those_in_doubt_in_their_sessions(team: Root) -> None:
    team.write({"a": team.waits("a"), "b": "I am b"}, b=["a"])
    pid = team.launch()["pid"]
    program = team.program("a")
    os.kill(pid, signal.SIGKILL)
    os.kill(program, signal.SIGKILL)
    wait_until(lambda: not lives(pid) and not lives(program))
    wait_until(lambda: (team.root / "workers/a/exit.json").exists())
    team.ok("resume", "team", "--continue", "--quiet")
    assert (sent(team, "a"), team.states()) == (CONTINUE, {"a": "DONE", "b": "DONE"})
    assert "--resume" in words(team, "a") and "--resume" not in words(team, "b")


def test_what_cannot_be_continued_is_refused_and_nothing_is_started(team: Root) -> None:
    team.write({"a": "I am a\nFAIL", "b": "I am b"}, b=["a"])
    team.launch()
    wait_until(lambda: team.status() == "flagged")
    team.log("a").unlink()
    ended = team.fanfold("relaunch", "team", "a", "--continue", "--no-tmux")
    said = (
        "a cannot be continued: a ended before it had a session; from zero: fanfold relaunch team a"
    )
    assert (ended.code, ended.err) == (2, f"fanfold: {said}\n")
    refused = team.fanfold("tell", "team", "c", "hello")
    assert (refused.code, team.runs()) == (2, 1)
    assert "there is no worker 'c' in team" in refused.err


def test_a_session_that_the_file_names_is_continued_with_the_prompt(team: Root) -> None:
    team.write({"a": "I am a"})
    file = team.root / "fleet.json"
    stated = json.loads(file.read_text())
    stated["workers"][0]["session"] = SESSION
    file.write_text(json.dumps(stated))
    team.launch()
    wait_until(lambda: team.status() == "complete")
    assert words(team, "a")[words(team, "a").index("--resume") + 1] == SESSION
    assert sent(team, "a").startswith("I am a")
