"""The asks about an item, one after the other, with the reply and the verdict of each.

A kick-back follows from the ask before it, its reply and the reasons of its gate. So each is made again,
and the key of a reply on record tells whether that is what was sent. Code of the user's is not run.
"""

from __future__ import annotations

from typing import NamedTuple

from fanfold.journal.answers import AttemptRecord, GivenReply, StepEnding
from fanfold.journal.questions import ReportQuestions
from fanfold.run.item_view import PromptView
from fanfold.work.ask import Ask, Takes
from fanfold.work.kick_back import KickBacks
from fanfold.work.outcome import Outcome, Verdict
from fanfold.work.task import Task

TAKES: tuple[Takes, ...] = ("messages", "items", "both")
NONE_YET = "no reply is on record to check it against"


class _Asked(NamedTuple):
    """An ask with whoever it escalated to, and the reply to it that is on record."""

    ask: Ask
    member: str | None
    given: GivenReply | None


def keys_of(ask: Ask) -> set[bytes]:
    return {ask.key(takes) for takes in TAKES}


def retraced(
    read: ReportQuestions, task: Task, ending: StepEnding | None, tried: tuple[AttemptRecord, ...]
) -> tuple[PromptView, ...]:
    """Nothing where its way cannot be followed to the reply that counts: code of the user's judged it,
    or the ask depends on more than the item; and where there is no prompt."""
    if task.terms.nature != "pure" or task.terms.tools is not None or not task.ask.messages:
        return ()
    found, asked, reasons = _followed(read, task, tried, None)
    if asked.given is None:
        return _unanswered(found, asked, ending)
    return _settled(found, asked, reasons, ending)


class Retraced(NamedTuple):
    """`views` have the reply of each; `reasons`: why the last one was refused; `answered`: the last ask
    has a reply."""

    views: tuple[PromptView, ...]
    reasons: tuple[str, ...]
    answered: bool


def followed(
    read: ReportQuestions, task: Task, tried: tuple[AttemptRecord, ...], member: str | None
) -> Retraced:
    """The same of an ask that has no outcome of its own, to this member."""
    found, asked, reasons = _followed(read, task, tried, member)
    last = () if asked.given is None else (_view(asked, reasons),)
    return Retraced((*found, *last), reasons, bool(last))


def _followed(
    read: ReportQuestions, task: Task, tried: tuple[AttemptRecord, ...], member: str | None
) -> tuple[list[PromptView], _Asked, tuple[str, ...]]:
    """Those that were kicked back; the last one; why its reply, if there is one, was refused."""
    found: list[PromptView] = []
    asked, kicks = _Asked(task.ask, member, None), KickBacks()
    while True:
        asked = asked._replace(given=_given(read, task, asked, tried))
        if asked.given is None:
            return found, asked, ()
        verdict = task.terms.gate(task, asked.given.reply, _nobody)
        assert isinstance(verdict, Verdict)
        reasons = verdict.reasons if verdict.state == "fail" else ()
        if not reasons or not kicks.remain(task.terms):
            return found, asked, reasons
        found.append(_view(asked, reasons))
        again = kicks.next(task, asked.ask, asked.given.reply, reasons)
        asked, kicks = _Asked(again.ask, again.member or member, None), again.kicks


def _given(
    read: ReportQuestions, task: Task, asked: _Asked, tried: tuple[AttemptRecord, ...]
) -> GivenReply | None:
    """Of the member it escalated to; else of one that was asked before, in this run if there is one."""
    keys = keys_of(asked.ask)
    every = [one for given in read.replies_to(keys).values() for one in given]
    if asked.member is not None:
        return next((one for one in reversed(every) if one.member == asked.member), None)
    own = {one.member for one in tried if one.state == "ok"}
    first = [one for one in every if one.member not in task.terms.escalate] or every
    return next((one for one in reversed(first) if one.member in own), first[-1] if first else None)


def _view(asked: _Asked, reasons: tuple[str, ...], *, counts: bool = False) -> PromptView:
    assert asked.given is not None
    return PromptView(
        "matches", asked.ask.conversation(), member=asked.given.member,
        reply=None if counts else asked.given.reply, reasons=reasons,
    )  # fmt: skip


def _settled(
    found: list[PromptView], asked: _Asked, reasons: tuple[str, ...], ending: StepEnding | None
) -> tuple[PromptView, ...]:
    if ending is None or ending.key is None or ending.key not in keys_of(asked.ask):
        return ()
    return (*found, _view(asked, reasons, counts=True))


def _unanswered(
    found: list[PromptView], asked: _Asked, ending: StepEnding | None
) -> tuple[PromptView, ...]:
    """The last of them is under way, or it got no reply."""
    if not found or (ending is not None and ending.key is not None):
        return ()
    view = PromptView(
        "unchecked", asked.ask.conversation(), NONE_YET, asked.member or found[-1].member
    )
    return (*found, view)


async def _nobody(task: Task) -> Outcome:
    raise AssertionError("a gate that asks nobody")
