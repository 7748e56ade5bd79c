"""Should we try again, and when? Values in, a decision out."""

from __future__ import annotations

import random

import msgspec

from fanfold.errors import InvalidReply, MemberError, RateLimited, Terminal
from fanfold.work.raised import error_text


class Again(msgspec.Struct, frozen=True):
    """Try once more after `delay`. `elsewhere`: a different member first, when there is one.

    `counts`: it uses up one of the task's attempts. Being told to wait (429) does not.
    """

    delay: float
    elsewhere: bool = True
    counts: bool = True


class GiveUp(msgspec.Struct, frozen=True):
    reason: str


def after(error: Exception, tries: int, most: int, rng: random.Random) -> Again | GiveUp:
    """`tries` attempts have been made, `most` are allowed."""
    match error:
        case RateLimited():
            return Again(0.0, counts=False)
        case Terminal(scope="ask"):
            return GiveUp(str(error))
        case Terminal():
            return Again(0.0, counts=False)  # the breaker is open now: another member, or nobody
        case InvalidReply() | MemberError() if tries < most:
            return Again(min(30.0, 0.5 * 2.0 ** (tries - 1)) * (0.5 + rng.random() / 2))
        case MemberError():
            return GiveUp(f"{error} (after {tries} attempt{'s' if tries > 1 else ''})")
        case _:
            return GiveUp(error_text(error))
