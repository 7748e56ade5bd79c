"""The store on disk: one folder with the database, the locks of living sessions and a ballast file."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from fanfold.errors import StoreBusy, StoreError, StoreUnavailable
from fanfold.journal.facts import (
    AddRun,
    AdoptAttempts,
    DropRun,
    EndAttempt,
    Fact,
    NewReply,
    StartAttempt,
)
from fanfold.journal.sqlite import checksum
from fanfold.journal.sqlite.bulk import STATEMENTS
from fanfold.journal.sqlite.disk import (
    FIRST_GUESS,
    PER_CALL,
    Ballast,
    Presence,
    made_private,
    make_private_file,
    put_back,
    tighten_permissions,
)
from fanfold.journal.sqlite.log import Commits, Log
from fanfold.journal.sqlite.marks import Highest, Marks, SentFile, highest
from fanfold.journal.sqlite.migrations import MIGRATIONS
from fanfold.journal.sqlite.schema import APPLICATION_ID, migrate
from fanfold.journal.sqlite.sealing import seal_by_triggers
from fanfold.journal.sqlite.sessions import LockedSessions, this_process
from fanfold.journal.sqlite.trouble import (
    DATABASE_ERRORS,
    lock_holder,
    sqlite_errors,
    torn,
    translate,
    unusable,
)
from fanfold.journal.sqlite.unsaved import SideFile, left_behind
from fanfold.journal.sqlite.verified import CheckedStatements

_MAGIC = b"SQLite format 3\x00"
LONGEST_SETUP = 60.0  # seconds that who only looks waits for who makes the store


class StoreFolder(Commits):
    """Opens the folder, checks what is there before touching it, and brings it up to date."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "journal.db"
        self._setup = folder / "setup.lock"
        self.sent = SentFile(folder / "sent", this_process().boot)
        self.sessions = LockedSessions(folder / "live", self.sent.cover)
        self._ballast = Ballast(folder)
        self._under_way: set[int] = set()  # attempts that were started and have not ended
        self._largest = FIRST_GUESS
        self._presence: Presence | None = None
        self._version = 0
        self.identity = ""
        self.log = Log()
        self.marks = Marks(folder, "")
        self.was_displaced = self.saved_elsewhere = False
        self._sealing: sqlite3.Connection | None = None

    def prepare(self) -> None:
        """Make what is missing, but only after what is there was found to be ours."""
        try:
            self._check_patiently()
            self._make_folder()
            with self._one_at_a_time(), sqlite_errors(self.file):
                self._migrate()
        except OSError as error:
            raise unusable(self.folder, error) from error

    @contextmanager
    def _one_at_a_time(self) -> Iterator[None]:
        """Processes that open a new store at once wait for one another: SQLite itself would not
        wait for the change to write-ahead logging."""
        handle = os.open(self._setup, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _wait_until_made(self) -> None:
        """Another process may be making the store right now, and half of it is torn."""
        until = time.monotonic() + LONGEST_SETUP
        with suppress(OSError), self._setup.open("rb") as lock:
            while time.monotonic() < until:
                try:
                    fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    return
                except BlockingIOError:
                    time.sleep(0.01)

    def look(self) -> sqlite3.Connection:
        """Only to read: nothing is made or changed, so a full or read-only disk does not matter.

        Without a write-ahead log nobody has the store open, and the file alone is the whole truth.
        Trap: a run that starts later is not seen; look again to see it.
        """
        if not self.file.exists():
            raise StoreError(
                f"{self.file}: no such store; run a plan here first or use --store DIR"
            )
        self._wait_until_made()
        self._check()
        if self._version < len(MIGRATIONS):
            self.prepare()
        where = self.file.absolute().as_uri()
        alone = not self.file.with_name(self.file.name + "-wal").exists()
        for how in ("immutable=1",) if alone else ("mode=ro", "immutable=1"):
            db = sqlite3.connect(f"{where}?{how}", uri=True, timeout=60.0, isolation_level=None)
            try:
                db.execute("select count(*) from runs").fetchone()
                return db
            except DATABASE_ERRORS as error:
                db.close()
                trouble = translate(error, self.file)
        raise trouble

    def connect(self, *, readonly: bool = False, wait: float = 60.0) -> sqlite3.Connection:
        with sqlite_errors(self.file):
            db = sqlite3.connect(
                self.file, timeout=wait, isolation_level=None, check_same_thread=False,
                cached_statements=STATEMENTS,
            )  # fmt: skip
            db.execute("pragma synchronous = full")
            db.execute("pragma cache_size = -16000")
            db.execute("pragma wal_autocheckpoint = 4000")  # pages: a page changes many times
            db.execute("pragma temp_store = file")
            if readonly:
                db.execute("pragma query_only = on")
            return db

    def commit(self, db: sqlite3.Connection, facts: list[Any], *, keep: bool = True) -> list[Any]:
        """Its first commit makes a connection one that seals: triggers take longer than to connect."""
        if db is not self._sealing:
            with sqlite_errors(self.file):
                seal_by_triggers(db)
            self._sealing = db
        return super().commit(db, facts, keep=keep)

    def disconnect(self, db: sqlite3.Connection) -> None:
        db.close()

    def statements(self, db: sqlite3.Connection) -> CheckedStatements:
        return CheckedStatements(db, self.file, results=False)

    def busy(self, error: StoreBusy) -> str:
        return f"{self.file}: locked by {lock_holder(self.file) or 'another program'}"

    @property
    def place(self) -> str:
        return str(self.folder)

    @property
    def files(self) -> Path:
        return self.folder

    # ── room on the disk ──

    def secure(self, starts: int) -> bool:
        """Whether the replies of so many more calls will find room, even if the disk fills up now."""
        wanted = (len(self._under_way) + starts) * (PER_CALL + 2 * self._largest)
        try:
            if wanted > self._ballast.size:
                self._ballast.grow(wanted)
        except OSError:
            return False
        return True

    def drop_ballast(self) -> bool:
        """Give up the spare room, so that what is in progress can still be recorded."""
        try:
            return self._ballast.drop()
        except OSError:
            return False

    # ── while it is open ──

    def lacking(self, db: sqlite3.Connection) -> tuple[str, ...]:
        """What the operator should know: that something is missing which was recorded."""
        with sqlite_errors(self.file):
            own = db.execute("select id, crc from store").fetchone()
            if own is None or not checksum.holds(own[1], own[0]):
                raise torn(self.file)
            self.identity = str(own[0])
            self.marks = Marks(self.folder, self.identity)
            if not all(isinstance(number, int) for number in highest(db)):
                raise torn(self.file)
            lack = self.marks.ahead_of(db)
        return () if lack is None else (f"{self.file}: {lack}",)

    def attach(self, db: sqlite3.Connection) -> tuple[str, ...]:
        """From here on this process writes. Returns what is missing; it is reported once."""
        lack = self.lacking(db)
        with sqlite_errors(self.file):
            if db.execute("select crc from store").fetchone()[0] is None:
                db.execute("update store set crc = ?", (checksum.of(self.identity),))
            if checksum.make_replies_found(db):
                lack = (*lack, f"{self.file}: its index of replies was damaged, and was made anew")
        try:
            self._presence = Presence(self.file)
        except OSError as error:
            raise unusable(self.folder, error) from error
        self.marks.write(highest(db))
        return lack

    def detach(self) -> None:
        self._ballast.release()
        self.marks.close()
        self.sent.close()
        if self._presence is not None:
            self._presence.close()
            self._presence = None

    def side_file(self) -> SideFile:
        return SideFile(self.folder, self.identity)

    def left_behind(self) -> AbstractContextManager[list[Fact]]:
        """The facts that dead writers could not save; they are applied in the block."""
        return left_behind(self.folder, self.identity)

    def committed(self, facts: Sequence[Fact], answers: Sequence[Any]) -> None:
        """Marks how far it has come, and what has ended; counts what is in progress."""
        runs, attempts, replies = self.marks.highest
        ended: list[int] = []
        for fact, answer in zip(facts, answers, strict=True):
            match fact:
                case EndAttempt():
                    replies = max(replies, answer[-1]) if answer else replies
                    if fact.attempt:
                        ended.append(fact.attempt)
                        self._largest = max((self._largest, *map(_size_of, fact.landed)))
                case StartAttempt():
                    if answer.attempt:
                        attempts = max(attempts, answer.attempt)
                        self._under_way.add(answer.attempt)
                case AdoptAttempts():
                    self._under_way.update(answer)
                case AddRun():
                    runs = max(runs, answer)
                case DropRun():
                    runs = min(runs, fact.run - 1)
        self._under_way.difference_update(ended)
        self.sent.unmark(ended)
        if (runs, attempts, replies) != self.marks.highest:
            self.marks.write(Highest(runs, attempts, replies))

    def displaced(self) -> bool:
        """Whether the path is no longer that of the store that is open."""
        return self._presence is not None and self._presence.lost()

    def find_again(self, db: sqlite3.Connection) -> str:
        """The store was moved, or deleted: then its content is put back. Returns what to report.
        StoreUnavailable: it can be neither found nor put back."""
        assert self._presence is not None
        self.was_displaced, moved = True, self._presence.moved_to()
        if moved is not None:
            self._presence.close()
            self._presence = None
            return f"the store was moved in mid-run; continue with --store {moved.parent}"
        before = self.folder
        try:
            self._settle_in(put_back(db, self.folder))
        except (OSError, sqlite3.Error) as error:
            said = f"{self.file}: deleted in mid-run, and it cannot be put back: {error}"
            raise StoreUnavailable(said) from error
        if self.folder == before:
            return "the store was deleted in mid-run; what was in it has been put back"
        return (
            "the store was replaced in mid-run; what was in it has been saved: continue with"
            f" --store {self.folder}"
        )

    def _settle_in(self, folder: Path) -> None:
        self.detach()
        self.folder, self.file = folder, folder / "journal.db"
        self._setup, self._ballast = folder / "setup.lock", Ballast(folder)
        self._make_folder()
        self.sessions.move(folder / "live")
        self._presence = Presence(self.file)
        self.marks, marked = Marks(folder, self.identity), self.marks.highest
        self.marks.write(marked)
        self.saved_elsewhere = True

    def _check_patiently(self) -> None:
        """A store that another process is making right now may look torn until it is made."""
        try:
            self._check()
        except StoreError:
            if not self._setup.exists():
                raise
            with self._one_at_a_time():
                self._check()

    def _check(self) -> None:
        if self.folder.exists() and not self.folder.is_dir():
            raise StoreError(f"{self.folder}: is a file, not a folder; use --store DIR")
        self._check_header()

    def _make_folder(self) -> None:
        made_private(self.folder)
        made_private(self.folder / "live")
        make_private_file(self.file)
        tighten_permissions(self.folder)
        ignore = self.folder / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
        self._ballast.lay()

    def _check_header(self) -> None:
        """Read the file's own header, so that a foreign, torn or newer store is left untouched."""
        if not self.file.exists() or self.file.stat().st_size == 0:
            return
        in_use = self.file.with_name(self.file.name + "-wal").exists()
        found = self._asked_header() if in_use else None
        page, pages, version, application = found or self._read_header()
        if application != APPLICATION_ID:
            raise StoreError(f"{self.file}: another program's database; use another --store DIR")
        self._version = version
        if version > len(MIGRATIONS):
            raise StoreError(f"{self.file}: made by a newer fanfold; upgrade, or use --store DIR")
        if not in_use and self.file.stat().st_size < page * pages:
            raise StoreError(f"{self.file}: torn (cut short); restore a copy or use --store DIR")

    def _read_header(self) -> tuple[int, int, int, int]:
        with self.file.open("rb") as stream:
            head = stream.read(100)
        if len(head) < 100 or not head.startswith(_MAGIC):
            raise StoreError(
                f"{self.file}: not a fanfold store; move it or use another --store DIR"
            )
        return _header_fields(head)

    def _asked_header(self) -> tuple[int, int, int, int] | None:
        """A store that is in use is asked through SQLite: when a process closes a file, the kernel
        drops all locks that the process has on it, also those of its other connections. None: it
        cannot be asked, so this process has no connection to it either."""
        where = f"{self.file.absolute().as_uri()}?mode=ro"
        db = sqlite3.connect(where, uri=True, timeout=60.0, isolation_level=None)
        try:
            names = ("page_size", "page_count", "user_version", "application_id")
            page, pages, version, application = (
                db.execute(f"pragma {name}").fetchone()[0] for name in names
            )
            return page, pages, version, application
        except DATABASE_ERRORS:
            return None
        finally:
            db.close()

    def _migrate(self) -> None:
        db = self.connect()
        try:
            if migrate(db):
                db.execute("pragma wal_checkpoint(truncate)")
            db.execute("pragma journal_mode = wal")
            db.execute("select count(*) from runs").fetchone()
        finally:
            db.close()


def _header_fields(head: bytes) -> tuple[int, int, int, int]:
    """Page size, number of pages, user version, application id (the SQLite file format)."""
    page = struct.unpack(">H", head[16:18])[0]
    (pages,) = struct.unpack(">I", head[28:32])
    (version,) = struct.unpack(">I", head[60:64])
    (application,) = struct.unpack(">I", head[68:72])
    return (65536 if page == 1 else page), pages, version, application


def _size_of(landed: NewReply) -> int:
    """At most so many bytes does its reply take, roughly; a character may be four."""
    reply = landed.reply
    size = len(reply.text)
    if reply.data is not None:
        size += len(msgspec.json.encode(reply.data)) if size < 64 else size
    return size if reply.text.isascii() else 4 * size
