"""Which fields sort a result into kinds, and how many there are of each."""

from __future__ import annotations

from typing import Any

from fanfold.observe.shown import MOST_BARS, KindCounts, categories


def clause(n: int) -> dict[str, Any]:
    severity = ["low", "high", "medium"][n % 3]
    return {"category": f"kind {n % 4}", "severity": severity, "quote": f"q {n}", "n": n}


def test_the_field_with_most_kinds_is_split_by_the_one_with_fewest() -> None:
    assert categories([clause(n) for n in range(24)]) == [
        KindCounts(
            "category", "severity",
            tuple((f"kind {n}", (2, 2, 2)) for n in range(4)), ("high", "medium", "low"),
        )
    ]  # fmt: skip


def test_lists_in_records_and_in_fields_count() -> None:
    nested = [{"item": str(n), "found": [clause(n), clause(n + 1)]} for n in range(12)]
    (found,) = categories({"text": "x", "report": nested})
    assert (found.by, found.split, found.where) == ("category", "severity", "report")
    assert sum(sum(numbers) for _, numbers in found.kinds) == 24


def test_the_most_frequent_stand_first_and_what_is_not_said_is_a_part_too() -> None:
    rows = [{"k": "a", "s": "yes"}] * 2 + [{"k": "b", "s": None}] * 3 + [{"k": "c", "s": "no"}] * 3
    assert categories(rows) == [
        KindCounts("k", "s", (("b", (0, 0, 3)), ("c", (0, 3, 0)), ("a", (2, 0, 0))),
                   ("yes", "no", "not said"))
    ]  # fmt: skip


def test_ids_numbers_and_long_texts_are_no_kinds() -> None:
    rows = [{"id": f"i{n}", "n": n % 2, "text": "long " * 20, "one": "same"} for n in range(50)]
    assert categories(rows) == []
    assert categories([{"k": "a"}, {"k": "b"}]) == []
    assert categories("text") == categories(None) == categories([1, 2]) == []


def test_of_many_kinds_the_rest_is_counted() -> None:
    rows = [{"k": f"k{n % 40}"} for n in range(400)]
    (found,) = categories(rows)
    assert (len(found.kinds), found.others) == (MOST_BARS, 40 - MOST_BARS)
