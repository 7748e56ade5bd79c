"""One question on its way to a decision: the voters are asked, their answers counted or judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import fsum
from typing import Any

import msgspec

from fanfold.errors import FanfoldError
from fanfold.patterns.arguments import NoValue, reply_of
from fanfold.patterns.vote_rules import VoteJudge, VoteRules, anonymous, judge_task
from fanfold.run.pool import in_order
from fanfold.run.run import Run
from fanfold.work.arguments import at_once
from fanfold.work.ask import Reply, Usage
from fanfold.work.fields import MISSING, leaves
from fanfold.work.kick_back import ended
from fanfold.work.outcome import PASS, Outcome, State, Verdict
from fanfold.work.raised import error_text
from fanfold.work.task import Task, Terms, Who
from fanfold.work.vote import (
    Vote,
    Voter,
    ballot,
    count,
    decided,
    enough,
    label,
    wave,
    why_undecided,
    why_unsure,
)

SHOWN = 200
_WORST: tuple[State, ...] = ("in_doubt", "unfunded", "unjudged", "kicked", "failed")


class QuestionVote:
    """What was heard so far: `votes` in the order of asking, and who gave none."""

    def __init__(self, rules: VoteRules, question: Task) -> None:
        self.rules, self.question = rules, question
        self.votes: list[Vote] = []
        self.absent: dict[Voter, Outcome] = {}
        self.asks: list[Outcome] = []
        self.answer: Any = None
        self.judged: str | None = None  # the judge's reasons, if one decided

    def hear(self, voter: Voter, outcome: Outcome) -> None:
        """A reply that did not pass, or that lacks what is voted on, is no vote."""
        self.asks.append(outcome)
        if outcome.state == "passed" and outcome.reply is not None:
            said = self._said(outcome.value)
            if said is not MISSING:
                return self.votes.append(Vote(voter, said, ballot(said), _bare(outcome.reply)))
            why = f"the reply has no single `{'.'.join(self.rules.path)}`"
            outcome = Outcome(outcome.id, "kicked", reasons=(why,))
        self.absent[voter] = outcome
        return None

    def _said(self, value: Any) -> Any:
        """What is voted on in a reply's value; MISSING if that is not there, or not one."""
        found = [leaf for _, leaf in leaves(value, self.rules.path)]
        return found[0] if len(found) == 1 else MISSING

    def gone(self) -> list[Voter]:
        """Voters nobody could be asked for, when without them there are too few."""
        if len(self.votes) >= self.rules.rule.turnout:
            return []
        return [voter for voter, outcome in self.absent.items() if outcome.state == "cancelled"]

    # ── how it ends ──

    def won(self, reply: Reply, judged: tuple[State, Verdict] | None = None) -> Outcome:
        """Decided. Those who said otherwise are named in the reasons."""
        said = self._said(reply.value)
        self.answer = reply.value if said is MISSING else said
        state, verdict = judged or ended(self.question, reply, PASS)
        reasons = verdict.reasons or (
            *([f"the judge: {self.judged}"] if self.judged else ()),
            *(
                [f"all voters said: {_short(label(self.votes[0].value))}"]
                if self._overruled
                else ()
            ),
            *(f"{vote.voter.name} said: {_short(label(vote.value))}" for vote in self.dissent()),
            *(f"{voter.name} gave no answer: {_why(one)}" for voter, one in self.absent.items()),
        )
        return self._ended(state, reasons, reply)

    def ended(self, state: State, *reasons: str) -> Outcome:
        """No decision."""
        return self._ended(state, reasons, None)

    def too_few(self) -> Outcome:
        """As those who are absent ended; what may still become a vote goes first."""
        states = {outcome.state for outcome in self.absent.values()}
        state: State = next((one for one in _WORST if one in states), "failed")
        why = why_undecided(self.rules.rule, self.votes, len(self.rules.voters))
        each = [f"{voter.name}: {_why(outcome)}" for voter, outcome in self.absent.items()]
        return self.ended(state, why, *each)

    def _ended(self, state: State, reasons: tuple[str, ...], reply: Reply | None) -> Outcome:
        asks = self.asks
        used = [one.reply.usage for one in asks if one.reply and one.reply.usage]
        return Outcome(
            self.question.id, state, reply, reasons, cost=sum(one.cost for one in asks),
            calls=sum(one.calls for one in asks), reused=bool(asks) and all(one.reused for one in asks),
            too_long=reply is None and any(one.too_long for one in asks),
            usage=sum(used, Usage()) if used else None,
        )  # fmt: skip

    @property
    def _overruled(self) -> bool:
        """All voters said the same, and a judge or a function wrote something else."""
        return {vote.ballot for vote in self.votes} not in (set(), {ballot(self.answer)}) and (
            len({vote.ballot for vote in self.votes}) == 1
        )

    def dissent(self) -> list[Vote]:
        """Who said otherwise. Of voters who all agree, none does."""
        if self._overruled:
            return []
        mine = ballot(self.answer)
        return [vote for vote in self.votes if vote.ballot != mine]

    def record(self, outcome: Outcome) -> dict[str, Any]:
        """The whole vote, for people: what was decided, and who said what else."""
        passed = outcome.state == "passed"
        said = {vote.ballot: label(vote.value) for vote in reversed(self.votes)}
        return {
            "id": self.question.id,
            "state": outcome.state,
            "answer": self.answer if outcome.reply is not None else None,
            "votes": {said[one.ballot]: _sum(one.weights) for one in count(self.votes)},
            "of": len(self.rules.voters),
            "asked": len(self.votes) + len(self.absent),
            "dissent": [_entry(vote.voter, "answer", vote.value) for vote in self.dissent()],
            "absent": [_entry(voter, "reason", _why(one)) for voter, one in self.absent.items()],
            "reasons": [] if passed else list(outcome.reasons),
            **({} if self.judged is None else {"judge": self.judged}),
        }


# ── asking ───────────────────────────────────────────────────────────────────────────────────


async def put_to_vote(run: Run, rules: VoteRules, question: Task) -> QuestionVote:
    """Put the question to the voters: all at once, or with `early` as few as may be enough."""
    rules = told_apart(run, rules, question.terms)
    held, rest = QuestionVote(rules, question), list(rules.voters)
    run.needs.add(f"{question.terms.step}.vote", len(rest))
    while rest and not (rules.early and enough(rules.rule, held.votes, rest)):
        many = wave(rules.rule, held.votes, rest) if rules.early else len(rest)
        now, rest = rest[:many], rest[many:]
        outcomes = await in_order(now, lambda voter: run.do(_ask_of(held, voter)))
        for voter, outcome in zip(now, outcomes, strict=True):
            held.hear(voter, outcome)
    run.needs.add(f"{question.terms.step}.vote", -len(rest))
    for voter in held.gone():  # without them there is no decision: the run stops for them
        del held.absent[voter]
        held.hear(voter, await run.do(_ask_of(held, voter, needed=True)))
    return held


def told_apart(run: Run, rules: VoteRules, terms: Terms) -> VoteRules:
    """Voters that are one and the same answerer under several names (two entries for one model, a
    program listed twice) each get a sample of their own: one reply is one vote."""
    seen: Counter[str] = Counter()
    voters = {}
    for voter in sorted(rules.voters, key=lambda one: one.place):
        if voter.member is None:
            return rules
        who = msgspec.structs.replace(terms, who=Who(members=(voter.member,)), escalate=())
        answerer = run.traits(who)[0].answerer
        voters[voter] = msgspec.structs.replace(voter, sample=seen[answerer])
        seen[answerer] += 1
    return msgspec.structs.replace(rules, voters=tuple(voters[one] for one in rules.voters))


def _ask_of(held: QuestionVote, voter: Voter, needed: bool = False) -> Task:
    question = held.question
    terms, ask = question.terms, question.ask
    own = msgspec.structs.replace(
        terms,
        step=f"{terms.step}.vote",
        who=terms.who if voter.member is None else Who(members=(voter.member,)),
        concurrency=terms.concurrency * len(held.rules.voters),
        escalate=(), on_failure="skip", keep=None, needed=needed,
    )  # fmt: skip
    if voter.sample:
        ask = msgspec.structs.replace(ask, sample=ask.sample + voter.sample)
    return Task(question.id, ask, own)


# ── deciding ─────────────────────────────────────────────────────────────────────────────────


async def decision(run: Run, held: QuestionVote) -> Outcome:
    """Cases: too few answered; the votes are counted; a judge decides; a function does."""
    rules = held.rules
    if len(held.votes) < rules.rule.turnout:
        return held.too_few()
    if isinstance(rules.decide, VoteJudge):
        return await _by_judge(run, held, rules.decide)
    if callable(rules.decide):
        return await _by_function(run, held, rules.decide)
    vote = decided(rules.rule, held.votes)
    if vote is None and rules.judge is not None:
        return await _by_judge(run, held, rules.judge)
    if vote is None:
        why = why_undecided(rules.rule, held.votes, len(rules.voters))
        return held.ended("kicked", why)
    if held.question.terms.escalate and (doubt := why_unsure(rules.rule, held.votes)):
        return held.ended("kicked", doubt)
    return held.won(vote.reply)


async def escalated(run: Run, held: QuestionVote, outcome: Outcome) -> Outcome:
    """A question that was kicked goes to better members, in order, until one has an answer."""
    reasons = list(outcome.reasons)
    for better in held.question.terms.escalate if outcome.state == "kicked" else ():
        answer = await run.do(_ask_better(held.question, better))
        held.asks.append(answer)
        if answer.state == "passed" and answer.reply is not None:
            return msgspec.structs.replace(held.won(_bare(answer.reply)), member=better)
        reasons.append(f"{better}: {_why(answer)}")
        if answer.state != "kicked":
            return held.ended(answer.state, *reasons)
    return held.ended("kicked", *reasons) if len(reasons) > len(outcome.reasons) else outcome


def _ask_better(question: Task, better: str) -> Task:
    own = msgspec.structs.replace(
        question.terms, step=f"{question.terms.step}.escalate", who=Who(members=(better,)),
        escalate=(), on_failure="skip", keep=None,
    )  # fmt: skip
    return Task(question.id, question.ask, own)


async def _by_judge(run: Run, held: QuestionVote, judge: VoteJudge) -> Outcome:
    """Where all agree there is nothing to pick."""
    if judge.picks and len(count(held.votes)) == 1:
        return held.won(held.votes[0].reply)
    heard = anonymous(held.question, held.votes)
    try:
        task = judge_task(judge, held.question, heard)
    except FanfoldError as error:
        return held.ended("unjudged", f"the judge: {error}")
    outcome = await run.do(task)
    held.asks.append(outcome)
    if outcome.state != "passed" or outcome.reply is None:
        state: State = "in_doubt" if outcome.state == "in_doubt" else "unjudged"
        return held.ended(state, f"the judge: {outcome.state}: {_why(outcome)}")
    if not judge.picks:
        return held.won(_bare(outcome.reply))
    held.judged = heard.reasons(outcome.reply)
    vote = heard.choice(outcome.reply)
    assert vote is not None, "the gate of the judge's reply has seen to it"
    return held.won(vote.reply)


async def _by_function(
    run: Run, held: QuestionVote, decide: Callable[[list[Vote]], Any]
) -> Outcome:
    """One of the votes, which has passed the gate, or a value, which has to."""
    try:
        found = at_once(decide(list(held.votes)))
    except Exception as error:
        return held.ended("unjudged", f"the decision raised {error_text(error)}")
    if isinstance(found, Vote):
        return held.won(found.reply)
    if found is None:
        return held.ended("kicked", "the function decided for no answer")
    try:
        reply = reply_of(found, "decision")
    except NoValue as error:
        return held.ended("unjudged", str(error))
    state, verdict = await run.judge(held.question, reply)
    if verdict.passed:
        return held.won(reply, (state, verdict))
    return held.ended(state, *verdict.reasons)


# ── words ────────────────────────────────────────────────────────────────────────────────────


def _bare(reply: Reply) -> Reply:
    """The answer without what it took, which is on record with the ask."""
    return Reply(text=reply.text, data=reply.data, model=reply.model)


def _why(outcome: Outcome) -> str:
    return "; ".join(outcome.reasons) or outcome.state


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _entry(voter: Voter, what: str, said: Any) -> dict[str, Any]:
    return {"member": voter.name, what: said}


def _sum(weights: tuple[float, ...]) -> int | float:
    whole = fsum(weights)
    return int(whole) if whole == int(whole) else whole
