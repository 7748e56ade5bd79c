"""Results as tables: headers, numbers to the right, nothing too long, all of it escaped."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fanfold.observe.html.tables import (
    Column,
    Html,
    json_text,
    pairs,
    result,
    table,
    value_html,
    whole_json,
)
from fanfold.observe.shown import shown
from tests.unit.observe.html.parsed import Parsed

ALLOWED = {
    "p", "br", "h3", "h4", "h5", "h6", "ul", "ol", "li", "pre", "code", "strong", "em", "a", "hr",
    "blockquote", "div", "table", "thead", "tbody", "tr", "th", "td", "svg", "rect", "title",
}  # fmt: skip
NUMBERS = st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=20),
    lambda one: st.lists(one, max_size=4) | st.dictionaries(st.text(max_size=6), one, max_size=4),
    max_leaves=20,
)


def made(value: Any, most: int = 20) -> str:
    return result(shown(value, most))


@given(VALUES)
def test_any_value_can_be_shown_and_none_is_markup(value: Any) -> None:
    assert Parsed(made(value, 3)).tags <= ALLOWED


def test_a_table_names_its_columns_and_rows() -> None:
    columns = [Column("who", "head"), Column("n", "num"), Column("", "plot")]
    assert table(columns, [("<a>", "1", Html("<br>"))], "x", "c & d") == (
        '<div class="wide"><table class="x"><caption>c &amp; d</caption><thead><tr>'
        '<th scope="col">who</th><th scope="col" class="num">n</th><th scope="col" class="plot"></th>'
        '</tr></thead>\n<tbody><tr><th scope="row">&lt;a&gt;</th><td class="num">1</td>'
        '<td class="plot"><br></td></tr></tbody></table></div>'
    )


def test_an_account_has_what_is_nothing_in_grey() -> None:
    assert pairs([("a", "0"), ("b", "1")]) == (
        '<div class="wide"><table class="narrow">\n<tbody><tr class="zero"><th scope="row">a</th>'
        '<td class="num">0</td></tr>\n<tr><th scope="row">b</th><td class="num">1</td></tr>'
        "</tbody></table></div>"
    )


def test_records_become_rows_with_their_kinds() -> None:
    found = [{"id": n, "text": "x" * 100, "ok": True, "tags": ["a", "b"]} for n in range(3)]
    parsed = Parsed(made(found))
    assert [one.get("class") for one in parsed.all("th")] == ["num", "long", "short", "short"]
    assert parsed.text == "id text ok tags " + " ".join(
        f"{n} {'x' * 100} yes a, b" for n in range(3)
    )


def test_more_rows_than_are_shown_are_counted() -> None:
    parsed = Parsed(made([{"n": n} for n in range(25)]))
    assert len(parsed.all("tr")) == 21
    assert parsed.text.endswith("… and 5 more")


def test_numbers_by_name_have_bars() -> None:
    parsed = Parsed(made({"high": 4, "low": 1, "none": 0}))
    assert [one["width"] for one in parsed.all("rect")] == ["100%", "25%"]
    assert parsed.text == "high high: 4 4 low low: 1 1 none none: 0 0"


def test_parts_have_headings() -> None:
    html = made({"total": 3, "rows": [{"a": 1}, {"a": 2}], "deep": {"x": {"y": [[1]]}}})
    assert Parsed(html).text == "total 3 rows a 1 2 deep x y [ [ 1 ] ]"
    assert html.count("<h3>") == 2
    assert html.count("<h4>") == 1


def test_values_in_cells() -> None:
    assert value_html(12345) == "12,345"
    assert value_html(2024) == "2024"
    assert value_html(0.123456789) == "0.123457"
    assert value_html(True) == "yes"
    assert value_html(None) == ""
    assert value_html({"a": 1, "b": {"c": [1, 2]}}) == "a: 1<br>b: c: 1, 2"
    assert value_html([{"a": {"b": "<"}}]) == "a: (b: &lt;)"
    assert value_html(list(range(3))) == "0, 1, 2"
    assert value_html([[n] for n in range(14)]).endswith("11<br>… and 2 more")
    assert value_html("https://a.example/<") == "https://a.example/&lt;"
    assert value_html("https://a.example/x").startswith('<a href="https://a.example/x"')
    assert value_html("x" * 400) == "x" * 359 + "…"


def test_the_whole_result_is_there_as_json_and_cut_when_it_is_very_long() -> None:
    value = {"a": ["<script>"]}
    parsed = Parsed(whole_json(value))
    assert parsed.tags == {"details", "summary", "pre"}
    assert msgspec.json.decode(parsed.text.removeprefix("The result as JSON ")) == value
    assert whole_json("text") == ""
    assert json_text("x" * 20, 10) == '"xxxxxxxxx\n… and 12 more letters'
