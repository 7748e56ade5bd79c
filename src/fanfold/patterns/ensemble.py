"""Ensemble: the same question to several voters, and one answer they stand behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Unpack

import msgspec

from fanfold.errors import BadInput
from fanfold.patterns.arguments import Folded, PatternOptions, TaskHandler, prompt_for, terms_of
from fanfold.patterns.panel import (
    Decide,
    Panel,
    VoteJudge,
    VoteOptions,
    judge_terms,
    judged,
    panel_of,
)
from fanfold.patterns.poll import Poll, decision, escalated, put_to_vote
from fanfold.patterns.prompt import Prompt, check_prompt, make_tasks, prompt_of
from fanfold.run.planning import Batch
from fanfold.run.pool import Pool
from fanfold.run.run import Run
from fanfold.run.sources import source_of
from fanfold.work.arguments import public
from fanfold.work.item import Source
from fanfold.work.member import Named
from fanfold.work.options import member_ids, reducer
from fanfold.work.outcome import Outcome
from fanfold.work.task import Reducer, Task, Terms

__all__ = ["Decide", "VoteJudge", "Voting", "ensemble", "judged", "vote_batch", "voters"]

OFTEN = 64  # questions between two looks at what is written down
Note = Callable[[int, dict[str, Any]], None]


class Voting(PatternOptions, VoteOptions, total=False):
    """What `ensemble` takes: how to ask, and how the votes decide."""


@public
async def ensemble(
    run: Run,
    items: Source | Iterable[Any],
    *,
    prompt: str | None = None,
    schema: dict[str, Any] | type | None = None,
    reduce: Reducer | None = None,
    **how: Unpack[Voting],
) -> Folded:
    """Put each item to several voters (`members`, or `samples` of one) and let them decide.

    An item's value is the bare answer, just as one member would have given it: the reply of the
    first voter who gave it. `reduce` takes these. Without it the result is a list with one record
    for each question, in planned order and in memory: `id`, `state`, `answer`, `votes`, `of` so
    many voters, `asked` so many, `dissent`, `absent`, `reasons`. Who said otherwise, and who said
    nothing, stands in the reasons of the item's outcome too. See `Knobs` for how a vote is held.

    The gate holds for each voter's reply; one that does not pass is absent, not a vote. With too
    few votes an item ends as the absent did; without agreement it is kicked. When the run is
    resumed, a voter that was absent is asked again.

    `escalate`: a question that would be kicked goes to these members, in order, until one of them
    gives an answer that passes the gate. So does one whose leading answer has a smaller share of the
    votes than `confidence`.
    """
    if how.get("fallback"):
        raise BadInput("a voter has no fallback; escalate is for questions without a decision")
    if reduce is not None:
        reducer("reduce", reduce)
    asked = prompt_of(prompt, schema)
    terms = terms_of(how, asked.schema, "ensemble")
    panel = panel_of(terms.who.members[: terms.who.use], how)
    await _begin(run, panel, terms)
    check_prompt(asked, terms.step, run.traits(terms))
    batch = await run.plan(source_of(items, run.spool), terms)
    records: dict[int, dict[str, Any]] = {}
    await vote_batch(run, batch, terms, asked, panel, records.__setitem__ if not reduce else None)
    value = reduce(run.passed(batch, terms)) if reduce else [records[at] for at in sorted(records)]
    run.set_result(value)
    return Folded(value, run.receipt(), run, batch, terms)


@public
def voters(members: Sequence[str | Named] = (), **options: Unpack[VoteOptions]) -> TaskHandler:
    """Let a vote answer any task: a stage of a pipeline, or `asked(..., by=voters([...]))`.

    The value is the bare answer; who said otherwise stands in the outcome's reasons. Without
    `members`, `samples` answers of whoever the task is for.
    """
    return Voters(panel_of(member_ids(members), options))


class Voters(msgspec.Struct, frozen=True):
    """A way to carry out a task: by a vote."""

    panel: Panel

    async def begin(self, run: Run) -> None:
        """Before the first ask: those who vote, and who judges, are there."""
        members = tuple(dict.fromkeys(one.member for one in self.panel.voters if one.member))
        if members:
            await run.begin_with(members)
        if isinstance(self.panel.decide, VoteJudge):
            await run.prepare(self.panel.decide.terms)

    async def __call__(self, run: Run, task: Task) -> Outcome:
        outcome, _ = await _put(run, self.panel, task)
        return outcome


async def vote_batch(
    run: Run,
    batch: Batch,
    terms: Terms,
    prompt: Prompt,
    panel: Panel,
    note: Note | None = None,
) -> None:
    """Put every item of a batch to the vote, `concurrency` of them at once.

    The answers are in the journal afterwards; `note` hears of each by its position as it is made.
    """
    if not isinstance(panel.decide, VoteJudge):
        prompt = prompt_for(run, terms, prompt)
    tasks = enumerate(make_tasks(run.remaining(batch, terms), batch.no, terms, prompt), 1)

    async def hold(numbered: tuple[int, Task]) -> None:
        number, task = numbered
        put = await run.do_separately(task, partial(_put, run, panel))
        if put is not None and note is not None:
            outcome, record = put
            note(outcome.position, record)
        if number % OFTEN == 0:  # answers on record need no waiting at all
            await run.flush()

    take, stopping = lambda: next(tasks, None), lambda: run.stopping is not None
    await Pool(terms.concurrency, hold, take, stopping).run()
    run.pause_if_unpaid()
    await run.flush()


async def _put(run: Run, panel: Panel, task: Task) -> tuple[Outcome, dict[str, Any]]:
    """One question, to its outcome and its record."""
    if task.flaw is None:
        poll = await put_to_vote(run, panel, task)
        outcome = await escalated(run, poll, await decision(run, poll))
    else:
        poll = Poll(panel, task)
        outcome = poll.ended("failed", task.flaw)
    outcome = run.settle(task, outcome)
    return outcome, poll.record(outcome)


async def _begin(run: Run, panel: Panel, terms: Terms) -> None:
    """So that what is wrong with those who will be asked shows before anybody is."""
    await run.begin(terms)
    if isinstance(panel.decide, VoteJudge):
        await run.begin(judge_terms(panel.decide, terms))
