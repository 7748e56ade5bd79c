"""Plots: shares that add up, a lane for each member, and the numbers in words beside them."""

from __future__ import annotations

from fanfold.journal.answers import MemberActivity
from fanfold.observe.account import Bar, Lane, Times
from fanfold.observe.html.plots import bar, counts_chart, legend, timeline
from fanfold.observe.shown import KindCounts
from tests.unit.observe.html.parsed import Parsed


def test_a_bar_has_a_title_and_a_shade_for_each_part() -> None:
    assert bar([0.5, 0.0, 0.25], "a < b") == (
        '<svg class="bar" role="img"><title>a &lt; b</title>'
        '<rect class="s0" x="0%" width="50%" height="100%"/>'
        '<rect class="s2" x="50%" width="25%" height="100%"/></svg>'
    )


def test_counts_are_a_table_with_bars() -> None:
    found = KindCounts(
        "kind", "severity", (("<a>", (2, 1)), ("b", (0, 1))), ("high", "low"), "rows", 3
    )
    parsed = Parsed(counts_chart(found))
    assert parsed.text == (
        "Severity by rows: kind; without 3 kinds with fewer high low"
        " <a> <a>: 2 high, 1 low 3 b b: 1 low 1"
    )
    assert [one["width"] for one in parsed.all("rect")[2:]] == ["66.67%", "33.33%", "33.33%"]
    assert [one["scope"] for one in parsed.all("th")] == ["row", "row"]


def test_a_single_shade_needs_no_legend() -> None:
    assert legend([""]) == ""
    assert Parsed(legend(["a", "b"])).text == "a b"


def lane(name: str, **how: object) -> Lane:
    return Lane(MemberActivity(name, 2, 1, 0, 4.0), **how)  # type: ignore[arg-type]


def test_calls_are_bars_in_rows() -> None:
    bars = (Bar(0.0, 5.0, 0, "ok", 1), Bar(2.5, 10.0, 1, "in_doubt", 2))
    parsed = Parsed(timeline(Times(10.0, (lane("a<b", bars=bars),), (5.0,))))
    drawn = [(one["class"], one["x"], one["y"], one["width"]) for one in parsed.all("rect")[1:]]
    assert drawn == [("s0", "0", "0", "499.4"), ("bad", "250", "11", "749.4")]
    assert "#2 in doubt, 7.5s" in parsed.text
    assert "a<b: 2 calls, 1 of them without a reply that counts, 4.0s together" in parsed.text
    assert [one["x1"] for one in parsed.all("line") if one["class"] == "gap"] == ["50%"]


def test_many_calls_are_one_path_as_high_as_they_were_many() -> None:
    levels = (1.0, 0.0, 4.0, 2.0)
    parsed = Parsed(timeline(Times(8.0, (lane("a", levels=levels),))))
    (path,) = parsed.all("path")
    assert path["d"] == "M0 26V19.5h250V26zM500 26V0h250V26zM750 26V13h250V26z"
    assert "at most about 4 at once" in parsed.text


def test_the_axis_has_few_marks_whatever_the_time() -> None:
    for seconds in (0.01, 0.4, 3.0, 59.0, 61.0, 4000.0, 90_000.0, 4e6):
        parsed = Parsed(timeline(Times(seconds, (lane("a"),))))
        marks = [one for one in parsed.all("line") if one["class"] == "tick"]
        assert 1 <= len(marks) <= 6, seconds
