"""What went wrong in the original fleet and must not come back: one test for each defect, named after
it. The agents are stand-ins; judged by processes and files where they can tell."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faces.cli import environment, started
from tests.faces.fleet_root import cleared, lives
from tests.faces.odd_fleet import OddRoot, holders, odd_fleet
from tests.faces.test_launch import handles
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

REAL = Path(__file__).parents[1] / "data/agent_clis/claude_real_service.jsonl"
BILL = 0.0180461  # of the log above, by its result
LONE = 1.416  # what is reserved for a claude worker on sonnet that may take one dollar


@pytest.fixture
def team(tmp_path: Path) -> Iterator[OddRoot]:
    with odd_fleet(tmp_path) as root:
        yield root


# ── the eight ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_1_a_launcher_that_deadlocks_on_its_own_lock(team: OddRoot) -> None:
    """It starts the first tmux server, which lives on: that must not inherit what is locked."""
    team.plan({"id": "a", "do": f"WAIT {team.gate('a')}"}, {"id": "b", "depends_on": ["a"]})
    team.ok("launch", str(team.root))
    team.program("a")
    env = environment(team.folder, team.env)
    listed = subprocess.run(["tmux", "list-sessions", "-F", "#{session_name} #{pid}"], env=env,
                            capture_output=True, text=True, check=True)  # fmt: skip
    session, pid = listed.stdout.split()
    assert (session, lives(int(pid))) == ("team", True)
    held = handles(int(pid)).values()
    assert [path for path in held if path.startswith(str(team.root))] == []
    team.gate("a").touch()
    assert team.over() == "complete"
    assert team.starts() == {"a": 1, "b": 1}
    assert team.ok("launch", str(team.root), "--force-relaunch").code == 0, "nor the next launch"
    assert team.over() == "complete"


@pytest.mark.parametrize("provider", ["claude", "codex"])
def test_2_relaunch_that_fails_on_a_finished_fleet(team: OddRoot, provider: str) -> None:
    who = {"provider": provider, "model": "sonnet" if provider == "claude" else "gpt-5.4"}
    team.plan({"id": "a", **who}, {"id": "b", **who})
    pid = team.launch()["pid"]
    assert team.over() == "complete"
    wait_until(lambda: not lives(pid))
    before, other = team.log("a").read_bytes(), team.log("b").read_bytes()
    team.prompt("a", f"I am a, better\nCOUNT {team.counts}\n")
    team.ok("relaunch", "team", "a", "--no-tmux")
    wait_until(lambda: team.starts()["a"] == 2)
    assert team.over() == "complete"
    assert (team.starts(), team.log("b").read_bytes()) == ({"a": 2, "b": 1}, other)
    assert "I am a, better" in team.log("a").read_text()
    (kept,) = team.log("a").parent.glob("session.jsonl.*.bak")
    assert kept.read_bytes() == before


def test_3_dependents_that_wait_for_ever_for_one_that_was_killed(team: OddRoot) -> None:
    team.plan(
        {"id": "a", "do": f"WAIT {team.gate('a')}"}, {"id": "b", "depends_on": ["a"]},
        {"id": "c", "depends_on": ["b"]},
    )  # fmt: skip
    pid = team.launch()["pid"]
    team.program("a")
    team.ok("kill", "team", "a")
    assert team.over() == "flagged"
    wait_until(lambda: not lives(pid))
    assert {id: (one["status"], one["error"]) for id, one in team.seen().items() if id != "a"} == {
        "b": ("FAILED", "parent: a failed"), "c": ("FAILED", "parent: b failed"),
    }  # fmt: skip
    assert (team.seen()["a"]["status"], team.starts()) == ("KILLED", {"a": 1})


def test_3_dependents_that_wait_for_ever_for_one_that_cannot_start(team: OddRoot) -> None:
    """Without a prompt, or not there at all: refused before anything starts."""
    team.plan({"id": "a"}, {"id": "b", "depends_on": ["a"]})
    (team.root / "workers/a/prompt.md").unlink()
    missing = team.fanfold("launch", str(team.root))
    team.plan({"id": "a"}, {"id": "b", "depends_on": ["aa"]})
    unknown = team.fanfold("launch", str(team.root))
    assert [(e.code, e.out, e.err.count("\n")) for e in (missing, unknown)] == [(2, "", 1)] * 2
    assert "workers/a/prompt.md" in missing.err
    assert "worker `b` depends on `aa`, which is not there" in unknown.err
    assert not team.store.exists() and not team.counts.exists()


def test_4_killing_a_also_kills_ab_or_a_of_another_fleet(team: OddRoot, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    other = OddRoot(tmp_path / "far", "other")
    other.env["XDG_STATE_HOME"] = team.env["XDG_STATE_HOME"]
    with cleared(other):
        for root in (team, other):
            waits = f"WAIT {root.gate('all')}"
            root.plan(
                {"id": "a", "do": waits}, {"id": "ab", "do": waits}, {"id": "a-2", "do": waits}
            )
            root.launch()
        programs = {
            (root.name, id): root.program(id) for root in (team, other) for id in ("a", "ab", "a-2")
        }
        team.ok("kill", "team", "a")
        assert [key for key, pid in programs.items() if not lives(pid)] == [("team", "a")]
        for root in (team, other):
            root.gate("all").touch()
        assert (team.over(), other.over()) == ("flagged", "complete")


def test_5_codex_workers_shown_as_running_at_no_cost(team: OddRoot) -> None:
    codex = {"provider": "codex", "model": "gpt-5.4", "max_budget_usd": 5}
    team.plan(
        {"id": "a", **codex,
         "do": f"RECORD 10000 2000\nTOKENS 20000 4000\nWAIT {team.gate('a')}"},
        {"id": "b", **codex, "do": "FAIL"},
    )  # fmt: skip
    team.launch()
    wait_until(lambda: team.seen()["b"]["status"] == "FAILED")
    wait_until(lambda: team.seen()["a"]["cost"] == 0.055)
    assert team.seen()["a"]["status"] == "RUNNING"
    team.gate("a").touch()
    assert team.over() == "flagged"
    assert (team.seen()["a"]["status"], team.seen()["a"]["cost"]) == ("DONE", 0.11)
    report = team.ok("report", "team").out
    assert "| a | SUCCESS | 0 | ~$0.11 / $5.00 | 1 |" in report
    assert "| b | FAILED (turn.failed) |" in report


def test_6_a_live_cost_far_too_low(team: OddRoot) -> None:
    """A log of the real service, without its result: within a hundredth of the bill."""
    team.plan({"id": "a", "model": "haiku", "do": f"REPLAY {REAL} {team.gate('a')}"})
    team.launch()
    wait_until(lambda: (team.seen()["a"]["cost"] or 0) > 0.9 * BILL)
    live = team.seen()["a"]
    assert (live["status"], live["estimated"]) == ("RUNNING", True)
    assert live["cost"] == pytest.approx(BILL, rel=0.01)
    team.gate("a").touch()
    assert team.over() == "complete"
    assert team.seen()["a"]["cost"] == team.account()["cost_usd"] == BILL


def test_7_a_budget_that_only_counts_finished_workers(team: OddRoot) -> None:
    """Two at their worst fit into it; the third has to wait, and then there is too little left."""
    team.plan(
        *({"id": id, "do": f"WAIT {team.gate('all')}\nCOST 1.2"} for id in "abc"),
        max_budget_fleet=3.0,
    )
    pid = team.launch()["pid"]
    team.program("a"), team.program("b")
    account = team.account()
    assert account["budget"] == {
        "spent_usd": 0.0, "reserved_usd": pytest.approx(2 * LONE), "limit_usd": 3.0,
        "overrun_usd": 0.0,
    }  # fmt: skip
    assert team.seen()["c"]["status"] == "PENDING"
    team.gate("all").touch()
    assert team.over() == "paused"
    wait_until(lambda: not lives(pid))
    assert (team.starts(), team.seen()["c"]["status"]) == ({"a": 1, "b": 1}, "UNFUNDED")
    assert team.account()["cost_usd"] == 2.4
    ended = team.fanfold("resume", str(team.root), "--budget", "6", "--json", "--quiet")
    assert (ended.code, ended.receipt["status"], ended.receipt["cost_usd"]) == (0, "complete", 3.6)
    assert team.starts() == {"a": 1, "b": 1, "c": 1}


def test_8_a_status_that_never_says_done(team: OddRoot) -> None:
    """Nor when nobody is left to write it down: workers that ended are told by their own files."""
    team.plan({"id": "a", "do": f"WAIT {team.gate('a')}"}, {"id": "b"})
    pid = team.launch()["pid"]
    team.program("a")
    wait_until(lambda: team.states() == {"a": "RUNNING", "b": "DONE"})
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not lives(pid))
    team.gate("a").touch()
    wait_until((team.root / "workers/a/exit.json").exists)
    assert team.states() == {"a": "DONE", "b": "DONE"}
    shown = team.ok("status", "team").out
    assert "Done: 2" in shown and "Running: 0" in shown and "supervisor: dead" in shown
    with started(team.folder, "status", "team", "--watch", **team.env) as watching:
        assert watching.end().code == 0, "nothing is left to watch"
    assert team.fanfold("resume", str(team.root), "--quiet").code == 0
    assert (team.account()["status"], team.starts()) == ("complete", {"a": 1, "b": 1})
    assert "supervisor: finished" in team.ok("status", "team").out


# ── and the smaller ones ─────────────────────────────────────────────────────────────────────


def test_elapsed_counts_from_the_first_start(team: OddRoot) -> None:
    """Not from the last one: it is known while others are still to come, and is no shorter after."""
    team.plan({"id": "a", "do": f"WAIT {team.gate('a')}"}, {"id": "b", "depends_on": ["a"]})
    team.launch()
    team.program("a")
    wait_until(lambda: team.account()["elapsed_seconds"] >= 2)
    assert team.seen()["b"]["elapsed_seconds"] is None
    team.gate("a").touch()
    assert team.over() == "complete"
    a, b = team.seen()["a"]["elapsed_seconds"], team.seen()["b"]["elapsed_seconds"]
    assert team.account()["seconds"] >= a + b > 1.0


def test_a_quote_in_a_task_spoils_nothing(team: OddRoot) -> None:
    task = 'say "hello"; $(rm -rf x) `id` \\ \' {"status": "DONE"}'
    team.plan({"id": "a", "task": task})
    team.launch()
    assert team.over() == "complete"
    assert team.states() == {"a": "DONE"}
    for file in ("spec.json", "host.json", "exit.json"):
        json.loads((team.root / "workers/a" / file).read_text())
    assert json.loads((team.root / "fleet.json").read_text())["workers"][0]["task"] == task


def test_the_program_of_every_worker_is_looked_for(team: OddRoot) -> None:
    """A codex worker in a fleet of claude: its program is missing."""
    team.plan({"id": "a"}, {"id": "b", "provider": "codex", "model": "gpt-5.4"})
    team.env["FANFOLD_CODEX"] = str(team.folder / "none")
    ended = team.fanfold("launch", str(team.root))
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert f"worker `b` needs the program {team.folder}/none" in ended.err
    assert not team.store.exists() and not team.counts.exists()


def test_lines_after_the_result_do_not_hide_it(team: OddRoot) -> None:
    codex = {"provider": "codex", "model": "gpt-5.4"}
    team.plan({"id": "a", "do": "MUTTER"}, {"id": "b", **codex, "do": "MUTTER"})
    team.launch()
    assert team.over() == "complete"
    assert team.states() == {"a": "DONE", "b": "DONE"}
    assert team.log("a").read_text().endswith("\nShell cwd was reset\n")
    assert (team.root / "workers/b/session.err").read_text() == "a warning on stderr\n"


def test_no_file_says_running_when_it_is_done(team: OddRoot) -> None:
    """Whoever reads files finds how each ended, and no file that still says that it runs."""
    team.plan({"id": "a"}, {"id": "b", "do": "FAIL"})
    stated = json.loads((team.root / "fleet.json").read_text())
    pid = team.launch()["pid"]
    assert team.over() == "flagged"
    wait_until(lambda: not lives(pid))
    codes = {id: json.loads((team.root / "workers" / id / "exit.json").read_text())["code"]
             for id in "ab"}  # fmt: skip
    assert codes == {"a": 0, "b": 1}
    assert not list(team.root.rglob("status.json"))
    assert json.loads((team.root / "fleet.json").read_text()) == stated
    assert holders(team.root) == []
