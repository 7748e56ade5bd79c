"""`fanfold members --check --ask`: what it costs at most is said first; then one short call of each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fanfold.testing.running import RunningServer, threaded_server
from fanfold.testing.script import Asked, Says
from tests.faces.cli import fanfold
from tests.faces.project import PRICE
from tests.flow.tool_models import script

ROSTER = """\
members:
  - {{id: good, kind: openai, model: one, base_url: "{url}/v1", price: {{input: 1, output: 1}}}}
  - {{id: other, kind: anthropic, model: two, base_url: "{url}", price: {{input: 1, output: 1}}}}
  - {{id: rules, kind: function, target: "own:look"}}
  - {{id: away, kind: openai, model: x, base_url: "http://127.0.0.1:1/v1", price: {{input: 1, output: 1}}}}
  - {{id: sleeps, kind: openai, model: x, base_url: "{url}/v1", enabled: false}}
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    books = tmp_path / "books"
    with threaded_server(books, script="tests.flow.tool_models:script", price=PRICE) as server:
        yield server


@pytest.fixture
def project(tmp_path: Path, server: RunningServer) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "roster.yaml").write_text(ROSTER.format(url=server.url))
    (folder / "own.py").write_text("def look(item):\n    return 1\n")
    return folder


def test_each_is_asked_once_and_its_answer_shown(project: Path, server: RunningServer) -> None:
    script.says = lambda asked: Says(text="ok")
    ended = fanfold(project, "members", "--check", "--ask", "--yes")
    assert ended.code == 0, ended
    assert "2 calls of one short question: at most $0.00" in ended.err
    lines = ended.out.splitlines()
    told = {
        line.partition(":")[0]: line for line in lines if ": answers" in line or ": not" in line
    }
    assert told["good"].endswith(": ok") and told["other"].endswith(": ok")
    assert told["rules"] == "rules: not asked: kind function runs here, and needs an item"
    assert told["away"] == "away: not asked: it is not ready"
    assert told["sleeps"] == "sleeps: not asked: it is switched off"
    assert len(server.books().asked) == 2


def test_each_time_anew(project: Path, server: RunningServer) -> None:
    script.says = lambda asked: Says(text="ok")
    for _ in range(2):
        assert fanfold(project, "members", "--check", "--ask", "--yes").code == 0
    assert len(server.books().asked) == 4


def test_who_does_not_answer_says_why(project: Path, server: RunningServer) -> None:
    def says(asked: Asked) -> Says:
        return Says(status=401) if asked.model == "two" else Says(text="ok")

    script.says = says
    ended = fanfold(project, "members", "--check", "--ask", "--yes")
    assert ended.code == 1, ended
    assert "good: answers" in ended.out and "other: no answer" in ended.out, ended.out
    assert "401" in ended.out


def test_without_a_yes_nobody_is_asked(project: Path, server: RunningServer) -> None:
    ended = fanfold(project, "members", "--check", "--ask")
    assert (ended.code, "approve it with --yes" in ended.err) == (2, True), ended
    assert server.books().asked == []
    ended = fanfold(project, "members", "--ask")
    assert (ended.code, "`--ask` goes with `--check`" in ended.err) == (2, True), ended
