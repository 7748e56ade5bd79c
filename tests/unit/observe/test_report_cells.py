"""Values in a Markdown page are shown, never obeyed."""

from __future__ import annotations

from typing import Any

import pytest

from fanfold.observe.report import cell, json_block, table


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a | b", "a \\| b"),
        ("two\nlines", "two lines"),
        ("`code` \\", "\\`code\\` \\\\"),
        ("<script> &lt; R&D", "\\<script\\> \\&lt; R&D"),
        ("**bold** ~~gone~~", "\\*\\*bold\\*\\* \\~\\~gone\\~\\~"),
        ("[x](http://y) ![z](w)", "\\[x\\](http://y) !\\[z\\](w)"),
        ("snake_case _slanted_", "snake_case \\_slanted\\_"),
        (None, ""),
        (True, "true"),
        (1.5, "1.5"),
        ({"a": [1]}, '{"a":\\[1\\]}'),
    ],
)
def test_a_cell_is_one_line_of_plain_text(value: Any, shown: str) -> None:
    assert cell(value) == shown


def test_a_long_cell_is_cut_before_it_is_escaped() -> None:
    assert cell("|" * 10, 4) == "\\|\\|\\|…"


def test_the_last_columns_hold_numbers() -> None:
    assert table(["a", "b"], [["x", "1"]], right=1) == ["| a | b |", "| --- | ---: |", "| x | 1 |"]


def test_json_stands_between_fences_that_data_cannot_close() -> None:
    assert json_block({"a": "```\n# no title"}) == [
        "```json", '{\n  "a": "```\\n# no title"\n}', "```",
    ]  # fmt: skip


def test_long_json_is_cut_and_says_so() -> None:
    assert json_block("x" * 10, most=6) == [
        "```json", '"xxxxx', "```", "", "… and 6 more characters; `--json` has all of it",
    ]  # fmt: skip
