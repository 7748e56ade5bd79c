"""What ensembles that stop early did not ask for."""

from __future__ import annotations

from typing import NamedTuple

from fanfold.errors import FanfoldError
from fanfold.journal.facts import RunRecord
from fanfold.journal.questions import ReportQuestions
from fanfold.plans.prepare import stored_with
from fanfold.plans.steps.ensemble import Ensemble


class UnaskedVotes(NamedTuple):
    """So many calls, and what they would have taken at the mean cost of those that were made."""

    calls: int = 0
    cost: int = 0


def unasked_votes(record: RunRecord, read: ReportQuestions) -> UnaskedVotes:
    """Of the steps whose plan names the voters; of scripts nothing is known."""
    try:
        steps = stored_with(record).plan.steps if record.plan else ()
    except FanfoldError:
        return UnaskedVotes()
    names = read.step_names(record.no)
    found = [
        _unasked(record, read, (names.index(step.name), names.index(f"{step.name}.vote")), voters)
        for step in steps
        if isinstance(step, Ensemble) and (step.stop_early or step.confidence is not None)
        and (voters := len(step.who.members) * (step.samples or 1)) and f"{step.name}.vote" in names
    ]  # fmt: skip
    return UnaskedVotes(sum(one.calls for one in found), sum(one.cost for one in found))


def _unasked(
    record: RunRecord, read: ReportQuestions, steps: tuple[int, int], voters: int
) -> UnaskedVotes:
    """`steps`: the one of the questions, and the one under which votes are on record."""
    ended = sum(many for (at, _), many in read.step_tally(record.no).items() if at == steps[0])
    spent = [one for (at, _), one in read.by_member(record.no).items() if at == steps[1]]
    made, cost = sum(one.calls for one in spent), sum(one.cost for one in spent)
    calls = max(0, ended * voters - made)
    return UnaskedVotes(calls, round(calls * cost / made)) if made else UnaskedVotes()
