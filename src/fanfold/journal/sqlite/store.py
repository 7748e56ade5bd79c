"""A store in an SQLite database, behind the contract: open to write, or only to read."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

from fanfold.errors import StoreError
from fanfold.journal.contract import Patience, PlannedRow, Sessions
from fanfold.journal.facts import EndAttempt, LoseAttempts, PlanItems
from fanfold.journal.sqlite.disk import made_private
from fanfold.journal.sqlite.folder import StoreFolder
from fanfold.journal.sqlite.home import Home, ReadConnection
from fanfold.journal.sqlite.log import Following, LogRows
from fanfold.journal.sqlite.read_attempts import AttemptRows
from fanfold.journal.sqlite.read_items import ItemRows
from fanfold.journal.sqlite.read_members import MemberRows
from fanfold.journal.sqlite.read_pages import PageRows
from fanfold.journal.sqlite.read_runs import RunRows
from fanfold.journal.sqlite.read_tables import TableRows
from fanfold.journal.sqlite.shares import ShareRows
from fanfold.journal.sqlite.verified import CheckedStatements
from fanfold.journal.sqlite.writer import Hook, Writer

PLAN_CHUNK = 1000


class Reader(
    RunRows, ItemRows, AttemptRows, MemberRows, PageRows, ShareRows, LogRows, TableRows,
):  # fmt: skip
    """All questions, on one connection. Only what is durable is seen."""

    def __init__(self, statements: ReadConnection) -> None:
        self.move(statements)

    def move(self, statements: ReadConnection) -> None:
        """The store is somewhere else from now on."""
        self._execute, self.flaws = statements.execute, statements.flaws
        self._verify, self._damaged_attempts = statements.verify, statements.damaged_attempts


class JournalStore(Following):
    """Open to write, wherever its database is. `write` awaits durability, `note` does not; `read` sees
    only what is durable."""

    def __init__(
        self,
        home: Home,
        *,
        thread: bool = True,
        after_commit: Hook | None = None,
        patience: Patience = Patience(),
    ) -> None:
        self.home = home
        self.warnings = self._take_up()
        self._writer = Writer(home, thread=thread, after_commit=after_commit, patience=patience)
        self._writer.on_moved = self._read_there
        self.sent = home.sent
        self.write, self.note = self._writer.write, self._writer.note
        self.subscribe = self._writer.subscribe
        self._reading = home.connect(readonly=True)
        self.read: Reader = Reader(home.statements(self._reading))

    def _take_up(self) -> tuple[str, ...]:
        """Before anything is judged lost: apply what writers could not save that have died since.
        Returns what the operator should know."""
        home = self.home
        db = home.connect()
        try:
            warnings = home.attach(db)
            with home.left_behind() as facts:
                if facts:
                    home.committed(facts, home.commit(db, facts))
        finally:
            home.disconnect(db)
        taken = sum(isinstance(fact, EndAttempt) and bool(fact.landed) for fact in facts)
        replies = "1 reply" if taken == 1 else f"{taken} replies"
        are = "is" if taken == 1 else "are"
        said = f"{home.file}: {replies} that could not be saved before {are} in it now"
        return (*warnings, said) if taken else warnings

    def _read_there(self) -> None:
        """The store was put back: read what is there from now on."""
        before, self._reading = self._reading, self.home.connect(readonly=True)
        self.read.move(self.home.statements(self._reading))
        self.home.disconnect(before)

    @property
    def place(self) -> str:
        return self.home.place

    @property
    def files(self) -> Path:
        return self.home.files

    @property
    def sessions(self) -> Sessions:
        return self.home.sessions

    def spool(self) -> Path:
        return made_private(self.files / "inputs")

    @property
    def backlog(self) -> int:
        return self._writer.backlog

    @property
    def commits(self) -> int:
        return self._writer.commits

    def when_in_trouble(self, act: Callable[[str], None]) -> None:
        self._writer.listen(act)

    def when_waiting(self, tell: Callable[[str], None]) -> None:
        self._writer.on_wait = tell

    async def flush(self) -> None:
        await self._writer.write(PlanItems([]))

    async def plan_items(self, rows: Iterator[PlannedRow]) -> int:
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
        alive: dict[str, bool] = {}
        lost = {}
        for number, session in self.read.open_attempts():
            if session not in alive:
                alive[session] = self.sessions.alive(session)
            if not alive[session]:
                lost[number] = session
        if lost:
            await self.lose(lost, now)
            self.sent.forget(set(lost.values()))
        return len(lost)

    async def lose(self, lost: Mapping[int, str], now: float) -> None:
        with self.home.left_behind() as facts:
            for fact in facts:
                await self.write(fact)
        dead = set(lost.values())
        self.sessions.bury(dead)
        await self.write(
            LoseAttempts(tuple(lost), now, self.sent.unsent(lost), tuple(sorted(dead)))
        )

    def close(self) -> None:
        self._writer.close()
        self.home.disconnect(self._reading)
        self.home.detach()


class SqliteView(Following):
    """A store opened only to read."""

    def __init__(self, folder: Path) -> None:
        home = StoreFolder(folder)
        self._reading = home.look()
        self.read: Reader = Reader(CheckedStatements(self._reading, home.file, results=True))
        self.warnings = home.lacking(self._reading)
        self.place, self.files, self.sessions = str(folder), folder, home.sessions
        self.sent = home.sent

    def close(self) -> None:
        self._reading.close()


# ── without opening it ───────────────────────────────────────────────────────────────────────


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
