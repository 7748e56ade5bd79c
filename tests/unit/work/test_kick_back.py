"""What becomes of a judged reply is one rule: it ends, or it goes back with the reasons."""

from __future__ import annotations

from typing import Any

import pytest

from fanfold.gates.default import default
from fanfold.work.ask import Ask, Message, Reply
from fanfold.work.kick_back import KickBacks, ended
from fanfold.work.outcome import PASS, Verdict, fail, unjudged
from fanfold.work.task import Task, Terms

ASK = Ask((Message("user", "Say a word"),))
BAD = Reply("no word")


def task(**terms: Any) -> Task:
    return Task("a", ASK, Terms("step", default(), **terms))


def raises(task: Task, reply: Reply) -> bool:
    raise KeyError("half \ud800 a pair")


@pytest.mark.parametrize(
    ("verdict", "keep", "state", "reasons"),
    [
        (PASS, None, "passed", ()),
        (PASS, lambda task, reply: True, "passed", ()),
        (PASS, lambda task, reply: False, "skipped", ()),
        (fail("bad"), lambda task, reply: True, "kicked", ("bad",)),
        (unjudged("who knows"), raises, "unjudged", ("who knows",)),
    ],
)
def test_how_a_reply_ends(verdict: Verdict, keep: Any, state: str, reasons: Any) -> None:
    """The filter is asked only about what passed."""
    found, said = ended(task(keep=keep), BAD, verdict)
    assert (found, said.reasons) == (state, reasons)


def test_a_filter_that_raises_leaves_the_reply_unjudged_with_a_text_that_can_be_written() -> None:
    state, verdict = ended(task(keep=raises), BAD, PASS)
    assert (state, verdict.state) == ("unjudged", "unjudged")
    assert verdict.reasons[0].startswith("the filter raised KeyError: ")
    verdict.reasons[0].encode()


def test_first_it_is_revised_with_the_reasons_then_it_goes_to_better_members_as_it_was() -> None:
    one, ask, kicks = task(revise=2, escalate=("b", "c")), ASK, KickBacks()
    seen = []
    while kicks.remain(one.terms):
        again = kicks.next(one, ask, BAD, ("too short",))
        ask, kicks = again.ask, again.kicks
        seen.append((len(ask.turns), again.member))
    assert seen == [(2, None), (4, None), (0, "b"), (0, "c")]
    assert kicks == KickBacks(2, 2)


def test_the_second_ask_holds_the_reply_and_why_it_was_not_accepted() -> None:
    again = KickBacks().next(task(), ASK, BAD, ("too short", "no verb"))
    assert [turn.content for turn in again.ask.turns] == [
        "no word",
        "That reply was not accepted:\n- too short\n- no verb\n"
        "Reply again, in full, with this put right.",
    ]


def test_nothing_goes_back_where_none_is_wanted() -> None:
    assert not KickBacks().remain(task(revise=0).terms)
