"""The closing account of a run, from the journal's facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from fanfold.journal.answers import Spent, decoded
from fanfold.journal.facts import RunRecord
from fanfold.journal.questions import ReportQuestions
from fanfold.price import dollars
from fanfold.run.demand import StepState
from fanfold.run.outcomes import Counts
from fanfold.work.ask import Usage
from fanfold.work.outcome import (
    WENT_WRONG,
    ReasonCount,
    Receipt,
    RunStatus,
    State,
    StepAccount,
    count_reasons,
)
from fanfold.work.task import Budget

_budget = msgspec.json.Decoder(Budget).decode
MOST_REASONS = 10
Tally = dict[State, int]
_value = msgspec.json.Decoder().decode


def receipt(
    read: ReportQuestions,
    run: RunRecord,
    counts: Counts | None = None,
    steps: Mapping[str, StepState] | None = None,
    tally: Tally | None = None,
    *,
    timed: bool = True,
) -> Receipt:
    """For the run's own process with its counts and steps, for any other from the store alone. Without
    `timed` the seconds of steps are 0: they take long to add up in a large run."""
    spent = read.spent(run.no)
    seconds = read.step_seconds(run.no) if timed else {}
    names = read.step_names(run.no)
    tally = tally or read.tally(run.no)
    whole = _whole(spent)
    budget = decoded(_budget, run.budget, f"the budget of run {run.name}").usd
    below = read.spent_below(run.no).values()
    more = sum(cost for cost, _ in below)
    over = 0.0 if budget is None else max(0.0, dollars(whole.cost + more) - budget)
    return Receipt(
        run=run.id, name=run.name, status=run.status, reason=run.reason,
        planned=read.planned(run.no), **tally,
        calls=whole.calls if counts is None else counts.calls,
        reused=0 if counts is None else counts.reused,
        retries=whole.errors + whole.in_doubt if counts is None else counts.retries,
        tokens=whole.usage, cost_usd=dollars(whole.cost), budget_usd=budget, overrun_usd=over,
        cost_at_most=whole.bounds + sum(bounds for _, bounds in below) > 0,
        below_usd=dollars(more),
        maybe_paid_twice=whole.repeats, maybe_paid_twice_usd=dollars(whole.repeated),
        unusable_usage=whole.unusable, hedged=whole.hedged, hedged_usd=dollars(whole.late),
        seconds=round(run.active, 3),
        steps=_steps(names, spent, seconds, _calls(counts, steps), read.step_notes(run.no)),
        cascades=read.savings(run.no), reasons=_reasons(read, run.no, tally), written=(),
        result=None if run.result is None else decoded(_value, run.result, f"the result of {run.name}"),
        cause=run.cause,
    )  # fmt: skip


def _calls(
    counts: Counts | None, steps: Mapping[str, StepState] | None
) -> dict[str, tuple[int, int]] | None:
    """Calls and reused replies, by step, of all processes of the run."""
    if counts is None or steps is None:
        return None
    return {name: counts.of_step(name, one.calls, one.reused) for name, one in steps.items()}


def _reasons(read: ReportQuestions, run: int, tally: Tally) -> tuple[ReasonCount, ...]:
    if not any(tally[state] for state in WENT_WRONG):
        return ()
    return count_reasons(read.reasons(run, WENT_WRONG))[:MOST_REASONS]


def _steps(
    names: list[str],
    spent: dict[int, Spent],
    seconds: Mapping[int, float],
    calls_of: Mapping[str, tuple[int, int]] | None,
    notes: Mapping[int, str],
) -> tuple[StepAccount, ...]:
    accounts = []
    for no, name in enumerate(names):
        s = spent.get(no, Spent())
        calls, reused = s.calls, 0
        if calls_of is not None:
            calls, reused = calls_of.get(name, (0, 0))
        cost, took = dollars(s.cost), round(seconds.get(no, 0.0), 3)
        bound = s.bounds > 0
        account = StepAccount(
            name, calls, reused, cost, s.usage, took, bound, notes.get(no, ""), s.sharing, s.shared,
            dollars(s.saved),
        )  # fmt: skip
        accounts.append(account)
    return tuple(accounts)


def _whole(spent: dict[int, Spent]) -> Spent:
    total: dict[str, Any] = {
        name: sum(getattr(s, name) for s in spent.values())
        for name in (
            "calls",
            "cost",
            "tokens",
            "errors",
            "in_doubt",
            "repeats",
            "repeated",
            "hedged",
            "late",
            "unusable",
            "bounds",
        )
    }
    usage = sum((s.usage for s in spent.values()), Usage())
    return Spent(usage=usage, **total)


def status_of(tally: Tally, planned: int) -> RunStatus:
    """Complete only if everything planned passed or was skipped by a filter."""
    return "complete" if tally["passed"] + tally["skipped"] == planned else "flagged"
