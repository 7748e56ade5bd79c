"""`tools` in plans and rosters at the command line: refused with the line, previewed, drawn, shown."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fanfold.testing.running import RunningServer, threaded_server
from tests.faces.cli import fanfold
from tests.faces.project import PRICE
from tests.flow.tool_models import calling, script

HEAD = """\
name: looked
roster: roster.yaml
input: {list: [{id: a, text: one}, {id: b, text: two}]}
steps:
  - map:
      name: look
      member: m
      prompt: "Say {{ item.text }}"
"""
TOOLS = f"""\
      tools:
        - own:count
        - command: [{sys.executable}, note.py]
          name: note
          arguments: {{type: object, properties: {{word: {{type: string}}}}}}
"""
ROSTER = """\
members:
  - {{id: m, kind: openai, model: one, base_url: "{url}/v1", max_tokens: 50, price: {{input: 1, output: 1}}}}
  - {{id: f, kind: command, cmd: [cat], price: {{call: 0}}}}
"""
OWN = """\
open("imported", "w").close()

def count(word: str) -> int:
    "How long a word is."
    return len(word)
"""
NOTE = 'open("started", "a").write("x")\nprint("noted")\n'


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    books = tmp_path / "books"
    with threaded_server(books, script="tests.flow.tool_models:script", price=PRICE) as server:
        yield server


@pytest.fixture
def project(tmp_path: Path, server: RunningServer) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "p.yaml").write_text(HEAD + TOOLS + "  - write: out.jsonl\n")
    (folder / "roster.yaml").write_text(ROSTER.format(url=server.url))
    (folder / "own.py").write_text(OWN)
    (folder / "plain.py").write_text("def count(word: str) -> int:\n    return 1\n")
    (folder / "note.py").write_text(NOTE)
    return folder


def test_a_plan_with_tools_runs_and_shows_what_was_called(
    project: Path, server: RunningServer
) -> None:
    script.says = calling([("count", {"word": "four"}), ("note", {"word": "x"})])
    ended = fanfold(project, "run", "p.yaml")
    assert ended.code == 0, ended
    assert "4 | noted" in (project / "out.jsonl").read_text()
    shown = fanfold(project, "show", "looked", "a")
    assert shown.code == 0, shown
    assert "tool:count" in shown.out and "tool:note" in shown.out, shown.out
    assert "tool:note" in fanfold(project, "report", "looked").out
    assert "look.tools" in fanfold(project, "status", "looked", "-v").out


def test_looking_runs_no_tool_and_starts_no_server(project: Path, server: RunningServer) -> None:
    plan = (project / "p.yaml").read_text()
    started = f"        - mcp: [{sys.executable}, note.py]\n"
    (project / "p.yaml").write_text(plan.replace("  - write", started + "  - write"))
    dry = fanfold(project, "run", "p.yaml", "--dry-run")
    assert dry.code == 0, dry
    said = dry.out + dry.err
    assert "tools may be used in 8 rounds of 8 calls" in said
    assert "imported or started only by a run" in said
    drawn = fanfold(project, "graph", "p.yaml")
    assert "tools count, note, mcp note.py" in " ".join(drawn.out.split()), drawn.out
    assert fanfold(project, "members", "--check").code in (0, 1)
    assert not (project / "imported").exists() and not (project / "started").exists()
    assert server.books().asked == []


@pytest.mark.parametrize(
    ("fields", "line", "what"),
    [
        ("      tools: own:count\n", 9, "`tools` must be a list"),
        ("      tools: [count]\n", 9, "a tool is module:function or a mapping, not `count`"),
        ("      tools:\n        - plain:missing\n", 10, "`plain` has no `missing`"),
        ("      tools:\n        - command: wc -l\n", 10, "`command` must be a list of words"),
        ("      tools:\n        - command: [no-such-program]\n          name: x\n", 10,
         "tool x: there is no program `no-such-program`"),
        ("      tools:\n        - own:count\n        - {function: 'own:count'}\n", 11,
         "two tools are called `count`"),
        ("      tools:\n        - {function: 'own:count', effect: true}\n", 10,
         "unknown field `effect` in a tool: did you mean `effects`?"),
        ("      tool_rounds: 3\n", 9, "`tool_rounds` is for a step with `tools`"),
        ("      tools: [own:count]\n      shard: {items: 2}\n", 9,
         "items that share an ask cannot use tools"),
        ("      tools: [own:count]\n      escalate: f\n", 9,
         "member f (kind command) cannot be given tools"),
        ("      tools:\n        - {mcp: 'server.py'}\n", 10, "`mcp` must be a URL or a list of words"),
    ],
)  # fmt: skip
def test_bad_tools_name_their_line(project: Path, fields: str, line: int, what: str) -> None:
    (project / "p.yaml").write_text(HEAD + fields)
    for how in (("run", "p.yaml"), ("run", "p.yaml", "--dry-run"), ("graph", "p.yaml")):
        ended = fanfold(project, *how)
        if how[0] == "graph" and not ended.code:
            continue
        assert ended.code == 2, ended
        assert f"p.yaml:{line}: " in ended.err and what in ended.err, ended.err
    assert not (project / ".fanfold").exists()


def test_a_roster_names_the_line_of_a_bad_tool(project: Path) -> None:
    roster = (project / "roster.yaml").read_text()
    member = "  - id: t\n    kind: openai\n    model: x\n    key: none\n    tools:\n"
    for tool, what in (
        ("      - {function: 'plain:missing'}\n", "`plain` has no `missing`"),
        ("      - {command: [no-such], name: x}\n", "there is no program `no-such`"),
    ):
        (project / "roster.yaml").write_text(roster + member + tool)
        ended = fanfold(project, "members", "--check")
        assert what in ended.out + ended.err, ended
    (project / "roster.yaml").write_text(roster + member + "      - {command: [wc]}\n")
    ended = fanfold(project, "members")
    assert (ended.code, "roster.yaml:9: " in ended.err) == (2, True), ended


def test_members_of_one_step_must_have_the_same_tools(project: Path, server: RunningServer) -> None:
    roster = (project / "roster.yaml").read_text()
    own = (
        f'  - {{id: t, kind: openai, model: x, base_url: "{server.url}/v1", tools: [own:count]}}\n'
    )
    (project / "roster.yaml").write_text(roster + own)
    (project / "p.yaml").write_text(HEAD.replace("member: m", "members: [m, t]"))
    ended = fanfold(project, "run", "p.yaml")
    assert ended.code == 2, ended
    assert "members m and t may answer the same ask, but have different tools" in ended.err
    script.says = calling([("count", {"word": "four"})])
    (project / "p.yaml").write_text(
        HEAD.replace("member: m", "member: t") + "  - write: out.jsonl\n"
    )
    ended = fanfold(project, "run", "p.yaml", "--allow-paid")
    assert ended.code == 0, ended
    assert "4" in (project / "out.jsonl").read_text()
