"""Money, time and counts as people read them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from fanfold.observe.amounts import (
    clock_time,
    count,
    duration,
    local_time,
    money,
    of_budget,
    per_time,
    short_time,
    usd,
    utc_time,
)

NOON = 1_750_075_200.0  # 2025-06-16 12:00:00 UTC
DAY = 86400.0


@pytest.fixture
def in_tokyo() -> Iterator[None]:
    """The machine's zone is nine hours ahead of UTC."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "JST-9"
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        (0, "$0.00"), (0.41, "$0.41"), (5, "$5.00"), (1234.5, "$1,234.50"), (0.05, "$0.05"),
        (0.414, "$0.41"), (0.999, "$1.00"), (0.0123, "$0.0123"), (0.021125, "$0.0211"),
        (0.000006, "$0.000006"), (0.000000001, "$0.000000001"), (0.00012, "$0.0001"),
    ],
)  # fmt: skip
def test_dollars_have_as_many_digits_as_say_something(amount: float, shown: str) -> None:
    assert usd(amount) == shown


def test_the_smallest_amount_is_never_shown_as_nothing() -> None:
    assert money(1) == "$0.000000001"
    assert money(410_000_000) == "$0.41"


def test_a_cost_stands_beside_its_budget_if_there_is_one() -> None:
    assert of_budget(0.41, 5.0) == "$0.41 of $5.00"
    assert of_budget(0.41, None) == "$0.41"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-1, "0.0s"), (0, "0.0s"), (4.24, "4.2s"), (9.94, "9.9s"), (9.96, "10s"), (59.4, "59s"),
        (59.6, "1m 00s"), (62, "1m 02s"), (3599.6, "1h 00m"), (3900, "1h 05m"), (183600, "2d 03h"),
    ],
)  # fmt: skip
def test_a_duration_has_two_units_at_most(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


@pytest.mark.parametrize(
    ("rate", "shown"),
    [
        (6.24, "6.2/s"), (9.96, "10/s"), (12345.6, "12,346/s"), (1, "1.0/s"), (0.5, "30/min"),
        (0.02, "1.2/min"), (0.001, "3.6/h"), (0.0001, "0.4/h"),
    ],
)  # fmt: skip
def test_slow_items_are_counted_by_the_minute_or_hour(rate: float, shown: str) -> None:
    assert per_time(rate) == shown


def test_one_is_singular() -> None:
    assert [count(n, "call") for n in (0, 1, 2, 12000)] == [
        "0 calls", "1 call", "2 calls", "12,000 calls",
    ]  # fmt: skip
    assert [count(n, "retry", "retries") for n in (1, 2)] == ["1 retry", "2 retries"]


@pytest.mark.usefixtures("in_tokyo")
def test_people_see_local_times_and_programs_utc() -> None:
    assert local_time(NOON) == "2025-06-16 21:00"
    assert clock_time(NOON) == "21:00:00"
    assert utc_time(NOON) == "2025-06-16T12:00:00Z"


@pytest.mark.usefixtures("in_tokyo")
def test_today_is_an_hour_and_earlier_is_a_day() -> None:
    shown = [short_time(NOON - back, NOON) for back in (0, 22 * 3600, 20 * DAY, 400 * DAY)]
    assert shown == ["21:00", "06-15", "05-27", "2024-05-12"]
