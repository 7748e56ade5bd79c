"""What crosses the queue between a run and its workers: plain records. `opening.open_queue` opens one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from fanfold.work.file_pieces import FilePiece, FileSizes
from fanfold.work.member import Traits

WIRE = 3
"""The form of requests and answers. Those of another number cannot read one another."""


KEPT_DAYS = 7
"""How long what is in a file of asks stays in a queue after it was last asked for."""
MessageState = Literal["waiting", "begun", "handed", "refused"]


class QueuedAsk(msgspec.Struct, frozen=True):
    """An ask for whoever has this member. `span` is the attempt that it is for, and stands once in a
    queue, whoever puts it there. `answerer`: the worker's member must be the same."""

    span: str
    member: str
    answerer: str
    tags: tuple[str, ...]
    request: bytes


class TakenAsk(msgspec.Struct, frozen=True):
    """One that a worker holds: it is carried out once, or is in doubt."""

    span: str
    member: str
    request: bytes


class WorkerOffer(msgspec.Struct, frozen=True, kw_only=True):
    """A worker as it announced itself. `members`: id to answerer."""

    host: str
    pid: int
    slots: int
    tags: tuple[str, ...]
    members: dict[str, str]
    version: str
    wire: int = WIRE


class HeldByWorker(msgspec.Struct, frozen=True):
    """`since`: when it was put into the queue."""

    span: str
    member: str
    since: float


class WorkerState(msgspec.Struct, frozen=True):
    """`seen`: the last sign of life, by the server's clock, which says `now`. `alive` False: its lease
    has ended, or its process is gone. `misfits`: asks that wait and that it cannot take, with why."""

    id: str
    worker: WorkerOffer
    alive: bool
    since: float
    seen: float
    now: float
    holds: tuple[HeldByWorker, ...] = ()
    misfits: tuple[str, ...] = ()


class QueueState(msgspec.Struct, frozen=True):
    """`waiting`: how many asks nobody has taken, by member."""

    workers: tuple[WorkerState, ...]
    waiting: dict[str, int]

    def trouble(self, traits: Traits) -> str | None:
        """Why nobody would take an ask for this member now."""
        alive = [one.worker for one in self.workers if one.alive]
        why = [misfit(one, traits.id, traits.offered_as, traits.tags, WIRE) for one in alive]
        has = [one for one, reason in zip(alive, why, strict=True)
               if not reason and traits.id in one.members]  # fmt: skip
        if has:
            return None
        return next(filter(None, why), "no worker has it; start one: fanfold worker")


def misfit(worker: WorkerOffer, member: str, answerer: str, tags: Sequence[str], wire: int) -> str:
    """Why a worker that has a member of this id gets no such ask; "" if it does."""
    if worker.wire != wire:
        return f"the worker's fanfold is {worker.version}, which has another form of asks"
    if member in worker.members and (why := misfit_of(member, worker.members[member], answerer)):
        return why
    if member in worker.members and not set(tags) <= set(worker.tags):
        lacks = ",".join(tag for tag in tags if tag not in worker.tags)
        return (
            f"{member} is asked for with tags that the worker lacks; start it with --tags {lacks}"
        )
    return ""


def misfit_of(member: str, there: str, wanted: str) -> str:
    """Why a member of this id is not the one that is asked for; "" if it is."""
    return "" if there == wanted else f"{member} is {there} there, and {wanted} is asked for"


class RunEnd(Protocol):
    """A run's end of a queue. Calls wait for a server that is away."""

    @property
    def identity(self) -> str:
        """The same for all who use it, and no other queue's."""

    @property
    def session(self) -> str:
        """That of this end, once it has entered."""

    async def enter(self, worker: WorkerOffer | None = None) -> None: ...

    async def leave(self) -> None: ...

    def check(self) -> None:
        """Before something is sent, and now and then while an answer is waited for: StoreFenced if this
        process may count as dead."""

    async def put(self, asks: Sequence[QueuedAsk]) -> frozenset[str]:
        """The spans that were refused: this process may count as dead, or another took their run
        over. They are surely not in the queue."""

    async def own(self, spans: Collection[str]) -> None:
        """Asks of an earlier process of the run are this one's."""

    async def answers(self, but: Collection[str]) -> list[tuple[str, bytes]]:
        """Those that are there and not forgotten, but for these."""

    async def forget(self, spans: Collection[str]) -> None:
        """How they ended is on record."""

    async def cancel(self, spans: Collection[str], message: str = "") -> list[str]:
        """What nobody has taken is withdrawn: these are answered. Else its worker stops it, and says how
        it ended. `message`: the operator ends an agent, and this is said of it."""

    async def withdraw(self, spans: Collection[str]) -> list[str]:
        """What of this run's asks nobody has taken nobody will take: these are answered, also those of
        before. Others go on."""

    async def held_by(self) -> dict[str, list[str]]:
        """This run's asks that are under way, by the session of their worker."""

    async def dead(self, workers: Collection[str]) -> set[str]:
        """Those of these sessions that are surely over."""

    async def has_trace(self, span: str) -> bool:
        """Whether an ask was put in. If not, it never will be: a process that only seems dead, and
        comes back, finds it withdrawn."""

    async def shown(self, sizes: FileSizes) -> list[FilePiece]:
        """Of the files of this run's agents, what goes beyond these sizes, in order."""

    async def lacking(self, hashes: Collection[str]) -> list[str]:
        """The contents of files of asks that it does not have; it keeps the others for some days more."""

    async def bring(self, hash: str, content: bytes, span: str = "") -> None:
        """What is in a file of asks, once for all of them; or of the answer to the ask of this span."""

    async def content(self, hash: str, span: str = "") -> bytes | None: ...

    async def message(
        self, span: str, number: int, text: str, *, last: bool = False
    ) -> MessageState:
        """Have a message given to an agent; by its number it is given once. How far that is. `last`: if
        nobody has begun to give it, nobody will."""


class Queue(RunEnd, Protocol):
    """A queue that a worker can be at the other end of."""

    async def take(
        self, members: Mapping[str, str], tags: Sequence[str], most: int
    ) -> list[TakenAsk]:
        """Up to `most` asks for these members; StoreFenced, see `check`."""

    async def taken(self) -> list[TakenAsk]:
        """All that it holds: after a lost connection it may not know of some."""

    async def report(self, answers: Sequence[tuple[str, bytes]]) -> None:
        """Durable when this returns, whether the run is there or not."""

    async def show(self, pieces: Sequence[FilePiece]) -> None:
        """Of the files of agents that it holds, for who looks at them from elsewhere."""

    async def messages(self) -> list[tuple[str, int, str]]:
        """Those for agents that it holds: span, number and text. It has begun to give them."""

    async def given(self, span: str, number: int, handed: bool) -> None:
        """The agent has it, or takes none."""

    async def to_stop(self) -> dict[str, str]:
        """What is to be stopped of what it holds, each with the operator's message, or ""."""

    async def left_behind(self, members: Collection[str]) -> list[tuple[TakenAsk, str]]:
        """What workers hold that are dead, each with the worker's session."""

    async def take_over(self, span: str, worker: str) -> bool: ...

    # ── for people ──

    def state(self) -> QueueState: ...
