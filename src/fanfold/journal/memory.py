"""The store in memory: the same rows as on a disk, on one connection that writer and readers share.

Facts are committed on the event loop, without a thread. `memory:` is a new store each time it is opened;
`memory:NAME` is one and the same within a process, also after it was closed, so that a run can be
resumed. Trap: a named one must be opened in one thread only.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import finalize

from fanfold.errors import StoreBusy, StoreError
from fanfold.journal.contract import Life, SessionOwner
from fanfold.journal.facts import EndAttempt, Fact
from fanfold.journal.sqlite.bulk import STATEMENTS
from fanfold.journal.sqlite.log import Commits, Following, Log
from fanfold.journal.sqlite.schema import migrate
from fanfold.journal.sqlite.sessions import this_process
from fanfold.journal.sqlite.store import Reader
from fanfold.journal.sqlite.trouble import Statements

_named: dict[str, MemoryHome] = {}


class MemorySessions:
    """Those that were entered in this process and not left. They end with it, as the store does."""

    def __init__(self) -> None:
        self._entered: set[str] = set()

    def enter(self) -> str:
        session = secrets.token_hex(8)
        self._entered.add(session)
        return session

    def leave(self, session: str) -> None:
        self._entered.discard(session)

    def life(self, session: str) -> Life:
        return "alive" if session in self._entered else "dead"

    def alive(self, session: str) -> bool:
        return session in self._entered

    def bury(self, sessions: Collection[str]) -> None:
        """Their process is gone, and with it whatever it could write."""

    def owner(self, session: str) -> SessionOwner | None:
        return this_process() if session in self._entered else None


class MemorySent:
    """Which attempts were sent, kept beside the store."""

    def __init__(self) -> None:
        self._marked: set[int] = set()

    def mark(self, attempt: int) -> None:
        self._marked.add(attempt)

    def unmark(self, attempts: Iterable[int]) -> None:
        self._marked.difference_update(attempts)

    def unsent(self, attempts: Mapping[int, str]) -> tuple[int, ...]:
        return tuple(number for number in attempts if number not in self._marked)

    def forget(self, sessions: Collection[str]) -> None:
        """A process has only its own stores in memory."""

    def copy(self) -> MemorySent:
        copied = MemorySent()
        copied._marked = set(self._marked)
        return copied


class MemoryHome(Commits):
    """Where the database of a store in memory is."""

    was_displaced = saved_elsewhere = False

    def __init__(self, place: str) -> None:
        self.place, self.file, self.sessions = place, Path(place), MemorySessions()
        self.sent, self.log = MemorySent(), Log()
        self.db = sqlite3.connect(
            ":memory:", isolation_level=None, check_same_thread=False,
            cached_statements=STATEMENTS,
        )  # fmt: skip
        migrate(self.db)
        self._files: Path | None = None

    @property
    def files(self) -> Path:
        """A temporary folder, made when it is first asked for."""
        if self._files is None:
            self._files = Path(tempfile.mkdtemp(prefix="fanfold-"))
            self._remove = finalize(self, _remove, self._files, os.getpid())
        return self._files

    def connect(self, *, readonly: bool = False, wait: float = 60.0) -> sqlite3.Connection:
        return self.db

    def disconnect(self, db: sqlite3.Connection) -> None:
        """It stays: others share it."""

    def statements(self, db: sqlite3.Connection) -> Statements:
        return Statements(db, self.file)

    def busy(self, error: StoreBusy) -> str:
        return str(error)

    def attach(self, db: sqlite3.Connection) -> tuple[str, ...]:
        self.log = Log()
        return ()

    @contextmanager
    def left_behind(self) -> Iterator[list[Fact]]:
        yield []

    def detach(self) -> None:
        """A store without a name ends here."""
        if self.place not in _named:
            self.db.close()
            if self._files is not None:
                self._remove()
                self._files = None

    def side_file(self) -> None:
        return None

    def displaced(self) -> bool:
        return False

    def find_again(self, db: sqlite3.Connection) -> str:
        raise AssertionError("a store in memory is never displaced")

    def secure(self, starts: int) -> bool:
        return True

    def drop_ballast(self) -> bool:
        return False

    def committed(self, facts: Sequence[Fact], answers: Sequence[Any]) -> None:
        self.sent.unmark([fact.attempt for fact in facts if type(fact) is EndAttempt])


class MemoryView(Following):
    """A named store, opened only to read."""

    def __init__(self, place: str) -> None:
        if not exists(place):
            raise StoreError(
                "memory: no such store; it ends with its process: to keep runs, use --store DIR"
            )
        home = _named[place]
        self.read: Reader = Reader(home.statements(home.db))
        self.warnings = ()
        self.place, self.sessions, self._home = place, home.sessions, home

    @property
    def files(self) -> Path:
        return self._home.files

    @property
    def sent(self) -> MemorySent:
        return self._home.sent

    def close(self) -> None:
        pass


def home_of(place: str) -> MemoryHome:
    """A new one, or the one of that name."""
    if place == "memory:":
        return MemoryHome(place)
    if place not in _named:
        _named[place] = MemoryHome(place)
    return _named[place]


def exists(place: str) -> bool:
    return place in _named


def copy(place: str, to: str) -> None:
    """As a crash at this moment would leave the store: its sessions are dead in the copy."""
    home = home_of(to)
    _named[place].db.backup(home.db)
    home.sent = _named[place].sent.copy()


def _remove(folder: Path, process: int) -> None:
    """Not in a forked child: it is the parent's."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
