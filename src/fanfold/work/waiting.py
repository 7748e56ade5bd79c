"""Why calls wait."""

from __future__ import annotations

from typing import Literal

import msgspec

WaitReason = Literal[
    "paused", "slot", "money", "rate", "refused", "breaker", "probe", "cache", "retry"
]


class WaitingCalls(msgspec.Struct, frozen=True, array_like=True):
    """How many calls wait for the same, for whom (a member, a step; "" is the run) and until when, if
    that is known; `said` for people. No calls: nobody waits, but nothing is sent there now."""

    why: WaitReason
    who: str
    calls: int
    until: float | None = None
    said: str = ""
