"""`fanfold view`: what one worker says, from its log alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fanfold.members.agents.worker import LOG
from tests.faces.cli import fanfold, started
from tests.faces.project import write_function_project
from tests.unit.fleet.fleets import worker
from tests.unit.fleet.staged import Stage
from tests.unit.fleet.talk import said, tool


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path / "fleet", [worker("a"), worker("b", "a")])
    attempt = made.starts("a", 0)
    made.works("a", attempt, said("hello") + tool("Bash", command="ls") + said("bye"))
    made.hosted("a", alive=True)
    yield made
    made.close()


def shown(text: str) -> list[str]:
    """Without the times, which depend on the zone of the machine."""
    return [line[10:] for line in text.splitlines()]


def test_it_shows_the_last_things_said(stage: Stage) -> None:
    ended = fanfold(stage.root, "view", "demo", "a", "--lines", "2")
    assert (ended.code, ended.err, shown(ended.out)) == (0, "", ["🔧 Bash ls", "bye"])


def test_raw_are_the_lines_of_the_log(stage: Stage) -> None:
    ended = fanfold(stage.root, "view", "demo", "a", "--raw", "--lines", "1")
    assert ended.out.encode() == (stage.place("a") / LOG).read_bytes().splitlines(True)[-1]


def test_following_goes_on_until_the_worker_has_ended(stage: Stage) -> None:
    with started(stage.root, "view", "demo", "a", "--follow") as program:
        program.until(lambda: "bye" in program.shown)
        with (stage.place("a") / LOG).open("ab") as log:
            log.write(said("one more thing") + said("torn")[:-9])
        program.until(lambda: "one more thing" in program.shown)
        stage.exits("a", 0, 9)
        ended = program.end()
    assert (ended.code, ended.err) == (0, "")
    *lines, last = shown(ended.out)
    assert lines == ["hello", "🔧 Bash ls", "bye", "one more thing"]
    assert last.endswith(", exit code 0")


def test_one_that_has_not_started_is_waited_for(stage: Stage) -> None:
    ended = fanfold(stage.root, "view", "demo", "b")
    assert (ended.code, ended.out) == (0, "b has not started yet\n")
    with started(stage.root, "view", "demo", "b", "-f") as program:
        program.until(lambda: "waiting for it" in program.shown)
        attempt = stage.starts("b", 20)
        stage.works("b", attempt, said("here I am"))
        stage.exits("b", 3, 30)
        ended = program.end()
    assert shown(ended.out)[1] == "here I am"
    assert ended.out.splitlines()[-1].endswith(", exit code 3")


def test_waiting_ends_when_nobody_is_left_who_could_start_it(stage: Stage) -> None:
    with started(stage.root, "view", "demo", "b", "-f") as program:
        program.until(lambda: "waiting for it" in program.shown)
        stage.closes("killed", 9, "killed by the operator")
        ended = program.end()
    last = "b ended cancelled and left no log; see: fanfold show demo b"
    assert (ended.code, ended.out.splitlines()[-1]) == (0, last)


def test_when_its_place_is_given_to_another_attempt_following_ends(stage: Stage) -> None:
    with started(stage.root, "view", "demo", "a", "-f") as program:
        program.until(lambda: "bye" in program.shown)
        stage.works("a", stage.starts("a", 50), said("another one"))
        ended = program.end()
    assert (ended.code, "another one" in ended.out) == (0, False)


@pytest.mark.parametrize("worker", ["i0", "f"])
@pytest.mark.parametrize("words", [("view", "shout"), ("feed", "shout", "--agent")])
def test_where_no_agent_has_worked_that_is_said(
    tmp_path: Path, words: tuple[str, ...], worker: str
) -> None:
    write_function_project(tmp_path)
    assert fanfold(tmp_path, "run", "plan.yaml", "--quiet", "--name", "shout").code in (0, 1)
    ended = fanfold(tmp_path, *words, worker)
    said = f"fanfold: no worker '{worker}' in shout: no agent has worked in this run\n"
    assert (ended.code, ended.out, ended.err) == (2, "", said)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c", "no worker 'c' in demo: known: a, b"),
        ("bb", "no worker 'bb' in demo: did you mean `b`?"),
        ("../a", "no worker '../a' in demo"),
    ],
)
def test_an_unknown_worker_is_refused_in_one_line(stage: Stage, name: str, text: str) -> None:
    ended = fanfold(stage.root, "view", "demo", name)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert text[:30] in ended.err
