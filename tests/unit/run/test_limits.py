"""Limits are synchronous: check says go, wait or closed; take and give count."""

from __future__ import annotations

from random import Random

from fanfold.errors import RateLimited
from fanfold.run.breaker import FULL, GO, Closed, Wait
from fanfold.run.limits import PLAIN, Gauge, Limits, Permit
from fanfold.run.throttle import Rate
from fanfold.testing.member import traits
from fanfold.work.member import MemberLimits


def limits_of(
    *members: tuple[str, str, MemberLimits], most: int = 64
) -> tuple[Limits, list[Gauge]]:
    limits = Limits(most, Random(0))
    made = [limits.add(traits(id, pool=pool, limits=given), 0.0) for id, pool, given in members]
    return limits, made


def one(**given: int) -> tuple[Limits, Gauge]:
    limits, (gauge,) = limits_of(("a", "a", MemberLimits(**given)))
    return limits, gauge


# ── rates ────────────────────────────────────────────────────────────────────────────────────


def test_a_rate_fills_evenly_and_never_beyond_a_second() -> None:
    rate = Rate(60.0, 0.0)
    assert rate.ready_at(0.0, 1.0) == 0.0
    rate.take(0.0, 1.0)
    assert 1.0 < rate.ready_at(0.0, 1.0) < 1.05
    rate.take(1000.0, 1.0)
    assert rate.ready_at(1000.0, 1.0) > 1001.0


def test_over_a_minute_a_rate_allows_no_more_than_it_says() -> None:
    rate, now, sent = Rate(600.0, 0.0), 0.0, 0
    while now < 60.0:
        now = max(now, rate.ready_at(now, 1.0))
        if now < 60.0:
            rate.take(now, 1.0)
            sent += 1
    assert 570 <= sent <= 600


def test_more_than_the_bucket_holds_goes_when_it_is_full_and_is_waited_out_after() -> None:
    rate = Rate(6000.0, 0.0)
    assert rate.ready_at(0.0, 10_000.0) == 0.0
    rate.take(0.0, 1000.0)
    assert 9.0 < rate.ready_at(0.0, 1.0) < 10.5


def test_a_correction_gives_back_what_was_not_used() -> None:
    limits, gauge = one(concurrency=8, tpm=60_000)
    permit = limits.take(gauge, 0.0, 900)
    assert permit == Permit(900.0)
    assert isinstance(gauge.check(0.0, 900), Wait)
    gauge.correct(0.0, permit.tokens, 900, 90)
    assert gauge.check(0.0, 900) is GO
    assert 80 < gauge.estimate(900) < 100


def test_usage_above_the_worst_case_is_not_believed_to_be_usual() -> None:
    limits, gauge = one(concurrency=8, tpm=60_000)
    gauge.correct(0.0, limits.take(gauge, 0.0, 100).tokens, 100, 1000)
    assert gauge.estimate(100) <= 100


# ── concurrency ──────────────────────────────────────────────────────────────────────────────


def test_as_many_go_at_once_as_the_member_allows() -> None:
    limits, gauge = one(concurrency=2)
    for _ in range(2):
        assert gauge.check(0.0, 1) is GO
        limits.take(gauge, 0.0, 1)
    assert gauge.check(0.0, 1) == FULL
    limits.give(gauge, PLAIN)
    assert gauge.check(0.0, 1) is GO


def test_the_cap_for_all_members_together() -> None:
    limits, (first, second) = limits_of(
        ("a", "a", MemberLimits()), ("b", "b", MemberLimits()), most=2
    )
    limits.take(first, 0.0, 1)
    assert not limits.full
    limits.take(second, 0.0, 1)
    assert limits.full
    limits.give(first, PLAIN)
    assert not limits.full


# ── breakers ─────────────────────────────────────────────────────────────────────────────────


def test_a_terminal_error_of_the_pool_closes_all_its_members() -> None:
    limits, (first, second, other) = limits_of(
        ("a", "account", MemberLimits()),
        ("b", "account", MemberLimits()),
        ("c", "c", MemberLimits()),
    )
    limits.trip(first, "pool", "key refused", None)
    assert first.check(0.0, 1) == second.check(0.0, 1) == Closed("key refused")
    assert other.check(0.0, 1) is GO


def test_a_terminal_error_of_a_member_closes_only_it() -> None:
    limits, (first, second) = limits_of(
        ("a", "account", MemberLimits()), ("b", "account", MemberLimits())
    )
    limits.trip(first, "member", "no such model", None)
    assert (first.check(9e9, 1), second.check(0.0, 1)) == (Closed("no such model"), GO)


def test_at_the_reset_time_one_probe_goes_and_the_others_wait_for_it() -> None:
    limits, gauge = one(concurrency=8)
    limits.trip(gauge, "pool", "quota gone", 100.0)
    assert gauge.check(99.0, 1) == Wait(100.0)
    assert gauge.check(100.0, 1) is GO
    probe = limits.take(gauge, 100.0, 1)
    assert gauge.check(101.0, 1) == FULL
    limits.good(gauge, probe, 1)
    limits.give(gauge, probe)
    assert gauge.check(102.0, 1) is GO


def test_a_probe_that_fails_opens_the_breaker_again_for_a_while() -> None:
    limits, gauge = one(concurrency=8)
    limits.trip(gauge, "pool", "quota gone", 100.0)
    probe = limits.take(gauge, 100.0, 1)
    limits.failed(gauge, probe, 101.0)
    limits.give(gauge, probe)
    assert gauge.check(102.0, 1) == Wait(161.0)


def test_nobody_waits_longer_than_max_wait() -> None:
    """Above it the member is closed, and says how long it would take; an agent's quota that comes
    back is waited for."""
    limits = Limits(64, Random(0), max_wait=90.0)
    gauge, agent = limits.add(traits("a"), 0.0), limits.add(traits("b", agent=True), 0.0)
    for one in (gauge, agent):
        limits.trip(one, "pool", "quota gone", 100_000.0)
    told = "quota gone; it can be asked again in 28 hours, and `max_wait` is 90 seconds"
    assert gauge.check(0.0, 1) == Closed(told)
    assert agent.check(0.0, 1) == gauge.check(99_910.0, 1) == Wait(100_000.0)


def test_a_retry_after_above_max_wait_closes_the_account_until_then() -> None:
    limits, gauge = one(concurrency=8)
    limits.take(gauge, 0.0, 1)
    limits.refused(gauge, 1, 0.0, RateLimited("a: rate limited", retry_after=365 * 86_400.0), False)
    told = "a: rate limited; it can be asked again in 365 days, and `max_wait` is 10 minutes"
    assert gauge.check(0.0, 1) == Closed(told)


def test_a_probe_that_was_never_sent_leaves_the_next_one_free_to_go() -> None:
    """Its reply turned out to be known, or it was cancelled: it says nothing about the member."""
    limits, gauge = one(concurrency=8)
    limits.trip(gauge, "pool", "quota gone", 100.0)
    probe = limits.take(gauge, 100.0, 1)
    limits.give(gauge, probe)
    assert gauge.check(101.0, 1) is GO


def test_a_call_that_was_under_way_before_the_breaker_opened_is_no_probe() -> None:
    """Its late answer must neither close the breaker nor be taken for the probe's."""
    limits, gauge = one(concurrency=8)
    early = limits.take(gauge, 0.0, 1)
    limits.trip(gauge, "pool", "quota gone", 100.0)
    limits.good(gauge, early, 1)
    assert gauge.check(60.0, 1) == Wait(100.0)
    limits.take(gauge, 100.0, 1)
    limits.give(gauge, early)
    assert gauge.check(101.0, 1) == FULL
