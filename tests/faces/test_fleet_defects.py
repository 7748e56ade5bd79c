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
from tests.waiting import wait_until

REAL = Path(__file__).parents[1] / "data/agent_clis/claude_real_service.jsonl"
BILL = 0.0180461  # of the log above, by its result
LONE = 1.416  # what is reserved for a claude worker on sonnet that may take one dollar


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[OddRoot]:
    with odd_fleet(tmp_path) as root:
        yield root


# ── the eight ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_1_a_launcher_that_deadlocks_on_its_own_lock(crew: OddRoot) -> None:
    """It starts the first tmux server, which lives on: that must not inherit what is locked."""
    crew.plan({"id": "a", "do": f"WAIT {crew.gate('a')}"}, {"id": "b", "depends_on": ["a"]})
    crew.ok("launch", str(crew.root))
    crew.program("a")
    env = environment(crew.folder, crew.env)
    listed = subprocess.run(["tmux", "list-sessions", "-F", "#{session_name} #{pid}"], env=env,
                            capture_output=True, text=True, check=True)  # fmt: skip
    session, pid = listed.stdout.split()
    assert (session, lives(int(pid))) == ("crew", True)
    held = [os.readlink(handle) for handle in Path(f"/proc/{pid}/fd").iterdir()]
    assert [path for path in held if path.startswith(str(crew.root))] == []
    crew.gate("a").touch()
    assert crew.over() == "complete"
    assert crew.starts() == {"a": 1, "b": 1}
    assert crew.ok("launch", str(crew.root), "--force-relaunch").code == 0, "nor the next launch"
    assert crew.over() == "complete"


@pytest.mark.parametrize("provider", ["claude", "codex"])
def test_2_relaunch_that_fails_on_a_finished_fleet(crew: OddRoot, provider: str) -> None:
    who = {"provider": provider, "model": "sonnet" if provider == "claude" else "gpt-5.4"}
    crew.plan({"id": "a", **who}, {"id": "b", **who})
    pid = crew.launch()["pid"]
    assert crew.over() == "complete"
    wait_until(lambda: not lives(pid))
    before, other = crew.log("a").read_bytes(), crew.log("b").read_bytes()
    crew.prompt("a", f"I am a, better\nCOUNT {crew.counts}\n")
    crew.ok("relaunch", "crew", "a", "--no-tmux")
    wait_until(lambda: crew.starts()["a"] == 2)
    assert crew.over() == "complete"
    assert (crew.starts(), crew.log("b").read_bytes()) == ({"a": 2, "b": 1}, other)
    assert "I am a, better" in crew.log("a").read_text()
    (kept,) = crew.log("a").parent.glob("session.jsonl.*.bak")
    assert kept.read_bytes() == before


def test_3_dependents_that_wait_for_ever_for_one_that_was_killed(crew: OddRoot) -> None:
    crew.plan(
        {"id": "a", "do": f"WAIT {crew.gate('a')}"}, {"id": "b", "depends_on": ["a"]},
        {"id": "c", "depends_on": ["b"]},
    )  # fmt: skip
    pid = crew.launch()["pid"]
    crew.program("a")
    crew.ok("kill", "crew", "a")
    assert crew.over() == "flagged"
    wait_until(lambda: not lives(pid))
    assert {id: (one["status"], one["error"]) for id, one in crew.seen().items() if id != "a"} == {
        "b": ("FAILED", "parent: a failed"), "c": ("FAILED", "parent: b failed"),
    }  # fmt: skip
    assert (crew.seen()["a"]["status"], crew.starts()) == ("KILLED", {"a": 1})


def test_3_dependents_that_wait_for_ever_for_one_that_cannot_start(crew: OddRoot) -> None:
    """Without a prompt, or not there at all: refused before anything starts."""
    crew.plan({"id": "a"}, {"id": "b", "depends_on": ["a"]})
    (crew.root / "workers/a/prompt.md").unlink()
    missing = crew.fanfold("launch", str(crew.root))
    crew.plan({"id": "a"}, {"id": "b", "depends_on": ["aa"]})
    unknown = crew.fanfold("launch", str(crew.root))
    assert [(e.code, e.out, e.err.count("\n")) for e in (missing, unknown)] == [(2, "", 1)] * 2
    assert "workers/a/prompt.md" in missing.err
    assert "worker `b` depends on `aa`, which is not there" in unknown.err
    assert not crew.store.exists() and not crew.counts.exists()


def test_4_killing_a_also_kills_ab_or_a_of_another_fleet(crew: OddRoot, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    other = OddRoot(tmp_path / "far", "other")
    other.env["XDG_STATE_HOME"] = crew.env["XDG_STATE_HOME"]
    with cleared(other):
        for root in (crew, other):
            waits = f"WAIT {root.gate('all')}"
            root.plan(
                {"id": "a", "do": waits}, {"id": "ab", "do": waits}, {"id": "a-2", "do": waits}
            )
            root.launch()
        programs = {
            (root.name, id): root.program(id) for root in (crew, other) for id in ("a", "ab", "a-2")
        }
        crew.ok("kill", "crew", "a")
        assert [key for key, pid in programs.items() if not lives(pid)] == [("crew", "a")]
        for root in (crew, other):
            root.gate("all").touch()
        assert (crew.over(), other.over()) == ("flagged", "complete")


def test_5_codex_workers_shown_as_running_at_no_cost(crew: OddRoot) -> None:
    codex = {"provider": "codex", "model": "gpt-5.4", "max_budget_usd": 5}
    crew.plan(
        {"id": "a", **codex,
         "do": f"RECORD 10000 2000\nTOKENS 20000 4000\nWAIT {crew.gate('a')}"},
        {"id": "b", **codex, "do": "FAIL"},
    )  # fmt: skip
    crew.launch()
    wait_until(lambda: crew.seen()["b"]["status"] == "FAILED")
    wait_until(lambda: crew.seen()["a"]["cost"] == 0.055)
    assert crew.seen()["a"]["status"] == "RUNNING"
    crew.gate("a").touch()
    assert crew.over() == "flagged"
    assert (crew.seen()["a"]["status"], crew.seen()["a"]["cost"]) == ("DONE", 0.11)
    report = crew.ok("report", "crew").out
    assert "| a | SUCCESS | 0 | ~$0.11 / $5.00 | 1 |" in report
    assert "| b | FAILED (turn.failed) |" in report


def test_6_a_live_cost_far_too_low(crew: OddRoot) -> None:
    """A log of the real service, without its result: within a hundredth of the bill."""
    crew.plan({"id": "a", "model": "haiku", "do": f"REPLAY {REAL} {crew.gate('a')}"})
    crew.launch()
    wait_until(lambda: (crew.seen()["a"]["cost"] or 0) > 0.9 * BILL)
    live = crew.seen()["a"]
    assert (live["status"], live["estimated"]) == ("RUNNING", True)
    assert live["cost"] == pytest.approx(BILL, rel=0.01)
    crew.gate("a").touch()
    assert crew.over() == "complete"
    assert crew.seen()["a"]["cost"] == crew.account()["cost_usd"] == BILL


def test_7_a_budget_that_only_counts_finished_workers(crew: OddRoot) -> None:
    """Two at their worst fit into it; the third has to wait, and then there is too little left."""
    crew.plan(
        *({"id": id, "do": f"WAIT {crew.gate('all')}\nCOST 1.2"} for id in "abc"),
        max_budget_fleet=3.0,
    )
    pid = crew.launch()["pid"]
    crew.program("a"), crew.program("b")
    account = crew.account()
    assert account["budget"] == {
        "spent_usd": 0.0, "reserved_usd": pytest.approx(2 * LONE), "limit_usd": 3.0,
        "overrun_usd": 0.0,
    }  # fmt: skip
    assert crew.seen()["c"]["status"] == "PENDING"
    crew.gate("all").touch()
    assert crew.over() == "paused"
    wait_until(lambda: not lives(pid))
    assert (crew.starts(), crew.seen()["c"]["status"]) == ({"a": 1, "b": 1}, "UNFUNDED")
    assert crew.account()["cost_usd"] == 2.4
    ended = crew.fanfold("resume", str(crew.root), "--budget", "6", "--json", "--quiet")
    assert (ended.code, ended.receipt["status"], ended.receipt["cost_usd"]) == (0, "complete", 3.6)
    assert crew.starts() == {"a": 1, "b": 1, "c": 1}


def test_8_a_status_that_never_says_done(crew: OddRoot) -> None:
    """Nor when nobody is left to write it down: workers that ended are told by their own files."""
    crew.plan({"id": "a", "do": f"WAIT {crew.gate('a')}"}, {"id": "b"})
    pid = crew.launch()["pid"]
    crew.program("a")
    wait_until(lambda: crew.states() == {"a": "RUNNING", "b": "DONE"})
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not lives(pid))
    crew.gate("a").touch()
    wait_until((crew.root / "workers/a/exit.json").exists)
    assert crew.states() == {"a": "DONE", "b": "DONE"}
    shown = crew.ok("status", "crew").out
    assert "Done: 2" in shown and "Running: 0" in shown and "supervisor: dead" in shown
    with started(crew.folder, "status", "crew", "--watch", **crew.env) as watching:
        assert watching.end().code == 0, "nothing is left to watch"
    assert crew.fanfold("resume", str(crew.root), "--quiet").code == 0
    assert (crew.account()["status"], crew.starts()) == ("complete", {"a": 1, "b": 1})
    assert "supervisor: finished" in crew.ok("status", "crew").out


# ── and the smaller ones ─────────────────────────────────────────────────────────────────────


def test_elapsed_counts_from_the_first_start(crew: OddRoot) -> None:
    """Not from the last one: it is known while others are still to come, and is no shorter after."""
    crew.plan({"id": "a", "do": f"WAIT {crew.gate('a')}"}, {"id": "b", "depends_on": ["a"]})
    crew.launch()
    crew.program("a")
    wait_until(lambda: crew.account()["elapsed_seconds"] >= 2)
    assert crew.seen()["b"]["elapsed_seconds"] is None
    crew.gate("a").touch()
    assert crew.over() == "complete"
    a, b = crew.seen()["a"]["elapsed_seconds"], crew.seen()["b"]["elapsed_seconds"]
    assert crew.account()["seconds"] >= a + b > 1.0


def test_a_quote_in_a_task_spoils_nothing(crew: OddRoot) -> None:
    task = 'say "hello"; $(rm -rf x) `id` \\ \' {"status": "DONE"}'
    crew.plan({"id": "a", "task": task})
    crew.launch()
    assert crew.over() == "complete"
    assert crew.states() == {"a": "DONE"}
    for file in ("spec.json", "host.json", "exit.json"):
        json.loads((crew.root / "workers/a" / file).read_text())
    assert json.loads((crew.root / "fleet.json").read_text())["workers"][0]["task"] == task


def test_the_program_of_every_worker_is_looked_for(crew: OddRoot) -> None:
    """A codex worker in a fleet of claude: its program is missing."""
    crew.plan({"id": "a"}, {"id": "b", "provider": "codex", "model": "gpt-5.4"})
    crew.env["FANFOLD_CODEX"] = str(crew.folder / "none")
    ended = crew.fanfold("launch", str(crew.root))
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert f"worker `b` needs the program {crew.folder}/none" in ended.err
    assert not crew.store.exists() and not crew.counts.exists()


def test_lines_after_the_result_do_not_hide_it(crew: OddRoot) -> None:
    codex = {"provider": "codex", "model": "gpt-5.4"}
    crew.plan({"id": "a", "do": "MUTTER"}, {"id": "b", **codex, "do": "MUTTER"})
    crew.launch()
    assert crew.over() == "complete"
    assert crew.states() == {"a": "DONE", "b": "DONE"}
    assert crew.log("a").read_text().endswith("\nShell cwd was reset\n")
    assert (crew.root / "workers/b/session.err").read_text() == "a warning on stderr\n"


def test_no_file_says_running_when_it_is_done(crew: OddRoot) -> None:
    """Whoever reads files finds how each ended, and no file that still says that it runs."""
    crew.plan({"id": "a"}, {"id": "b", "do": "FAIL"})
    stated = json.loads((crew.root / "fleet.json").read_text())
    pid = crew.launch()["pid"]
    assert crew.over() == "flagged"
    wait_until(lambda: not lives(pid))
    codes = {id: json.loads((crew.root / "workers" / id / "exit.json").read_text())["code"]
             for id in "ab"}  # fmt: skip
    assert codes == {"a": 0, "b": 1}
    assert not list(crew.root.rglob("status.json"))
    assert json.loads((crew.root / "fleet.json").read_text()) == stated
    assert holders(crew.root) == []
