"""Results into files: a page for a browser is made by whoever can, and of all that is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fanfold.errors import FanfoldError
from fanfold.plans.write import MOST_ON_A_PAGE, write_parts, write_value
from fanfold.work.outcome import Part


def page(value: Any, more: int) -> str:
    return f"<p>{value} and {more} more</p>"


def test_html_is_a_page(tmp_path: Path) -> None:
    write_value(tmp_path / "a.html", "<b>", page)
    assert (tmp_path / "a.html").read_text() == "<p><b> and 0 more</p>"
    write_value(tmp_path / "a.htm", "<b>", page)
    assert (tmp_path / "a.htm").read_text() == "<b>\n"
    write_value(tmp_path / "b.html", "<b>")
    assert (tmp_path / "b.html").read_text() == "<b>\n"


def test_of_many_items_the_first_are_on_the_page_and_the_rest_is_counted(tmp_path: Path) -> None:
    parts = [Part(str(n), n, n) for n in range(MOST_ON_A_PAGE + 5)]
    seen: list[tuple[int, Any, int]] = []

    def told(value: Any, more: int) -> str:
        seen.append((len(value), value[1], more))
        return ""

    write_parts(tmp_path / "a.html", lambda: iter(parts), told)
    assert seen == [(MOST_ON_A_PAGE, {"id": "1", "value": 1}, 5)]


OBJECTS = [Part("x", 0, {"a": 1, "b": "=1"}), Part("y", 1, {"a": None, "id": "own"})]
TEXTS = [Part("x", 0, "One."), Part("y", 1, '```json\n{"a": [1]}\n```')]


def written(path: Path, parts: list[Part]) -> str:
    write_parts(path, lambda: iter(parts))
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("ending", "objects", "texts"),
    [
        (".json",
         '[\n  {"id":"x","value":{"a":1,"b":"=1"}},\n  {"id":"y","value":{"a":null,"id":"own"}}\n]\n',
         '[\n  {"id":"x","value":"One."},\n  {"id":"y","value":{"a":[1]}}\n]\n'),
        (".jsonl",
         '{"id":"x","value":{"a":1,"b":"=1"}}\n{"id":"y","value":{"a":null,"id":"own"}}\n',
         '{"id":"x","value":"One."}\n{"id":"y","value":{"a":[1]}}\n'),
        (".csv", "id,a,b,result.id\nx,1,'=1,\ny,,,own\n", "id,value,a\nx,One.,\ny,,[1]\n"),
        (".TSV", "id\ta\tb\tresult.id\nx\t1\t'=1\t\ny\t\t\town\n",
         "id\tvalue\ta\nx\tOne.\t\ny\t\t[1]\n"),
        (".md", "| id | a | b | result.id |\n|---|---|---|---|\n| x | 1 | =1 |  |\n| y |  |  | own |\n",
         '## x\n\nOne.\n\n## y\n\n```json\n{"a": [1]}\n```\n'),
        (".txt", '{\n  "a": 1,\n  "b": "=1"\n}\n\n{\n  "a": null,\n  "id": "own"\n}\n',
         'One.\n\n```json\n{"a": [1]}\n```\n'),
    ],
)  # fmt: skip
def test_items_have_the_form_that_the_ending_names(
    tmp_path: Path, ending: str, objects: str, texts: str
) -> None:
    assert written(tmp_path / f"a{ending}", OBJECTS) == objects
    assert written(tmp_path / f"b{ending}", TEXTS) == texts


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("a.json", '{"a": 1}', '{\n  "a": 1\n}\n'),  # data, not a text in a text
        ("a.json", "no data", '"no data"\n'),
        ("a.json", [{"id": "x", "value": "[1]"}],
         '[\n  {\n    "id": "x",\n    "value": [\n      1\n    ]\n  }\n]\n'),
        ("a.jsonl", '[{"a": 1}, 2]', '{"a":1}\n2\n'),
        ("a.jsonl", '{"a": 1}\n{"a": 2}\n', '{"a":1}\n{"a":2}\n'),
        ("a.jsonl", {"a": 1}, '{"a":1}\n'),
        ("a.csv", [{"id": "x", "value": {"n": 1}}], "id,n\nx,1\n"),  # as `collect` gives it
        ("a.csv", '[{"n": 1}, {"m": "a,b"}]', 'n,m\n1,\n,"a,b"\n'),
        ("a.csv", "n,m\n1,=2+3\n", "n,m\n1,'=2+3\n"),  # a table that a member wrote
        ("a.csv", {"winner": "a", "of": 3}, "winner,of\na,3\n"),
        ("a.csv", [1, 2], "value\n1\n2\n"),
        ("a.csv", [], ""),
        ("a.md", "# Done", "# Done\n"),
        ("a.md", [{"n": 1}], "| n |\n|---|\n| 1 |\n"),
        ("a.md", ["a", 2], "- a\n- 2\n"),
        ("a.md", {"n": 1, "text": "One\ntwo", "list": ["a"]},
         "- **n**: 1\n\n## text\n\nOne\ntwo\n\n## list\n\n- a\n"),
        ("a.txt", "as it is", "as it is\n"),
        ("a", {"n": 1}, '{\n  "n": 1\n}\n'),
    ],
)  # fmt: skip
def test_a_result_has_the_form_that_the_ending_names(
    tmp_path: Path, name: str, value: Any, expected: str
) -> None:
    write_value(tmp_path / name, value)
    assert (tmp_path / name).read_text(encoding="utf-8") == expected


def test_a_sheet_keeps_numbers_and_runs_no_formula(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl", reason="the extra xlsx")
    rows = [{"a": "=1+1", "b": 2.5, "c": True, "d": [1], "e": 10**20}, {"a": "x\x00", "b": None}]
    write_value(tmp_path / "a.xlsx", rows)
    sheet = openpyxl.load_workbook(tmp_path / "a.xlsx").active
    assert [[cell.value for cell in row] for row in sheet] == [
        ["a", "b", "c", "d", "e"],
        ["=1+1", 2.5, True, "[1]", "1" + "0" * 20],
        ["x\ufffd", None, None, None, None],
    ]
    assert sheet["A2"].data_type == "s"
    with pytest.raises(FanfoldError, match="a sheet takes 32,767"):
        write_value(tmp_path / "b.xlsx", "x" * 40_000)
    assert not (tmp_path / "b.xlsx").exists()


def test_a_parquet_file_has_typed_columns(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra parquet")
    rows = [
        {"n": 1, "x": 1, "t": "a", "f": True, "mixed": 1, "deep": {"k": 1}, "big": 2**70},
        {"n": None, "x": 0.5, "t": "=b", "f": None, "mixed": "two"},
    ]
    write_value(tmp_path / "a.parquet", rows)
    table = parquet.read_table(tmp_path / "a.parquet")
    types = {field.name: str(field.type) for field in table.schema}
    assert types == {
        "n": "int64", "x": "double", "t": "string", "f": "bool", "mixed": "string",
        "deep": "string", "big": "string",
    }  # fmt: skip
    assert table.to_pylist() == [
        {"n": 1, "x": 1.0, "t": "a", "f": True, "mixed": "1", "deep": '{"k":1}', "big": str(2**70)},
        {"n": None, "x": 0.5, "t": "=b", "f": None, "mixed": "two", "deep": None, "big": None},
    ]
