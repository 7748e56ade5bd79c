"""Who gets a claim, and what budgets allow: pure decisions, the same for every backend.

The backend fetches what is on record for the starts of one transaction, asks here in their order, and
writes down what was decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from fanfold.journal.answers import Claim, ClaimHolder, Shortage
from fanfold.journal.facts import StartAttempt

# ── months ───────────────────────────────────────────────────────────────────────────────────


def month_of(at: float) -> str:
    """The month of a time, in UTC: `2025-06`."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m")


def month_bounds(month: str) -> tuple[float, float]:
    """When a month begins, and when the next one does."""
    first = datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC)
    after = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
    return first.timestamp(), after.timestamp()


# ── money ────────────────────────────────────────────────────────────────────────────────────


class SpendingLimit(msgspec.Struct):
    """A limit in nano-dollars, what was settled within it and what is reserved: a member's month, or
    a run that others were started within, which `name` is of. `inside`: the start is for a run below
    it, whose own parent holds a part of it until it ends."""

    limit: int
    settled: int
    reserved: int
    name: str = ""
    inside: bool = False

    def refuse(self, amount: int) -> Claim | None:
        """None: it fits. `never`: also when all that is in progress would cost nothing. One inside
        never waits: what it would wait for may be held by whoever waits for it."""
        if self.settled + self.reserved + amount <= self.limit:
            return None
        never = self.inside or self.settled + amount > self.limit
        short = Shortage(self.name, self.limit, self.settled, self.reserved, self.inside)
        return Claim(broke="never" if never else "now", short=short)


def reserve(amount: int, limits: Sequence[SpendingLimit]) -> Claim | None:
    """None: it fits into all of them, and is reserved in each. A Claim: why not."""
    for limit in limits:
        if (refused := limit.refuse(amount)) is not None:
            return refused
    for limit in limits:
        limit.reserved += amount
    return None


# ── claims ───────────────────────────────────────────────────────────────────────────────────


class RecordedReply(NamedTuple):
    """A reply on record, as far as it decides whether it serves a start."""

    answerer: str
    run: int
    private: bool


class HeldClaim(NamedTuple):
    """A claim on record, with the answerer that it is for."""

    answerer: str
    holder: ClaimHolder


Replies = Mapping[bytes, Sequence[RecordedReply]]
Holders = dict[bytes, list[HeldClaim]]


class Claims:
    """Decides the starts of one transaction in their order; each sees what those before it got.

    `replies` and `holders` are what is on record, by key; `last` is the highest attempt number.
    """

    def __init__(self, replies: Replies, holders: Holders, last: int) -> None:
        self._replies, self._holders, self._last = replies, holders, last

    def decide(self, start: StartAttempt, limits: Sequence[SpendingLimit]) -> Claim:
        """A claim with a number is granted. Without one: the reply is known, the keys are held by
        another, they are in doubt and may not be taken over, or a budget does not cover it."""
        replies, holders, keys = self._replies, self._holders, dict.fromkeys(start.keys)
        if replies and (known := [k for k in keys if _serves(start, replies.get(k, ()))]):
            return Claim(known=tuple(known))
        doubt: list[ClaimHolder] = []
        held: list[ClaimHolder] = []
        for key in keys:
            for one in holders.get(key, ()):
                if one.answerer in start.accept and one.holder.attempt != start.beside:
                    (doubt if one.holder.state == "in_doubt" else held).append(one.holder)
        if held or (doubt and not start.take_over):
            return Claim(held=tuple(held), doubt=tuple(doubt))
        if limits and (refused := reserve(start.reserved, limits)) is not None:
            return refused
        self._last += 1
        for key in keys:
            holder = ClaimHolder(key, self._last, start.session, "started", start.reserved)
            holders.setdefault(key, []).append(HeldClaim(start.answerer, holder))
        return Claim(attempt=self._last, doubt=tuple(doubt))


def _serves(start: StartAttempt, replies: Iterable[RecordedReply]) -> bool:
    return any(
        reply.answerer in start.accept
        and (reply.run == start.run or not (reply.private or start.fresh))
        for reply in replies
    )


def repeated(doubt: Iterable[ClaimHolder]) -> tuple[int, int]:
    """How many attempts in doubt a granted claim repeats, and what was reserved for them. What may be
    paid a second time is counted once, by the first that repeats it."""
    first = {holder.attempt: holder.reserved for holder in doubt if not holder.again}
    return len(first), sum(first.values())
