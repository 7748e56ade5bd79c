"""Regular expressions: what Python means by them, in time in proportion to the text."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fanfold.errors import BadInput
from fanfold.gates.checks import quotes, regex, schema
from fanfold.gates.linear_regex import linear
from fanfold.work.ask import Ask, Reply
from fanfold.work.item import Item
from fanfold.work.outcome import PASS, Verdict
from fanfold.work.task import Task, Terms

PATTERNS = [
    r"^\w+$", r"^\W+$", r"^\d+$", r"\D", r"^a$", r"(?i)yes", r"(?P<n>x)\d", r"a\Z", r"\Aa",
    r"(?x) a  b", r"(?s)a.b", r"a.b", r"(?m)^b$", r"\s", r"\S", r"[^\W\d_]+", r"\u00e9", r"[\[]",
    r"a{,3}b", r"\bé", r"[]a]", r"[^]a]", r"\{a\}", r"[$]", r"[a\]b]", r"[\w-]", r"[\d.]+", r"a|b$",
    r"^[A-Z]{2,3}-\d+$", r"\$", r"[\\$]", r"[^\s]", r"[\S\s]", r"x{2}", r"(?:a|b)+?c", r"\.$",
    r"[a-]", r"[-a]", r"\t", r"\n", r"[|]", r"\Z", r"^$", r"(a)(b)?", r"[\W]", r"[^\D]", r"[\W_]",
]  # fmt: skip
TEXTS = [
    "é", "٣", "a\n", "a", "YES", "x1", "ab", "aab", "a\nb", "b", "a\nb\nc", "\xa0", "\x1c", "[",
    "]", "&", "~", "{a}", "$", "\\", "-", ".", "AB-12", "", "abc", "xx", "\t", "\n", "|", "+", ",",
    "1.5", "aaaab", "²", "_", "ñ", "‿", "a b", "日本", "x" * 200,
]  # fmt: skip
CRUEL = [r"^(a+)+$", r"(x+x+)+y", r"^(\w+\s?)*$", r"(a|aa)+$", r"(.*)(.*)(.*)(.*)z"]
HUGE = "a" * 100_000 + "!"


def judge(gate: Any, text: str = "", data: Any = None) -> Verdict:
    task = Task("i", Ask(items=(Item("i", "x"),)), Terms("map", gate))
    said = gate(task, Reply(text=text, data=data), None)
    assert isinstance(said, Verdict)
    return said


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_means_what_it_means_in_python(pattern: str) -> None:
    found = linear(pattern)
    assert [found(text) for text in TEXTS] == [bool(re.search(pattern, text)) for text in TEXTS]


@pytest.mark.parametrize("pattern", CRUEL)
def test_a_cruel_pattern_does_not_freeze_the_run(pattern: str) -> None:
    """With Python's engine each of these would outlast us all."""
    assert judge(regex(pattern), HUGE).state == "fail"
    fits = schema({"type": "string", "pattern": pattern})
    assert judge(fits, HUGE).state == "fail"


@pytest.mark.parametrize(
    "pattern", [r"^(?!no)", r"(?=a)b", r"(a)\1", r"(?<!a)b", r"(?P<a>x)(?P=a)", r"(?=.*z)(.*)*y"]
)
def test_what_only_a_backtracking_engine_knows_is_refused_with_the_remedy(pattern: str) -> None:
    """Look-around makes even a bounded engine slow: quadratic, a reply of a megabyte freezes it."""
    with pytest.raises(BadInput, match=r"look-around or a back-reference.*`python` check"):
        regex(pattern)
    for inside in ({"pattern": pattern}, {"properties": {"a": {"items": {"pattern": pattern}}}}):
        with pytest.raises(
            BadInput, match=r"the schema's `pattern`.*look-around or a back-reference"
        ):
            schema(inside)
    with pytest.raises(BadInput, match="look-around or a back-reference"):
        schema({"patternProperties": {pattern: {}}})


def test_what_is_no_pattern_is_refused() -> None:
    with pytest.raises(BadInput, match="is not a regular expression: missing"):
        regex("(")
    with pytest.raises(BadInput, match="not a valid JSON Schema"):
        schema({"pattern": "("})
    with pytest.raises(BadInput, match=r"escape `{`"):
        regex("a{")


def test_a_value_that_happens_to_be_called_pattern_is_none() -> None:
    value = {"pattern": "(?=a)"}
    gate = schema({"const": value, "enum": [value]})
    assert judge(gate, data=value).state == "pass"
    assert judge(gate, data={"pattern": "a"}).state == "fail"


def test_quotes_are_looked_for_no_longer_than_it_matters() -> None:
    """A reply with a hundred thousand quotes would be looked for in the whole text so often."""
    text = "one two three " * 70_000
    many = [f"quote {n}" for n in range(200_000)]
    task = Task("i", Ask(items=(Item("i", {"text": text}),)), Terms("map", quotes("q")))
    said = quotes("q")(task, Reply(data={"q": many}), None)  # type: ignore[arg-type]
    assert isinstance(said, Verdict) and said.state == "fail"
    assert "(and " in said.reasons[-1]
    same = Reply(data={"q": ["two three"] * 50_000})
    assert quotes("q")(task, same, None) is PASS  # type: ignore[arg-type]
    found = Reply(data={"q": [text[-n - 10 :] for n in range(1100)]})
    said = quotes("q")(task, found, None)  # type: ignore[arg-type]
    assert isinstance(said, Verdict) and "more than 1,000 different quotes" in said.reasons[0]
