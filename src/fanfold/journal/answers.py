"""What the store answers: to facts, and to the questions of runs and reports. Money is in nano-dollars."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

import msgspec

from fanfold.errors import StoreError
from fanfold.journal.facts import AttemptState, Loss, OrderState
from fanfold.work.ask import Message, Reply, Usage
from fanfold.work.outcome import State
from fanfold.work.split import TakeApart

_T = TypeVar("_T")
DAMAGE = (msgspec.DecodeError, TypeError, ValueError, KeyError, IndexError, OverflowError)
"""What decoding a damaged record may raise."""


def decoded(decode: Callable[[Any], _T], raw: object, what: str) -> _T:
    """A stored column as a record. What cannot be decoded is damaged: one line that names it."""
    try:
        return decode(raw)
    except DAMAGE as error:
        raise StoreError(f"the store: {what} is damaged ({error}); restore a copy") from error


# ── to facts ─────────────────────────────────────────────────────────────────────────────────


class ClaimHolder(msgspec.Struct, frozen=True):
    """Who has claimed a key already. `again`: in doubt, and it was repeated since."""

    key: bytes
    attempt: int
    session: str
    state: AttemptState
    reserved: int
    again: bool = False


Currency = Literal["usd", "tokens", "calls"]


class Shortage(msgspec.Struct, frozen=True, gc=False):
    """A budget that does not cover a claim, in nano-dollars or another `unit`: what is settled and what
    is reserved, by all processes. `scope`: that of a run, by its name; "" is the member's month. `final`:
    nobody may wait for what is reserved there."""

    scope: str
    limit: int
    settled: int
    reserved: int
    final: bool = False
    unit: Currency = "usd"


class Claim(msgspec.Struct, frozen=True, gc=False):
    """The answer to a StartAttempt: the attempt's number, or why there is none.

    `broke`: the member's budget of the month, or the budget of a surrounding run, does not cover the
    reservation; `now`: unless calls in progress cost less than was reserved. `short` says which.
    """

    attempt: int = 0
    known: tuple[bytes, ...] = ()
    held: tuple[ClaimHolder, ...] = ()
    doubt: tuple[ClaimHolder, ...] = ()
    broke: Literal["", "now", "never"] = ""
    short: Shortage | None = None


class RemovedReplies(msgspec.Struct, frozen=True):
    """How many replies were removed, and how many stay that can serve other runs."""

    replies: int = 0
    kept: int = 0


# ── replies and attempts ─────────────────────────────────────────────────────────────────────


class KnownReply(msgspec.Struct, frozen=True, gc=False):
    """A recorded reply. `damage`: it is not what was recorded, so it must not be used; it is asked
    for again only when the operator says so."""

    row: int
    answerer: str
    member: str
    reply: Reply
    damage: str = ""


class AttemptRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at one task by one member. `repeats`: how many attempts in doubt it repeated, as
    the first to do so; `again`: it was in doubt, and was repeated itself. `took`: seconds; None while
    it is in progress, and where nobody knows. `bound`: `cost` is an upper bound. `hedge_of`: the attempt
    that was too slow (0: nobody knows which); None if this is no hedge."""

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
    hedge_of: int | None = None
    lost: Loss = ""


class QueuedShard(msgspec.Struct, frozen=True):
    """Of an ask about several items that was put into a queue: the key of each, in the order of the ids
    in `apart`, which says how its reply becomes theirs."""

    keys: tuple[bytes, ...]
    apart: TakeApart


class LostAttempt(msgspec.Struct, frozen=True):
    """An attempt in doubt that nobody has repeated, or one that a batch service has. `cost` and `tokens`
    are what it counts as; `queue`: the id of the queue that it was put into; `shard`: there, if it was about
    several items; `submission`: the number of the batch that it is in. `unplaced`: its reply does not end
    its item, as a vote or a judge's does not."""

    no: int
    step: int
    member: str
    answerer: str
    ids: tuple[str, ...]
    keys: tuple[bytes, ...]
    cost: int
    tokens: int
    queue: str = ""
    shard: QueuedShard | None = None
    submission: int = 0
    unplaced: bool = False


# ── items ────────────────────────────────────────────────────────────────────────────────────


class EndedItem(msgspec.Struct, frozen=True):
    """How one planned item ended, for reports."""

    id: str
    state: State
    reasons: tuple[str, ...]
    member: str | None
    cost: int
    value: object = None
    by_parent: bool = False


class ItemFilter(msgspec.Struct, frozen=True):
    """Which items of a run are listed: of an outcome ("pending": without one, "": all), whose id has a
    text in it, after a place (batch and position), or the last ones before it."""

    state: State | Literal["", "pending"] = ""
    text: str = ""
    place: tuple[int, int] = (-1, -1)
    before: bool = False
    limit: int = 50


class ListedItem(msgspec.Struct, frozen=True):
    """One line of a list of items. `state` None: it has no outcome yet."""

    id: str
    place: tuple[int, int]
    state: State | None
    reasons: tuple[str, ...]
    member: str | None
    cost: int
    calls: int


class PlannedItem(msgspec.Struct, frozen=True):
    """Where an item was planned: which batch (`input`, or the step that produced it), at which
    position, and the hash of its data."""

    id: str
    batch: int
    of: str
    position: int
    hash: bytes


class StepEnding(msgspec.Struct, frozen=True):
    """How an item ended at one step. `key`: that of the ask that was answered, None without a reply.
    `damaged`: what is on record is not what was recorded."""

    step: int
    state: State
    reasons: tuple[str, ...]
    member: str | None
    cost: int
    calls: int
    key: bytes | None
    reply: Reply | None
    damaged: bool = False


class KeptPrompt(msgspec.Struct, frozen=True):
    """A request as it was sent, of a run that keeps its prompts."""

    step: int
    member: str
    key: bytes
    messages: tuple[Message, ...]


class GivenReply(msgspec.Struct, frozen=True):
    """A recorded reply, and who gave it."""

    member: str
    reply: Reply


class StepOutcome(msgspec.Struct, frozen=True):
    """How an item ended at a step. `reply`: the one behind it, by its run, its member and the time
    when it came, which is the time when its attempt ended; None where no single reply is."""

    state: State
    reply: tuple[int, str, float] | None = None


class AnsweredItems(msgspec.Struct, frozen=True):
    """How many items a member answered: with new replies, with those of earlier runs. `calls` are
    those that the outcomes counted; for metered members the attempts know better. `replies`: the new
    ones, of which one may serve several items."""

    new: int = 0
    earlier: int = 0
    calls: int = 0
    replies: int = 0


# ── sums ─────────────────────────────────────────────────────────────────────────────────────


class Spent(msgspec.Struct, frozen=True):
    """Money and tokens of a run or one of its steps. What is in progress, in doubt or reported no
    usage counts with its reservation. `charged` are the calls that were not refunded, `hedged` second
    requests for an ask in progress, `late` what the requests cost whose answer was not used,
    `unusable` the replies whose reported usage cannot be true, `bounds` the attempts whose cost is
    an upper bound. `sharing`: the calls of which `shared` tokens could be read from a cache; that `saved`
    so much."""

    calls: int = 0
    cost: int = 0
    usage: Usage = Usage()
    tokens: int = 0
    errors: int = 0
    in_doubt: int = 0
    repeats: int = 0
    repeated: int = 0
    charged: int = 0
    hedged: int = 0
    late: int = 0
    unusable: int = 0
    bounds: int = 0
    sharing: int = 0
    shared: int = 0
    saved: int = 0


class Unsettled(msgspec.Struct, frozen=True):
    """Attempts in progress or in doubt: how many, and at most how much they cost."""

    attempts: int = 0
    at_most: int = 0


class OrderRecord(msgspec.Struct, frozen=True):
    """What somebody wanted of a run, and what came of it."""

    no: int
    run: int
    at: float
    by: str
    what: str
    value: str
    state: OrderState
    answered: float | None
    said: str


class MonthUse(msgspec.Struct, frozen=True):
    """What a member spent in a month: settled, and reserved for what is in progress."""

    settled: int = 0
    reserved: int = 0

    @property
    def whole(self) -> int:
        return self.settled + self.reserved


class MemberTotal(msgspec.Struct, frozen=True):
    """What one member did at one step of a run. `seconds` are those of its calls, added up;
    the cost of `bounds` attempts is an upper bound."""

    run: int
    step: int
    member: str
    calls: int
    cost: int
    usage: Usage
    errors: int
    in_doubt: int
    repeats: int
    seconds: float
    bounds: int = 0


class CallHistory(msgspec.Struct, frozen=True):
    """The newest calls of a member that brought a reply. `step` is None when they are of all steps.

    `cost`, `input` and `output` are means of one call, cached input included; `latency` is the median
    in seconds, `slow` the 90th percentile. `kicks`: how many more replies were asked for, for each
    one that was wanted; several samples of one question look like that too. `errors` is the share of
    attempts that brought no reply.
    """

    calls: int
    step: str | None = None
    cost: float = 0.0
    cost_variance: float = 0.0
    input: float = 0.0
    output: float = 0.0
    latency: float = 0.0
    slow: float = 0.0
    kicks: float = 0.0
    errors: float = 0.0


# ── times ────────────────────────────────────────────────────────────────────────────────────


class MemberActivity(msgspec.Struct, frozen=True):
    """What a member did in a run: its calls, those without a reply that counts, their time added up."""

    member: str
    calls: int
    bad: int
    cost: int
    seconds: float


class CallTime(msgspec.Struct, frozen=True):
    """One call, and when. What was lost with its process ends where it began."""

    member: str
    started: float
    ended: float
    state: AttemptState
    no: int


class TimeBins(msgspec.Struct, frozen=True):
    """Calls that began from `start` to `end`, in bins of `width` seconds counted from `origin`."""

    start: float
    end: float
    origin: float
    width: float


class BinnedCalls(msgspec.Struct, frozen=True):
    """Calls of one member that began in bin `first` and ended in bin `last`: how many, the sums of
    their beginnings and ends (in seconds from the origin), and how many of them failed."""

    member: str
    first: int
    last: int
    calls: int
    began: float
    over: float
    bad: int
