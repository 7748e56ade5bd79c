"""`fanfold feed`: one stream across all workers, with true times."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from fanfold.members.agents.worker import LOG
from tests.faces.cli import fanfold, started
from tests.unit.fleet.fleets import worker
from tests.unit.fleet.staged import Stage
from tests.unit.fleet.talk import codex_said, said, tool


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path / "fleet", [worker("a"), worker("b", provider="codex")])
    a, b = made.starts("a", 0), made.starts("b", 4)
    made.works("a", a, said("a10") + tool("Bash", command="ls"), seconds=10)
    made.works("b", b, codex_said("b15") + codex_said("b25"), dialect="codex", at=5, seconds=10)
    for id in ("a", "b"):
        made.hosted(id, alive=True)
    yield made
    made.close()


def test_events_come_in_the_order_of_their_times(stage: Stage) -> None:
    ended = fanfold(stage.root, "feed", "demo", COLUMNS="100")
    assert (ended.code, ended.err) == (0, "")
    assert [line[10:] for line in ended.out.splitlines()] == [
        "a                attempt/started                 attempt 1, a, at most $0.50 reserved",
        "b                attempt/started                 attempt 2, b, at most $0.50 reserved",
        "a                assistant                       a10",
        "b                item.completed                  b15",
        "a                assistant                       Bash ls",
        "b                item.completed                  b25",
    ]


def test_programs_get_an_object_in_each_line(stage: Stage) -> None:
    ended = fanfold(stage.root, "feed", ".", "--json", "--agent", "b", "--lines", "2")
    assert [msgspec.json.decode(line) for line in ended.out.splitlines()] == [
        {"at": f"2025-06-15T15:{at}.000Z", "agent": "b", "event": "item.completed",
         "kind": "text", "text": text}
        for at, text in (("06:55", "b15"), ("07:05", "b25"))
    ]  # fmt: skip


def test_following_goes_on_until_all_have_ended(stage: Stage) -> None:
    with started(stage.root, "feed", "demo", "--follow", "--lines", "1") as program:
        program.until(lambda: "b25" in program.shown)
        with (stage.place("a") / LOG).open("ab") as log:
            log.write(said("later"))
        program.until(lambda: "later" in program.shown)
        for id, attempt in (("a", 1), ("b", 2)):
            stage.exits(id, 0, 60)
            stage.ends(id, attempt, 60, 0.1)
        stage.closes("complete", 61)
        ended = program.end()
    assert (ended.code, ended.err) == (0, "")
    assert [line[10:].split()[:2] for line in ended.out.splitlines()] == [
        ["b", "item.completed"], ["a", "assistant"], ["a", "attempt/ended"],
        ["b", "attempt/ended"], ["-", "run/complete"],
    ]  # fmt: skip


def test_an_unknown_worker_is_refused(stage: Stage) -> None:
    ended = fanfold(stage.root, "feed", "demo", "--agent", "zz")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "fanfold: no worker 'zz' in demo: known: a, b\n"
