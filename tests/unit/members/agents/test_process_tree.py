"""Nothing slips away: a control group where there is one, else a parent that gets every orphan."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fanfold.members.agents.process_tree import ControlGroup, make_group, own_group
from tests.unit.members.agents import tree_child
from tests.unit.members.agents.hosted import (
    BODY,
    command_lines,
    daemon,
    number_in,
    python,
    runs,
    sh,
    until,
)
from tests.waiting import LONG

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="judged by /proc")

RELAY = """
import os, time
open({file!r}, "w").write("1;")
over = time.monotonic() + 600
while time.monotonic() < over:
    if os.fork():
        os._exit(0)
    os.setsid()
"""


@pytest.fixture
def group() -> Iterator[ControlGroup]:
    made = make_group(f"fanfold-test-{os.getpid()}-{time.time_ns()}")
    if made is None:
        pytest.skip("no control group can be made here")
    yield made
    made.kill()
    made.remove()
    assert not made.path.exists()


def test_a_group_ends_all_that_is_inside_in_one_step(group: ControlGroup, tmp_path: Path) -> None:
    words = daemon(tmp_path / "number", "time.sleep(300)", bare=True)
    gated = sh('read line; exec "$@"')
    program = subprocess.Popen((*gated, "sh", *words), stdin=subprocess.PIPE)
    group.add(program.pid)
    assert program.stdin is not None
    program.stdin.write(b"go\n")
    program.stdin.close()
    number = number_in(tmp_path / "number")
    assert sorted(group.pids()) == sorted((program.pid, number))
    group.kill()
    assert program.wait(timeout=LONG) == -9
    until(lambda: not runs(number))
    assert group.pids() == []


def test_a_group_is_below_our_own_group(group: ControlGroup) -> None:
    assert group.path.parent == own_group()
    assert (group.path.parent / "cgroup.procs").exists()


def test_a_group_that_is_gone_says_nothing(tmp_path: Path) -> None:
    nowhere = ControlGroup(tmp_path / "nowhere")
    nowhere.kill()
    nowhere.remove()
    assert nowhere.pids() == []
    with pytest.raises(FileNotFoundError):
        nowhere.add(os.getpid())


# ── without a control group ──


def end_tree(words: tuple[str, ...], tmp_path: Path, *, firm: bool, ready: Path) -> str:
    """What the parent says once it has ended a program that had written `ready`."""
    how = "firm" if firm else "loose"
    parent = subprocess.Popen(
        (sys.executable, tree_child.__file__, how, str(tmp_path / "go"), *words),
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        number_in(ready)
        (tmp_path / "go").touch()
        said, _ = parent.communicate(timeout=LONG)
        return said.strip()
    finally:
        parent.kill()
        parent.communicate()


def test_a_daemon_is_ended_although_it_left_session_parent_and_variables(tmp_path: Path) -> None:
    ready = tmp_path / "number"
    words = daemon(ready, "time.sleep(300)", bare=True)
    assert end_tree(words, tmp_path, firm=True, ready=ready) == "[] -9 True"
    assert not runs(number_in(ready))


def test_a_program_that_keeps_starting_others_is_ended(tmp_path: Path) -> None:
    ready = tmp_path / "number"
    code = (
        "import os, time\n"
        f"open({str(ready)!r}, 'w').write('1;')\n"
        "for _ in range(2000):\n"
        "    if not os.fork():\n"
        "        os.setsid(); time.sleep(300); os._exit(0)\n"
        "    time.sleep(0.002)\n"
    )
    assert end_tree(python(code), tmp_path, firm=True, ready=ready) == "[] -9 True"
    assert not any(str(ready) in line for line in command_lines())


def test_a_relay_of_processes_is_caught(tmp_path: Path) -> None:
    """Each starts the next and ends at once, so that a number is old when it is read."""
    ready = tmp_path / "number"
    code = RELAY.format(file=str(ready))
    said = end_tree(python(code), tmp_path, firm=True, ready=ready)
    assert said in ("[] 0 True", "[] -9 True"), "the first may be caught before it has ended"
    assert not any(str(ready) in line for line in command_lines())


def test_without_being_given_orphans_the_process_group_is_ended(tmp_path: Path) -> None:
    """As on systems that do not hand them over."""
    ready = tmp_path / "number"
    orphan = "import os, sys, time\nif os.fork(): os._exit(0)\n" + BODY.format(file=str(ready))
    assert end_tree(python(orphan), tmp_path, firm=False, ready=ready) == "[] 0 True"
    assert not runs(number_in(ready))
