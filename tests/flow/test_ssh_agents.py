"""Agents on a host over ssh: they outlive connections and workers, and end with their ask."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from tests.faces.cli import fanfold, started
from tests.faces.project import write_items
from tests.flow.test_remote_agents import AGENT, PLAN, STAND_IN, alive
from tests.flow.test_ssh import workers_of
from tests.sshd import SshServer, sshd
from tests.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def host(tmp_path: Path) -> Iterator[SshServer]:
    with sshd(tmp_path / "host") as running:
        yield running


def prepared(host: SshServer, folder: Path, texts: list[str]) -> Path:
    """The folder of a run whose agents are on the host."""
    run = folder / "run"
    run.mkdir()
    (run / "plan.yaml").write_text(PLAN)
    write_items(run, texts)
    program = host.home / "claude"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_IN} "$@"\n')
    program.chmod(0o755)
    here = AGENT.format("claude-is-not-here", f", at: {host.place}")
    (run / "roster.yaml").write_text(f"members: [{here}]")
    (host.home / "workers.yaml").write_text(f"members: [{AGENT.format(program, '')}]")
    return run


def waiting(folder: Path, count: int) -> list[str]:
    return [f"agent {n}\nSTART {folder}/child{n}\nWAIT {folder}/go{n}" for n in range(count)]


def begun(folder: Path, count: int) -> bool:
    return len(list(folder.glob("child?"))) == count


def fanfold_processes(host: SshServer) -> list[int]:
    """Workers of this host; agents have other words."""
    return [pid for pid in workers_of(host.home) if b"--stdio" in _words(pid)]


def _words(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("how", ["connection", "worker"])
def test_agents_outlive_what_connected_them(host: SshServer, tmp_path: Path, how: str) -> None:
    """They are waited for, one that ended meanwhile is read; none is paid again, and no process is left."""
    run_folder = prepared(host, tmp_path, waiting(tmp_path, 2))
    with started(run_folder, "run", "plan.yaml", "--json") as run:
        run.until(lambda: begun(tmp_path, 2))
        if how == "connection":
            host.cut()
        else:
            for pid in fanfold_processes(host):
                with suppress(ProcessLookupError):
                    os.kill(pid, 9)
        (tmp_path / "go0").touch()
        (tmp_path / "go1").touch()
        ended = run.end()
    assert ended.code == 0, ended
    receipt = ended.receipt
    assert (receipt["passed"], receipt["calls"], receipt["maybe_paid_twice"]) == (2, 2, 0)
    assert receipt["cost_usd"] == pytest.approx(0.5)
    wait_until(lambda: workers_of(host.home) == [])


def test_agents_outlive_the_run(host: SshServer, tmp_path: Path) -> None:
    """Those that a resumed run took over can be killed as all others."""
    run_folder = prepared(host, tmp_path, waiting(tmp_path, 2))
    with started(run_folder, "run", "plan.yaml", "--json") as run:
        run.until(lambda: begun(tmp_path, 2))
        run.process.kill()
        run.process.wait()
    (tmp_path / "go0").touch()

    def kill() -> str:
        return fanfold(run_folder, "kill", "fleet", "i1", "--json").out

    with started(run_folder, "resume", "fleet", "--json") as resumed:
        resumed.until(lambda: '"killed":["i1"]' in kill())
        ended = resumed.end()
    assert ended.code == 1, ended
    receipt = ended.receipt
    assert (receipt["passed"], receipt["failed"], receipt["maybe_paid_twice"]) == (1, 1, 0)
    assert 0.25 <= receipt["cost_usd"] < 1.0
    wait_until(lambda: workers_of(host.home) == [])


def test_kill_returns_when_the_tree_on_the_host_is_gone(host: SshServer, tmp_path: Path) -> None:
    run_folder = prepared(host, tmp_path, waiting(tmp_path, 2))
    with started(run_folder, "run", "plan.yaml", "--json") as run:
        run.until(lambda: begun(tmp_path, 2))
        children = [int((tmp_path / f"child{n}").read_text()) for n in range(2)]
        killed = fanfold(run_folder, "kill", "fleet", "i0")
        assert (killed.code, [alive(child) for child in children]) == (0, [False, True]), killed
        (tmp_path / "go1").touch()
        ended = run.end()
    receipt = ended.receipt
    assert (receipt["passed"], receipt["failed"], receipt["in_doubt"]) == (1, 1, 0)
    assert 0.25 <= receipt["cost_usd"] < 1.0, "what it took, not what was reserved"
    wait_until(lambda: workers_of(host.home) == [])


def test_looking_at_agents_on_a_host_is_as_looking_at_those_here(
    host: SshServer, tmp_path: Path
) -> None:
    """What they cost so far, what they say, and how they ended."""
    run_folder = prepared(host, tmp_path, waiting(tmp_path, 2))

    def shown(*words: str) -> str:
        return fanfold(run_folder, *words).out

    with started(run_folder, "run", "plan.yaml", "--json") as run:
        run.until(lambda: begun(tmp_path, 2))
        run.until(lambda: shown("status", "fleet", "-v").count("~$0.0006 / $1.00") == 2)
        assert shown("status", "fleet", "-v").count("RUNNING") == 2
        assert "agent 0" in shown("view", "fleet", "i0")
        assert "assistant                       agent 1" in shown("feed", "fleet")
        (tmp_path / "go0").touch()
        (tmp_path / "go1").touch()
        ended = run.end()
    assert ended.code == 0, ended
    assert "✓ agent 1" in shown("view", "fleet", "i1")


def test_an_agent_on_a_host_is_told_something_while_it_works(
    host: SshServer, tmp_path: Path
) -> None:
    heard = tmp_path / "heard"
    run_folder = prepared(
        host, tmp_path, [f"agent\nWRITE {tmp_path}/child0\nHEAR {heard}\nWAIT {tmp_path}/go0"]
    )
    with started(run_folder, "run", "plan.yaml", "--json") as run:
        run.until(lambda: begun(tmp_path, 1))
        told = fanfold(run_folder, "tell", "fleet", "i0", "Mind the gap.")
        assert "its program has the message" in told.out, told
        run.until(heard.exists)
        run.until(lambda: "told: Mind the gap." in fanfold(run_folder, "view", "fleet", "i0").out)
        (tmp_path / "go0").touch()
        ended = run.end()
    assert ended.code == 0, ended
    assert heard.read_text() == "Mind the gap."


def test_a_killed_agent_on_a_host_can_be_launched_again(host: SshServer, tmp_path: Path) -> None:
    (text,) = waiting(tmp_path, 1)
    run_folder = prepared(host, tmp_path, [text])
    task = {"id": "w", "prompt": text, "verbatim": True}
    steps = [{"graph": {"member": "a", "tasks": [task]}}]
    (run_folder / "plan.yaml").write_bytes(
        msgspec.json.encode({"name": "fleet", "budget": {"usd": 100}, "steps": steps})
    )
    with started(run_folder, "run", "plan.yaml", "--json") as run:
        run.until(lambda: begun(tmp_path, 1))
        assert fanfold(run_folder, "kill", "fleet", "w").code == 0
        assert run.end().code == 1
    (tmp_path / "go0").touch()
    again = fanfold(run_folder, "relaunch", "fleet", "w", "--no-tmux")
    assert again.code == 0, again
    wait_until(lambda: "Done: 1" in fanfold(run_folder, "status", "fleet").out)
    wait_until(lambda: workers_of(host.home) == [])
