"""The last words of a run, and the first words of an interruption."""

from __future__ import annotations

from pathlib import Path

import pytest

from fanfold.observe.closing import closing, interrupted, resume_command
from fanfold.run.figures import Statistics
from fanfold.work.ask import Usage
from fanfold.work.outcome import ReasonCount, Receipt, Saving, StopCause
from tests.unit.observe.runs import STUMBLED, answering, contracts, out_of_money, ran, reviewed

STATS = Statistics(500, 120, 8, 112, 8, 3, 2, 132, 0, 410_000_000, 120_000_000, 5_000_000_000, 19.4)


def test_a_complete_run_needs_four_lines(tmp_path: Path) -> None:
    receipt = ran(tmp_path / "s", "review", [answering()], contracts(3))
    assert closing(receipt, None).splitlines() == [
        "review complete",
        "3 of 3 done: 3 passed",
        "cost $0.0015",
        "3 calls, 0 reused, 1,020 tokens, 1.0s",
    ]


def test_a_flagged_run_says_what_did_not_pass_and_what_may_have_been_paid_twice(
    tmp_path: Path,
) -> None:
    receipt = reviewed(tmp_path / "s")
    told = closing(receipt, "fanfold resume 01J", "my store").splitlines()
    assert told == [
        "contract-review flagged: 3 of 10 items did not pass",
        "10 of 10 done: 7 passed, 1 kicked, 1 failed, 1 unjudged",
        "cost ≤$0.0070 of $5.00",
        f"16 calls, 0 reused, 4 retries, 3,740 tokens, {receipt.seconds:.1f}s",
        "maybe paid twice: 1 call, at most $0.0015",
        "why: contract-002: missing or empty: `evidence`",
        "why: contract-003: 503: overloaded | try again `later` (after 4 attempts)",
        f"why: contract-005: {STUMBLED}",
        f"to see them: fanfold status {receipt.run} --store 'my store' -v",
        "to continue: fanfold resume 01J",
    ]


def test_the_most_frequent_reasons_are_told_with_their_counts() -> None:
    """Also what is not shown is counted, and each group names one of its items."""
    reasons = tuple(ReasonCount(f"reason {n}", 90 - n, f"i-{n}") for n in range(5))
    told = closing(Receipt("01J", "r", "flagged", reasons=reasons), None).splitlines()
    assert told[4:] == [
        "why: 90 items, such as i-0: reason 0",
        "why: 89 items, such as i-1: reason 1",
        "why: 88 items, such as i-2: reason 2",
        "why: 2 more reasons",
        "to see them: fanfold status 01J -v",
    ]


def test_a_paused_run_says_why_and_how_to_go_on(tmp_path: Path) -> None:
    receipt = out_of_money(tmp_path / "s")
    assert closing(receipt, resume_command(receipt)).splitlines() == [
        "too-dear paused: out of budget: dollars of the run: $0.001500 left,"
        " the next call may cost $0.001540 (contract-027, step map, member haiku)",
        "27 of 40 done: 27 passed, 13 unfunded",
        "cost $0.0135 of $0.0150",
        "27 calls, 0 reused, 9,180 tokens, 8.0s",
        f"to continue: fanfold resume {receipt.run} --budget TOTAL",
    ]


def test_everything_that_can_be_said_is_said_in_its_order() -> None:
    everything = Receipt(
        "01J", "a\nname", "paused", "two\nlines", 9, *[1] * 8, calls=1, reused=1, retries=1,
        tokens=Usage(1, 1, 1, 1), cost_usd=5.5, budget_usd=5.0, overrun_usd=0.5,
        maybe_paid_twice=1, maybe_paid_twice_usd=0.5, unusable_usage=2, seconds=62.0,
    )  # fmt: skip
    assert closing(everything, resume_command(everything, "my store")).splitlines() == [
        "a name paused: two lines",
        "5 of 9 done: 1 passed, 1 kicked, 1 failed, 1 skipped, 1 unjudged, 1 unfunded, 1 in doubt,"
        " 1 cancelled",
        "cost $5.50 of $5.00 ($0.50 over budget)",
        "1 call, 1 reused, 1 retry, 4 tokens, 1m 02s",
        "maybe paid twice: 1 call, at most $0.50",
        "unusable usage: 2 replies, counted at the worst case",
        "to continue: fanfold resume 01J --store 'my store' --budget TOTAL --retry-in-doubt",
    ]


def test_a_run_whose_reduce_cannot_be_paid_needs_a_new_total_too() -> None:
    """All items passed, so none is unfunded."""
    reason = "out of budget: calls of the run: all 6 were made (step reduce, member m)"
    receipt = Receipt("01J", "r", "paused", reason, 6, 6, cause=StopCause("budget", "calls"))
    assert resume_command(receipt) == "fanfold resume 01J --budget calls=TOTAL"


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (StopCause("budget", "usd"), " --budget TOTAL"),
        (StopCause("budget", "tokens", "map"), " --budget map.tokens=TOTAL"),
        (StopCause("monthly_budget"), ""),
        (StopCause("approval"), " --budget TOTAL --yes"),
        (StopCause("cap", cap=50), " --budget TOTAL --cap 50"),
        (None, " --budget TOTAL"),
    ],
)
def test_what_a_resume_must_state_follows_from_the_cause_and_not_from_the_reason(
    cause: StopCause | None, words: str
) -> None:
    receipt = Receipt("01J", "r", "paused", "some text", 2, unfunded=1, cause=cause)
    assert resume_command(receipt) == f"fanfold resume 01J{words}"


@pytest.mark.parametrize(
    ("in_flight", "reserved", "told"),
    [
        (0, 0, "stopping: no call is under way"),
        (
            8, 120_000_000,
            "stopping: 8 calls are under way and may still cost at most $0.12\n"
            "waiting for them; Ctrl-C again cancels them",
        ),
        (1, 0, "stopping: 1 call is under way\nwaiting for it; Ctrl-C again cancels it"),
    ],
)  # fmt: skip
def test_an_interruption_says_what_is_under_way(in_flight: int, reserved: int, told: str) -> None:
    assert interrupted(STATS._replace(in_flight=in_flight), reserved) == told


def test_what_escalation_saved_is_one_line() -> None:
    one = Saving("map", "opus", 412, 0.21, 6.3)
    free = Saving("sort", "opus", 1)
    told = closing(Receipt("01J", "review", "complete", cascades=(one, free)), None).splitlines()
    assert told[4:] == [
        "map: 412 items settled without opus for $0.21;"
        " opus would have taken about $6.30 for them (and 1 step more)"
    ]
    told = closing(Receipt("01J", "review", "complete", cascades=(free,)), None).splitlines()
    assert told[4:] == ["sort: 1 item settled without opus for $0.00"]
