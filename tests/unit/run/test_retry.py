"""Should we try again, and when? Values in, a decision out."""

from __future__ import annotations

from random import Random

import pytest

from fanfold.errors import InvalidReply, MemberError, RateLimited, Terminal, TimedOut, Transient
from fanfold.run.retry import Again, GiveUp, after


def decided(error: Exception, tries: int, most: int = 4) -> Again | GiveUp:
    return after(error, tries, most, Random(0))


@pytest.mark.parametrize("error", [Transient("503"), TimedOut("slow"), InvalidReply("not JSON")])
def test_what_may_pass_is_tried_again_later_and_later(error: MemberError) -> None:
    delays = []
    for tries in (1, 2, 3):
        decision = decided(error, tries)
        assert isinstance(decision, Again) and decision.counts and decision.elsewhere
        delays.append(decision.delay)
    assert 0.25 <= delays[0] <= 0.5 and 0.5 <= delays[1] <= 1.0 and 1.0 <= delays[2] <= 2.0
    assert decided(error, 4) == GiveUp(f"{error} (after 4 attempts)")


def test_the_wait_is_jittered_and_never_above_half_a_minute() -> None:
    delays = {
        decision.delay
        for seed in range(20)
        if isinstance(decision := after(Transient("503"), 15, 99, Random(seed)), Again)
    }
    assert len(delays) > 10 and min(delays) >= 15.0 and max(delays) <= 30.0


def test_being_told_to_wait_uses_up_no_attempt() -> None:
    assert decided(RateLimited("429"), 99) == Again(0.0, counts=False)


@pytest.mark.parametrize("scope", ["pool", "member"])
def test_a_closed_member_uses_up_no_attempt(scope: str) -> None:
    error = Terminal("401", scope=scope)  # type: ignore[arg-type]
    assert decided(error, 99) == Again(0.0, counts=False)


def test_what_is_refused_for_itself_is_given_up_at_once() -> None:
    assert decided(Terminal("400: too long", scope="ask"), 1) == GiveUp("400: too long")


def test_a_defect_is_given_up_at_once_and_named() -> None:
    assert decided(ZeroDivisionError("oops"), 1) == GiveUp("ZeroDivisionError: oops")
