"""Who gets a claim, and what budgets allow: pure decisions, the same for every backend.

The backend fetches what is on record for the starts of one transaction, asks here in their order, and
writes down what was decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from fanfold.journal.answers import Claim, ClaimHolder, Shortage
from fanfold.journal.facts import StartAttempt
from fanfold.work.budget import Account, Accounts, Amount, fit_all, reserve_all

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


def reserve(want: Amount, accounts: Accounts) -> Claim | None:
    """It fits into all of these, and is reserved in each (None), or why not."""
    fit, one = fit_all(accounts, want)
    if fit == "fits":
        reserve_all(accounts, want)
        return None
    return Claim(broke="never" if fit == "never" else "now", short=_shortage(one, want))


def _shortage(one: Account, want: Amount) -> Shortage:
    """Of the first currency that does not suffice."""
    tokens = one.tokens + one.reserved_tokens + want.tokens, one.max_tokens
    if one.max_usd is not None and one.usd + one.reserved_usd + want.usd > one.max_usd:
        return Shortage(one.name, one.max_usd, one.usd, one.reserved_usd, one.final)
    if tokens[1] is not None and tokens[0] > tokens[1]:
        return Shortage(one.name, tokens[1], one.tokens, one.reserved_tokens, unit="tokens")
    return Shortage(one.name, one.max_calls or 0, one.calls, one.reserved_calls, unit="calls")


# ── claims ───────────────────────────────────────────────────────────────────────────────────


class RecordedReply(NamedTuple):
    """A reply on record, as far as it decides whether it serves a start."""

    answerer: str
    run: int
    private: bool
    row: int


class HeldClaim(NamedTuple):
    """A claim on record, with the answerer that it is for."""

    answerer: str
    holder: ClaimHolder


Replies = Mapping[bytes, Sequence[RecordedReply]]
Holders = dict[bytes, list[HeldClaim]]


def claim(
    start: StartAttempt, number: int, replies: Replies, holders: Holders, limits: Accounts
) -> Claim:
    """One of the starts of a transaction, asked for in their order: each sees what those before it
    got. `replies` and `holders` are what is on record, by key.

    A claim with a number is granted. Without one: the reply is known, the keys are held by another,
    they are in doubt and may not be taken over, or a budget does not cover it.
    """
    keys = start.keys if len(start.keys) == 1 else tuple(dict.fromkeys(start.keys))
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
    want = Amount(start.reserved, start.reserved_tokens, 1)
    if limits and (refused := reserve(want, limits)) is not None:
        return refused
    for key in keys:
        holder = ClaimHolder(key, number, start.session, "started", start.reserved)
        holders.setdefault(key, []).append(HeldClaim(start.answerer, holder))
    return Claim(attempt=number, doubt=tuple(doubt))


def _serves(start: StartAttempt, replies: Iterable[RecordedReply]) -> bool:
    return any(
        reply.answerer in start.accept
        and reply.row not in start.discards
        and (reply.run == start.run or not (reply.private or start.fresh))
        for reply in replies
    )


def repeated(doubt: Iterable[ClaimHolder]) -> tuple[int, int]:
    """How many attempts in doubt a granted claim repeats, and what was reserved for them. What may be
    paid a second time is counted once, by the first that repeats it."""
    first = {holder.attempt: holder.reserved for holder in doubt if not holder.again}
    return len(first), sum(first.values())
