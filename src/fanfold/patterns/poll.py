"""One question on its way to a decision: the voters are asked, their answers counted or judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import fsum
from typing import Any

import msgspec

from fanfold.errors import FanfoldError
from fanfold.patterns.panel import Panel, VoteJudge, anonymous, judge_task
from fanfold.run.pool import in_order
from fanfold.run.run import Run
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


class Poll:
    """What was heard so far: `votes` in the order of asking, and who gave none."""

    def __init__(self, panel: Panel, question: Task) -> None:
        self.panel, self.question = panel, question
        self.votes: list[Vote] = []
        self.absent: dict[Voter, Outcome] = {}
        self.asks: list[Outcome] = []
        self.answer: Any = None

    def hear(self, voter: Voter, outcome: Outcome) -> None:
        """A reply that did not pass, or that lacks what is voted on, is no vote."""
        self.asks.append(outcome)
        if outcome.state == "passed" and outcome.reply is not None:
            said = self._said(outcome.value)
            if said is not MISSING:
                return self.votes.append(Vote(voter, said, ballot(said), _bare(outcome.reply)))
            why = f"the reply has no single `{'.'.join(self.panel.path)}`"
            outcome = Outcome(outcome.id, "kicked", reasons=(why,))
        self.absent[voter] = outcome
        return None

    def _said(self, value: Any) -> Any:
        """What is voted on in a reply's value; MISSING if that is not there, or not one."""
        found = [leaf for _, leaf in leaves(value, self.panel.path)]
        return found[0] if len(found) == 1 else MISSING

    def gone(self) -> list[Voter]:
        """Voters nobody could be asked for, when without them there are too few."""
        if len(self.votes) >= self.panel.rule.turnout:
            return []
        return [voter for voter, outcome in self.absent.items() if outcome.state == "cancelled"]

    # ── how it ends ──

    def won(self, reply: Reply, judged: tuple[State, Verdict] | None = None) -> Outcome:
        """Decided. Those who said otherwise are named in the reasons."""
        said = self._said(reply.value)
        self.answer = reply.value if said is MISSING else said
        state, verdict = judged or ended(self.question, reply, PASS)
        reasons = verdict.reasons or (
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
        why = why_undecided(self.panel.rule, self.votes, len(self.panel.voters))
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

    def dissent(self) -> list[Vote]:
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
            "of": len(self.panel.voters),
            "asked": len(self.votes) + len(self.absent),
            "dissent": [_entry(vote.voter, "answer", vote.value) for vote in self.dissent()],
            "absent": [_entry(voter, "reason", _why(one)) for voter, one in self.absent.items()],
            "reasons": [] if passed else list(outcome.reasons),
        }


# ── asking ───────────────────────────────────────────────────────────────────────────────────


async def put_to_vote(run: Run, panel: Panel, question: Task) -> Poll:
    """Put the question to the voters: all at once, or with `early` as few as may be enough."""
    panel = told_apart(run, panel, question.terms)
    poll, rest = Poll(panel, question), list(panel.voters)
    while rest and not (panel.early and enough(panel.rule, poll.votes, rest)):
        many = wave(panel.rule, poll.votes, rest) if panel.early else len(rest)
        now, rest = rest[:many], rest[many:]
        outcomes = await in_order(now, lambda voter: run.do(_ask_of(poll, voter)))
        for voter, outcome in zip(now, outcomes, strict=True):
            poll.hear(voter, outcome)
    for voter in poll.gone():  # without them there is no decision: the run stops for them
        del poll.absent[voter]
        poll.hear(voter, await run.do(_ask_of(poll, voter, needed=True)))
    return poll


def told_apart(run: Run, panel: Panel, terms: Terms) -> Panel:
    """Voters that are one and the same answerer under several names (two entries for one model, a
    program listed twice) each get a sample of their own: one reply is one vote."""
    seen: Counter[str] = Counter()
    voters = {}
    for voter in sorted(panel.voters, key=lambda one: one.place):
        if voter.member is None:
            return panel
        who = msgspec.structs.replace(terms, who=Who(members=(voter.member,)), escalate=())
        answerer = run.traits(who)[0].answerer
        voters[voter] = msgspec.structs.replace(voter, sample=seen[answerer])
        seen[answerer] += 1
    return msgspec.structs.replace(panel, voters=tuple(voters[one] for one in panel.voters))


def _ask_of(poll: Poll, voter: Voter, needed: bool = False) -> Task:
    question = poll.question
    terms, ask = question.terms, question.ask
    own = msgspec.structs.replace(
        terms,
        step=f"{terms.step}.vote",
        who=terms.who if voter.member is None else Who(members=(voter.member,)),
        concurrency=terms.concurrency * len(poll.panel.voters),
        escalate=(), on_failure="skip", keep=None, needed=needed,
    )  # fmt: skip
    if voter.sample:
        ask = msgspec.structs.replace(ask, sample=ask.sample + voter.sample)
    return Task(question.id, ask, own)


# ── deciding ─────────────────────────────────────────────────────────────────────────────────


async def decision(run: Run, poll: Poll) -> Outcome:
    """Cases: too few answered; the votes are counted; a judge decides; a function does."""
    panel = poll.panel
    if len(poll.votes) < panel.rule.turnout:
        return poll.too_few()
    if isinstance(panel.decide, VoteJudge):
        return await _by_judge(run, poll, panel.decide)
    if callable(panel.decide):
        return await _by_function(run, poll, panel.decide)
    vote = decided(panel.rule, poll.votes)
    if vote is None:
        why = why_undecided(panel.rule, poll.votes, len(panel.voters))
        return poll.ended("kicked", why)
    if poll.question.terms.escalate and (doubt := why_unsure(panel.rule, poll.votes)):
        return poll.ended("kicked", doubt)
    return poll.won(vote.reply)


async def escalated(run: Run, poll: Poll, outcome: Outcome) -> Outcome:
    """A question that was kicked goes to better members, in order, until one has an answer."""
    reasons = list(outcome.reasons)
    for better in poll.question.terms.escalate if outcome.state == "kicked" else ():
        answer = await run.do(_ask_better(poll.question, better))
        poll.asks.append(answer)
        if answer.state == "passed" and answer.reply is not None:
            return msgspec.structs.replace(poll.won(_bare(answer.reply)), member=better)
        reasons.append(f"{better}: {_why(answer)}")
        if answer.state != "kicked":
            return poll.ended(answer.state, *reasons)
    return poll.ended("kicked", *reasons) if len(reasons) > len(outcome.reasons) else outcome


def _ask_better(question: Task, better: str) -> Task:
    own = msgspec.structs.replace(
        question.terms, step=f"{question.terms.step}.escalate", who=Who(members=(better,)),
        escalate=(), on_failure="skip", keep=None,
    )  # fmt: skip
    return Task(question.id, question.ask, own)


async def _by_judge(run: Run, poll: Poll, judge: VoteJudge) -> Outcome:
    """Where all agree there is nothing to pick."""
    if judge.picks and len(count(poll.votes)) == 1:
        return poll.won(poll.votes[0].reply)
    heard = anonymous(poll.question, poll.votes)
    try:
        task = judge_task(judge, poll.question, heard)
    except FanfoldError as error:
        return poll.ended("unjudged", f"the judge: {error}")
    outcome = await run.do(task)
    poll.asks.append(outcome)
    if outcome.state != "passed" or outcome.reply is None:
        state: State = "in_doubt" if outcome.state == "in_doubt" else "unjudged"
        return poll.ended(state, f"the judge: {outcome.state}: {_why(outcome)}")
    if not judge.picks:
        return poll.won(_bare(outcome.reply))
    vote = heard.choice(outcome.reply)
    assert vote is not None, "the gate of the judge's reply has seen to it"
    return poll.won(vote.reply)


async def _by_function(run: Run, poll: Poll, decide: Callable[[list[Vote]], Any]) -> Outcome:
    """One of the votes, which has passed the gate, or a value, which has to."""
    try:
        found = decide(list(poll.votes))
    except Exception as error:
        return poll.ended("unjudged", f"the decision raised {error_text(error)}")
    if isinstance(found, Vote):
        return poll.won(found.reply)
    if found is None:
        return poll.ended("kicked", "the function decided for no answer")
    reply = Reply(text=found) if isinstance(found, str) else Reply(data=found)
    state, verdict = await run.judge(poll.question, reply)
    if verdict.passed:
        return poll.won(reply, (state, verdict))
    return poll.ended(state, *verdict.reasons)


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
