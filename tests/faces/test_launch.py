"""`fanfold launch`: everything is checked first; then the run outlives all that started it."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.faces.cli import Ended, environment, fanfold, started
from tests.faces.fleet_root import Root, lives, recorded, under_way
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

ROSTER = """\
members:
  - id: waiter
    kind: command
    cmd: [{python}, -S, {code}, {gate}]
    effects: true
"""
CODE = """\
import sys, time
from pathlib import Path
while not Path(sys.argv[1]).exists():
    time.sleep(0.01)
print(sys.stdin.read())
"""
PLAN = """\
name: wait
input: {count: 2}
steps:
  - map: {prompt: "{{ item.id }}", member: waiter}
"""
needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


class Project:
    """A plan whose commands wait for a file."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.gate, self.store = folder, folder / "gate", folder / ".fanfold"
        (folder / "wait.py").write_text(CODE)
        (folder / "plan.yaml").write_text(PLAN)
        (folder / "roster.yaml").write_text(
            ROSTER.format(python=sys.executable, code=folder / "wait.py", gate=self.gate)
        )

    def fanfold(self, *words: str, **env: str) -> Ended:
        return fanfold(self.folder, *words, **env)

    def launched(self, *words: str) -> dict[str, object]:
        ended = self.fanfold("launch", "plan.yaml", "--json", *words)
        assert (ended.code, ended.err) == (0, ""), ended
        return ended.receipt

    def status(self, run: str = "wait") -> str:
        (found,) = (one for one in recorded(self.store) if one.name == run)
        return found.status

    def until_both_are_under_way(self) -> None:
        wait_until(lambda: under_way(self.store) == 2)

    def finish(self, run: str = "wait") -> None:
        self.gate.touch()
        wait_until(lambda: self.status(run) == "complete")


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path)
    yield made
    if (tmp_path / ".fanfold").exists():
        made.fanfold("kill", ".", "all", "--force")


# ── what it says ─────────────────────────────────────────────────────────────────────────────


def test_it_returns_at_once_and_says_what_to_do_next(project: Project) -> None:
    ended = project.fanfold("launch", "plan.yaml")
    title, status, kill, log = ended.out.splitlines()
    run = title.removeprefix("launched wait (").partition(")")[0]
    assert (ended.code, ended.err) == (0, "")
    assert title == f"launched wait ({run}): 2 items"
    assert status == "status:  fanfold status wait"
    assert kill == "kill:    fanfold kill wait all"
    assert log == f"log:     {project.folder}/.fanfold/logs/wait.log"
    assert project.status() == "running"
    (entry,) = json.loads((project.folder / ".local/state/fanfold/registry.json").read_text())
    assert entry | {"pid": 0, "started_at": ""} == {
        "name": "wait", "root": str(project.folder), "store": f"{project.folder}/.fanfold",
        "run": run, "pid": 0, "started_at": "",
    }  # fmt: skip
    assert lives(entry["pid"])
    project.finish()
    wait_until(lambda: not lives(entry["pid"]))
    assert "wait complete" in (project.folder / ".fanfold/logs/wait.log").read_text()


def test_a_name_is_enough_from_another_folder(project: Project, tmp_path: Path) -> None:
    said = project.launched()
    other = tmp_path / "other"
    other.mkdir()
    shown = fanfold(other, "status", "wait", "--json", HOME=str(project.folder))
    assert shown.receipt["run"] == said["run"]
    tree = fanfold(other, "tree", "wait", "--json", HOME=str(project.folder))
    assert tree.code == 0, tree
    again = fanfold(other, "resume", "wait", HOME=str(project.folder))
    assert (again.code, "already running" in again.err) == (2, True)


def test_json_names_all_that_programs_need(project: Project) -> None:
    said = project.launched("--name", "a b")
    assert said | {"run": "", "pid": 0} == {
        "run": "", "name": "a b", "store": f"{project.folder}/.fanfold", "pid": 0,
        "log": f"{project.folder}/.fanfold/logs/a-b.log", "status": "fanfold status 'a b'",
    }  # fmt: skip


def test_a_registry_that_cannot_be_written_stops_nothing(project: Project) -> None:
    (project.folder / "file").write_text("")
    ended = project.fanfold("launch", "plan.yaml", FANFOLD_REGISTRY=f"{project.folder}/file/r.json")
    assert (ended.code, ended.err) == (0, "fanfold: warning: the registry cannot be written\n")
    assert f"--store {project.folder}/.fanfold" in ended.out.splitlines()[1]


# ── what is refused ──────────────────────────────────────────────────────────────────────────


def test_bad_input_is_refused_before_anything_is_touched(project: Project) -> None:
    before = sorted(path.name for path in project.folder.iterdir() if path.name[0] != ".")
    for words in (["no.yaml"], ["plan.yaml", "--roster", "no.yaml"], ["."]):
        ended = project.fanfold("launch", *words)
        assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1), ended
    assert not (project.folder / ".fanfold").exists()
    assert before == sorted(path.name for path in project.folder.iterdir() if path.name[0] != ".")


def test_what_only_the_supervisor_can_find_out_is_said_by_the_launcher(project: Project) -> None:
    ended = project.fanfold("launch", "plan.yaml", "--budget", "5")
    assert (ended.code, ended.out) == (2, "")
    assert "roster.yaml:" in ended.err and ": member waiter has no known price" in ended.err
    assert project.fanfold("status").out.startswith("no runs in this store yet")


def test_a_run_that_is_under_way_is_not_launched_twice(project: Project) -> None:
    said = project.launched()
    again = project.fanfold("launch", "plan.yaml")
    text = f"fanfold: wait ({said['run']}) is already running; see: fanfold status wait\n"
    assert again == Ended(2, "", text)
    project.finish()
    assert project.launched()["run"] != said["run"], "a plan may be run again when it is over"


def test_of_two_launchers_at_once_one_is_refused(project: Project) -> None:
    words = ("launch", "plan.yaml")
    with started(project.folder, *words) as one, started(project.folder, *words) as two:
        ended = sorted((one.end(), two.end()))
    assert [e.code for e in ended] == [0, 2]
    assert ended[1].err.count("\n") == 1
    assert "another process is launching" in ended[1].err or "already running" in ended[1].err
    assert len(json.loads(project.fanfold("status", "--json").out)) == 1


def test_a_cycle_touches_nothing_and_says_so_for_programs(team: Root) -> None:
    team.write({"a": "x", "b": "y"}, a=["b"], b=["a"])
    ended = team.fanfold("launch", str(team.root))
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.splitlines()[0] in ("CYCLE:a,b", "CYCLE:b,a")
    assert not team.store.exists()
    assert not (team.root / "logs").exists()


# ── a fleet that ran before ──────────────────────────────────────────────────────────────────


def test_a_finished_fleet_is_not_begun_anew_by_accident(team: Root) -> None:
    team.write({"a": "I am a"})
    first = team.launch()
    wait_until(lambda: team.status() == "complete")
    again = team.fanfold("launch", str(team.root), "--no-tmux")
    assert (again.code, again.err.count("\n")) == (2, 1)
    assert "fanfold relaunch team WORKER" in again.err
    assert f"fanfold launch {team.root} --force-relaunch" in again.err
    log = team.log("a").read_bytes()
    second = team.launch("--force-relaunch")
    assert second["run"] != first["run"]
    wait_until(lambda: team.status() == "complete")
    assert team.runs() == 2
    (old,) = team.log("a").parent.glob("session.jsonl.*.bak")
    assert old.read_bytes() == log, "asked again, and the old log is kept"


def test_a_fleet_that_stopped_says_how_to_go_on(team: Root) -> None:
    team.write({"a": team.waits("a"), "b": "I am b"}, b=["a"])
    said = team.launch()
    program = team.program("a")
    os.kill(said["pid"], signal.SIGKILL)
    wait_until(lambda: not lives(said["pid"]))
    again = team.fanfold("launch", str(team.root), "--no-tmux")
    text = "team crashed before it was done; to continue: fanfold resume"
    assert (again.code, again.err) == (2, f"fanfold: {text} {team.root} --detach\n")
    forced = team.fanfold("launch", str(team.root), "--no-tmux", "--force-relaunch")
    assert (forced.code, "still at work: a;" in forced.err) == (2, True), forced
    assert lives(program)
    resumed = team.ok("resume", str(team.root), "--detach", "--json").receipt
    assert (resumed["run"], resumed["pid"] != said["pid"]) == (said["run"], True)
    assert team.program("a") == program, "adopted, not started again"
    team.gate("a").touch()
    wait_until(lambda: team.status() == "complete")
    assert team.states() == {"a": "DONE", "b": "DONE"}


# ── what it survives ─────────────────────────────────────────────────────────────────────────


def handles(pid: int) -> dict[str, str]:
    """Those that are closed while we look are left out."""
    found = {}
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found[entry.name] = str(entry.readlink())
    return found


def test_the_supervisor_has_nothing_of_the_launcher(project: Project) -> None:
    said = project.launched()
    project.until_both_are_under_way()
    pid = int(str(said["pid"]))
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    parent, group, session, terminal = (int(word) for word in stat[1:5])
    assert terminal == 0
    assert session not in (pid, os.getsid(0)), "a session of its own, which it does not lead"
    assert group == session
    assert parent != os.getpid()
    held = handles(pid)
    log = f"{project.folder}/.fanfold/logs/wait.log"
    assert (held["0"], held["1"], held["2"]) == ("/dev/null", log, log)
    allowed = (f"{project.store}/", "anon_inode:", "socket:", "pipe:", "/dev/null")
    assert [path for path in held.values() if not path.startswith(allowed)] == []
    os.kill(pid, signal.SIGHUP)
    project.finish()


def test_it_outlives_its_terminal(project: Project) -> None:
    """A real terminal, which is closed while the run is under way."""
    child, handle = pty.fork()
    if child == 0:
        words = [sys.executable, "-m", "fanfold", "launch", "plan.yaml"]
        os.chdir(project.folder)
        os.execve(sys.executable, words, environment(project.folder))
    shown = b""
    while b"log:" not in shown:
        shown += os.read(handle, 4096)
    os.waitpid(child, 0)
    os.close(handle)
    entry = json.loads((project.folder / ".local/state/fanfold/registry.json").read_text())[0]
    assert lives(entry["pid"])
    project.finish()


@needs_tmux
def test_the_first_tmux_server_under_a_launch_keeps_no_lock_and_its_death_changes_nothing(
    team: Root,
) -> None:
    """Launched from inside tmux, with windows in tmux; then its server is killed."""
    team.write({"a": team.waits("a")})
    env = environment(team.folder, team.env)
    words = [sys.executable, "-m", "fanfold", "launch", str(team.root)]
    subprocess.run(
        ["tmux", "new-session", "-d", "-x", "120", "-y", "30", "-c", str(team.folder), *words],
        env=env, check=True,
    )  # fmt: skip
    program = team.program("a")
    entry = team.folder / "state/fanfold/registry.json"
    wait_until(entry.exists)
    refused = team.fanfold("launch", str(team.root))
    assert (refused.code, "is already running" in refused.err) == (2, True), refused
    subprocess.run(["tmux", "kill-server"], env=env, check=True)
    pid = json.loads(entry.read_text())[0]["pid"]
    assert lives(pid) and lives(program)
    team.gate("a").touch()
    wait_until(lambda: team.status() == "complete")


@needs_tmux
def test_a_tmux_server_that_the_launch_starts_does_not_block_the_next_one(team: Root) -> None:
    """The original's deadlock: the server inherited the launch lock, and held it for ever."""
    team.write({"a": "I am a"})
    team.ok("launch", str(team.root))
    env = environment(team.folder, team.env)
    listed = subprocess.run(["tmux", "list-windows", "-a", "-F", "#{session_name} #{window_name}"],
                            env=env, capture_output=True, text=True, check=True)  # fmt: skip
    assert "team a" in listed.stdout
    wait_until(lambda: team.status() == "complete")
    assert team.ok("launch", str(team.root), "--force-relaunch").code == 0
    wait_until(lambda: team.status() == "complete")
    listed = subprocess.run(["tmux", "list-sessions", "-F", "#{session_name}"], env=env,
                            capture_output=True, text=True, check=True)  # fmt: skip
    assert listed.stdout == "team\n", "the windows of the run before are closed"


# ── signals ──────────────────────────────────────────────────────────────────────────────────


def test_sigterm_pauses_and_resume_detached_goes_on(project: Project) -> None:
    said = project.launched()
    pid = int(str(said["pid"]))
    log = project.folder / ".fanfold/logs/wait.log"
    project.until_both_are_under_way()
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: "stopping: 2 calls are under way" in log.read_text())
    project.gate.touch()
    wait_until(lambda: not lives(pid))
    shown = project.fanfold("status", "wait", "--json").receipt
    assert (shown["status"], shown["passed"]) == ("paused", 2)
    resumed = project.fanfold("resume", "wait", "--detach")
    assert resumed.out.startswith(f"resumed wait ({said['run']}): 2 items\n")
    wait_until(lambda: project.status() == "complete")


def test_attached_without_tmux_it_follows_the_feed_to_the_end(team: Root) -> None:
    team.write({"a": team.waits("a")})
    words = ("launch", str(team.root), "--attach", "--no-tmux")
    with started(team.folder, *words, **team.env) as launching:
        launching.until(lambda: "I am a" in launching.shown)
        assert launching.shown.startswith("launched team (")
        team.gate("a").touch()
        assert launching.end().code == 0
    assert team.status() == "complete"
