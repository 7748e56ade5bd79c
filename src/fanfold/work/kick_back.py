"""What becomes of a judged reply: it ends, or it is kicked back. The same rule for every pattern."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from fanfold.work.ask import Ask, Reply
from fanfold.work.outcome import State, Verdict, VerdictState
from fanfold.work.raised import error_text
from fanfold.work.task import Task, Terms

STATE_OF: dict[VerdictState, State] = {"pass": "passed", "fail": "kicked", "unjudged": "unjudged"}


def ended(task: Task, reply: Reply, verdict: Verdict) -> tuple[State, Verdict]:
    """How a reply ends that is not kicked back. The filter sees what passed the gate; one that
    raises leaves the reply unjudged."""
    keep = task.terms.keep
    if verdict.state != "pass" or keep is None:
        return STATE_OF[verdict.state], verdict
    try:
        return ("passed" if keep(task, reply) else "skipped"), verdict
    except Exception as error:
        return "unjudged", raised("filter", error)


def raised(what: str, error: Exception) -> Verdict:
    """Code of the user's that raises has judged nothing. Half a surrogate pair is a text in Python,
    but not in a file, so it is replaced."""
    text = f"the {what} raised {error_text(error)}"
    return Verdict("unjudged", (text.encode("utf-8", "replace").decode(),))


class NextAsk(NamedTuple):
    """What is asked after a kick-back: by whoever answered, or by `member`, to whom it escalates."""

    ask: Ask
    member: str | None
    kicks: KickBacks


class KickBacks(msgspec.Struct, frozen=True, gc=False):
    """How often a task was kicked back so far: to be revised, then to better members."""

    revised: int = 0
    escalated: int = 0

    def remain(self, terms: Terms) -> bool:
        return self.revised < terms.revise or self.escalated < len(terms.escalate)

    def next(self, task: Task, ask: Ask, reply: Reply, reasons: tuple[str, ...]) -> NextAsk:
        """The ask as it stands, with the reply and the reasons; or the original one for a better
        member, who is not told of the failures of others."""
        replace = msgspec.structs.replace
        if self.revised < task.terms.revise:
            kicks = replace(self, revised=self.revised + 1)
            return NextAsk(ask.revised(reply, reasons), None, kicks)
        better = task.terms.escalate[self.escalated]
        return NextAsk(task.ask, better, replace(self, escalated=self.escalated + 1))
