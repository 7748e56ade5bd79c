"""Files and repositories of agents on other machines: what they need goes there, what they did comes back.
The agent is a stand-in; the machines share only the database, or a connection of ssh."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import msgspec
import pytest

from tests import postgres
from tests.faces.cli import Ended, Program, fanfold, started
from tests.faces.project import write_items
from tests.sshd import sshd
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

STAND_IN = Path(__file__).parents[1] / "faces" / "stand_in.py"
AGENT = "{{id: a, kind: claude, model: claude-haiku-4-5, program: {}, max_budget_usd: 1, type: write{}}}"
PLAN = """\
name: work
budget: {usd: 100}
input: {jsonl: items.jsonl, id: id}
steps:
  - map: {prompt: "{{ item.text }}", member: a, concurrency: 4}
"""
ELSEWHERE = pytest.mark.parametrize("where", ["workers", "ssh"])


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=me", "-c", "user.email=me@localhost")
    done = subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, check=True)
    return done.stdout.decode()


class Machines:
    """One that runs the plan, and has no agent; one that has. `at`: as the first one names the other."""

    def __init__(self, folder: Path, where: str, stack: ExitStack) -> None:
        self.run, self.mill = folder / "run", folder / "mill"
        self.run.mkdir()
        program = folder / "claude"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_IN} "$@"\n')
        program.chmod(0o755)
        self.program, self.words, self.place = program, tuple[str, ...](), ""
        if where == "ssh":
            host = stack.enter_context(sshd(folder / "host"))
            self.mill, self.at = host.home, host.place
            keys = {"program": f"{host.folder}/fanfold", "config": f"{host.folder}/ssh_config"}
            self.fleet_at: object = {"ssh": [host.url], "roster": "fleet.json", **keys}
            named = f"export FANFOLD_CLAUDE={program}\nexec "
            script = host.folder / "fanfold"
            script.write_text(script.read_text().replace("exec ", named))
        else:
            self.mill.mkdir()
            self.place, self.at = postgres.server().place(), "workers"
            self.fleet_at = self.at
            self.words = ("--store", self.place)
        (self.mill / "workers.yaml").write_text(f"members: [{AGENT.format(program, '')}]")

    def plan(self, texts: list[str], more: str, steps: str = "") -> None:
        (self.run / "plan.yaml").write_text(
            PLAN.replace("concurrency: 4", f"concurrency: 4{steps}")
        )
        here = AGENT.format("claude-is-not-here", f", at: {self.at}{more}")
        (self.run / "roster.yaml").write_text(f"members: [{here}]")
        write_items(self.run, texts)

    def repository(self) -> None:
        git(self.run, "init", "--quiet", "--initial-branch", "main")
        (self.run / "facts").write_text("a fact")
        git(self.run, "add", "facts")
        git(self.run, "commit", "--quiet", "-m", "facts")

    def worker(self, roster: str = "workers.yaml") -> AbstractContextManager[Program]:
        words = ("worker", "--queue", self.place, "--roster", roster)
        return started(self.mill, *words, FANFOLD_CLAUDE=str(self.program))

    def running(self) -> AbstractContextManager[Program]:
        return started(self.run, "run", "plan.yaml", "--json", *self.words)

    def resumed(self) -> Ended:
        return fanfold(self.run, "resume", "work", "--json", *self.words)

    def branches(self) -> list[str]:
        return git(self.run, "branch", "--list", "fanfold/*", "--format=%(refname:short)").split()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def begun(machines: Machines, stack: ExitStack) -> Program:
    """A run whose agents have where to work."""
    if machines.place:
        stack.enter_context(machines.worker())
    return stack.enter_context(machines.running())


@ELSEWHERE
def test_an_agent_elsewhere_has_its_inputs_and_its_outputs_come_back(
    tmp_path: Path, stack: ExitStack, where: str
) -> None:
    """Also where its run is killed while it works, and resumed."""
    machines = Machines(tmp_path, where, stack)
    machines.plan(
        [f"agent {n}\nCOPY facts/{n} out/{n}\nWRITE {tmp_path}/begun{n}\nWAIT {tmp_path}/go"
         for n in range(2)],
        "", ', inputs: "facts/*", outputs: "out/{{ item.id[1:] }}"',
    )  # fmt: skip
    (machines.run / "facts").mkdir()
    for n in range(2):
        (machines.run / "facts" / str(n)).write_text(f"fact {n}")
    run = begun(machines, stack)
    run.until(lambda: len(list(tmp_path.glob("begun?"))) == 2)
    run.process.kill()
    run.process.wait()
    (tmp_path / "go").touch()
    ended = machines.resumed()
    receipt = ended.receipt
    assert (ended.code, receipt["passed"], receipt["calls"]) == (0, 2, 0), ended
    assert receipt["cost_usd"] == pytest.approx(0.5), "nothing was asked again"
    assert [(machines.run / "out" / str(n)).read_text() for n in range(2)] == ["FACT 0", "FACT 1"]


@ELSEWHERE
def test_a_worktree_is_made_where_the_agent_is_and_its_branch_comes_back(
    tmp_path: Path, stack: ExitStack, where: str
) -> None:
    """What was committed there and what was not; nothing is merged. Also where the run was killed."""
    machines = Machines(tmp_path, where, stack)
    machines.repository()
    work = (
        f"COPY facts committed\nCOMMIT\nCOPY facts left\nWRITE {tmp_path}/begun\nWAIT {tmp_path}/go"
    )
    machines.plan([work, "nothing"], ", isolation: worktree")
    run = begun(machines, stack)
    run.until((tmp_path / "begun").exists)
    run.process.kill()
    run.process.wait()
    (tmp_path / "go").touch()
    ended = machines.resumed()
    assert (ended.code, ended.receipt["passed"], ended.receipt["maybe_paid_twice"]) == (0, 2, 0), (
        ended
    )
    first, second = sorted(machines.branches())
    shown = {name: git(machines.run, "show", f"{first}:{name}") for name in ("committed", "left")}
    assert shown == {"committed": "A FACT", "left": "A FACT"}
    said = git(machines.run, "log", "--format=%s", f"main..{first}").splitlines()
    assert said == ["What a left without a commit", "work"]
    assert git(machines.run, "log", "--format=%s", f"main..{second}") == ""
    assert git(machines.run, "log", "--format=%s", "main").splitlines() == ["facts"]
    assert not (machines.run / "left").exists()


def test_a_repository_may_come_from_a_git_remote(tmp_path: Path, stack: ExitStack) -> None:
    """It need not be carried; what cannot be fetched is said in one line."""
    machines = Machines(tmp_path, "workers", stack)
    machines.repository()
    git(tmp_path, "clone", "--quiet", "--bare", str(machines.run), "origin.git")
    remote = tmp_path / "origin.git"
    machines.plan(["COPY facts more"], f", isolation: worktree, remote: 'file://{remote}'")
    ended = begun(machines, stack).end()
    assert (ended.code, ended.receipt["passed"]) == (0, 1), ended
    (branch,) = machines.branches()
    assert git(machines.run, "show", f"{branch}:more") == "A FACT"
    git(machines.run, "commit", "--quiet", "--allow-empty", "-m", "not pushed")
    ended = fanfold(machines.run, "run", "plan.yaml", "--json", "--fresh", *machines.words)
    why = fanfold(machines.run, "report", "work", *machines.words).out
    assert (ended.code, "cannot be fetched from file://" in why) == (1, True), why


# ── fleets ───────────────────────────────────────────────────────────────────────────────────


def write_fleet(machines: Machines, workers: list[dict[str, object]], **config: object) -> None:
    """Prompts name files below the folder of the fleet, which the other machine does not have."""
    stated = {"launch_delay_seconds": 0, "model": "claude-haiku-4-5", "at": machines.fleet_at}
    stated |= config
    for one in workers:
        folder = machines.run / "workers" / str(one["id"])
        folder.mkdir(parents=True)
        (folder / "prompt.md").write_text(str(one.pop("prompt")))
    fleet = {"fleet_name": "work", "config": stated, "workers": workers}
    (machines.run / "fleet.json").write_bytes(msgspec.json.encode(fleet))
    (machines.mill / "fleet.json").write_bytes(msgspec.json.encode(fleet))


@ELSEWHERE
def test_workers_of_a_fleet_run_elsewhere_with_what_their_parents_left(
    tmp_path: Path, stack: ExitStack, where: str
) -> None:
    """The host has a copy of fleet.json; files and results of parents go there, and outputs come back."""
    machines = Machines(tmp_path, where, stack)
    root = machines.run
    look = f"COPY {root}/facts.md {root}/workers/look/output/found.md"
    write = f"COPY {root}/workers/look/output/found.md {root}/workers/write/output/report.md"
    write_fleet(machines, [
        {"id": "look", "type": "write", "prompt": look, "inputs": ["facts.md"]},
        {"id": "write", "type": "write", "prompt": write, "depends_on": ["look"]},
    ])  # fmt: skip
    (root / "facts.md").write_text("facts")
    if machines.place:
        stack.enter_context(machines.worker("fleet.json"))
    ended = fanfold(root, "run", ".", "--json", *machines.words)
    assert (ended.code, ended.receipt["passed"], ended.receipt["calls"]) == (0, 2, 2), ended
    assert (root / "workers/write/output/report.md").read_text() == "FACTS"
    shown = fanfold(root, "status", "work", *machines.words).out
    assert "report.md" in fanfold(root, "report", "work", *machines.words).out
    assert "Done: 2" in shown, shown


@ELSEWHERE
def test_workers_of_a_fleet_elsewhere_are_handled_as_those_here(
    tmp_path: Path, stack: ExitStack, where: str
) -> None:
    """One begins with the branch of its parent. One is seen, told, killed and launched again."""
    machines = Machines(tmp_path, where, stack)
    root, heard, child = machines.run, tmp_path / "heard", tmp_path / "child"
    machines.repository()
    write_fleet(machines, [
        {"id": "look", "type": "write", "prompt": "COPY facts found\nCOMMIT"},
        {"id": "write", "type": "write", "prompt": "COPY found report", "depends_on": ["look"]},
        {"id": "wait", "type": "write", "prompt": f"START {child}\nHEAR {heard}\nWAIT {tmp_path}/go"},
    ], isolation="worktree")  # fmt: skip

    def shown(*words: str) -> str:
        return fanfold(root, *words, *machines.words).out

    if machines.place:
        stack.enter_context(machines.worker("fleet.json"))
    with started(root, "run", ".", "--json", *machines.words) as run:
        live = re.compile(r"^wait +RUNNING .* ~\$0\.00\d+ / \$1\.00", re.MULTILINE)
        run.until(lambda: live.search(shown("status", "work", "-v")) is not None)
        assert "its program has the message" in shown("tell", "work", "wait", "Mind the gap.")
        run.until(lambda: heard.exists() and "Done: 2" in shown("status", "work"))
        pid = int(child.read_text())
        assert '"killed":["wait"]' in shown("kill", "work", "wait", "--json")
        assert not alive(pid)
        ended = run.end()
    assert (ended.code, ended.receipt["passed"], ended.receipt["failed"]) == (1, 2, 1), ended
    _, branch = sorted(one for one in machines.branches() if "wait" not in one)
    assert git(root, "show", f"{branch}:report") == "A FACT"
    (tmp_path / "go").touch()
    prompt = root / "workers" / "wait" / "prompt.md"
    prompt.write_text(f"WAIT {tmp_path}/go")
    again = fanfold(root, "relaunch", "work", "wait", "--no-tmux", *machines.words)
    assert again.code == 0, again
    wait_until(lambda: "Done: 3" in shown("status", "work"))


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
