"""The store of a simulation: one database in memory that all processes share, and what each sees of it.

A process that is dead, cut off or fenced writes nothing; a disk is full or busy for a while. Sessions are
locks, which end with their process, or leases, which end by the clock.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fanfold.errors import StoreAway, StoreBusy, StoreFenced, StoreFull
from fanfold.journal.contract import Life, SessionOwner, Store
from fanfold.journal.facts import EndAttempt, Fact, decode, encode
from fanfold.journal.memory import MemorySent
from fanfold.journal.sqlite.bulk import STATEMENTS
from fanfold.journal.sqlite.log import Commits, Log
from fanfold.journal.sqlite.queue import TABLES
from fanfold.journal.sqlite.schema import migrate
from fanfold.journal.sqlite.store import JournalStore
from fanfold.journal.sqlite.trouble import Statements
from fanfold.journal.sqlite.unsaved import SideFile, is_kept
from fanfold.testing.simulation.disk import PowerLoss, SimulatedDisk
from fanfold.testing.simulation.machine import ProcessKilled, SimulatedProcess

LEASE = 20.0
MARGIN = 0.9  # of a lease is used
FILE = Path("simulated")
Committed = Callable[[SimulatedProcess, Sequence[Fact], Sequence[Any]], None]


class WorldDatabase:
    """The rows of a journal and of a queue in memory, for one world after the other. Tables stay, and so
    does what was compiled for them: a new database takes ten times as long."""

    def __init__(self) -> None:
        self._journal, self._queue = _in_memory(), _in_memory()
        migrate(self._journal)
        self._queue.executescript(TABLES)
        self._tables = {db: _tables_of(db) for db in (self._journal, self._queue)}

    def journal(self) -> sqlite3.Connection:
        """Empty."""
        return self._emptied(self._journal)

    def queue(self) -> sqlite3.Connection:
        """Empty."""
        return self._emptied(self._queue)

    def _emptied(self, db: sqlite3.Connection) -> sqlite3.Connection:
        if db.in_transaction:
            db.execute("rollback")
        db.execute("begin")
        for name in self._tables[db]:
            db.execute(f'delete from "{name}"')
        db.execute("commit")
        return db


def _in_memory() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None, cached_statements=STATEMENTS)


def _tables_of(db: sqlite3.Connection) -> list[str]:
    tables = "select name from sqlite_master where type = 'table' and name <> 'store'"
    return [name for (name,) in db.execute(tables)]


def new_database() -> WorldDatabase:
    return WorldDatabase()


class SharedStore:
    """What outlives every process: the database, which attempts were marked as sent, who entered."""

    def __init__(self, db: sqlite3.Connection, *, leases: bool) -> None:
        self.disk: SimulatedDisk | None = None
        self._memory = db
        self.before_power: set[str] = set()  # sessions that were entered before power was lost
        self.sent, self.leases = MemorySent(), leases
        self.sessions: dict[str, SimulatedProcess] = {}
        self.side_files: list[SimulatedSideFile] = []
        self.full_until = self.busy_until = 0.0
        self.before_commit: Callable[[SimulatedProcess, Sequence[Fact]], None] = (
            lambda process, facts: None
        )
        self.after_commit: Committed = lambda process, facts, answers: None

    @property
    def db(self) -> sqlite3.Connection:
        return self._memory if self.disk is None else self.disk.db

    def lose_power(self, before: bytes, kind: PowerLoss, rng: random.Random) -> None:
        """The marks of what was sent were never synced: they say nothing any more."""
        assert self.disk is not None
        self.disk.lose_power(before, kind, rng)
        self.before_power.update(self.sessions)

    def lost(self, process: SimulatedProcess) -> bool:
        """Its lease has ended, by the clock of the store."""
        since = min(process.died_at, process.unreachable_since)  # it renews all the time until then
        return self.leases and (process.fenced or process.machine.now >= since + LEASE)

    def back(self, process: SimulatedProcess, after: float) -> None:
        """A process that could not renew its lease for so many seconds can again."""
        process.fenced = process.fenced or (self.leases and after >= LEASE * MARGIN)


class ProcessSessions:
    """The sessions of the store, as one process sees and holds them."""

    def __init__(self, store: SharedStore, process: SimulatedProcess) -> None:
        self._store, self._process = store, process

    def enter(self) -> str:
        session = f"{self._process.rng.getrandbits(64):016x}"
        self._store.sessions[session] = self._process
        return session

    def leave(self, session: str) -> None:
        if self._process.alive:
            self._store.sessions.pop(session, None)

    def life(self, session: str) -> Life:
        process = self._store.sessions.get(session)
        if process is None:
            return "dead"
        if process is not self._process and self._process.blind_until > self._process.machine.now:
            return "unknown"
        if self._store.leases:
            return "dead" if self._store.lost(process) else "alive"
        return "alive" if process.alive else "dead"

    def alive(self, session: str) -> bool:
        return self.life(session) != "dead"

    def bury(self, sessions: Collection[str]) -> None:
        for session in sessions:
            if (process := self._store.sessions.pop(session, None)) is not None:
                process.fenced = self._store.leases

    def owner(self, session: str) -> SessionOwner | None:
        return SessionOwner(1) if self.life(session) == "alive" else None


class ProcessSent(MemorySent):
    """Marks of one process, kept beside the store."""

    def __init__(self, store: SharedStore, process: SimulatedProcess) -> None:
        super().__init__()
        self._marked = store.sent._marked
        self._store, self._process = store, process

    def mark(self, attempt: int) -> None:
        check_lease(self._store, self._process)
        super().mark(attempt)

    def unsent(self, attempts: Mapping[int, str]) -> tuple[int, ...]:
        known = {n: one for n, one in attempts.items() if one not in self._store.before_power}
        return super().unsent(known)


def check_lease(store: SharedStore, process: SimulatedProcess) -> None:
    """As far as the process can know: its own clock says so, or the store refused it before."""
    if not store.leases:
        return
    if process.machine.now > process.unreachable_since + LEASE * MARGIN or store.lost(process):
        process.fenced = True
    if process.fenced:
        raise StoreFenced(f"{FILE}: cut off for longer than its lease; resume the run")


class SimulatedSideFile(SideFile):
    """Facts that the store did not take, beside it: they outlive their process."""

    def __init__(self, store: SharedStore, process: SimulatedProcess) -> None:
        super().__init__(FILE, "")
        self._shared, self.process, self.closed = store, process, False
        self.facts: list[bytes] = []
        self.reader: SimulatedProcess | None = None  # who has it locked

    @property
    def reader_lives(self) -> bool:
        return self.reader is not None and self.reader.alive

    def save(self, facts: Iterable[Any]) -> bool:
        new = [fact for fact in facts if is_kept(fact) and id(fact) not in self._saved]
        if new and self not in self._shared.side_files:
            self._shared.side_files.append(self)
        self.facts += map(encode, new)
        self._saved.update(map(id, new))
        self.replies += sum(isinstance(fact, EndAttempt) and bool(fact.landed) for fact in new)
        return True

    def clear(self) -> None:
        super().clear()
        self.facts = []
        if self in self._shared.side_files:
            self._shared.side_files.remove(self)

    def close(self) -> None:
        self.closed = True


class ProcessHome(Commits):
    """Where the database of one process is: the shared one."""

    was_displaced = saved_elsewhere = False
    place, file = str(FILE), FILE

    def __init__(self, store: SharedStore, process: SimulatedProcess) -> None:
        self._store, self._process = store, process
        self.sessions, self.sent = ProcessSessions(store, process), ProcessSent(store, process)
        self.log, self.files = Log(), FILE
        self._ballast = process.rng.random() < 0.5
        self._spare = 0

    def connect(self, *, readonly: bool = False, wait: float = 60.0) -> sqlite3.Connection:
        return self._store.db

    def disconnect(self, db: sqlite3.Connection) -> None:
        """It stays: others share it."""

    def statements(self, db: sqlite3.Connection) -> Statements:
        return Statements(db, self.file)

    def commit(self, db: sqlite3.Connection, facts: list[Any], *, keep: bool = True) -> list[Any]:
        process, store = self._process, self._store
        if not process.alive:
            raise ProcessKilled
        now = process.machine.now
        if process.cut_off_until > now:
            raise StoreAway(f"{FILE}: its server does not answer")
        check_lease(store, process)
        if store.busy_until > now:
            raise StoreBusy(f"{FILE}: locked by another program; try again when it is done")
        if store.full_until > now:
            if self._spare <= 0:
                raise StoreFull(f"{FILE}: the disk is full; make room, then resume the run")
            self._spare -= 1
        if not keep:
            return super().commit(db, facts, keep=False)
        store.before_commit(process, facts)
        answers = super().commit(db, facts)
        store.after_commit(process, facts, answers)
        return answers

    def busy(self, error: StoreBusy) -> str:
        return str(error)

    def attach(self, db: sqlite3.Connection) -> tuple[str, ...]:
        return ()

    @contextmanager
    def left_behind(self) -> Iterator[list[Fact]]:
        """What processes could not save that have ended since; each file is read by one at a time."""
        files = self._store.side_files
        found = [
            one for one in files if not one.reader_lives and (one.closed or not one.process.alive)
        ]
        for one in found:
            one.reader = self._process
        try:
            yield [decode(wire) for one in found for wire in one.facts]
            for one in found:
                files.remove(one)
        finally:
            for one in found:
                one.reader = None

    def detach(self) -> None:
        """The store outlives its processes."""

    def side_file(self) -> SideFile:
        return SimulatedSideFile(self._store, self._process)

    def displaced(self) -> bool:
        return False

    def find_again(self, db: sqlite3.Connection) -> str:
        raise AssertionError("a simulated store is never displaced")

    def secure(self, starts: int) -> bool:
        return self._store.full_until <= self._process.machine.now

    def drop_ballast(self) -> bool:
        """Room for what is in progress, once."""
        if not self._ballast:
            return False
        self._ballast, self._spare = False, 100
        return True

    def committed(self, facts: Sequence[Fact], answers: Sequence[Any]) -> None:
        self.sent.unmark([fact.attempt for fact in facts if type(fact) is EndAttempt])


def opened(store: SharedStore, process: SimulatedProcess) -> Store:
    """The store, as this process has it open. Facts are committed on its loop."""
    return JournalStore(ProcessHome(store, process), thread=False)
