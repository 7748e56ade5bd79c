"""Members on a real Ray cluster of two nodes, whose roster and key only the nodes have. Ray has an
environment of its own (`make ray`). Calls are counted in the books of the model server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fanfold.price import dollars
from fanfold.testing.running import RunningServer, threaded_server
from tests.faces.cli import SRC, Program, fanfold
from tests.faces.project import MEMBER, PRICE, write_items, write_project
from tests.flow.test_remote_agents import AGENT, PLAN, STAND_IN
from tests.flow.test_remote_files import AGENT as FILES_AGENT
from tests.flow.test_remote_files import Machines, git
from tests.waiting import LONG

pytestmark = pytest.mark.slow
PYTHON = Path(__file__).parents[2] / ".ray" / "bin" / "python"
KEY = "    key: env:MODEL_KEY\n"


class RayCluster:
    """`end_node` ends the second node, as a crash would."""

    def __init__(self, folder: Path, roster: str) -> None:
        self._home = folder / "nodes"
        self._home.mkdir()
        (self._home / "workers.yaml").write_text(roster)
        env = {"PATH": os.environ["PATH"], "HOME": str(self._home), "PYTHONPATH": str(SRC),
               "FANFOLD_ROSTER": str(self._home / "workers.yaml"), "MODEL_KEY": "secret",
               "RAY_USAGE_STATS_ENABLED": "0"}  # fmt: skip
        with (folder / "ray.log").open("wb") as log:
            self._process = subprocess.Popen(
                [PYTHON, Path(__file__).with_name("ray_cluster.py")], env=env, cwd=self._home,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
        self.address = self._line()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().decode().strip()
        assert line, "the cluster did not start; see ray.log"
        return line

    def end_node(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"end\n")
        self._process.stdin.flush()
        assert self._line() == "ended"

    def close(self) -> None:
        self._process.communicate(timeout=LONG)


@pytest.fixture
def model(tmp_path: Path) -> Iterator[RunningServer]:
    if not PYTHON.exists():
        pytest.skip("Ray is not there: make ray")
    with threaded_server(tmp_path / "books.jsonl", price=PRICE, latency_ms=20.0) as running:
        yield running


def started(folder: Path, *words: str) -> Program:
    """The run has Ray too, and neither key nor program."""
    return RayProgram(folder, words, {"RAY_USAGE_STATS_ENABLED": "0"})


class RayProgram(Program):
    python = str(PYTHON)


@pytest.mark.parametrize("items", [40, 500])
def test_when_a_node_is_killed_only_what_it_held_is_in_doubt(
    model: RunningServer, tmp_path: Path, items: int
) -> None:
    run_folder = tmp_path / "run"
    write_project(run_folder, model.url, items=items, concurrency=6)
    write_items(run_folder, [f"word {n}." for n in range(items)])
    member = MEMBER.format(url=model.url)
    cluster = RayCluster(tmp_path, f"members:\n{member}{KEY}")
    try:
        roster = f"settings: {{queue: {cluster.address}}}\nmembers:\n{member}{KEY}    at: workers\n"
        (run_folder / "roster.yaml").write_text(roster)

        def asked() -> Counter[str]:
            return Counter(one.prompt for one in model.books().asked)

        run = started(run_folder, "run", "plan.yaml", "--json", "--allow-paid")
        run.until(lambda: len(asked()) >= items // 3)
        cluster.end_node()
        ended = run.end()
    finally:
        cluster.close()
    assert ended.code == 0, ended
    receipt, books = ended.receipt, asked()
    assert (receipt["passed"], len(books)) == (items, items)
    assert receipt["maybe_paid_twice"] <= 6, "as many as were under way"
    assert books.total() <= items + receipt["maybe_paid_twice"]
    bill = dollars(sum(entry.cost for entry in model.books().asked))
    assert bill <= receipt["cost_usd"] <= 100.0


def test_an_agent_on_a_node_outlives_the_run(model: RunningServer, tmp_path: Path) -> None:
    """Its actor is found by the resumed run, and is gone with its answer."""
    run_folder, program = tmp_path / "run", tmp_path / "claude"
    run_folder.mkdir()
    (run_folder / "plan.yaml").write_text(PLAN)
    write_items(run_folder, [f"agent\nWRITE {tmp_path}/begun\nWAIT {tmp_path}/go"])
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_IN} "$@"\n')
    program.chmod(0o755)
    cluster = RayCluster(tmp_path, f"members: [{AGENT.format(program, '')}]")
    try:
        here = AGENT.format("claude-is-not-here", ", at: {tags: [head]}")
        text = f"settings: {{queue: {cluster.address}}}\nmembers: [{here}]"
        (run_folder / "roster.yaml").write_text(text)
        run = started(run_folder, "run", "plan.yaml", "--json")
        run.until(lambda: (tmp_path / "begun").exists())
        run.until(lambda: "~$0.0006 / $1.00" in fanfold(run_folder, "status", "fleet", "-v").out)
        run.process.kill()
        run.process.wait()
        resumed = started(run_folder, "resume", "fleet", "--json")
        (tmp_path / "go").touch()
        ended = resumed.end()
    finally:
        cluster.close()
    assert ended.code == 0, ended
    receipt = ended.receipt
    assert (receipt["passed"], receipt["maybe_paid_twice"]) == (1, 0)
    assert receipt["cost_usd"] == pytest.approx(0.25)


def test_files_and_a_repository_go_to_a_node_and_come_back(
    model: RunningServer, tmp_path: Path
) -> None:
    machines = Machines(tmp_path, "workers", ExitStack())
    machines.repository()
    cluster = RayCluster(tmp_path, f"members: [{FILES_AGENT.format(machines.program, '')}]")
    try:
        machines.plan(
            ["COPY facts done\nCOPY new out/i0"], ", isolation: worktree",
            ', inputs: new, outputs: "out/{{ item.id }}"',
        )  # fmt: skip
        (machines.run / "new").write_text("not in git")
        roster = machines.run / "roster.yaml"
        roster.write_text(f"settings: {{queue: {cluster.address}}}\n{roster.read_text()}")
        ended = started(machines.run, "run", "plan.yaml", "--json").end()
    finally:
        cluster.close()
    assert (ended.code, ended.receipt["passed"]) == (0, 1), ended
    assert (machines.run / "out" / "i0").read_text() == "NOT IN GIT"
    (branch,) = machines.branches()
    assert git(machines.run, "show", f"{branch}:done") == "A FACT"


def test_a_cluster_that_is_not_there_is_named_in_one_line(
    model: RunningServer, tmp_path: Path
) -> None:
    write_project(tmp_path / "run", model.url, items=1)
    member = MEMBER.format(url=model.url)
    text = f"settings: {{queue: 'ray://127.0.0.1:9'}}\nmembers:\n{member}    at: workers\n"
    (tmp_path / "run" / "roster.yaml").write_text(text)
    ended = started(tmp_path / "run", "run", "plan.yaml", "--json", "--allow-paid").end()
    assert ended.code == 4, ended
    assert "ray://127.0.0.1:9: no connection to Ray" in ended.receipt["reason"]
