"""The real codex as a member. It is not part of the project: `make agents` fetches it.

All cases run in one process, in a network that has only loopback (see codex_runs.py).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.faces.test_agents import ALONE, ROOT, alone, program
from tests.waiting import LONG

pytestmark = pytest.mark.slow

CHILD = Path(__file__).with_name("codex_runs.py")
SECONDS = 3 * LONG  # for all of them, of which each has as long
CALL = 272_000 * 1.25e-6 + 128_000 * 10e-6


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    alone()
    folder = tmp_path_factory.mktemp("codex")
    (folder / "tmp").mkdir()
    env = {
        "PATH": os.environ["PATH"],
        "TMPDIR": str(folder / "tmp"),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    }
    command = [*ALONE, sys.executable, str(CHILD), program("codex"), str(folder)]
    ended = subprocess.run(command, env=env, capture_output=True, timeout=SECONDS)
    assert ended.returncode == 0, ended
    found: dict[str, Any] = msgspec.json.decode(ended.stdout)
    return found


def test_it_works_with_tools_and_the_cost_is_what_the_server_billed(ran: dict[str, Any]) -> None:
    found = ran["works"]
    assert (found["made"], found["text"]) == ("Reply", "all done")
    assert found["files"] == ["made.txt", "patched.txt"]
    assert (found["calls"], found["cost"]) == (3, pytest.approx(found["bill"], rel=0.02))
    assert found["bill"] > 0


def test_a_resumed_session_does_not_count_twice(ran: dict[str, Any]) -> None:
    found, before = ran["goes on"], ran["works"]
    assert (found["made"], found["session"]) == ("Reply", before["session"])
    assert found["cost"] == pytest.approx(found["bill"], rel=0.02)
    assert 0 < found["bill"] < before["bill"]


def test_a_read_only_worker_writes_nothing(ran: dict[str, Any]) -> None:
    found = ran["looks"]
    assert (found["made"], found["files"]) == ("Reply", [])
    assert "Read-only file system" in found["text"]


def test_only_research_reaches_the_network(ran: dict[str, Any]) -> None:
    """Not even loopback."""
    assert ran["is cut off"]["text"].endswith("CUT OFF\n")
    assert ran["researches"]["text"].endswith("REACHED\n")


def test_its_commands_do_not_see_the_key(ran: dict[str, Any]) -> None:
    assert ran["has no key"]["text"].endswith("\n0\n")


def test_server_errors_after_all_retries(ran: dict[str, Any]) -> None:
    found = ran["fails"]
    assert (found["made"], found["lost"], found["cost"]) == ("Transient", False, 0)
    assert found["calls"] == 4


def test_asked_too_often(ran: dict[str, Any]) -> None:
    found = ran["is slowed down"]
    assert (found["made"], found["lost"], found["cost"]) == ("RateLimited", False, 0)


def test_a_schema_is_asked_for_but_not_checked_here(ran: dict[str, Any]) -> None:
    """That is for the gate."""
    assert (ran["gives data"]["made"], ran["gives data"]["data"]) == ("Reply", {"n": 1})
    found = ran["gives no data"]
    assert (found["made"], found["text"], found["data"]) == ("Reply", "not json", None)


def test_killed_by_a_stranger(ran: dict[str, Any]) -> None:
    """In doubt, with the session to go on with, and at most one call unknown: of the context as it
    stood, with what can have been written by then."""
    found = ran["is killed"]
    assert (found["made"], found["lost"]) == ("MemberError", True)
    assert found["session"] and found["text"].endswith(f"its session is {found['session']}")
    assert found["bill"] <= found["cost"] < CALL / 10


def test_it_is_stopped_at_its_budget(ran: dict[str, Any]) -> None:
    """$0.1 a call, a cap of $0.45: the fifth call passes it, and a sixth may just have begun."""
    found = ran["spends"]
    assert (found["made"], found["scope"]) == ("Terminal", "ask")
    assert found["calls"] in (5, 6)
    assert 0.45 <= found["bill"] <= 0.45 + 0.2
    assert found["bill"] - 0.1 <= found["cost"] <= 0.45 + 0.1 + CALL


def test_it_is_stopped_at_its_turns(ran: dict[str, Any]) -> None:
    found = ran["turns"]
    assert (found["made"], found["scope"]) == ("Terminal", "ask")
    assert "limit of 2 turns" in found["text"]
    assert found["calls"] in (3, 4)
