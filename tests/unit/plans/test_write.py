"""Results into files: a page for a browser is made by whoever can, and of all that is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
    parts = (Part(str(n), n, n) for n in range(MOST_ON_A_PAGE + 5))
    seen: list[tuple[int, Any, int]] = []

    def told(value: Any, more: int) -> str:
        seen.append((len(value), value[1], more))
        return ""

    write_parts(tmp_path / "a.html", parts, told)
    assert seen == [(MOST_ON_A_PAGE, {"id": "1", "value": 1}, 5)]


def test_items_are_lines_otherwise(tmp_path: Path) -> None:
    write_parts(tmp_path / "a.jsonl", [Part("x", 0, {"a": 1})], page)
    assert (tmp_path / "a.jsonl").read_text() == '{"id":"x","value":{"a":1}}\n'
