"""Can two patterns name the same file? Against a search over real names, and case by case."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.fleet.records import overlap


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        ("src/a.py", "src/a.py", True),
        ("src/a.py", "src/b.py", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/a.ts", False),
        ("src/*.py", "src/sub/a.py", False),
        ("src/**/*.py", "src/a.py", True),
        ("src/**", "src/deep/down/a.ts", True),
        ("**/*.ts", "src/**/*.py", False),
        ("**/test_*", "src/**/*_x.py", True),
        ("src", "src/a/b.py", True),
        ("src/", "src/a/b.py", True),
        ("src", "source/a.py", False),
        ("./src/a", "src//a", True),
        (".", "anything/at/all", True),
        ("a?c", "abc", True),
        ("a?c", "ac", False),
        ("[ab].md", "[bc].md", True),
        ("[a-c].md", "[x-z].md", False),
        ("[!a].md", "b.md", True),
        ("*.{ts,tsx}", "a.tsx", True),
        ("*.{ts,tsx}", "a.js", False),
        ("{a,b}/{c,d}", "b/d/x", True),
        ("*a*b", "*b*a", False),
        ("*a*b*", "*b*a*", True),
        ("a*", "b*", False),
        ("src/*", "src/auth/login.py", False),
    ],
)
def test_case_by_case(one: str, other: str, meet: bool) -> None:
    assert (overlap(one, other), overlap(other, one)) == (meet, meet)


NAMES = [
    "/".join(path)
    for many in (1, 2, 3)
    for path in product(["a", "b", "ab", "ba"], repeat=many)
]  # fmt: skip
SEGMENT = st.sampled_from(["a", "b", "*", "a*", "*b", "?", "??", "**", "[ab]", "[b]a", "a?"])


def as_regex(pattern: str) -> re.Pattern[str]:
    """`**` is any number of segments, a plain last segment also stands for what is below it."""
    parts = ["(?:[^/]+/)*" if part == "**" else _segment(part) + "/" for part in pattern.split("/")]
    plain = not any(letter in pattern.split("/")[-1] for letter in "*?[")
    return re.compile("".join(parts) + ("(?:[^/]+/)*" if plain else ""))


def _segment(part: str) -> str:
    return part.replace("*", "[^/]*").replace("?", "[^/]")


@given(st.lists(SEGMENT, min_size=1, max_size=3), st.lists(SEGMENT, min_size=1, max_size=3))
def test_a_name_that_both_fit_is_never_overlooked(one: list[str], other: list[str]) -> None:
    """The names tried are short, so only this direction can be held against them."""
    first, second = "/".join(one), "/".join(other)
    both = [n for n in NAMES if all(as_regex(p).fullmatch(f"{n}/") for p in (first, second))]
    assert overlap(first, second) or both == []


@given(st.lists(SEGMENT, min_size=1, max_size=2), st.sampled_from(NAMES))
def test_a_plain_name_meets_a_pattern_exactly_when_it_fits(one: list[str], name: str) -> None:
    pattern = "/".join(one)
    below = [f"{name}/{rest}/" for rest in NAMES]
    fits = any(as_regex(pattern).fullmatch(tried) for tried in (f"{name}/", *below))
    assert overlap(pattern, name) is fits
