"""Agents that workers start for runs on other machines: they outlive their worker, and end with their ask."""

from __future__ import annotations

import signal
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests import postgres
from tests.faces.cli import Program, fanfold, started
from tests.faces.project import write_items
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

STAND_IN = Path(__file__).parents[1] / "faces" / "stand_in.py"
AGENT = "{{id: a, kind: claude, model: claude-haiku-4-5, program: {}, max_budget_usd: 1{}}}"
PLAN = """\
name: fleet
budget: {usd: 100}
input: {jsonl: items.jsonl, id: id}
steps:
  - map: {prompt: "{{ item.text }}", member: a, concurrency: 4}
"""


class Machines:
    """One that runs the plan and has no agent; one that has. `place`: the store and the queue."""

    def __init__(self, folder: Path, texts: list[str]) -> None:
        self.run, self.mill, self.place = folder / "run", folder / "mill", postgres.server().place()
        self.run.mkdir()
        self.mill.mkdir()
        (self.run / "plan.yaml").write_text(PLAN)
        write_items(self.run, texts)
        program = self.mill / "claude"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_IN} "$@"\n')
        program.chmod(0o755)
        here = AGENT.format("claude-is-not-here", ", at: {tags: [mill]}")
        (self.run / "roster.yaml").write_text(f"members: [{here}]")
        (self.mill / "workers.yaml").write_text(f"members: [{AGENT.format(program, '')}]")

    def worker(self) -> AbstractContextManager[Program]:
        words = ("--queue", self.place, "--roster", "workers.yaml", "--tags", "mill,other")
        return started(self.mill, "worker", *words)

    def workers(self) -> str:
        """As `fanfold workers` tells them. A slot is free when what was in it is reported, a little after
        its processes are gone."""
        ended = fanfold(self.mill, "workers", "--queue", self.place)
        assert ended.code == 0, ended
        return ended.out

    def running(self) -> AbstractContextManager[Program]:
        return started(self.run, "run", "plan.yaml", "--store", self.place, "--json")


def test_agents_of_a_killed_worker_are_taken_over_by_the_next_on_its_machine(
    tmp_path: Path,
) -> None:
    """One that is at work is waited for, one that ended meanwhile is read; none is paid again."""
    texts = [f"agent {n}\nWRITE {tmp_path}/begun{n}\nWAIT {tmp_path}/go{n}" for n in range(2)]
    machines = Machines(tmp_path, texts)
    with machines.running() as run:
        with machines.worker() as first:
            first.until(lambda: len(list(tmp_path.glob("begun?"))) == 2)
            first.process.kill()
            first.process.wait()
        (tmp_path / "go0").touch()
        with machines.worker() as second:
            second.until_it_says("takes over a of ")
            (tmp_path / "go1").touch()
            ended = run.end()
    assert ended.code == 0, ended
    receipt = ended.receipt
    assert (receipt["passed"], receipt["calls"], receipt["maybe_paid_twice"]) == (2, 2, 0)
    assert receipt["cost_usd"] == pytest.approx(0.5)


def test_what_an_agent_started_elsewhere_ends_with_the_run_that_cancels_it(tmp_path: Path) -> None:
    machines = Machines(tmp_path, [f"agent\nSTART {tmp_path}/child\nWAIT {tmp_path}/never"])
    with machines.worker() as worker, machines.running() as run:
        worker.until(lambda: (tmp_path / "child").exists())
        child = int((tmp_path / "child").read_text())
        run.send(signal.SIGINT)
        run.until_it_says("stopping: 1 call")
        run.send(signal.SIGINT)
        assert run.end().code == 3
        wait_until(lambda: not alive(child))
        worker.until(lambda: " 0/8 " in machines.workers())


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_kill_ends_one_agent_on_another_machine_with_all_that_it_started(tmp_path: Path) -> None:
    """It returns when its processes are gone; the run goes on, and knows what the agent took."""
    texts = [f"agent {n}\nSTART {tmp_path}/child{n}\nWAIT {tmp_path}/go{n}" for n in range(2)]
    machines = Machines(tmp_path, texts)
    with machines.worker() as worker, machines.running() as run:
        worker.until(lambda: len(list(tmp_path.glob("child?"))) == 2)
        children = [int((tmp_path / f"child{n}").read_text()) for n in range(2)]
        killed = fanfold(machines.run, "kill", "fleet", "i0", "--store", machines.place)
        assert (killed.code, [alive(child) for child in children]) == (0, [False, True]), killed
        (tmp_path / "go1").touch()
        ended = run.end()
        assert ended.code == 1, ended
    receipt = ended.receipt
    assert (receipt["passed"], receipt["failed"], receipt["in_doubt"]) == (1, 1, 0)
    assert 0.25 <= receipt["cost_usd"] < 1.0, "what it took, not what was reserved"


def test_what_agents_of_workers_write_is_seen_where_the_run_is(tmp_path: Path) -> None:
    """What one costs so far, what it says, that it has a message; and the same after its end."""
    heard = tmp_path / "heard"
    machines = Machines(tmp_path, [f"agent\nHEAR {heard}\nWAIT {tmp_path}/go"])

    def shown(*words: str) -> str:
        return fanfold(machines.run, *words, "--store", machines.place).out

    with machines.worker() as worker, machines.running() as run:
        run.until(lambda: "~$0.0006 / $1.00" in shown("status", "fleet", "-v"))
        assert "its program has the message" in shown("tell", "fleet", "i0", "Mind the gap.")
        worker.until(heard.exists)
        run.until(lambda: "told: Mind the gap." in shown("view", "fleet", "i0"))
        (tmp_path / "go").touch()
        assert run.end().code == 0
    assert "✓ agent" in shown("view", "fleet", "i0")
