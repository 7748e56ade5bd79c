"""Who answers in a plan that is only looked at: one member or a vote, each with its judges; and the
lines of the preview that come of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from fanfold.errors import FanfoldError
from fanfold.gates import kinds as gates
from fanfold.patterns.prompt import Prompt
from fanfold.patterns.vote_rules import (
    AnonymousAnswers,
    VoteRules,
    judge_task,
    judge_terms,
)
from fanfold.plans.asking import Asking, judges_in
from fanfold.plans.preview.asks import AskEstimate, PreviewContext
from fanfold.plans.preview.standin import Size
from fanfold.run.forecast import Forecast, Note, StepPreview, at_once, in_turn
from fanfold.work.ask import Reply
from fanfold.work.task import Gate, Task, Terms, Who
from fanfold.work.vote import Vote, wave

UNKNOWN = Forecast(worst=None)


class VoteEstimate:
    """The same task to several voters; a judge may decide. At worst there is no decision, and each
    of the members is asked that the question escalates to."""

    def __init__(
        self, context: PreviewContext, step: Asking, rules: VoteRules, prompt: Prompt, terms: Terms
    ) -> None:
        self._rules = rules
        voters, judge = rules.voters, rules.last_word
        self._estimates = [
            AskEstimate(context, _of_voter(terms, voter.member, len(voters)), prompt,
                  judges=judges_of(context, step), votes=True)
            for voter in voters
        ]  # fmt: skip
        self._better = [
            AskEstimate(context, _of_better(terms, id), prompt) for id in terms.escalate
        ]
        self._judge: AskEstimate | None = None
        if judge is not None:
            self._judge = AskEstimate(context, judge_terms(judge, terms), judge.prompt)

    @property
    def who(self) -> tuple[str, ...]:
        everyone = (*self._estimates, *self._better)
        return tuple(dict.fromkeys(id for estimated in everyone for id in estimated.who))

    @property
    def judging(self) -> list[AskEstimate]:
        """Who is asked about the answers: for a verdict on each, or to decide between them."""
        found = [judge for estimated in self._estimates for judge in estimated.judging.values()]
        return found if self._judge is None else [*found, self._judge]

    @property
    def size(self) -> Size:
        return max((estimated.size for estimated in self._estimates), key=lambda size: size.most)

    def take(self, tasks: Sequence[Task]) -> list[Any]:
        """Who wins is not foreseen, so a stand-in comes of each."""
        for voter, estimated in zip(self._rules.voters, self._estimates, strict=True):
            estimated.take([_sampled(task, voter.sample, estimated.terms) for task in tasks])
        if self._judge is not None:
            heard = [self._heard(task) for task in tasks if task.flaw is None]
            asked = [task for task in heard if task is not None]
            if self._rules.judge is None:
                self._judge.take(asked)
            else:
                _count_as_possible(self._judge, asked)
        for estimated in self._better:
            _count_as_possible(estimated, tasks)
        return [None if task.flaw else self._estimates[0].reply for task in tasks]

    def _heard(self, question: Task) -> Task | None:
        """What the judge would be asked; None where its prompt reads what the item does not have."""
        judge = self._rules.last_word
        assert judge is not None
        votes = [
            Vote(voter, estimated.reply, "", Reply(text=estimated.reply))
            for voter, estimated in zip(self._rules.voters, self._estimates, strict=True)
        ]
        labels = tuple(chr(65 + n % 26) for n in range(len(votes)))
        try:
            return judge_task(judge, question, AnonymousAnswers(labels, tuple(votes)))
        except FanfoldError:
            return None

    def forecast(self) -> Forecast:
        """The vote, and what it may escalate to; that is not expected, but possible."""
        return in_turn([self._voting(), *(estimated.forecast() for estimated in self._better)])

    def _voting(self) -> Forecast:
        """Voters are asked at once. When it may stop early, half of those are counted who might be
        spared; the worst case is all of them."""
        rules, all_of_them = (
            self._rules,
            at_once(estimated.forecast() for estimated in self._estimates),
        )
        many = len(rules.voters)
        least = wave(rules.rule, [], rules.voters) if rules.early else many
        if least == many or not all_of_them.calls:
            return all_of_them
        said = f"{{}}: {least} to {many} voters are asked; of those who may be spared, half count"
        note = Note(said, self._estimates[0].terms.step)
        thinner = thinned(all_of_them, (least + many) / (2 * many))
        return msgspec.structs.replace(thinner, notes=(*thinner.notes, note))


def _count_as_possible(estimated: AskEstimate, tasks: Sequence[Task]) -> None:
    """Not expected, but possible: when the votes give no decision."""
    for task, left in zip(tasks, estimated.left(tasks), strict=True):
        left.likely, left.reused = False, 0
        estimated.count(task, left)


def _of_voter(terms: Terms, member: str | None, many: int) -> Terms:
    who = terms.who if member is None else Who(members=(member,))
    return msgspec.structs.replace(
        terms, step=f"{terms.step}.vote", who=who, concurrency=terms.concurrency * many,
        escalate=(), keep=None,
    )  # fmt: skip


def _of_better(terms: Terms, member: str) -> Terms:
    return msgspec.structs.replace(
        terms, step=f"{terms.step}.escalate", who=Who(members=(member,)), escalate=(), keep=None
    )


def _sampled(task: Task, sample: int, terms: Terms) -> Task:
    ask = msgspec.structs.replace(task.ask, sample=task.ask.sample + sample)
    return msgspec.structs.replace(task, ask=ask, terms=terms)


def thinned(made: Forecast, share: float) -> Forecast:
    """Only a share of it is expected; the bounds hold."""
    likely = {name: round(getattr(made, name) * share) for name in ("calls", "input", "output")}
    p50 = None if made.p50 is None else round(made.p50 * share)
    spread = made.variance * (share if made.measured else share * share)
    return msgspec.structs.replace(made, p50=p50, variance=spread, **likely)


def judges_of(context: PreviewContext, asking: Asking) -> list[Gate]:
    """The gates that ask a member, at any depth."""
    stated = (given for _, given in judges_in(asking.gate))
    return [gates.from_plan({"judge": given}, context.ready.resolve) for given in stated]


AnswerEstimate: TypeAlias = AskEstimate | VoteEstimate
"""Who answers a step: one of some members, or a vote."""


def rows_of(
    name: str, kind: str, answers: AnswerEstimate, tasks: int, times: float | None, **more: Any
) -> list[StepPreview]:
    """What was measured, scaled to all items: the step, and those who judge its replies."""
    if isinstance(answers, AskEstimate):
        judges = list(answers.judging.values())
    else:
        judges = answers.judging
    own = _row(name, kind, answers, tasks, times)
    return [
        msgspec.structs.replace(own, **more),
        *(_row(f"{name}.judge", "judge", judge, tasks, times) for judge in judges),
    ]


def _row(
    name: str, kind: str, answers: AnswerEstimate, tasks: int, times: float | None
) -> StepPreview:
    who = answers.who
    if times is None:
        return StepPreview(name=name, kind=kind, who=who, tasks=None, forecast=UNKNOWN)
    made = answers.forecast() if times == 1 else answers.forecast().scaled(times)
    return StepPreview(name=name, kind=kind, who=who, tasks=round(tasks * times), forecast=made)
