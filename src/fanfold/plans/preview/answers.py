"""Who answers in a plan that is only looked at: one member or a vote, each with its judges; and the
lines of the preview that come of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import msgspec

from fanfold.errors import FanfoldError
from fanfold.gates import kinds as gates
from fanfold.patterns.panel import AnonymousAnswers, Panel, VoteJudge, judge_task, judge_terms
from fanfold.patterns.prompt import Prompt
from fanfold.plans.asking import Asking
from fanfold.plans.preview.askers import Asker, Desk
from fanfold.plans.preview.standin import Size
from fanfold.run.forecast import Forecast, Note, StepPreview, at_once, in_turn
from fanfold.work.ask import Reply
from fanfold.work.task import Gate, Task, Terms, Who
from fanfold.work.vote import Vote, wave

UNKNOWN = Forecast(worst=None)


class Votes:
    """The same task to several voters; a judge may decide. At worst there is no decision, and each
    of the members is asked that the question escalates to."""

    def __init__(
        self, desk: Desk, step: Asking, panel: Panel, prompt: Prompt, terms: Terms
    ) -> None:
        self._panel = panel
        voters, judge = panel.voters, panel.decide
        self._askers = [
            Asker(desk, _of_voter(terms, voter.member, len(voters)), prompt,
                  judges=judges_of(desk, step), votes=True)
            for voter in voters
        ]  # fmt: skip
        self._better = [Asker(desk, _of_better(terms, id), prompt) for id in terms.escalate]
        self._judge: Asker | None = None
        if isinstance(judge, VoteJudge):
            self._judge = Asker(desk, judge_terms(judge, terms), judge.prompt)

    @property
    def who(self) -> tuple[str, ...]:
        everyone = (*self._askers, *self._better)
        return tuple(dict.fromkeys(id for asker in everyone for id in asker.who))

    @property
    def judging(self) -> list[Asker]:
        """Who is asked about the answers: for a verdict on each, or to decide between them."""
        found = [judge for asker in self._askers for judge in asker.judging.values()]
        return found if self._judge is None else [*found, self._judge]

    @property
    def size(self) -> Size:
        return max((asker.size for asker in self._askers), key=lambda size: size.most)

    def take(self, tasks: Sequence[Task]) -> list[Any]:
        """Who wins is not foreseen, so a stand-in comes of each."""
        for voter, asker in zip(self._panel.voters, self._askers, strict=True):
            asker.take([_sampled(task, voter.sample, asker.terms) for task in tasks])
        if self._judge is not None:
            heard = (self._heard(task) for task in tasks if task.flaw is None)
            self._judge.take([task for task in heard if task is not None])
        for asker in self._better:
            for task, left in zip(tasks, asker.left(tasks), strict=True):
                left.likely, left.reused = False, 0
                asker.count(task, left)
        return [None if task.flaw else self._askers[0].reply for task in tasks]

    def _heard(self, question: Task) -> Task | None:
        """What the judge would be asked; None where its prompt reads what the item does not have."""
        assert isinstance(self._panel.decide, VoteJudge)
        votes = [
            Vote(voter, asker.reply, "", Reply(text=asker.reply))
            for voter, asker in zip(self._panel.voters, self._askers, strict=True)
        ]
        labels = tuple(chr(65 + n % 26) for n in range(len(votes)))
        try:
            return judge_task(self._panel.decide, question, AnonymousAnswers(labels, tuple(votes)))
        except FanfoldError:
            return None

    def forecast(self) -> Forecast:
        """The vote, and what it may escalate to; that is not expected, but possible."""
        return in_turn([self._voting(), *(asker.forecast() for asker in self._better)])

    def _voting(self) -> Forecast:
        """Voters are asked at once. When it may stop early, half of those are counted who might be
        spared; the worst case is all of them."""
        panel, all_of_them = self._panel, at_once(asker.forecast() for asker in self._askers)
        many = len(panel.voters)
        least = wave(panel.rule, [], panel.voters) if panel.early else many
        if least == many or not all_of_them.calls:
            return all_of_them
        said = f"{{}}: {least} to {many} voters are asked; of those who may be spared, half count"
        note = Note(said, self._askers[0].terms.step)
        thinner = thinned(all_of_them, (least + many) / (2 * many))
        return msgspec.structs.replace(thinner, notes=(*thinner.notes, note))


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


def judges_of(desk: Desk, asking: Asking) -> list[Gate]:
    """The gates that ask a member, wherever they stand among the others."""
    return [gates.from_plan({"judge": given}, desk.ready.resolve) for given in _judges(asking.gate)]


def _judges(given: Any) -> Iterator[Any]:
    if isinstance(given, dict):
        for kind, inner in given.items():
            if kind == "judge":
                yield inner
            elif kind in ("all_of", "any_of"):
                yield from _judges(inner)
    elif isinstance(given, list | tuple):
        for one in given:
            yield from _judges(one)


Answers: TypeAlias = Asker | Votes
"""Who answers a step: one of some members, or a vote."""


def rows_of(
    name: str, kind: str, answers: Answers, tasks: int, times: float | None, **more: Any
) -> list[StepPreview]:
    """What was measured, for all that it stands for: the step, and those who judge its replies."""
    if isinstance(answers, Asker):
        judges = list(answers.judging.values())
    else:
        judges = answers.judging
    own = _row(name, kind, answers, tasks, times)
    return [
        msgspec.structs.replace(own, **more),
        *(_row(f"{name}.judge", "judge", judge, tasks, times) for judge in judges),
    ]


def _row(name: str, kind: str, answers: Answers, tasks: int, times: float | None) -> StepPreview:
    who = answers.who
    if times is None:
        return StepPreview(name=name, kind=kind, who=who, tasks=None, forecast=UNKNOWN)
    made = answers.forecast() if times == 1 else answers.forecast().scaled(times)
    return StepPreview(name=name, kind=kind, who=who, tasks=round(tasks * times), forecast=made)
