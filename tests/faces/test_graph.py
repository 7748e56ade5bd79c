"""`fanfold graph`: a plan drawn, in each form, without touching anything."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.faces.cli import fanfold
from tests.faces.project import write_function_project

GRAPH = """\
name: build
steps:
  - graph:
      tasks:
        - {{id: fetch, prompt: Fetch, needs: [talking]}}
        - {{id: parse, prompt: Parse, depends_on: [{parent}]}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_function_project(tmp_path, gate='regex: "^[A-Z]+$"')
    return tmp_path


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.startswith((".out-", ".err-"))}


def test_a_plan_is_drawn_and_nothing_is_touched(folder: Path) -> None:
    before = files(folder)
    ended = fanfold(folder, "graph", "plan.yaml")
    assert (ended.code, ended.err) == (0, "")
    title, *drawing = ended.out.splitlines()
    words = [re.sub(r"[─│┌┐└┘┬┴┼├┤▼]+", " ", line).split("  ") for line in drawing]
    labels = [label.strip() for line in words for label in line if label.strip()]
    assert (title, labels) == ("shout", [
        "input", "jsonl items.jsonl", "3 items", "map", "shout", "8 at once", "ask 1", "ask 2",
        "ask 3", "gate", "regex ^[A-Z]+$", "kick back once", "reduce", "collect",
    ])  # fmt: skip
    assert files(folder) == before


def test_it_needs_neither_input_nor_chance(folder: Path) -> None:
    """Without the input the number is not known; the rest is the same whatever Python's hashes."""
    (folder / "items.jsonl").unlink()
    drawn = [fanfold(folder, "graph", "plan.yaml", PYTHONHASHSEED=seed) for seed in ("1", "2")]
    assert drawn[0] == drawn[1]
    assert (drawn[0].code, "3 items" in drawn[0].out, "│ ask n │" in drawn[0].out) == (
        0,
        False,
        True,
    )


def test_a_narrow_terminal_gets_a_narrow_picture(folder: Path) -> None:
    plan = folder / "plan.yaml"
    plan.write_text(plan.read_text().replace("name: shout", f"name: {'shout ' * 30}"))
    wide = {
        columns: max(
            map(len, fanfold(folder, "graph", "plan.yaml", COLUMNS=columns).out.split("\n"))
        )
        for columns in ("10", "80", "300")
    }
    assert wide == {"10": 59, "80": 77, "300": 95}


def test_mermaid(folder: Path) -> None:
    ended = fanfold(folder, "graph", "plan.yaml", "--mermaid")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines()[:4] == [
        "flowchart TD", "  %% shout", '  b0[/"input<br/>jsonl items.jsonl<br/>3 items"/]',
        '  subgraph b1["map<br/>shout<br/>8 at once"]',
    ]  # fmt: skip


def test_mermaid_into_a_file(folder: Path) -> None:
    assert fanfold(folder, "graph", "plan.yaml", "--mermaid", "-o", "plan.mmd") == (0, "", "")
    written = (folder / "plan.mmd").read_text(encoding="utf-8")
    assert fanfold(folder, "graph", "plan.yaml", "--mermaid").out == written


def test_a_graph_with_the_members_of_a_roster(folder: Path) -> None:
    (folder / "g.yaml").write_text(GRAPH.format(parent="fetch"))
    (folder / "r.yaml").write_text(
        "members:\n  - {id: m, kind: command, cmd: [cat], good_at: [talking]}\n"
    )
    ended = fanfold(folder, "graph", "g.yaml", "--roster", "r.yaml")
    assert (ended.code, ended.err) == (0, "")
    assert "needs talking: m" in ended.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("none.yaml", "fanfold: none.yaml: no such file"),
        ("plan.yaml --svg",
         "fanfold: --svg was removed; use --mermaid, which Markdown pages show and `mmdc` turns into"
         " SVG; see: fanfold graph --help"),
        ("plan.yaml --roster none.yaml", "fanfold: none.yaml: no such file"),
        ("plan.yaml -o .", "fanfold: .: cannot be written: Is a directory"),
        ("plan.yaml -o no/a.txt", "fanfold: no/a.txt: cannot be written: No such file or directory"),
        ("plan.yaml -o g.svg",
         "fanfold: --output g.svg: name a file that ends with .txt, .md or .mmd; for an image, give"
         " the .mmd of --mermaid to `mmdc`"),
        ("", "fanfold: missing argument 'PLAN'; see: fanfold graph --help"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_in_a_line(folder: Path, words: str, said: str) -> None:
    assert fanfold(folder, "graph", *words.split()) == (2, "", f"{said}\n")


def test_a_cycle_is_refused_with_its_ids(folder: Path) -> None:
    (folder / "g.yaml").write_text(GRAPH.format(parent="parse"))
    ended = fanfold(folder, "graph", "g.yaml")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert "CYCLE:parse" in ended.err


ASKED = """\
roster: own.yaml
input: {jsonl: rows.jsonl}
steps:
  - map:
      name: read
      member: m
      prompt: "Read {{ item.text }}"
      system: Be brief.
      context: [rules, more rules]
      examples: [{ask: a, reply: b}]
      attach: item.scan
      tools: [{command: [look], name: look}]
      tool_rounds: 3
  - map: {name: label, member: m, prompt: "Label {{ item.text }}", batch: {within: 6h}}
"""
OWN = """\
members:
  - {id: m, kind: anthropic, model: x, base_url: "http://127.0.0.1:9", batch_price: 0.5,
     price: {input: 1, output: 1}}
"""


def test_what_an_ask_is_made_of_is_in_the_picture(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"text": "x", "scan": "a.png"}\n')
    (tmp_path / "own.yaml").write_text(OWN)
    (tmp_path / "p.yaml").write_text(ASKED)
    ended = fanfold(tmp_path, "graph", "p.yaml")
    assert ended.code == 0, ended.err
    words = " ".join(ended.out.replace("│", " ").split())
    for part in ("system, context (2), examples (1)", "item.scan", "tools look (at most 3 rounds)",
                 "in batches within 6h"):  # fmt: skip
        assert part in words, words
