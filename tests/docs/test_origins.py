"""Every row of the page on origins names a test, and that test exists."""

from __future__ import annotations

import ast
import re

from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "origins.md"
ROW = re.compile(r"^\| (?!requirement|---)(?P<cells>.+) \|$", re.MULTILINE)
SHOWN = re.compile(r"`(?P<file>tests/[\w/]+\.py)::(?P<name>test_\w+)`")


def rows() -> list[list[str]]:
    return [found["cells"].split(" | ") for found in ROW.finditer(PAGE.read_text("utf-8"))]


def test_every_row_says_what_how_and_by_which_test() -> None:
    found = rows()
    assert len(found) > 80, "so that this cannot pass by finding nothing"
    assert [row for row in found if len(row) != 3 or not all(map(str.strip, row))] == []
    assert [row for row in found if not SHOWN.fullmatch(row[2])] == []


def test_every_test_that_is_named_exists() -> None:
    gone = []
    for row in rows():
        named = SHOWN.fullmatch(row[2])
        assert named is not None
        file = ROOT / named["file"]
        tree = ast.parse(file.read_text("utf-8")) if file.exists() else ast.Module([], [])
        kinds = ast.FunctionDef | ast.AsyncFunctionDef
        names = {node.name for node in tree.body if isinstance(node, kinds)}
        if named["name"] not in names:
            gone.append(row[2])
    assert gone == []
