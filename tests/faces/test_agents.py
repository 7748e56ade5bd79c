"""Real agents as orchestrators. They are not part of the project: `make agents` fetches them.

Each test runs in a network of its own that has only loopback.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.waiting import LONG

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CHILD = Path(__file__).with_name("agent_child.py")
ALONE = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
SECONDS = 3 * LONG  # for all of them, of which each has as long


def program(name: str) -> str:
    """Where an agent is: as a variable says, or where `make agents` puts it. The program itself, not
    the script in front of it, where there is one."""
    stated = os.environ.get(f"FANFOLD_TEST_{name.upper()}")
    modules = ROOT / ".agents" / "node_modules"
    native = sorted(modules.glob(f"@openai/{name}-*/vendor/*/bin/{name}"))
    there = [str(path) for path in (*native, modules / ".bin" / name) if path.exists()]
    if stated is None and not there:
        pytest.skip(f"{name} is not there; fetch it with `make agents`")
    return stated or there[0]


def alone() -> None:
    """Skips where no network of its own can be had."""
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        pytest.skip("no network of its own can be made here")
    if subprocess.run([*ALONE, "true"], capture_output=True).returncode:
        pytest.skip("this user may not make a network of its own")


@pytest.fixture(scope="module", autouse=True)
def _alone() -> None:
    alone()


def driven(who: str, folder: Path) -> dict[str, Any]:
    name = who.partition("-")[0]
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    }
    command = [*ALONE, sys.executable, str(CHILD), who, program(name), str(folder)]
    ended = subprocess.run(command, env=env, capture_output=True, timeout=SECONDS)
    assert ended.returncode == 0, ended
    found: dict[str, Any] = msgspec.json.decode(ended.stdout)
    return found


@pytest.mark.parametrize(
    "who", ["claude", "codex", pytest.param("codex-command", marks=pytest.mark.sweep)]
)
def test_an_agent_delegates_three_parts_to_three_members(who: str, tmp_path: Path) -> None:
    """It calls the tools `menu` and `delegate_many` of the real server over stdio; the tree has one
    parent and three children; the answer holds all three; the money adds up. codex is driven both as
    a member of its own kind and as a plain command."""
    found = driven(who, tmp_path)
    assert found["code"] == 0, found
    receipt, tree = msgspec.json.decode(found["out"]), msgspec.json.decode(found["tree"])
    assert (receipt["status"], receipt["member"]) == ("complete", who)
    answer = msgspec.json.decode(receipt["result"].removeprefix("All of it: "))
    assert [(one["text"], one["member"]) for one in answer["results"]] == [
        ("Sum this up", "alba"), ("Is this legal?", "bruno"), ("What is 2+2?", "carla"),
    ]  # fmt: skip
    delegated = receipt["delegated"]
    assert delegated["calls"] == 3
    assert delegated["cost_usd"] == pytest.approx(sum(one["cost_usd"] for one in answer["results"]))
    assert receipt["cost_usd"] > 0
    assert receipt["tokens"]["input"] > 0 or who == "codex-command"  # which tells no tokens
    check_tree(tree, receipt)


def check_tree(tree: dict[str, Any], receipt: dict[str, Any]) -> None:
    whole = receipt["cost_usd"] + receipt["delegated"]["cost_usd"]
    assert tree["total"]["cost_usd"] == pytest.approx(whole)
    (parent,) = tree["steps"][0]["attempts"]
    assert (parent["member"], parent["cost_usd"]) == (receipt["member"], receipt["cost_usd"])
    (below,) = parent["children"]
    children = below["steps"][0]["attempts"]
    assert [(one["member"], one["verdict"]) for one in children] == [
        ("alba", "passed"), ("bruno", "passed"), ("carla", "passed"),
    ]  # fmt: skip
    assert all(one["cost_usd"] > 0 and one["tokens"]["input"] > 0 for one in children)
