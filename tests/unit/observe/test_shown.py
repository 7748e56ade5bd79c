"""What is shown of a result: the same for every kind of page."""

from __future__ import annotations

from fanfold.observe.shown import (
    Grid,
    Pairs,
    Parts,
    Prose,
    RawJson,
    Values,
    inline,
    lines_of,
    shown,
)


def test_each_kind_of_value_has_its_form() -> None:
    assert shown("a", 9) == Prose("a")
    assert shown([1, None, "a"], 2) == Values((1, None), 3)
    assert shown({"a": 1, "b": "x"}, 9) == Pairs((("a", 1), ("b", "x")))
    assert shown([1, [2]], 9) == RawJson([1, [2]])
    assert shown({}, 9) == RawJson({})
    assert shown([{"a": 1}, {"b": 2}], 9) == Grid(("a", "b"), ((1, None), (None, 2)), 2)


def test_a_record_of_records_alike_is_a_table_with_their_names() -> None:
    found = {"x": {"n": 1, "m": 2}, "y": {"n": 3, "m": 4}}
    assert shown(found, 9) == Grid(("", "n", "m"), (("x", 1, 2), ("y", 3, 4)), 2)


def test_a_record_with_long_parts_has_the_short_ones_first() -> None:
    assert shown({"rows": [{"a": 1}], "n": 2}, 9) == Parts(
        (("", Pairs((("n", 2),))), ("rows", Grid(("a",), ((1,),), 1)))
    )


def test_lists_in_records_are_opened_when_little_is_beside_them() -> None:
    found = [{"item": "a", "f": [{"x": 1}, {"x": 2}]}, {"item": "b", "f": []}, {"item": "c"}]
    assert shown(found, 1) == Grid(("item", "x"), (("a", 1),), 2, empty=2, of="f")
    much = [{**one, "p": 1, "q": 2, "r": 3, "s": 4} for one in found]
    opened = shown(much, 9)
    assert isinstance(opened, Grid)
    assert (opened.titles, opened.whole) == (("item", "f", "p", "q", "r", "s"), 3)


def test_records_in_records_are_columns_when_they_have_the_same_names() -> None:
    alike = [{"v": {"a": n, "b": n}} for n in range(4)]
    assert shown(alike, 1) == Grid(("v.a", "v.b"), ((0, 0),), 4)
    unlike = [{"v": {f"k{n}": n}} for n in range(4)]
    assert shown(unlike, 1) == Grid(("v",), (({"k0": 0},),), 4)


def test_columns_without_anything_are_named_instead() -> None:
    found = shown([{"a": 1, "b": []}, {"a": 2, "b": None}], 9)
    assert found == Grid(("a",), ((1,), (2,)), 2, blank=("b",))
    assert isinstance(found, Grid)
    assert found.notes == ["Nothing in: b."]


def test_values_as_lines() -> None:
    assert lines_of({"a": 1, "b": [1, 2]}) == ["a: 1", "b: 1, 2"]
    assert lines_of([{"a": 1}, {"a": {"b": 2}}]) == ["a: 1", "a: (b: 2)"]
    assert lines_of([]) == lines_of(None) == lines_of({}) == [""]
    assert inline({"a": {"b": {"c": {"d": 1}}}}) == 'a: (b: (c: {"d":1}))'
