"""Messages to a program while it works, through its real host."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fanfold.members.agents import messages
from fanfold.members.agents.hosting import Host
from fanfold.members.agents.worker import LOG, Exit, WorkerLimits
from tests.unit.members.agents.hosted import Stage, python
from tests.waiting import wait_until

LISTENS = """
import json, sys
def tell(**event): print(json.dumps(event), flush=True)
def heard(): return json.loads(sys.stdin.readline())["message"]["content"]
def turn(n): tell(type="assistant", message=dict(id=f"m{n}", model="claude-haiku-4-5", content=[], usage={}))
"""


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    made.clear()


def lines(host: Host) -> list[dict[str, str]]:
    return [json.loads(line) for line in (host.place / LOG).read_text().splitlines()]


def ended(host: Host) -> Exit:
    exit = asyncio.run(asyncio.wait_for(host.ended(), 60))
    assert exit is not None
    return exit


def test_a_long_task_and_messages_in_their_order_then_the_end_of_stdin(stage: Stage) -> None:
    """The task is longer than a pipe; the program waits for the end of stdin after its answer."""
    code = LISTENS + "\n".join([
        "tell(type='system', size=len(heard()), inner={'type': 'result'})",
        "tell(type='system', heard=[heard(), heard()])",
        "tell(kind='last', type='result')", "tell(type='system', left=sys.stdin.read())",
    ])  # fmt: skip
    host = stage.start(python(code), prompt=b"x" * 300_000, listens=True)
    wait_until(lambda: len(lines(host)) == 1)
    messages.give(host.place, 10, 'second "one"')
    messages.give(host.place, 9, "first\n✓")
    wait_until(lambda: messages.is_handed(host.place, 10) and messages.is_handed(host.place, 9))
    assert ended(host) == Exit(code=0, at=ended(host).at)
    task, both, _, rest = lines(host)
    assert (task["size"], rest["left"]) == (300_000, "")
    assert sorted(both["heard"]) == ["first\n✓", 'second "one"']


def test_what_is_given_after_the_answer_is_not_taken(stage: Stage) -> None:
    code = (
        LISTENS
        + "heard(); tell(type='result'); sys.stdin.read(); turn(1); import time; time.sleep(60)"
    )
    host = stage.start(python(code), prompt=b"go", listens=True)
    wait_until(lambda: len(lines(host)) == 2)
    messages.give(host.place, 1, "too late")
    assert messages.take_back(host.place, 1) and not messages.is_handed(host.place, 1)
    assert messages.take_back(host.place, 1), "again"
    host.kill("killed", "the end")
    assert ended(host).why == "killed"


def test_the_turns_of_one_that_was_told_something_are_counted_by_its_host(stage: Stage) -> None:
    """Before, the program sees to them itself: it has begun to count anew by then."""
    code = LISTENS + "heard(); turn(1); turn(2); turn(3); heard(); turn(4)\nwhile True: heard()"
    bounds = WorkerLimits(turns=3)
    host = stage.start(python(code), prompt=b"go", listens=True, bounds=bounds)
    wait_until(lambda: len(lines(host)) == 3)
    assert host.alive()
    messages.give(host.place, 1, "go on")
    exit = ended(host)
    assert (exit.why, exit.said) == ("turns", "ended after its limit of 3 turns")


def test_messages_of_an_earlier_worker_in_the_same_folder_are_gone(stage: Stage) -> None:
    code = LISTENS + "tell(type='system', heard=heard()); tell(type='result')"
    first = stage.start(python(code), prompt=b"one", listens=True)
    ended(first)
    messages.give(first.place, 1, "left behind")
    second = stage.start(
        python(code), prompt=b"two", listens=True, span="01ARZ3NDEKTSV4RRFFQ69G5FAV:2"
    )
    ended(second)
    assert lines(second)[0]["heard"] == "two"
    assert not list(second.place.glob("message-*"))
