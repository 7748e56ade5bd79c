"""What a store is: durable facts in, questions answered, a stream of what was committed.

Nobody outside `journal/` knows which backend there is. `opening` opens them by place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from fanfold.journal.facts import Fact
from fanfold.journal.questions import ReportQuestions
from fanfold.journal.stream import Commit, Subscriber

PlannedRow = tuple[int, int, int, str, bytes]
"""Run, batch, position, id and hash of a planned item."""


class Patience(NamedTuple):
    """Seconds to wait for a store that another process keeps locked: until the operator is told,
    until the run pauses, and between tries."""

    notice: float = 5.0
    limit: float = 300.0
    between: float = 1.0


# ── who is alive ─────────────────────────────────────────────────────────────────────────────

Life = Literal["alive", "dead", "unknown"]
"""`unknown`: nobody can tell now (no permission, an I/O error, a server that does not answer).
It must never count as dead: the calls of a living session would be paid twice."""


class SessionOwner(msgspec.Struct, frozen=True):
    """One process, known for certain: numbers are used again, but not with the same start time
    (in ticks since the boot of the machine, which has the id `boot`), nor do they mean the same in
    every `namespace`, as in each container. Without a /proc, 0 and ""; earlier versions wrote no
    namespace."""

    pid: int
    started: int = 0
    boot: str = ""
    namespace: int = 0


class Sessions(Protocol):
    """The sessions of a store. One that was entered is alive until `leave`, or until its process dies.

    How that is known is the backend's: a lock that the kernel frees with the process, or a lease that
    the session renews and that ends by the clock of the store's server. With a lease the owner must
    notice that it could not renew it, and stop, before others may call it dead; and `life` compares
    times of one clock only. Nothing else here needs a file system that sessions share.
    """

    def enter(self) -> str:
        """A new session of this process."""

    def leave(self, session: str) -> None: ...

    def life(self, session: str) -> Life: ...

    def alive(self, session: str) -> bool:
        """Alive or unknown: only what is surely dead counts as dead."""

    def bury(self, sessions: Collection[str]) -> None:
        """They are dead: whatever one of them still writes is refused."""

    def owner(self, session: str) -> SessionOwner | None:
        """The process of a session on this machine; None when it is over, elsewhere, or not known."""


class SentMarks(Protocol):
    """Which claimed attempts were really sent, known more cheaply than by a durable fact."""

    def mark(self, attempt: int) -> None:
        """It is sent from now on. Survives the process, perhaps not the machine. StoreFenced: it must
        not be sent, for this process may count as dead."""

    def unsent(self, attempts: Mapping[int, str]) -> tuple[int, ...]:
        """Those, each with its dead session, that were surely never sent; others are in doubt."""

    def forget(self, sessions: Collection[str]) -> None:
        """These are dead, and their attempts are settled."""


# ── the store ────────────────────────────────────────────────────────────────────────────────


class StoreView(Protocol):
    """A store opened only to read: it never creates or changes anything."""

    @property
    def place(self) -> str:
        """What a user gives to --store for it."""

    @property
    def files(self) -> Path:
        """A local folder for files that belong to it: workers, spooled inputs, orders."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the operator should know: that something is missing which was recorded."""

    @property
    def read(self) -> ReportQuestions:
        """Only what is durable is seen."""

    @property
    def sessions(self) -> Sessions: ...

    @property
    def sent(self) -> SentMarks:
        """Only to ask which were not sent."""

    @property
    def position(self) -> int:
        """That of the newest commit. Read it before the tables, then follow from there."""

    def since(self, position: int) -> list[Commit] | None:
        """What was committed after a position, by whichever process, in order and without gaps: the
        first thousand commits, in the light form (see `stream`). None: some of them are gone already;
        read the tables again."""

    def close(self) -> None: ...


class Store(StoreView, Protocol):
    """An open store. One for each place and process."""

    @property
    def backlog(self) -> int:
        """How many facts wait to be committed."""

    @property
    def commits(self) -> int: ...

    def write(self, fact: Fact) -> asyncio.Future[Any]:
        """The future resolves when the fact is durable, with its answer."""

    def note(self, fact: Fact) -> None:
        """A fact nobody waits for. It is durable after the next `flush` at the latest."""

    async def flush(self) -> None:
        """Everything handed in so far is durable when this returns."""

    async def plan_items(self, rows: Iterator[PlannedRow]) -> int:
        """Stream planned ids and hashes in, a chunk at a time. Returns how many."""

    async def recover(self, now: float) -> int:
        """Attempts whose process is surely dead are in doubt from now on. Returns how many."""

    async def lose(self, lost: Mapping[int, str], now: float) -> None:
        """The session that each of them is of is dead: they are in doubt, except those whose end it saved
        elsewhere, and those that another session has adopted meanwhile."""

    def spool(self) -> Path:
        """Where inputs that can be read only once are kept."""

    def subscribe(self, hook: Subscriber) -> Callable[[], None]:
        """`hook` is called on the loop after each commit of this process, in their order, with the
        facts and their answers. Returns what ends the subscription. One that raises is reported to
        the loop's exception handler, and stays subscribed."""

    def when_in_trouble(self, act: Callable[[str], None]) -> None:
        """Called with the reason when nothing new may start: the disk is full, or the store is
        locked for long, damaged, moved or deleted. What is in progress is still recorded."""

    def when_waiting(self, tell: Callable[[str], None]) -> None:
        """Called with a line for the operator while another process keeps the store locked."""
