"""Dotted paths, numbers written as text, and the nearest name."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.errors import BadInput
from fanfold.work.fields import MISSING, leaves, number, path_of, spread
from fanfold.work.nearest import nearest, remedy

VALUE = {"a": {"b": 1}, "list": [{"c": 2}, {"c": [3, 4]}, 5], "empty": []}


@pytest.mark.parametrize(
    ("field", "found"),
    [
        (None, [("", VALUE)]),
        ("a.b", [("a.b", 1)]),
        ("a", [("a", {"b": 1})]),
        ("a.x", [("a.x", MISSING)]),
        ("a.b.c", [("a.b.c", MISSING)]),
        ("x.y", [("x.y", MISSING)]),
        ("empty.c", []),
        ("list.c", [("list[0].c", 2), ("list[1].c", [3, 4]), ("list[2].c", MISSING)]),
    ],
)
def test_leaves_carry_their_place(field: str | None, found: list[tuple[str, Any]]) -> None:
    assert list(leaves(VALUE, path_of(field))) == found


def test_spread_opens_the_last_list_too() -> None:
    opened = [("list[0].c", 2), ("list[1].c[0]", 3), ("list[1].c[1]", 4), ("list[2].c", MISSING)]
    assert list(spread(VALUE, ("list", "c"))) == opened
    assert list(spread([7, 8], ())) == [("[0]", 7), ("[1]", 8)]


@pytest.mark.parametrize("field", ["", " ", ".", "a.", ".a", "a..b"])
def test_a_path_with_a_gap_is_bad_input(field: str) -> None:
    with pytest.raises(BadInput, match="is not a field"):
        path_of(field)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(3, 3), (2.5, 2.5), (" 42\n", 42), ("-1.5", -1.5), ("1e3", 1000.0), ("7.", 7.0),
     (True, None), ("", None), ("four", None), ("1_000", None), ("nan", None), ("inf", None),
     (float("inf"), None), (float("nan"), None), ("1e999", None), (None, None), ([1], None)],
)  # fmt: skip
def test_numbers(value: Any, expected: int | float | None) -> None:
    found = number(value)
    assert (found, type(found)) == (expected, type(expected))


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_survives_being_text(value: int | float) -> None:
    assert number(str(value)) == value


def test_nearest_ignores_case_and_gives_the_name_as_it_is_known() -> None:
    assert nearest("CONCURENCY", {"concurrency", "budget"}) == "concurrency"
    assert nearest("kEy", ["Key"]) == "Key"
    assert nearest("zzz", ["key"]) is None


def test_a_remedy_names_the_nearest_or_all() -> None:
    assert remedy("requir", ["require", "regex"]) == "did you mean `require`?"
    assert remedy("zzz", ["b", "a"]) == "known: a, b"
