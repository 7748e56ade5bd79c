"""Mermaid text: the boxes and arrows of a picture, and no text that breaks it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.observe.draw import mermaid
from fanfold.work.picture import Arrow, Box, Picture
from tests.unit.observe.pictures import TEXTS, fan, pictures

LABEL = r'"[^"\[\]{}|`<>&\\\n]*(?:<br/>[^"\[\]{}|`<>&\\\n]*)*"'
BOX = rf"b[\d_]+(?:\[/{LABEL}/\]|\[\[{LABEL}\]\]|\[{LABEL}\]|\{{\{{{LABEL}\}}\}}|\({LABEL}\))"
ARROW = rf"b[\d_]+ (?:-->|-\.->)(?:\|{LABEL}\|)? b[\d_]+"
LINE = re.compile(rf" *(?:%% [^{{}}]*|{BOX}|{ARROW}|subgraph b[\d_]+\[{LABEL}\]|end)")


def label(text: str) -> str:
    """A text as it stands in the label of a box."""
    found = re.search(r'b0\["(.*)"\]', mermaid(Picture((Box("a", text),))))
    assert found is not None
    return found[1]


def decoded(label: str) -> str:
    """A label as a page shows it."""
    return re.sub(r"#(\d+);", lambda found: chr(int(found[1])), label).replace("\xa0", " ")


def test_a_plan_as_a_flowchart() -> None:
    picture = Picture(
        (
            Box("in", "input", ("jsonl a.jsonl",), "input"),
            Box("map", "map", ("haiku",), inside=fan(2, back=True)),
            Box("reduce", "reduce", look="fold"),
            Box("write", "write", ("report.md",), "file"),
        ),
        (
            Arrow("in", "map"),
            Arrow("map", "reduce"),
            Arrow("reduce", "write"),
            Arrow("map", "write", kind="reads"),
        ),
        "contract-review",
    )
    assert mermaid(picture).split("\n") == [
        "flowchart TD",
        "  %% contract-review",
        '  b0[/"input<br/>jsonl a.jsonl"/]',
        '  subgraph b1["map<br/>haiku"]',
        '    b1_0["ask 1"]',
        '    b1_1["ask 2"]',
        '    b1_2{{"gate<br/>quotes evidence"}}',
        "    b1_0 --> b1_2",
        "    b1_1 --> b1_2",
        '    b1_2 -.->|"kick back once"| b1_1',
        "  end",
        '  b2("reduce")',
        '  b3[["write<br/>report.md"]]',
        "  b0 --> b1",
        "  b1 --> b2",
        "  b2 --> b3",
        "  b1 -.-> b3",
    ]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ('say "so"', "say #34;so#34;"),
        ("a[0]|b", "a#91;0#93;#124;b"),
        ("`x` {y}", "#96;x#96; #123;y#125;"),
        ("<b>&", "#60;b#62;#38;"),
        ("#quot;", "#35;quot;"),
        ("two\nlines", "two lines"),
        ("日本 é", "日本 é"),
        ("1. first", "1.#160;first"),
        ("- dash", "-#160;dash"),
        ("$$x$$", "#36;#36;x#36;#36;"),
        ("", " "),
    ],
)
def test_what_means_something_to_mermaid_is_written_as_a_code(text: str, written: str) -> None:
    assert label(text) == written


def test_a_frame_with_nothing_inside_is_a_box() -> None:
    """An empty subgraph would not be drawn as one."""
    assert mermaid(Picture((Box("a", "a", inside=Picture(())),))) == 'flowchart TD\n  b0["a"]'


@given(pictures())
def test_any_text_gives_lines_that_mermaid_knows(picture: Picture) -> None:
    first, *lines = mermaid(picture).split("\n")
    assert first == "flowchart TD"
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    opened = [line for line in lines if line.lstrip().startswith("subgraph ")]
    assert len(opened) == sum(line.strip() == "end" for line in lines)


@given(TEXTS | st.text(max_size=100))
def test_a_label_shows_the_text(text: str) -> None:
    clean = "".join(char if char.isprintable() else " " for char in text)
    shown = " ".join(decoded(label(text)).split())
    whole = " ".join(clean.split())
    assert shown == whole or (shown.endswith("…") and whole.startswith(shown[:-1]))
