"""The facts of a run: one frozen record each. Writers append them; readers get them back."""

from __future__ import annotations

from typing import Literal

import msgspec

from fanfold.work.ask import Reply, Usage
from fanfold.work.outcome import RunStatus, State

AttemptState = Literal["started", "ok", "error", "in_doubt", "late"]
"""`late`: a request sent twice was answered, and this was not the answer that was used."""
UNSENT = "not needed any more, and not sent"
"""What is said of an attempt that was claimed in vain."""


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One execution. `plan` is what it was started with; `resume` uses that, not the files of now.
    `parent`: the span of the attempt (or run) of this store in whose process it was started."""

    no: int = 0
    id: str
    name: str
    status: RunStatus = "running"
    reason: str | None = None
    created: float
    ended: float | None = None
    session: str = ""
    plan: bytes = b""
    folder: str = ""
    budget: bytes = b"{}"
    active: float = 0.0
    result: bytes | None = None
    resumed: bool = False
    parent: str | None = None


class Monthly(msgspec.Struct, frozen=True, gc=False):
    """What a member may take in a month (`2025-06`, UTC), over all runs of the store, in
    nano-dollars. `anew`: add up first what it took so far."""

    month: str
    limit: int
    anew: bool = False


class Start(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Claims the keys and writes the reservation, in one transaction, before anything is sent.

    `accept` are the answerers whose recorded reply would serve as well; `fresh` limits that to
    replies of this run. `take_over`: an attempt in doubt on this key may be repeated, on record.
    `beside`: the attempt of our own that may have the keys: it is slow, and this one is a hedge.
    """

    run: int
    step: int
    session: str
    member: str
    answerer: str
    keys: tuple[bytes, ...]
    ids: tuple[str, ...]
    accept: tuple[str, ...]
    reserved: int
    reserved_tokens: int
    at: float
    why: str = ""
    fresh: bool = False
    take_over: bool = True
    beside: int = 0
    monthly: Monthly | None = None


class Holder(msgspec.Struct, frozen=True):
    """Who has claimed a key already. `again`: in doubt, and it was repeated since."""

    key: bytes
    attempt: int
    session: str
    state: AttemptState
    reserved: int
    again: bool = False


class Claim(msgspec.Struct, frozen=True, gc=False):
    """The answer to a Start: the attempt's number, or why there is none.

    `broke`: the member's budget of the month does not bear the reservation, or the budget of a run
    above or around this one, which `why` names; `now`: unless what is under way takes less than was
    reserved for it.
    """

    attempt: int = 0
    known: tuple[bytes, ...] = ()
    held: tuple[Holder, ...] = ()
    doubt: tuple[Holder, ...] = ()
    broke: Literal["", "now", "never"] = ""
    why: str = ""


class Landed(msgspec.Struct, frozen=True, gc=False):
    """A reply under its key. `private` replies serve only the run that got them; when they settle
    an item at once they are kept with its outcome instead of under their key."""

    key: bytes
    answerer: str
    member: str
    reply: Reply
    cost: int = 0
    private: bool = False


class Ending(msgspec.Struct, frozen=True, gc=False):
    """How an item ended at a step. `landed` points into the fact's replies, `reply` to a row."""

    batch: int
    position: int
    step: int
    state: State
    reasons: tuple[str, ...] = ()
    member: str | None = None
    cost: int = 0
    calls: int = 0
    landed: int = -1
    reply: int = 0


class End(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An attempt is over. `attempt` 0 is an unmetered call, which has no start. `released` are the
    keys it had claimed; an attempt in doubt keeps them. `monthly`: its start named a budget.
    `took`: seconds by a clock that does not jump; None is the difference of the two stamps.
    `unusable`: what is wrong with the usage that was reported; then the cost is the reservation.
    `bound`: `cost` is the most that it can have been.

    One fact carries the replies and, where the gate could judge at once, the outcomes. `unplaced` is
    the step of an unmetered call that no outcome will count: a voter's, a judge's, a reduce's.
    """

    run: int
    attempt: int = 0
    state: AttemptState = "ok"
    usage: Usage | None = None
    cost: int = 0
    tokens: int = 0
    unusable: str = ""
    error: str | None = None
    at: float
    released: tuple[bytes, ...] = ()
    answerer: str = ""
    landed: tuple[Landed, ...] = ()
    endings: tuple[Ending, ...] = ()
    unplaced: int | None = None
    monthly: bool = False
    took: float | None = None
    bound: bool = False


class Sent(msgspec.Struct, frozen=True, gc=False):
    """What goes out to a member, for runs that keep their prompts: a row for each item in it."""

    run: int
    step: int
    member: str
    ids: tuple[str, ...]
    keys: tuple[bytes, ...]
    messages: bytes


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """A try of an unmetered member that gave no reply; it has no start, but it is on record."""

    run: int
    step: int
    session: str
    member: str
    answerer: str
    ids: tuple[str, ...]
    error: str
    at: float


class Ended(msgspec.Struct, frozen=True, gc=False):
    """Outcomes without a new reply: reused replies, failures, filters."""

    run: int
    endings: tuple[Ending, ...]


class Unclaim(msgspec.Struct, frozen=True):
    """Cancelled while claiming: what was claimed all the same was never sent, so it is let go.
    But not what the attempt `beside` it has claimed."""

    session: str
    answerer: str
    keys: tuple[bytes, ...]
    at: float
    beside: int = 0


class Discard(msgspec.Struct, frozen=True):
    """A recorded reply is damaged, and the operator wants it asked for again: it serves no more."""

    row: int


class Lose(msgspec.Struct, frozen=True):
    """Attempts that were under way when their process died are in doubt from now on."""

    attempts: tuple[int, ...]
    at: float


class Known(msgspec.Struct, frozen=True, gc=False):
    """A recorded reply, found again. `damage`: it is not what was recorded, so it must not be used;
    it is asked for again only on the operator's word."""

    row: int
    answerer: str
    member: str
    reply: Reply
    damage: str = ""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One try of one task by one member, as readers see it. `repeats`: so many attempts in doubt
    did it repeat, being the first to; `again`: it was in doubt, and was repeated itself.
    `took`: how many seconds; None while it is under way, and where nobody knows. `bound`:
    `cost` is the most that it can have been, nobody knows it exactly."""

    no: int
    step: int
    member: str
    state: AttemptState
    ids: tuple[str, ...]
    reserved: int
    cost: int
    usage: Usage
    started: float
    ended: float | None
    error: str | None
    why: str
    repeats: int = 0
    again: bool = False
    took: float | None = None
    unusable: str = ""
    bound: bool = False
