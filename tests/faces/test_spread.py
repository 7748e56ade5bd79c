"""Work spreads over all members that fit, and over those that come while a run goes on; what each
was asked is in the server's books."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from signal import SIGKILL

import pytest

from fanfold.testing.running import RunningServer, threaded_server
from tests.faces.cli import Ended, Program, fanfold, started
from tests.faces.project import write_items

PLAN = """\
name: talk
input: {jsonl: items.jsonl, id: id}
steps:
  - map: {prompt: "Say {{ item.text }}", needs: talking}
  - reduce: {kind: count}
"""
MEMBER = (
    "  - {{id: {id}, kind: openai, model: model-{id}, base_url: '{url}/v1', good_at: [talking],"
    " price: {{input: {price}, output: 1}}, concurrency: 2}}\n"
)
ITEMS = 20


def write(folder: Path, url: str, *ids: str) -> None:
    members = (MEMBER.format(id=id, url=url, price=n + 1) for n, id in enumerate(ids))
    (folder / "roster.yaml").write_text("members:\n" + "".join(members))


@pytest.fixture
def held(tmp_path: Path) -> Iterator[RunningServer]:
    """Answers nothing until it is released."""
    with threaded_server(tmp_path / "books", latency_ms=3_600_000) as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path, held: RunningServer) -> Path:
    (tmp_path / "plan.yaml").write_text(PLAN)
    write(tmp_path, held.url, "a", "b", "c")
    write_items(tmp_path, [f"word {n}" for n in range(ITEMS)])
    return tmp_path


def six(held: RunningServer) -> Callable[[], bool]:
    """All slots of the three members are taken."""
    return lambda: held.totals().in_flight == 6


def done(run: Program, held: RunningServer) -> Ended:
    """Everything is answered now, until the run has ended and all has passed."""
    while run.process.poll() is None:
        held.release()
    ended = run.end()
    assert (ended.code, "20 of 20 done: 20 passed" in ended.out) == (0, True), ended
    return ended


@pytest.mark.slow
def test_three_members_of_two_slots_each_work_at_six_and_a_fourth_that_comes_at_two_more(
    folder: Path, held: RunningServer
) -> None:
    """Killed in between: nothing that was answered is asked again."""
    with started(folder, "run", "plan.yaml") as run:
        run.until(six(held))
        held.release()
        run.until(lambda: held.totals().asked >= 12)
        run.send(SIGKILL)
        run.end()
    held.release()
    held.wait_idle()
    known = {one.prompt for one in held.books().asked if one.n <= 6}
    with started(folder, "resume", "talk") as run:
        run.until(six(held))
        (folder / "roster.yaml").write_text("members: what\n")
        run.until_it_says("stays as it was for this run")
        write(folder, held.url, "a", "b", "c", "d")
        run.until(lambda: held.totals().in_flight == 8)
        ended = done(run, held)
    assert "roster.yaml was changed; its members count as they are now" in ended.err
    books = held.books()
    assert {one.model for one in books.asked} == {f"model-{id}" for id in "abcd"}
    often = Counter(one.prompt for one in books.asked)
    assert {often[prompt] for prompt in known} == {1}
    assert len(often) == ITEMS and len(books) <= ITEMS + 6


@pytest.mark.slow
def test_a_member_that_is_switched_off_by_the_command_gets_no_more(
    folder: Path, held: RunningServer
) -> None:
    with started(folder, "run", "plan.yaml") as run:
        run.until(six(held))
        assert fanfold(folder, "members", "set", "a", "enabled=false").code == 0
        run.until_it_says("roster.yaml was changed")
        asked = len([one for one in held.books().asked if one.model == "model-a"])
        done(run, held)
    assert asked == 0  # none of them had ended yet
    assert len([one for one in held.books().asked if one.model == "model-a"]) == 2
