"""The facts of a run: one frozen record each, one tagged union with a wire form.

A fact is handed to `Store.write`; the answer that the docstring names comes back when it is durable.
Trap: on the wire a fact is an array, so a new field goes to the end and has a default.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from fanfold.journal.kept import KeepContent
from fanfold.journal.limits import MonthlyLimit, SharedLimit
from fanfold.journal.shares import ShareFact
from fanfold.journal.submissions import NoteSubmission, SubmitBatch
from fanfold.price import Price
from fanfold.work.ask import Reply, Usage
from fanfold.work.outcome import RunStatus, State, StopCause
from fanfold.work.split import TakeApart
from fanfold.work.waiting import WaitingCalls

AttemptState = Literal["started", "ok", "error", "in_doubt", "late"]
"""`late`: a request sent twice was answered, and this was not the answer that was used."""
Loss = Literal["", "died", "cancelled", "unsent", "refused"]
"""Why an attempt has no result: its process died; it was cancelled early, called off unsent, or refused."""
UNSENT = "not needed any more, and not sent"  # the error text of what was called off, for people

# ── runs and what they plan ──────────────────────────────────────────────────────────────────


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One execution. `plan` is what it was started with; `resume` uses that, not the files of now.
    `parent`: the span of the attempt (or run) of this store that started it. `tags`: for accounts."""

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
    cause: StopCause | None = None
    tags: tuple[str, ...] = ()


class AddRun(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Answer: the number of the run. `shared`: others may join it. Then the answer is 0 if such a run of
    its name is under way, whose session is not one of these `dead` ones."""

    record: RunRecord
    shared: bool = False
    dead: tuple[str, ...] = ()


class ReopenRun(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A new session takes the run over from `before`. Answer: False if another one was quicker.

    Outcomes that are not final are dropped, so that the run continues with these items; with `keep`
    they stay. Those of the ids in `anew` are dropped whatever they are. `plan` replaces the plan.
    `shared`: others may join it.
    """

    run: int
    session: str
    budget: bytes
    before: str
    active: float = 0.0
    anew: tuple[str, ...] = ()
    keep: bool = False
    plan: bytes | None = None
    shared: bool = False


class CloseRun(msgspec.Struct, frozen=True, kw_only=True, tag=True, array_like=True):
    """The run is over. Items that have no outcome yet get `rest` (with the reason).

    `session`: only while the run still belongs to that one. Answer: False if it does not.
    """

    run: int
    status: str
    reason: str | None
    at: float
    active: float
    result: bytes | None
    rest: str | None = None
    session: str | None = None
    cause: StopCause | None = None


class DropRun(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A run that was refused before it started leaves nothing behind."""

    run: int


class RemoveRuns(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Remove all of them or none. `runs`: each with its last session; one that has another by now was
    resumed meanwhile. `replies`: also remove those that could serve other runs, except those that
    other runs use. Answer: RemovedReplies, or None if nothing was removed."""

    runs: tuple[tuple[int, str], ...]
    replies: bool = False


class Heartbeat(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The process of a run is alive and has been active for so many seconds, as far as is known."""

    run: int
    active: float


class NoteWaits(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Why calls of a run wait from now on, instead of what was noted before."""

    run: int
    at: float
    waits: tuple[WaitingCalls, ...]


class NameStep(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """`note`: what reports say of the step, such as that it was not taken."""

    run: int
    no: int
    name: str
    note: str = ""


class DeclareCascade(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """This step escalates to these members; the price is that of the first."""

    run: int
    step: int
    members: tuple[str, ...]
    price: Price | None = None


class PlanItems(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Rows of run, batch, position, id and hash."""

    rows: list[tuple[int, int, int, str, bytes]]


class PlanBatch(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A batch is planned completely. `last_step` is where its items leave the flow."""

    run: int
    no: int
    name: str
    fingerprint: str
    size: int
    last_step: int


class DropBatch(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The input changed between two invocations of a script: the batch is planned again."""

    run: int
    no: int


# ── attempts, replies and outcomes ───────────────────────────────────────────────────────────


class StartAttempt(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag=True, array_like=True):
    """Claims keys and writes the reservation, in one transaction, before anything is sent. Answer: Claim.

    `accept` are the answerers whose recorded reply would serve as well; `fresh` limits that to
    replies of this run. `take_over`: an attempt in doubt on this key may be repeated, on record.
    `beside`: the attempt of our own that may hold the keys: it is slow, and this one is its hedge.
    `queue`: what it is put into; "" when this process asks itself. `apart`: how the reply to several items
    that comes out of it is taken apart, should another process get it.
    `unplaced`: its reply does not end its item, as a vote. `discards`: recorded replies, by row, that are
    damaged and asked for again at the operator's word; they count as maybe paid twice. `budgets`: of the run.
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
    monthly: MonthlyLimit | None = None
    queue: str = ""
    discards: tuple[int, ...] = ()
    apart: TakeApart | None = None
    budgets: tuple[SharedLimit, ...] = ()
    unplaced: bool = False


class NewReply(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A reply under its key. `private` replies serve only the run that got them; when they settle
    an item at once they are stored with its outcome instead of under their key."""

    key: bytes
    answerer: str
    member: str
    reply: Reply
    cost: int = 0
    private: bool = False


class ItemEnding(msgspec.Struct, frozen=True, gc=False, array_like=True):
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
    by_parent: bool = False


class EndAttempt(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag=True, array_like=True):
    """An attempt is over. Answer: the row numbers of its replies.

    `attempt` 0 is an unmetered call, which has no start. `released` are the keys it had claimed; an
    attempt in doubt keeps them. `monthly`: its start named a monthly limit. `took`: seconds by a clock
    that does not jump; None is the difference of the two times. `unusable`: what is wrong with the
    usage that was reported; then the cost is the reservation. `bound`: `cost` is an upper bound.
    `shared`: about so many tokens could be read from a cache, `saved` what that saved, or cost if below 0.

    One fact has the replies and, where the gate could judge at once, the outcomes. `unplaced` is the
    step of an unmetered call that no outcome will count: a voter's, a judge's, a reduce's.
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
    landed: tuple[NewReply, ...] = ()
    endings: tuple[ItemEnding, ...] = ()
    unplaced: int | None = None
    monthly: bool = False
    took: float | None = None
    bound: bool = False
    lost: Loss = ""
    shared: int = 0
    saved: int = 0


class RecordFailure(msgspec.Struct, frozen=True, kw_only=True, tag=True, array_like=True):
    """A call of an unmetered member that gave no reply; it has no start, but it is on record.
    Answer: the number of the attempt."""

    run: int
    step: int
    session: str
    member: str
    answerer: str
    ids: tuple[str, ...]
    error: str
    at: float


class EndItems(msgspec.Struct, frozen=True, gc=False, tag=True, array_like=True):
    """Outcomes without a new reply: reused replies, failures, filters."""

    run: int
    endings: tuple[ItemEnding, ...]


class KeepPrompt(msgspec.Struct, frozen=True, gc=False, tag=True, array_like=True):
    """The request to a member, for runs that keep their prompts: a row for each item in it."""

    run: int
    step: int
    member: str
    ids: tuple[str, ...]
    keys: tuple[bytes, ...]
    messages: bytes


class ReleaseClaims(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Cancelled while claiming: what was claimed all the same was never sent, so it is released,
    except what the attempt `beside` it has claimed. Answer: the numbers of those attempts."""

    session: str
    answerer: str
    keys: tuple[bytes, ...]
    at: float
    beside: int = 0


class LoseAttempts(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Attempts whose process died (`sessions`; what others adopted meanwhile stays) are in doubt from now on.
    Those that are `unsent` too were surely never sent: they cost nothing, and their keys are free again."""

    attempts: tuple[int, ...]
    at: float
    unsent: tuple[int, ...] = ()
    sessions: tuple[str, ...] = ()


class AdoptAttempts(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """In progress again, in this session. Answer: those that nobody repeated or adopted meanwhile."""

    run: int
    session: str
    attempts: tuple[int, ...]


class DiscardReply(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Of earlier versions, in what was left behind: see `discards` of StartAttempt."""

    row: int


class BeginJudging(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A gate of the user's judges these replies. A process that ends before EndJudging may do so by it."""

    run: int
    session: str
    keys: tuple[bytes, ...]


class EndJudging(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The gate has judged this one: whatever ended earlier processes, it was not the gate."""

    run: int
    key: bytes


# ── orders ───────────────────────────────────────────────────────────────────────────────────

OrderState = Literal["given", "done", "refused"]


class GiveOrder(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Somebody (`by`) wants something of a run: a verb (`what`) and its object. Answer: its number."""

    run: int
    at: float
    by: str
    what: str
    value: str = ""


class AnswerOrder(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """An order is carried out, or refused (`said`: why). `budget`: the run's new one. Answer: was it open?"""

    order: int
    at: float
    state: OrderState
    said: str = ""
    budget: bytes | None = None


class CopyRows(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Rows of a table of another store, which this one takes as they are."""

    table: str
    rows: list[tuple[Any, ...]]


Fact = (
    AddRun | ReopenRun | CloseRun | DropRun | RemoveRuns | Heartbeat | NoteWaits | NameStep | DeclareCascade
    | PlanItems | PlanBatch | DropBatch | StartAttempt | EndAttempt | RecordFailure | EndItems
    | KeepPrompt | KeepContent | CopyRows | ReleaseClaims | LoseAttempts | AdoptAttempts | DiscardReply
    | BeginJudging | EndJudging | GiveOrder | AnswerOrder | SubmitBatch | NoteSubmission | ShareFact
)  # fmt: skip

encode = msgspec.msgpack.Encoder().encode
"""The wire form of a fact."""
_decoder: msgspec.msgpack.Decoder[Fact] = msgspec.msgpack.Decoder(Fact)


def decode(wire: bytes) -> Fact:
    return _decoder.decode(wire)
