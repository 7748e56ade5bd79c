"""The store in a folder, behind the contract: open to write, or only to read."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from fanfold.errors import StoreError
from fanfold.journal.contract import Patience, PlannedRow
from fanfold.journal.facts import EndAttempt, LoseAttempts, PlanItems
from fanfold.journal.sqlite.folder import StoreFolder
from fanfold.journal.sqlite.marks import highest
from fanfold.journal.sqlite.read import Reader
from fanfold.journal.sqlite.rows import apply
from fanfold.journal.sqlite.sessions import LockedSessions
from fanfold.journal.sqlite.trouble import sqlite_errors
from fanfold.journal.sqlite.unsaved import left_behind
from fanfold.journal.sqlite.writer import Hook, Writer

PLAN_CHUNK = 1000


class AllSent:
    """No marks are kept: every claim may have been sent, so every lost one is in doubt."""

    def mark(self, attempt: int) -> None:
        pass

    def unsent(self, attempts: Sequence[int]) -> tuple[int, ...]:
        return ()


class SqliteStore:
    """`write` awaits durability, `note` does not; `read` sees only what is durable."""

    def __init__(
        self,
        folder: Path,
        *,
        thread: bool = True,
        after_commit: Hook | None = None,
        patience: Patience = Patience(),
    ) -> None:
        self.folder = StoreFolder(folder)
        self.folder.prepare()
        self.warnings = self._begin()
        self._writer = Writer(
            self.folder, thread=thread, after_commit=after_commit, patience=patience
        )
        self._writer.on_moved = self._read_there
        self.sent = AllSent()
        self.write, self.note = self._writer.write, self._writer.note
        self._reading = self.folder.connect(readonly=True)
        self.read = Reader(self._reading, self.folder.file)

    def _begin(self) -> tuple[str, ...]:
        """Before anything is judged lost: take up what writers could not save that have died since.
        Answers what the operator should know."""
        db = self.folder.connect()
        try:
            lack = self.folder.attach(db)
            with left_behind(self.folder.folder, self.folder.identity) as facts:
                if facts:
                    with sqlite_errors(self.folder.file):
                        db.execute("begin immediate")
                        apply(db, facts)
                        db.execute("commit")
                        self.folder.marks.write(highest(db))
        finally:
            db.close()
        taken = sum(isinstance(fact, EndAttempt) and bool(fact.landed) for fact in facts)
        replies = "1 reply" if taken == 1 else f"{taken} replies"
        told = f"{self.folder.file}: {replies} that could not be saved before are in it now"
        return (*lack, told) if taken else lack

    def _read_there(self) -> None:
        """The store was put back: read what is there from now on."""
        before, self._reading = self._reading, self.folder.connect(readonly=True)
        self.read.move(self._reading, self.folder.file)
        before.close()

    @property
    def place(self) -> str:
        return str(self.folder.folder)

    @property
    def files(self) -> Path:
        return self.folder.folder

    @property
    def sessions(self) -> LockedSessions:
        return self.folder.sessions

    def spool(self) -> Path:
        return self.folder.spool()

    @property
    def backlog(self) -> int:
        return self._writer.backlog

    @property
    def commits(self) -> int:
        return self._writer.commits

    def when_in_trouble(self, act: Callable[[str], None]) -> None:
        self._writer.on_trouble = act

    def when_waiting(self, tell: Callable[[str], None]) -> None:
        self._writer.on_wait = tell

    async def flush(self) -> None:
        """Everything handed in so far is durable when this returns."""
        await self._writer.write(PlanItems([]))

    async def plan_items(self, rows: Iterator[PlannedRow]) -> int:
        """Stream planned ids and hashes in, a chunk at a time; memory stays flat."""
        count = 0
        chunk: list[PlannedRow] = []
        for row in rows:
            chunk.append(row)
            count += 1
            if len(chunk) == PLAN_CHUNK:
                await self.write(PlanItems(chunk))
                chunk = []
        if chunk:
            await self.write(PlanItems(chunk))
        return count

    async def recover(self, now: float) -> int:
        """Attempts whose process is surely dead are in doubt from now on. Returns how many."""
        alive: dict[str, bool] = {}
        lost = []
        for number, session in self.read.open_attempts():
            if session not in alive:
                alive[session] = self.sessions.alive(session)
            if not alive[session]:
                lost.append(number)
        if lost:
            await self.lose(tuple(lost), now)
        return len(lost)

    async def lose(self, attempts: tuple[int, ...], now: float) -> None:
        """Their process is gone: they are in doubt, but for those whose end it left in a side file."""
        with left_behind(self.folder.folder, self.folder.identity) as facts:
            for fact in facts:
                await self.write(fact)
        await self.write(LoseAttempts(attempts, now))

    def close(self) -> None:
        self._writer.close()
        self._reading.close()
        self.folder.detach()


class SqliteView:
    """A store opened only to read."""

    def __init__(self, folder: Path) -> None:
        self.folder = StoreFolder(folder)
        self._reading = self.folder.look()
        self.read = Reader(self._reading, self.folder.file)
        self.warnings = self.folder.lacking(self._reading)
        self.place, self.files = str(folder), folder
        self.sessions = self.folder.sessions

    def close(self) -> None:
        self._reading.close()


# ── without opening it ───────────────────────────────────────────────────────────────────────


def exists(folder: Path) -> bool:
    return StoreFolder(folder).file.exists()


def sessions_of(folder: Path) -> LockedSessions:
    return StoreFolder(folder).sessions


def size(folder: Path) -> int:
    files = (folder / f"journal.db{end}" for end in ("", "-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


def shrink(folder: Path) -> bool:
    """Where nobody else has the store open, and there is room for a copy meanwhile."""
    try:
        with closing(StoreFolder(folder).connect()) as db:
            db.execute("pragma busy_timeout = 2000")
            db.execute("vacuum")
            db.execute("pragma wal_checkpoint(truncate)")
    except (sqlite3.OperationalError, StoreError):
        return False
    return True
