"""A resumed graph: what agents ended with stands; what the operator names is done anew, alone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fanfold.errors import RunStopped, Terminal
from fanfold.journal import opening
from fanfold.observe.script import open_run
from fanfold.patterns.graph import graph
from fanfold.testing.member import Scripted, traits
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.outcome import STATES

TASKS = [
    {"id": "a", "prompt": "a"},
    {"id": "b", "prompt": "b"},
    {"id": "after-a", "prompt": "after-a {{ parents.a }}", "depends_on": ["a"]},
    {"id": "c", "prompt": "c", "depends_on": ["b"]},
    {"id": "d", "prompt": "d {{ parents.c }}", "depends_on": ["c"]},
]


class Stage:
    """One store, one member; `a` fails until it is mended, and the run pauses when c is asked."""

    def __init__(self, folder: Path, *, agent: bool) -> None:
        self.folder, self.agent = folder, agent
        self.mended = False
        self.stops = True

    def play(self, **options: Any) -> tuple[list[str], dict[str, str], str, Any]:
        """What was asked, how each task stands then, how the run does, and what it gave."""
        return asyncio.run(self._play(options))

    async def _play(self, options: dict[str, Any]) -> tuple[list[str], dict[str, str], str, Any]:
        value: Any = None

        def script(ask: Ask, number: int) -> Reply | Exception:
            text = ask.conversation()[-1].content
            if text == "a" and not self.mended:
                return Terminal("broken", scope="ask")
            if text == "c" and self.stops:
                run.pause("enough")
            return Reply(text=text.upper(), usage=Usage(1, 1))

        member = Scripted(script, traits(agent=self.agent, limits=traits().limits))
        try:
            async with open_run("g", members=[member], store=self.folder, **options) as run:
                folded = await graph(run, TASKS, concurrency=1)
                value = folded.value
        except RunStopped:
            pass
        assert run.closing is not None
        return member.asked, _states(self.folder), run.closing.status, value


def _states(folder: Path) -> dict[str, str]:

    archive = opening.look(folder)
    try:
        record = archive.read.find("g")
        assert record is not None
        return {one.id: one.state for one in archive.read.endings(record.no, STATES)}
    finally:
        archive.close()


PAUSED = {"a": "failed", "b": "passed", "after-a": "failed", "c": "passed", "d": "cancelled"}


def test_what_an_agent_failed_at_is_not_tried_again_by_itself(tmp_path: Path) -> None:
    stage = Stage(tmp_path, agent=True)
    assert stage.play()[1:3] == (PAUSED, "paused")
    stage.mended, stage.stops = True, False
    asked, states, status, value = stage.play()
    assert asked == ["d C"]
    assert states == PAUSED | {"d": "passed"}
    assert (status, value) == ("flagged", {"b": "B", "c": "C", "d": "D C"})


def test_any_other_member_is_asked_again(tmp_path: Path) -> None:
    stage = Stage(tmp_path, agent=False)
    stage.play(seed=1)
    stage.mended, stage.stops = True, False
    asked, states, status, _ = stage.play()
    assert sorted(asked) == ["a", "after-a A", "d C"]
    assert (set(states.values()), status) == ({"passed"}, "complete")


@pytest.mark.parametrize("agent", [True, False])
def test_only_what_is_named_is_done_anew(tmp_path: Path, agent: bool) -> None:
    stage = Stage(tmp_path, agent=agent)
    stage.play()
    stage.mended = True
    asked, states, status, value = stage.play(anew=frozenset({"a", "after-a"}), only=True)
    assert asked == ["a", "after-a A"]
    assert states == PAUSED | {"a": "passed", "after-a": "passed"}
    assert status == "paused", "d was left as it was"
    assert value == {"a": "A", "b": "B", "after-a": "AFTER-A A", "c": "C"}
