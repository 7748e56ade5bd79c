"""Fleets among bad luck and bad manners: nothing is started twice, nothing is lost, and what is said
is true. Judged by processes, by the workers' own count of their starts, and by the books."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faces.cli import Ended, fanfold, started
from tests.faces.disk import fill, small_disk
from tests.faces.fleet_root import cleared, lives
from tests.faces.odd_fleet import OddRoot, holders, odd_fleet
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

LONE = 1.416  # dollars that are reserved for a claude worker on sonnet that may take one


@pytest.fixture
def team(tmp_path: Path) -> Iterator[OddRoot]:
    with odd_fleet(tmp_path) as root:
        yield root


def end(pid: int) -> None:
    """At once, and it cannot do a thing about it."""
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not lives(pid))


def host_of(team: OddRoot, id: str) -> int:
    return int(json.loads((team.root / "workers" / id / "host.json").read_text())["host"]["pid"])


# ── who dies ─────────────────────────────────────────────────────────────────────────────────


def test_a_worker_that_ended_well_without_its_host_is_harvested(team: OddRoot) -> None:
    """Its exit code is lost, but it has said how it ended; nothing is in doubt."""
    team.plan(
        {"id": "a", "do": f"WAIT {team.gate('a')}\nCOST 0.3"}, {"id": "b", "depends_on": ["a"]}
    )
    team.launch()
    program = team.program("a")
    end(host_of(team, "a"))
    assert lives(program)
    team.gate("a").touch()
    assert team.over() == "complete"
    assert (team.starts(), team.account()["cost_usd"]) == ({"a": 1, "b": 1}, 0.31)
    assert not (team.root / "workers/a/exit.json").exists()


def test_supervisor_and_host_die_and_the_worker_is_adopted_all_the_same(team: OddRoot) -> None:
    team.plan(
        {"id": "a", "do": f"WAIT {team.gate('a')}\nCOST 0.3"}, {"id": "b", "depends_on": ["a"]}
    )
    pid = team.launch()["pid"]
    program = team.program("a")
    end(pid)
    end(host_of(team, "a"))
    team.ok("resume", str(team.root), "--detach")
    assert lives(program)
    team.gate("a").touch()
    assert team.over() == "complete"
    assert (team.starts(), team.account()["cost_usd"]) == ({"a": 1, "b": 1}, 0.31)


def test_a_worker_that_was_being_started_when_the_supervisor_died_never_began(
    team: OddRoot,
) -> None:
    """Its record was written, but no host came: it is begun as if for the first time."""
    team.plan({"id": "a", "do": f"WAIT {team.gate('a')}"})
    pid = team.launch()["pid"]
    program = team.program("a")
    end(pid)
    end(host_of(team, "a"))
    end(program)
    (team.root / "workers/a/host.json").unlink()
    team.gate("a").touch()
    ended = team.fanfold("resume", str(team.root), "--json", "--quiet")
    receipt = ended.receipt
    assert (ended.code, receipt["status"], receipt["maybe_paid_twice"]) == (0, "complete", 0)
    assert receipt["cost_usd"] == 0.01


def test_what_a_deaf_worker_and_its_daemon_do_when_they_are_killed(team: OddRoot) -> None:
    child = team.folder / "child"
    team.plan({"id": "a", "do": f"DEAF\nSTART {child}\nWAIT {team.gate('a')}"})
    team.launch()
    program = team.program("a")
    wait_until(child.exists)
    assert team.ok("kill", "team", "a").out == "killed a; again: fanfold relaunch team a\n"
    assert (lives(program), lives(int(child.read_text()))) == (False, False)


def test_kill_all_wins_over_a_relaunch_that_is_under_way(team: OddRoot) -> None:
    waits = f"WAIT {team.gate('all')}"
    team.plan({"id": "a", "do": waits}, {"id": "b", "do": waits}, {"id": "x", "do": "FAIL"})
    pid = team.launch()["pid"]
    programs = [team.program("a"), team.program("b")]
    wait_until(lambda: team.states()["x"] == "FAILED")
    words = ("relaunch", "team", "x", "--no-tmux")
    with started(team.folder, *words, **team.env) as relaunching:
        relaunching.until(lambda: not lives(pid))
        killed = team.ok("kill", str(team.root), "all", "--force")
        relaunching.end()
    assert killed.out.startswith("killed team (")
    assert [lives(one) for one in programs] == [False, False]
    assert (team.on_record(), team.account()["liveness"]["supervisor"]) == ("killed", "finished")


def test_kill_all_names_everyone_it_ended(team: OddRoot) -> None:
    """Also those that the supervisor was quicker to end; as planned, whoever began first."""
    waits = f"WAIT {team.gate('all')}"
    team.plan(
        {"id": "w0", "do": waits, "depends_on": ["x"]},
        *({"id": f"w{n}", "do": waits} for n in (1, 2)), {"id": "x"},
    )  # fmt: skip
    run = team.launch()["run"]
    for n in range(3):
        team.program(f"w{n}")
    killed = team.ok("kill", "team", "all")
    assert killed.out == f"killed team ({run}): w0, w1, w2\n"
    again = team.ok("kill", str(team.root), "all")
    assert again.out == f"team ({run}) had already ended, killed: nothing to kill\n"


def test_what_is_shown_of_a_killed_worker_nobody_settled_agrees_with_the_books(
    team: OddRoot,
) -> None:
    team.plan({"id": "a", "do": f"WAIT {team.gate('a')}"})
    pid = team.launch()["pid"]
    team.program("a")
    team.answered("a")
    end(pid)
    team.ok("kill", str(team.root), "all", "--force")
    account, shown = team.account(), team.seen()["a"]
    assert (shown["status"], shown["at_most"]) == ("KILLED", True)
    assert 0 < shown["cost"] < LONE / 2, "by its log: it had one call, and one may be under way"
    assert account["cost_usd"] == account["summary"]["total_cost"] == shown["cost"]
    assert account["cost_at_most"]


# ── one fleet, one run at a time ─────────────────────────────────────────────────────────────


def test_a_fleet_under_way_is_not_begun_beside_itself(team: OddRoot) -> None:
    """Not in the foreground, nor under another name: both would work in the same folders."""
    team.plan({"id": "a", "do": f"WAIT {team.gate('a')}"})
    run = team.launch()["run"]
    team.program("a")
    refused = Ended(2, "", f"fanfold: team ({run}) is already running; see: fanfold status team\n")
    root = str(team.root)
    for words in (("run", root), ("run", root, "--name", "x"), ("launch", root, "--name", "x")):
        assert team.fanfold(*words) == refused
    team.gate("a").touch()
    assert (team.over(), team.starts(), team.runs()) == ("complete", {"a": 1}, 1)
    again = team.fanfold("run", root)
    assert (again.code, "team has finished" in again.err) == (2, True)
    assert team.fanfold("run", root, "--fresh", "--quiet").code == 0
    assert team.starts() == {"a": 2}


def test_a_rehearsal_does_not_stand_in_the_way_of_the_fleet(team: OddRoot) -> None:
    team.plan({"id": "a"})
    roster = team.folder / "r.yaml"
    roster.write_text("members:\n  - {id: a, kind: command, cmd: [cat], price: {call: 0}}\n")
    for _ in range(2):
        rehearsed = team.fanfold("run", str(team.root), "--roster", "r.yaml", "--quiet", "--fresh")
        assert rehearsed.code == 0, rehearsed
    team.launch()
    assert (team.over(), team.starts()) == ("complete", {"a": 1})


def test_a_name_stays_with_the_run_that_is_under_way(team: OddRoot, tmp_path: Path) -> None:
    """`fanfold kill team all` must not come to mean another fleet."""
    (tmp_path / "far").mkdir()
    other = OddRoot(tmp_path / "far")
    other.env["XDG_STATE_HOME"] = team.env["XDG_STATE_HOME"]
    (tmp_path / "away").mkdir()
    with cleared(other):
        for root in (team, other):
            root.plan({"id": "a", "do": f"WAIT {root.gate('a')}"})
        first = team.launch()
        second = other.ok("launch", str(other.root), "--no-tmux")
        assert second.err == (
            f"fanfold: warning: team is also the name of the run in {team.root}, which is under"
            " way\n"
        )
        assert f"--store {other.store}" in second.out.splitlines()[1]
        programs = team.program("a"), other.program("a")
        killed = fanfold(tmp_path / "away", "kill", "team", "all", **team.env)
        assert killed.out == f"killed team ({first['run']}): a\n"
        assert [lives(one) for one in programs] == [False, True]


def test_one_whose_parent_failed_is_not_relaunched_before_it(team: OddRoot) -> None:
    team.plan({"id": "a", "do": "FAIL"}, {"id": "b", "depends_on": ["a"]})
    team.launch()
    assert team.over() == "flagged"
    refused = team.fanfold("relaunch", "team", "b", "--no-tmux")
    text = "fanfold: b depends on a, which failed; first: fanfold relaunch team a\n"
    assert refused == Ended(2, "", text)


# ── odd surroundings ─────────────────────────────────────────────────────────────────────────


def test_a_folder_with_blanks_quotes_and_letters_of_the_world(tmp_path: Path) -> None:
    folder = tmp_path / 'it\'s a "q" $HOME; ünï 日本'
    folder.mkdir()
    with odd_fleet(folder) as team:
        codex = {"provider": "codex", "model": "gpt-5.4", "do": "RECORD 1000 100\nTOKENS 1000 100"}
        out = team.root / "workers/a/output/made.md"
        team.plan({"id": "a", "do": f"WRITE {out}"}, {"id": "b", **codex, "depends_on": ["a"]})
        team.launch()
        assert (team.over(), out.read_text()) == ("complete", "I am a")
        assert {id: one["cost"] for id, one in team.seen().items()} == {"a": 0.01, "b": 0.004}


def test_a_prompt_that_is_gone_does_no_harm_to_a_run_that_has_it(team: OddRoot) -> None:
    team.plan({"id": "a", "do": f"WAIT {team.gate('a')}"}, {"id": "b", "depends_on": ["a"]})
    pid = team.launch()["pid"]
    team.program("a")
    end(pid)
    (team.root / "workers/b/prompt.md").unlink()
    team.gate("a").touch()
    assert team.fanfold("resume", str(team.root), "--quiet").code == 0
    assert team.starts() == {"a": 1, "b": 1}


def test_a_launch_on_a_full_disk_says_so(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk, odd_fleet(disk) as team:
        team.plan({"id": "a"})
        fill(disk)
        ended = fanfold(tmp_path, "launch", str(team.root), "--no-tmux", **team.env)
        assert (ended.code, ended.out) == (2, "")
        assert ended.err == f"fanfold: {team.store}: the disk is full; make room\n"
        wait_until(lambda: holders(disk) == [])


def test_isolation_without_a_repository_is_refused_at_launch(team: OddRoot) -> None:
    team.plan({"id": "a", "isolation": "worktree"})
    ended = team.fanfold("launch", str(team.root))
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert f"needs a git repository with a commit in {team.root}" in ended.err
    assert not team.store.exists()


def test_where_there_is_no_store_all_that_was_launched_is_listed(team: OddRoot) -> None:
    team.plan({"id": "a"})
    run = team.launch()["run"]
    assert team.over() == "complete"
    (row,) = json.loads(team.ok("status", "--json").out)
    assert (row["run"], row["name"], row["status"]) == (run, "team", "complete")
    missing = team.fanfold("status", "crow")
    assert missing == Ended(2, "", "fanfold: no run 'crow'; there are: team\n")


# ── odd words ────────────────────────────────────────────────────────────────────────────────


def test_logs_of_rubbish_and_of_a_hundred_megabytes(team: OddRoot) -> None:
    codex = {"provider": "codex", "model": "gpt-5.4"}
    team.plan(
        {"id": "a", "do": "GARBAGE"}, {"id": "b", **codex, "do": "GARBAGE"},
        {"id": "c", "do": "FLOOD 100"},
    )  # fmt: skip
    team.launch()
    assert team.over() == "complete"
    assert team.log("c").stat().st_size > 100_000_000
    assert team.states() == {"a": "DONE", "b": "DONE", "c": "DONE"}
    shown = team.ok("view", "team", "a").out + team.ok("feed", "team").out
    assert "\x1b" not in shown and "I am a" in shown


# ── what it would cost ───────────────────────────────────────────────────────────────────────


def test_the_preview_of_a_fleet_is_bounded_by_its_caps(team: OddRoot) -> None:
    team.plan({"id": "a"}, {"id": "b", "max_turns": 3, "depends_on": ["a"]})
    total = team.ok("run", str(team.root), "--dry-run", "--json").receipt["total"]
    assert (total["worst_usd"], total["p50_usd"], total["tokens"]) == (2 * LONE, LONE / 2, None)
    assert total["p50_usd"] < total["p90_usd"] < total["worst_usd"]
    team.launch()
    assert team.over() == "complete"
    known = team.ok("run", str(team.root), "--dry-run", "--json").receipt["total"]
    assert (known["p50_usd"], known["tokens"]) == (0.02, {"input": 200, "output": 40})
    assert known["worst_usd"] == 2 * LONE


def test_agents_in_a_map_are_bounded_by_their_caps_and_kick_backs(team: OddRoot) -> None:
    """What goes into a kick-back makes its ask longer, but no agent dearer than its cap."""
    program = team.env["FANFOLD_CLAUDE"]
    member = "id: ag, kind: claude, model: sonnet, max_budget_usd: 1"
    (team.folder / "roster.yaml").write_text(f"members: [{{{member}, program: {program}}}]\n")
    step = "{map: {prompt: '{{ item.id }}', member: ag, gate: [{regex: never}], revise: 1}}"
    (team.folder / "p.yaml").write_text(f"name: p\ninput: {{count: 3}}\nsteps: [{step}]\n")
    total = team.ok("run", "p.yaml", "--dry-run", "--json").receipt["total"]
    assert (total["calls_at_most"], total["worst_usd"]) == (6, pytest.approx(6 * LONE))
    ended = team.fanfold("run", "p.yaml", "--budget", "12", "--json", "--quiet")
    assert (ended.code, ended.receipt["kicked"], ended.receipt["calls"]) == (1, 3, 6)


def test_codex_without_a_known_price_is_warned_about(team: OddRoot) -> None:
    codex = {"provider": "codex", "model": "nobody-knows"}
    team.plan({"id": "a", **codex}, {"id": "b", **codex, "timeout_seconds": 60})
    ended = team.ok("launch", str(team.root), "--no-tmux")
    assert ended.err == (
        "warning: no price is known for the model of `a`, so what codex spends there has"
        " no limit: name a model, or set `max_turns` or `timeout_seconds`\n"
    )
    assert team.over() == "complete"


# ── long ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(20))
def test_a_supervisor_killed_at_any_moment_starts_nobody_twice_and_loses_nobody(
    team: OddRoot, seed: int
) -> None:
    """At moments by chance: this is about them, so here time does pass."""
    rng, ids = random.Random(seed), [f"w{n}" for n in range(6)]
    slow = f"WAIT {team.gate('slow')}"
    team.plan(
        *({"id": id, "do": slow if n % 3 == 0 else "", "depends_on": ids[max(0, n - 3) : n - 2]
           if n > 2 else []} for n, id in enumerate(ids)),
        max_budget_fleet=50,
    )  # fmt: skip
    pid = team.launch()["pid"]
    for turn in range(rng.randint(1, 4)):
        time.sleep(rng.random() * rng.choice([0.05, 0.5, 1.0]))
        if turn == 1:
            team.gate("slow").touch()
        if team.on_record() != "running":
            break
        if lives(pid):
            end(pid)
        pid = team.ok("resume", str(team.root), "--detach", "--json").receipt["pid"]
    team.gate("slow").touch()
    assert team.over() == "complete"
    account = team.account()
    assert team.starts() == dict.fromkeys(ids, 1)
    assert (account["cost_usd"], account["maybe_paid_twice"]) == (pytest.approx(0.06), 0)


@pytest.mark.sweep
def test_two_hundred_workers(team: OddRoot) -> None:
    team.plan(*({"id": f"w{n}"} for n in range(200)))
    pid = team.launch()["pid"]
    wait_until(lambda: not lives(pid), seconds=1800)
    assert (team.on_record(), set(team.starts().values())) == ("complete", {1})
    assert team.account()["summary"]["done"] == len(team.starts()) == 200
