"""The gates of plan files."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from fanfold.errors import BadInput
from fanfold.gates.kinds import KINDS, from_plan
from fanfold.work.outcome import PASS, fail
from tests.unit.gates.judging import item, verdict


class Finding(BaseModel):
    clause: str


def positive(value: Any) -> bool:
    return bool(value["n"] > 0)


def always(task: Any, reply: Any, ask: Any) -> Any:
    return fail("never") if reply.value == {"n": 13} else PASS


NAMED = {"m:Finding": Finding, "m:positive": positive, "m:always": always, "m:five": 5}


def resolve(target: str) -> Any:
    if target not in NAMED:
        raise BadInput(f"there is no {target}")
    return NAMED[target]


@pytest.mark.parametrize(
    ("spec", "good", "bad"),
    [
        ([{"require": ["a", "b"]}], {"a": 1, "b": 2}, {"a": 1}),
        ([{"require": "a"}], {"a": 1}, {}),
        ([{"quotes": "e"}], {"e": "b c"}, {"e": "x"}),
        ([{"quotes": ["e", "f"]}], {"e": "b", "f": "c"}, {"e": "b", "f": "x"}),
        ([{"quotes": {"field": "e", "source": "title"}}], {"e": "T"}, {"e": "b"}),
        ([{"schema": {"required": ["a"]}}], {"a": 1}, {}),
        ([{"range": {"field": "n", "low": 0, "high": 1}}], {"n": 1}, {"n": 2}),
        ([{"range": {"field": "n", "low": 0}}], {"n": 9}, {"n": -1}),
        ([{"regex": "yes"}], "oh yes", "no"),
        ([{"regex": {"pattern": "^y", "field": "a"}}], {"a": "yes"}, {"a": "no"}),
        ([{"shape": "m:Finding"}], {"clause": "x"}, {}),
        ([{"model": "m:Finding"}], {"clause": "x"}, {}),  # its name in 0.1
        ([{"python": "m:positive"}], {"n": 1}, {"n": 0}),
        ([{"python": "m:always"}], {"n": 1}, {"n": 13}),
        ([{"any_of": [{"require": ["a"]}, {"require": ["b"]}]}], {"b": 1}, {"c": 1}),
        ([{"all_of": [{"require": ["a"]}, {"require": ["b"]}]}], {"a": 1, "b": 1}, {"b": 1}),
        ([{"require": ["a"]}, {"regex": "z"}], {"a": "z"}, {"a": "y"}),
        ({"require": ["a"], "regex": "z"}, {"a": "z"}, {"a": "y"}),
    ],
)
def test_each_kind_lets_good_through_and_holds_bad(spec: Any, good: Any, bad: Any) -> None:
    gate = from_plan(spec, resolve)
    source = item(text="a b c", title="T")
    assert [verdict(gate, good, source).state, verdict(gate, bad, source).state] == ["pass", "fail"]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ([{"requires": ["a"]}], "unknown gate `requires`: did you mean `require`?"),
        (
            [{"zzz": 1}],
            f"unknown gate `zzz`: known: {', '.join(sorted(KINDS))}",
        ),
        ([{"any_of": [{"quote": "a"}]}], "unknown gate `quote`: did you mean `quotes`?"),
        ([{"any_of": []}], "`any_of` has no gates in it: give at least one"),
        ([], "`gate` states no check: give one, such as `require: [a]`, or leave it out"),
        (["require"], "a gate is a mapping such as `require: [a, b]`, not 'require'"),
        ([{"require": []}], "gate `require` takes a field or a list of fields, not []"),
        ([{"require": [1]}], "gate `require` takes a field or a list of fields, not [1]"),
        ([{"range": {"feild": "n"}}], "gate `range` has no field `feild`: did you mean `field`?"),
        ([{"range": {"low": 1}}], "gate `range` needs the field `field`"),
        ([{"range": [0, 1]}], "gate `range` takes a mapping of field, low, high, not [0, 1]"),
        ([{"python": 5}], "gate `python` takes `module:attribute`, not 5"),
        ([{"python": "m:five"}], "gate `python`: m:five is not a function"),
        ([{"python": "m:nobody"}], "there is no m:nobody"),
    ],
)
def test_a_mistake_is_bad_input_in_one_line(spec: Any, text: str) -> None:
    with pytest.raises(BadInput) as bad:
        from_plan(spec, resolve)
    assert str(bad.value) == text
