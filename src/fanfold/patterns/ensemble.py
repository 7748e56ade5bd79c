"""Ensemble: the same question to several voters, and one answer they stand behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Unpack

import msgspec

from fanfold.errors import BadInput
from fanfold.patterns.arguments import (
    Folded,
    PatternOptions,
    TaskHandler,
    pattern,
    prompt_for,
    terms_of,
)
from fanfold.patterns.prompt import Prompt, check_prompt, make_tasks, prompt_of, readable
from fanfold.patterns.question_vote import QuestionVote, decision, escalated, put_to_vote
from fanfold.patterns.reduce import Reducing, reduce_batch
from fanfold.patterns.vote_rules import (
    Decide,
    VoteJudge,
    VoteOptions,
    VoteRules,
    judge_terms,
    judged,
    vote_rules,
)
from fanfold.patterns.watching import watched, watching
from fanfold.run.planning import Batch
from fanfold.run.pool import Pool
from fanfold.run.run import Run
from fanfold.run.sources import source_of
from fanfold.work.arguments import public
from fanfold.work.item import Source
from fanfold.work.member import Named
from fanfold.work.options import member_ids, option, reducer
from fanfold.work.outcome import Outcome
from fanfold.work.task import Reducer, Task, Terms, reads_of
from fanfold.work.watch import script_watch

__all__ = ["Decide", "VoteJudge", "Voting", "ensemble", "judged", "vote_batch", "voters"]

OFTEN = 64  # questions between two looks at what is written down
Note = Callable[[int, dict[str, Any]], None]


class Voting(PatternOptions, VoteOptions, total=False):
    """What `ensemble` takes: how to ask, and how the votes decide."""


@pattern
async def ensemble(
    run: Run,
    items: Source | Iterable[Any],
    *,
    prompt: str | None = None,
    schema: dict[str, Any] | type | None = None,
    reduce: Reducer | None = None,
    watch: Mapping[str, Any] | None = None,
    **how: Unpack[Voting],
) -> Folded:
    """Put each item to several voters (`members`, or `samples` of one) and let them decide.

    An item's value is the bare answer, just as one member would have given it: the reply of the
    first voter who gave it. `reduce` takes these. Without it the result is a list with one record
    for each question, in planned order and in memory: `id`, `state`, `answer`, `votes`, `of` so
    many voters, `asked` so many, `dissent`, `absent`, `reasons`. Who said otherwise, and who said
    nothing, stands in the reasons of the item's outcome too. See `VoteOptions` for how a vote is held.

    The gate holds for each voter's reply; one that does not pass is absent, not a vote. With too
    few votes an item ends as the absent did; without agreement it is kicked. When the run is
    resumed, a voter that was absent is asked again.

    `escalate`: a question that would be kicked goes to these members, in order, until one of them
    gives an answer that passes the gate. So does one whose leading answer has a smaller share of the
    votes than `confidence`.

    `watch`: a sample of the decisions is checked, as in `map_reduce`.
    """
    if how.get("fallback"):
        raise BadInput("a voter has no fallback; escalate is for questions without a decision")
    if reduce is not None:
        reducer("reduce", reduce)
    asked = prompt_of(prompt, schema, how=how)
    terms = terms_of(how, asked.schema, "ensemble")
    rules = vote_rules(terms.who.members[: terms.who.use], how)
    terms = watched(terms, option("watch", watch, script_watch), how.get("field"))
    await _begin(run, rules, terms)
    check_prompt(asked, terms, run.traits(terms))
    checks = (*reads_of(terms.gate), *rules.item_reads())
    batch = await run.plan(readable(source_of(items, run.spool), [asked], checks), terms)
    records: dict[int, dict[str, Any]] = {}
    await vote_batch(run, batch, terms, asked, rules, records.__setitem__ if not reduce else None)
    value: Any = [records[at] for at in sorted(records)]
    if reduce is not None:
        value = await reduce_batch(run, batch, terms, Reducing(reduce))
    run.set_result(value)
    return Folded(value, run.receipt(), run, batch, terms)


@public
def voters(members: Sequence[str | Named] = (), **options: Unpack[VoteOptions]) -> TaskHandler:
    """Let a vote answer any task: a stage of a pipeline, or `asked(..., by=voters([...]))`.

    The value is the bare answer; who said otherwise stands in the outcome's reasons. Without
    `members`, `samples` answers of whoever the task is for.
    """
    return Voters(vote_rules(member_ids(members), options))


class Voters(msgspec.Struct, frozen=True):
    """A way to carry out a task: by a vote."""

    rules: VoteRules

    @property
    def asks(self) -> int:
        """Of each task."""
        return len(self.rules.voters)

    async def begin(self, run: Run) -> None:
        """Before the first ask: those who vote, and who judges, are there."""
        members = tuple(dict.fromkeys(one.member for one in self.rules.voters if one.member))
        if members:
            await run.begin_with(members)
        if (judge := self.rules.last_word) is not None:
            await run.prepare(judge.terms)
            check_prompt(judge.prompt, judge.terms, run.traits(judge.terms))

    async def __call__(self, run: Run, task: Task) -> Outcome:
        outcome, _ = await _put(run, self.rules, task)
        return outcome


async def vote_batch(
    run: Run,
    batch: Batch,
    terms: Terms,
    prompt: Prompt,
    rules: VoteRules,
    note: Note | None = None,
) -> None:
    """Put every item of a batch to the vote, `concurrency` of them at once.

    The answers are in the journal afterwards; `note` hears of each by its position as it is made.
    """
    run.needs.times(terms.step, len(rules.voters))
    shown = prompt if rules.last_word is not None else prompt_for(run, terms, prompt)
    made = make_tasks(run.remaining(batch, terms), batch.no, terms, shown)
    async with watching(run, batch, terms, prompt) as watch:
        tasks = enumerate(watch.seen(made), 1)

        async def hold(numbered: tuple[int, Task]) -> None:
            number, task = numbered
            run.needs.add(terms.step, -len(rules.voters))
            put = await run.do_separately(task, partial(_put, run, rules))
            if put is not None:
                outcome, record = put
                if note is not None:
                    note(outcome.position, record)
                await watch.landed(outcome)
            if number % OFTEN == 0:  # answers on record need no waiting at all
                await run.flush()

        take, stopping = lambda: next(tasks, None), lambda: run.stopping is not None
        await Pool(terms.at_once, hold, take, stopping).run()
        run.pause_if_unpaid()
    await run.flush()


async def _put(run: Run, rules: VoteRules, task: Task) -> tuple[Outcome, dict[str, Any]]:
    """One question, to its outcome and its record."""
    if task.flaw is None:
        held = await put_to_vote(run, rules, task)
        outcome = await escalated(run, held, await decision(run, held))
    else:
        held = QuestionVote(rules, task)
        outcome = held.ended("failed", task.flaw)
    outcome = run.settle(task, outcome)
    return outcome, held.record(outcome)


async def _begin(run: Run, rules: VoteRules, terms: Terms) -> None:
    """So that what is wrong with those who will be asked shows before anybody is."""
    await run.begin(terms)
    if (judge := rules.last_word) is not None:
        deciding = judge_terms(judge, terms)
        await run.begin(deciding)
        check_prompt(judge.prompt, deciding, run.traits(deciding))
