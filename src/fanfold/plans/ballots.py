"""Who said what in a vote about an item, from the replies on record. Nobody is asked for that, and code
of the user's is not run."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fanfold.errors import FanfoldError
from fanfold.journal.answers import AttemptRecord, StepEnding
from fanfold.journal.questions import ReportQuestions
from fanfold.patterns.question_vote import QuestionVote
from fanfold.patterns.vote_rules import RULES, VoteRules
from fanfold.plans.drawing.describe import known_members
from fanfold.plans.plan import Plan
from fanfold.plans.prepare import Options, Stored, stored_roster
from fanfold.plans.reading import inspecting_resolver
from fanfold.plans.ready import Ready
from fanfold.plans.retrace import followed
from fanfold.plans.steps.ensemble import Ensemble
from fanfold.run.item_view import PromptView, VoteView
from fanfold.work.ask import Reply
from fanfold.work.outcome import Outcome
from fanfold.work.task import Task, Who
from fanfold.work.vote import Voter, decided, enough

Heard = tuple[VoteView, Reply | None]


def vote_step(plan: Plan, name: str) -> Ensemble | None:
    """The vote of that name, if it is one."""
    asked = (one for step in plan.steps if step.takes_items for one in step.item_asks())
    return next((how for at, how in asked if at == name and isinstance(how, Ensemble)), None)


def cast(
    read: ReportQuestions,
    stored: Stored,
    vote: Ensemble,
    question: Task,
    ending: StepEnding,
    tried: Sequence[AttemptRecord],
) -> tuple[VoteView, ...]:
    """In the order of asking. Nothing where it cannot be told who voted, or whether a reply counts."""
    if question.terms.nature != "pure" or question.terms.tools is not None:
        return ()
    try:
        rules = vote.rules_of(
            _members(stored, vote), Ready(stored.plan, {}, None, inspecting_resolver)
        )
    except FanfoldError:
        return ()
    held, rest, views = QuestionVote(rules, question), list(rules.voters), list[VoteView]()
    while rest and not (rules.early and enough(rules.rule, held.votes, rest)):
        voter = rest.pop(0)
        view, reply = _heard(read, rules, question, voter, tried)
        held.hear(voter, Outcome(question.id, "failed" if reply is None else "passed", reply))
        if held.votes and held.votes[-1].voter is voter:
            view = msgspec.structs.replace(view, answer=held.votes[-1].value, counts=True)
        views.append(view)
    return tuple(one for one in views if one.prompts) if _agrees(held, ending) else ()


def _members(stored: Stored, vote: Ensemble) -> list[str]:
    who = vote.who
    known = known_members(who, None if who.members else stored_roster(stored, Options()))
    if not who.members and who.use is not None and who.use < len(known):
        raise FanfoldError("which of them were asked is not known")
    return list(known[: who.use])


def _heard(
    read: ReportQuestions,
    rules: VoteRules,
    question: Task,
    voter: Voter,
    tried: Sequence[AttemptRecord],
) -> Heard:
    """Its reply that counts, or the last that did not. One that is the same answerer as another voter
    was asked for a later sample (`told_apart`)."""
    replace = msgspec.structs.replace
    who = Who(members=() if voter.member is None else (voter.member,))
    terms = replace(question.terms, who=who, escalate=(), keep=None)
    for sample in range(voter.sample, len(rules.voters)):
        ask = replace(question.ask, sample=question.ask.sample + sample)
        way = followed(read, Task(question.id, ask, terms), tuple(tried), voter.member)
        if way.views:
            reply = way.views[-1].reply if way.answered and not way.reasons else None
            return VoteView(voter.name, reasons=way.reasons, prompts=way.views), reply
    return VoteView(voter.name), None


def _agrees(held: QuestionVote, ending: StepEnding) -> bool:
    """A later run may have given newer replies to the same asks: what does not lead to the answer that is
    on record is not how it was found."""
    rules = held.rules
    if ending.state != "passed" or ending.reply is None or ending.member:
        return True
    won = decided(rules.rule, held.votes)
    if rules.decide in RULES and won is not None:
        return bool(won.reply.value == ending.reply.value)
    return rules.decide not in RULES or rules.judge is not None


def asked_of_all(prompts: Sequence[PromptView]) -> tuple[PromptView, ...]:
    """What all voters were asked, without what one of them said."""
    return tuple(
        msgspec.structs.replace(one, member="", reply=None, reasons=()) for one in prompts[:1]
    )
