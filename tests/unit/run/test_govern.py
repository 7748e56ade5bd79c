"""The governor's policy: what goes on by itself, what needs a yes, what only another cap allows."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.run.forecast import Forecast
from fanfold.run.govern import Hold, likely_cost, told, weigh
from fanfold.run.settings import Govern

DOLLAR = 1_000_000_000


def stage(tasks: int, *, worst: int | None = 0, p50: int | None = 0, measured: bool = True,
          variance: float = 0.0) -> Forecast:  # fmt: skip
    return Forecast(step="map", tasks=tasks, worst=worst, p50=p50, variance=variance,
                    measured=measured)  # fmt: skip


def test_small_and_cheap_goes_on() -> None:
    assert weigh(Govern(), stage(100, worst=9 * DOLLAR, p50=DOLLAR), 0) is None


def test_too_many_tasks_need_a_yes() -> None:
    held = weigh(Govern(), stage(101, worst=2 * DOLLAR, p50=DOLLAR // 2), 0)
    assert held == Hold(
        "map would ask 101 tasks that were not in the preview, about $0.50;"
        " approve it with --yes or --max-tasks 101"
    )


def test_too_many_dollars_need_a_yes_and_the_flag_suffices() -> None:
    dear = stage(3, worst=12_340_000_001, measured=False)
    held = weigh(Govern(), dear, 0)
    assert held == Hold(
        "map would ask 3 tasks that were not in the preview, at most $12.34;"
        " approve it with --yes or --approve-over 12.35"
    )
    assert weigh(Govern(approve_over=12.35), dear, 0) is None


def test_both_thresholds_are_named_when_both_are_passed() -> None:
    held = weigh(Govern(), stage(547, worst=606 * DOLLAR, measured=False), 0)
    assert held is not None
    assert held.reason.endswith("approve it with --yes or --max-tasks 547 --approve-over 606.00")


def test_with_history_the_90th_percentile_counts_without_it_the_worst_case() -> None:
    made = stage(5, worst=9 * DOLLAR, p50=DOLLAR // 2, variance=(DOLLAR / 10.0) ** 2)
    assert likely_cost(made) == 500_000_000 + 128_160_000
    assert likely_cost(msgspec.structs.replace(made, measured=False)) == 9 * DOLLAR


def test_a_yes_beforehand_goes_on_but_not_above_the_cap() -> None:
    yes = Govern(yes=True, cap=1000)
    many = stage(900, worst=99 * DOLLAR, measured=False)
    assert weigh(yes, many, 100) is None
    assert weigh(yes, many, 101) == Hold(
        "map would ask 900 tasks that were not in the preview after 101 before,"
        " which is above the cap of 1,000; allow it with --cap 1001",
        cap=1001,
    )


def test_a_price_nobody_knows_needs_a_yes_only_where_somebody_is_paid() -> None:
    made = stage(1, worst=None, p50=None)
    assert weigh(Govern(), made, 0, unpriced=False) is None
    assert weigh(Govern(), made, 0, unpriced=True) == Hold(
        "map would ask 1 task that was not in the preview, at a price that is not known;"
        " approve it with --yes"
    )


def test_nothing_left_to_ask_never_holds() -> None:
    assert weigh(Govern(max_tasks=0, approve_over=0.0, cap=0), stage(0, worst=5), 0) is None


def test_what_is_said_fits_one_line() -> None:
    """A receipt cuts a reason after 200 letters; the remedy stands at its end."""
    name = "a-step-with-a-rather-long-name.map"
    made = msgspec.structs.replace(stage(123_456, worst=10**6 * DOLLAR), step=name, measured=False)
    held = weigh(Govern(cap=10**6), made, 0)
    assert held is not None and len(held.reason) < 200
    assert told(made) == (
        f"{name} would ask 123,456 tasks that were not in the preview, at most $1,000,000.00"
    )


@given(
    st.integers(0, 2000), st.integers(0, 10**12), st.integers(0, 2000), st.booleans(), st.booleans()
)
def test_following_the_advice_helps(
    tasks: int, worst: int, before: int, yes: bool, measured: bool
) -> None:
    """With the flags that the reason names, the same stage goes on."""
    made = stage(tasks, worst=worst, p50=worst, measured=measured)
    held = weigh(Govern(yes=yes), made, before)
    if held is None:
        return
    words = held.reason.split()
    flags = {word: words[n + 1] for n, word in enumerate(words) if word.startswith("--")
             and word != "--yes"}  # fmt: skip
    raised = Govern(
        max_tasks=int(flags.get("--max-tasks", 100)), cap=int(flags.get("--cap", 1000)),
        approve_over=float(flags.get("--approve-over", 1.0)), yes=yes or bool(held.cap),
    )  # fmt: skip
    assert weigh(raised, made, before) is None


@pytest.mark.parametrize("field", ["max_tasks", "approve_over", "cap", "yes"])
def test_what_is_not_changed_is_not_written_into_a_stored_plan(field: str) -> None:
    assert field not in msgspec.to_builtins(Govern())
