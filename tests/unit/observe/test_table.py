"""Clean lines and aligned columns."""

from __future__ import annotations

import pytest

from fanfold.observe.table import Column, aligned, cells_wide, cut, one_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\nlines\tand  more ", "two lines and more"),
        ("\x1b[31mred\x1b[0m \x07bell\r", "[31mred [0m bell"),
        ("right\u202eto left", "right to left"),
        ("naïve 日本", "naïve 日本"),
        ("", ""),
    ],
)
def test_a_line_holds_nothing_that_steers_a_terminal(text: str, shown: str) -> None:
    assert one_line(text) == shown


def test_a_long_text_is_cut_by_columns_not_letters() -> None:
    assert one_line("x" * 300) == "x" * 199 + "…"
    assert [cut("日本語", n) for n in (6, 5, 4, 3, 2)] == ["日本語", "日本…", "日…", "日…", "…"]
    assert cells_wide("日本語e\u0301") == 7


def test_columns_are_aligned_also_with_wide_letters() -> None:
    columns = [Column("name", ["日本", "plain"]), Column("n", ["1", "1,000"], right=True)]
    assert aligned(columns, 80, "  ") == ["  name       n", "  日本       1", "  plain  1,000"]


def test_what_does_not_fit_loses_the_columns_of_the_highest_rank_first() -> None:
    columns = [
        Column("aaaa", ["1"]), Column("bbbb", ["2"], rank=2), Column("cccc", ["3"], rank=1),
    ]  # fmt: skip
    assert aligned(columns, 16) == ["aaaa  bbbb  cccc", "1     2     3"]
    assert aligned(columns, 15) == ["aaaa  cccc", "1     3"]
    assert aligned(columns, 9) == ["aaaa", "1"]


def test_long_texts_are_cut_the_longest_first_and_never_below_their_least() -> None:
    columns = [
        Column("item", ["i" * 10], least=4), Column("n", ["7"]), Column("why", ["w" * 30], least=8),
    ]  # fmt: skip
    assert aligned(columns, 35)[1] == "i" * 10 + "  7  " + "w" * 19 + "…"
    assert aligned(columns, 23)[1] == "i" * 8 + "…  7  " + "w" * 8 + "…"
    assert aligned(columns, 5)[1] == "iii…  7  wwwwwww…"


def test_a_table_without_rows_is_its_titles() -> None:
    assert aligned([Column("a", []), Column("b", [])], 80) == ["a  b"]
