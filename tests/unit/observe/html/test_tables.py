"""Results as tables: headers, numbers to the right, nothing too long, all of it escaped."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fanfold.observe.html.page import PageCapacity
from fanfold.observe.html.tables import (
    Html,
    HtmlColumn,
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
    columns = [HtmlColumn("who", "head"), HtmlColumn("n", "num"), HtmlColumn("", "plot")]
    assert table(columns, [("<a>", "1", Html("<br>"))], "x", "c & d") == (
        '<div class="wide"><table class="x stack"><caption>c &amp; d</caption><thead><tr>'
        '<th scope="col">who</th><th scope="col" class="num">n</th><th scope="col" class="plot"></th>'
        '</tr></thead>\n<tbody><tr><th scope="row">&lt;a&gt;</th><td class="num" data-title="n">1</td>'
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
    assert parsed.packed == []


def test_rows_that_do_not_stand_on_the_page_are_packed_into_it() -> None:
    """As the texts of their cells, all of them, and what the page's script needs to turn to them."""
    found = [{"n": n, "text": f"<b>{n}\u202e", "more": ["x", {"y": n}]} for n in range(1000)]
    parsed = Parsed(made(found, 5000))
    assert len(parsed.all("tr")) == 1 + 50
    assert parsed.all("template") == [{"class": "more", "data-size": "50"}]
    (columns,) = parsed.packed
    assert [row[:3] for row in zip(*columns, strict=True)][999] == (
        "999", "<b>999\N{REPLACEMENT CHARACTER}", "x\ny: 999",
    )  # fmt: skip
    assert parsed.text.startswith(
        "1–50 of 1,000; the others are here too, for a browser that runs the script. n text more"
    )


def test_many_values_and_names_are_pages_too() -> None:
    for value, columns in (([f"v{n}" for n in range(80)], 1), ({f"k{n}": n for n in range(80)}, 2)):
        (packed,) = Parsed(made(value, 100)).packed
        assert (len(packed), len(packed[0])) == (columns, 80)


def test_there_is_no_more_on_a_page_than_it_has_room_for() -> None:
    """The first rows stand on it, some of the others are packed into it, and it says how many."""
    noise = [{"text": sha256(str(n).encode()).hexdigest()} for n in range(10_000)]
    html = result(shown(noise, 20_000), 3, PageCapacity(100_000))
    parsed = Parsed(html)
    there = len(parsed.packed[0][0])
    assert 1000 < there < 5000 and len(html) < 101_000
    assert parsed.text.endswith(f"The first {there:,} of 10,000 are on this page.")
    long = Parsed(result(shown("word " * 100_000, 20), 3, PageCapacity(100_000)))
    assert long.text.endswith("word … and 450,000 more characters")
    wide = [{str(c): "x" * 300 for c in range(12)} for _ in range(50)]
    assert len(result(shown(wide, 50), 3, PageCapacity(1_000_000))) < 70_000


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
    assert json_text("x" * 20, 10) == '"xxxxxxxxx\n… and 12 more characters'


def test_columns_that_do_not_fit_beside_each_other_get_more_room() -> None:
    """On a wide screen; on others they stand below each other."""
    short = [{str(c): c for c in range(12)}]
    long = [{str(c): "a longer text " * 9 for c in range(5)}]
    assert '<div class="wide"><table class="sorts stack">' in made(short)
    assert '<div class="wide broad"><table class="sorts many stack">' in made(long)
