"""Why items did not pass: which reasons are the same."""

from __future__ import annotations

import pytest

from fanfold.work.outcome import MOST_GROUPS, ReasonCount, count_reasons


def counts(*reasons: str) -> list[int]:
    """One item for each reason, `item-0` and so on, which may be in the reason as `{id}`."""
    ended = ((f"item-{n}", (text.format(id=f"item-{n}"),)) for n, text in enumerate(reasons))
    return [one.items for one in count_reasons(ended)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("`price` is 102, above 100", "`price` is -3.5e7, above 100"),
        ("{id}: cannot be read", "{id}: cannot be read"),
        ("KeyError: '{id}'", "KeyError: '{id}'"),
        ("haiku: no JSON at line 3 column 17 (char 55)", "haiku: no JSON at line 1 column 2 (char 1)"),
        ("haiku: server error (503): request req_01AbC9", "haiku: server error (503): request req_7x"),
        ("`items[3].quote` is not in the source", "`items[14].quote` is not in the source"),
        ('no such sentence: "The supplier pays."', 'no such sentence: "Nobody pays at all."'),
    ],
)  # fmt: skip
def test_reasons_that_differ_only_in_ids_numbers_and_quotes_are_one(one: str, other: str) -> None:
    assert counts(one, other) == [2]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("haiku: server error (503)", "haiku: server error (500)"),
        ("haiku: HTTP 404", "haiku: HTTP 400"),
        ("m1: no answer", "m2: no answer"),
        ("check.py:4: KeyError", "check.py:9: KeyError"),
        ('"price" is a required property', '"name" is a required property'),
        ("exit code 1", "exit code 137"),
    ],
)
def test_reasons_that_say_something_else_stay_apart(one: str, other: str) -> None:
    assert counts(one, other) == [1, 1]


def test_an_id_that_is_a_number_is_not_taken_for_a_line_or_a_code() -> None:
    ended = [(str(n), ("KeyError: 'nope' (bad.py:2); server error (503)",)) for n in (1, 2, 503)]
    assert [one.items for one in count_reasons(ended)] == [3]


def test_an_id_that_is_also_the_code_leaves_the_code() -> None:
    ended = [(str(n), (f"{n}: a: exit code 1 (after 4 attempts)",)) for n in range(5)]
    assert [one.items for one in count_reasons(ended)] == [5]


def test_the_most_frequent_is_first_and_names_its_first_item() -> None:
    ended = [("a", ("empty",)), ("b", ("3 too many", "4 too many")), ("c", ("9 too many",))]
    assert count_reasons(ended) == (ReasonCount("3 too many", 2, "b"), ReasonCount("empty", 1, "a"))


def test_however_many_reasons_there_are_memory_is_bounded() -> None:
    words = (
        f"{chr(97 + n % 26)}{chr(97 + n // 26 % 26)}{chr(97 + n // 676)} wrong" for n in range(3000)
    )
    assert len(count_reasons((word, (word + "ly so",)) for word in words)) <= MOST_GROUPS
