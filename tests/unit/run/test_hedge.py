"""When an ask gets a second request: what is usual is learned, and the share of extra calls holds."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.run.hedge import LEAST, NEWEST, Hedging, Latencies, repeatable
from fanfold.testing.member import traits
from fanfold.work.member import Traits
from fanfold.work.task import Hedge

MODEL = traits("model")


def nothing_before(traits: Traits) -> Iterable[float]:
    return ()


def hedging(extra: float = 0.05, after: float | None = None) -> Hedging:
    return Hedging(Hedge(extra, after), nothing_before)


def learned(policy: Hedging, *seconds: float, member: Traits = MODEL) -> None:
    for one in seconds:
        policy.times(member).took(one)


def hundred(step: float = 1.0) -> list[float]:
    return [n * step for n in range(100)]


def test_before_twenty_calls_nobody_can_tell_what_is_slow() -> None:
    policy = hedging()
    learned(policy, *map(float, range(LEAST - 1)))
    assert policy.patience(MODEL, 100.0) is None
    learned(policy, 19.0)
    assert policy.patience(MODEL, 100.0) == 18.0


def test_each_member_has_times_of_its_own() -> None:
    policy, quick = hedging(), traits("quick")
    learned(policy, *hundred())
    learned(policy, *hundred(0.5), member=quick)
    assert (policy.patience(MODEL, 0.0), policy.patience(quick, 0.0)) == (94.0, 47.0)


def test_what_earlier_runs_took_is_known_at_once() -> None:
    policy = Hedging(Hedge(0.05), lambda traits: hundred())
    assert policy.patience(MODEL, 0.0) == 94.0


def test_stated_seconds_need_no_calls_to_learn_from() -> None:
    assert hedging(after=7.5).patience(MODEL, 0.0) == 7.5


@pytest.mark.parametrize(("extra", "seconds"), [(0.5, 94.0), (0.05, 94.0), (0.02, 97.0)])
def test_few_extra_calls_go_to_the_slowest(extra: float, seconds: float) -> None:
    policy = hedging(extra)
    learned(policy, *hundred())
    assert policy.patience(MODEL, 0.0) == seconds


def test_calls_that_still_wait_are_no_quick_ones() -> None:
    """Twenty quick answers, and as many calls that wait for longer: so what is slow is not known.
    Calls that began only just now say nothing."""
    waiting, fresh = Latencies(hundred(0.5)[:20]), Latencies(hundred(0.5)[:20])
    for _ in range(20):
        waiting.began(0.0)
        fresh.began(50.0)
    assert (waiting.slow(0.95, 50.0), fresh.slow(0.95, 50.0)) == (None, 9.5)


def test_what_was_called_off_took_at_least_so_long() -> None:
    times, short = Latencies(hundred()[:90]), Latencies(hundred()[:90])
    for n in range(10):
        times.took(90.0 + n, at_least=True)
        short.took(0.5, at_least=True)
    assert (times.slow(0.95, 0.0), short.slow(0.95, 0.0)) == (None, 85.0)


def test_a_call_that_ended_waits_no_longer() -> None:
    times = Latencies(hundred())
    times.began(0.0)
    times.ended(0.0)
    assert times.slow(0.95, 1000.0) == 94.0


@given(extra=st.floats(0.001, 1.0), asks=st.integers(0, 2000))
def test_the_share_of_extra_calls_is_never_passed_and_can_be_used_up(
    extra: float, asks: int
) -> None:
    policy = hedging(extra)
    for _ in range(asks):
        policy.asks += 1
        while policy.allowed:
            policy.hedges += 1
        assert policy.hedges <= extra * policy.asks + 1e-6
    assert policy.hedges >= int(extra * asks - 1e-6)


@given(st.lists(st.floats(0.0, 1e6), min_size=LEAST, max_size=3 * NEWEST))
def test_the_quantile_is_that_of_the_newest_calls(seconds: list[float]) -> None:
    half, rest = seconds[: len(seconds) // 2], seconds[len(seconds) // 2 :]
    times = Latencies(half)
    for one in rest:
        times.took(one)
    newest = sorted(seconds[-NEWEST:])
    slow = times.slow(0.95, 0.0)
    assert slow in newest
    assert sum(one <= slow for one in newest) >= 0.95 * len(newest) - 1e-6
    assert sum(one < slow for one in newest) < 0.95 * len(newest) + 1e-6


@pytest.mark.parametrize(
    ("like", "may"),
    [
        (traits(), True),
        (traits(agent=True), False),
        (traits(kind="command"), False),
        (traits(kind="function"), False),
        (traits(metered=False), False),
    ],
)
def test_only_models_are_asked_twice(like: Traits, may: bool) -> None:
    assert repeatable(like) is may
