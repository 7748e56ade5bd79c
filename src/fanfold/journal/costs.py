"""What was spent, wasted and saved: answers for the page of money. Nano-dollars."""

from __future__ import annotations

from typing import NamedTuple

import msgspec


class DaySpending(msgspec.Struct, frozen=True):
    """What one member took at one step of a run on one day (UTC, counted from 1970). Of the cost: what
    was paid for no reply, what is in doubt, and what came too late. `saved`: by prompt caches."""

    day: int
    run: int
    step: int
    member: str
    answerer: str
    calls: int
    cost: int
    failed: int
    in_doubt: int
    late: int
    tokens: int
    saved: int = 0


class ReplyCosts(NamedTuple):
    """Of one run, in nano-dollars: what replies took that were kicked back, and what those replies had
    taken that were on record already, in the run they were made for; and how many these are."""

    kicked: int = 0
    reused: int = 0
    items: int = 0
