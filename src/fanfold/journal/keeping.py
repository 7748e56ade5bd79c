"""What becomes of a fact that the store does not take, and of whoever waits for it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from fanfold.errors import RunStopped, StoreError, StoreUnavailable
from fanfold.journal.apply import AddRun, CloseRun, DropRun, NameStep, PlanItems, ReopenRun
from fanfold.journal.cascades import Cascade
from fanfold.journal.facts import End, Ended, Failed, Lose, Sent, Unclaim
from fanfold.work.ask import Reply

WAIT: Final = object()
"""No answer yet: it is saved nowhere but in memory."""


def answer_to(fact: Any, error: StoreError, reason: str, saved: bool) -> tuple[Any, bool]:
    """What whoever waits for it gets, and whether it is kept to be committed later.

    An end is as good as recorded once it is saved: its reply stands under no row yet. Outcomes
    without a reply of their own are found again from the replies. What was to begin does not.
    """
    match fact:
        case End():
            return ((0,) * len(fact.landed) if saved else WAIT), True
        case NameStep() | Unclaim() | Failed() | Lose():
            return None, True
        case Ended() | Cascade() | Sent() | PlanItems(rows=[]):
            return None, False
        case AddRun() | ReopenRun() | DropRun():
            return error, False
        case CloseRun():
            return StoreUnavailable(reason), False
        case _:
            return RunStopped(f"paused: {reason}"), False


def paused(fact: Any, reason: str) -> Any:
    """A run whose store was gone in mid-run did not end well, even if all its items did."""
    if isinstance(fact, CloseRun) and fact.status in ("complete", "flagged"):
        return msgspec.structs.replace(fact, status="paused", reason=reason)
    return fact


def with_replies(fact: Any) -> Any:
    """Outcomes of replies that went into the side file have no row to point to: they are left out,
    and found again from the replies when the run is resumed."""
    if isinstance(fact, Ended):
        known = tuple(e for e in fact.endings if e.reply or e.state not in _WITH_REPLY)
        return fact if len(known) == len(fact.endings) else Ended(fact.run, known)
    return fact


_WITH_REPLY = ("passed", "skipped", "kicked")


def size_of(reply: Reply) -> int:
    """At most so many bytes does it take, roughly; a character may be four."""
    size = len(reply.text)
    if reply.data is not None:
        size += len(msgspec.json.encode(reply.data)) if size < 64 else size
    return size if reply.text.isascii() else 4 * size
