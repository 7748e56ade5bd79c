"""The reduces of plan files."""

from __future__ import annotations

from typing import Any

import pytest

from fanfold.errors import BadInput
from fanfold.patterns.fold import KINDS, from_plan
from fanfold.work.outcome import Part

PARTS = [Part("a", 0, {"n": 2, "t": "x"}), Part("b", 1, {"n": 3, "t": "x"})]
A, B = {"n": 2, "t": "x", "item": "a"}, {"n": 3, "t": "x", "item": "b"}


def resolve(target: str) -> Any:
    return {"m:ids": lambda parts: [part.id for part in parts], "m:five": 5}[target]


CASES: list[tuple[str, dict[str, Any], Any]] = [
    ("concat", {"sep": "|"}, '{"n":2,"t":"x"}|{"n":3,"t":"x"}'),
    ("concat", {"sep": "|", "title": "<{id}>"}, '<a>\n\n{"n":2,"t":"x"}|<b>\n\n{"n":3,"t":"x"}'),
    (
        "collect",
        {},
        [{"id": "a", "value": {"n": 2, "t": "x"}}, {"id": "b", "value": {"n": 3, "t": "x"}}],
    ),
    ("sum", {"field": "n"}, 5),
    ("count", {}, 2),
    ("count", {"by": "t"}, {"x": 2}),
    ("union", {"field": "n"}, [2, 3]),
    ("merge", {}, {"n": 3, "t": "x"}),
    ("sort", {"by": "n"}, [A, B]),
    ("sort", {"by": "n", "order": "ascending"}, [A, B]),
    ("sort", {"by": "n", "order": "descending"}, [B, A]),
    ("top", {"n": 1, "by": "n"}, [B]),
    ("best", {"by": "n"}, B),
    ("vote", {"field": "t"}, {"winner": "x", "votes": {"x": 2}, "of": 2}),
    ("python", {"target": "m:ids"}, ["a", "b"]),
]


@pytest.mark.parametrize(("kind", "options", "result"), CASES)
def test_each_kind(kind: str, options: dict[str, Any], result: Any) -> None:
    assert from_plan(kind, options, resolve)(PARTS) == result


def test_no_kind_is_left_out_above() -> None:
    assert {kind for kind, _, _ in CASES} == set(KINDS)


@pytest.mark.parametrize(
    ("kind", "options", "text"),
    [
        ("sorted", {}, "unknown reduce kind `sorted`: did you mean `sort`?"),
        (
            "zzz",
            {},
            f"unknown reduce kind `zzz`: known: {', '.join(sorted(KINDS))}",
        ),
        ("sort", {}, "reduce `sort` needs the field `by`"),
        (
            "sort",
            {"by": "n", "ordr": "x"},
            "reduce `sort` has no field `ordr`: did you mean `order`?",
        ),
        (
            "sort",
            {"by": "n", "order": "down"},
            "reduce `sort`: order is ascending or descending, not 'down'",
        ),
        ("collect", {"by": "n"}, "reduce `collect` has no field `by`: it takes no other field"),
        ("concat", {"sep": 5}, "reduce `concat`: `sep` is a text, not 5"),
        (
            "concat",
            {"title": "x"},
            "`title` must be a text with {id} in it, such as '## {id}', not 'x'",
        ),
        ("top", {"n": 0, "by": "n"}, "`top` needs a whole number of records from 1 on, not 0"),
        ("best", {"by": "a..b"}, "`a..b` is not a field: write a name, or names joined by dots"),
        ("python", {"target": "m:five"}, "a `python` reduce needs a function of the parts, not 5"),
    ],
)
def test_a_mistake_is_bad_input_in_one_line(kind: str, options: dict[str, Any], text: str) -> None:
    with pytest.raises(BadInput) as bad:
        from_plan(kind, options, resolve)
    assert str(bad.value) == text
