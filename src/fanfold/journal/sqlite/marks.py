"""Small files beside the database, written without waiting for the disk: how far the store had come, and
which claimed attempts were really sent."""

from __future__ import annotations

import os
import secrets
import sqlite3
import struct
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

# ── how far it had come ──────────────────────────────────────────────────────────────────────
#
# After a crash the newest commits are only in the log. If that is removed or garbled, SQLite opens an
# older state silently; the marks show that something is missing. They are written after each
# commit, without waiting for the disk, so they may be behind but are never ahead.

_LINE = struct.Struct(">16sQQQ")
LOOKS, BETWEEN_LOOKS = 3, 0.05  # before anything is said to be missing


class Highest(NamedTuple):
    """The highest numbers that were given out."""

    runs: int = 0
    attempts: int = 0
    replies: int = 0


class Marks:
    """The file of one store; `identity` distinguishes it from another that was at the same place."""

    def __init__(self, folder: Path, identity: str) -> None:
        self._file = folder / "journal.marks"
        self._identity = identity.encode()
        self._handle = -1
        self.highest = Highest()

    def read(self) -> Highest | None:
        """None: there is no such file, it is torn, or it is of another store."""
        try:
            whole = self._file.read_bytes()
            identity, *numbers = _LINE.unpack(whole[: _LINE.size])
            (checksum,) = struct.unpack(">I", whole[_LINE.size : _LINE.size + 4])
        except (OSError, struct.error):
            return None
        sound = checksum == crc32(whole[: _LINE.size]) and identity == self._identity
        return Highest(*numbers) if sound else None

    def ahead_of(self, db: sqlite3.Connection) -> str | None:
        """What the operator should know when the store is behind its marks. They are read first: others
        commit meanwhile, and what is read later has come further. Who removes a run writes its marks a
        moment later."""
        for _ in range(LOOKS):
            lack = missing(self.read(), highest(db))
            if lack is None:
                break
            time.sleep(BETWEEN_LOOKS)
        return lack

    def write(self, highest: Highest) -> None:
        """Never an error: without marks only this check is missing."""
        self.highest = highest
        line = _LINE.pack(self._identity, *highest)
        try:
            if self._handle < 0:
                flags = os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC
                self._handle = os.open(self._file, flags, 0o600)
            os.pwrite(self._handle, line + struct.pack(">I", crc32(line)), 0)
        except OSError:
            self.close()

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def highest(db: sqlite3.Connection) -> Highest:
    row = db.execute(
        "select (select coalesce(max(no), 0) from runs),"
        " (select coalesce(max(no), 0) from attempts), (select coalesce(max(no), 0) from replies)"
    ).fetchone()
    return Highest(*row)


def missing(marked: Highest | None, found: Highest) -> str | None:
    """What the operator should know when the store is behind its marks."""
    if marked is None:
        return None
    less = [max(before - now, 0) for before, now in zip(marked, found, strict=True)]
    if not any(less):
        return None
    what = ", ".join(
        f"{n} {one if n == 1 else many}"
        for n, (one, many) in zip(
            less, (("run", "runs"), ("attempt", "attempts"), ("reply", "replies")), strict=True
        )
        if n
    )
    return (
        f"its write-ahead log was removed or damaged, or an older copy was put back: {what} that"
        " were recorded are missing, and what they paid may be paid again; restore a copy if you"
        " have one"
    )


# ── which attempts were sent ─────────────────────────────────────────────────────────────────
#
# A claim is durable before its call is sent, so after a killed process nobody could tell which of its
# claims went out. A mark is written without a sync: it is in the kernel's pages, which outlive the
# process. When the machine itself died (another boot id), or the file is from another machine, the
# marks say nothing, and every claim counts as perhaps sent.
#
# It is written and not mapped into memory: a mapping on a disk that is full ends the process.

MAGIC = b"fanfold sent 2\n"
BOOT, SESSIONS, SLOTS = 16, 64, 4096  # where they begin
NAME = 16  # bytes of a session's name


class Marked(NamedTuple):
    """What one file says, of sessions that were entered while it was open."""

    file: Path
    sessions: frozenset[str]
    attempts: frozenset[int]


class SentFile:
    """The marks of one open store. Marks are set in one thread and given back in another."""

    def __init__(self, folder: Path, boot: str) -> None:
        self._folder, self._boot = folder, boot.encode()
        self._file = folder / secrets.token_hex(8)
        self._lock = threading.Lock()
        self._handle: int | None = None
        self._process = 0  # that made the file
        self._slots: dict[int, int] = {}
        self._free: list[int] = []
        self._next = 0  # slot that was never used
        self._sessions = 0

    def cover(self, session: str) -> None:
        """From now on the claims of this session are marked here. Where that cannot be, they all
        count as perhaps sent."""
        with self._lock, suppress(OSError):
            if self._handle is None and self._boot:
                self._make()
            name, at = session.encode(), SESSIONS + self._sessions * NAME
            if self._handle is not None and len(name) == NAME and at + NAME <= SLOTS:
                os.pwrite(self._handle, name, at)
                self._sessions += 1

    def mark(self, attempt: int) -> None:
        """It is sent from now on."""
        with self._lock:
            if self._handle is None:
                return
            if self._free:
                slot = self._free.pop()
            else:
                slot = self._next
                self._next += 1
            self._slots[attempt] = slot
            try:
                os.pwrite(self._handle, _slot(attempt), SLOTS + slot * 8)
            except OSError:  # what cannot be marked must not be taken for unsent
                self._give_up()

    def unmark(self, attempts: Iterable[int]) -> None:
        """Their end is durable: the next ones may be marked in their place, until then these marks
        mean nothing. Trap: not before, else they would count as never sent after a crash."""
        for attempt in attempts:
            slot = self._slots.pop(attempt, None)
            if slot is not None:
                self._free.append(slot)

    def unsent(self, attempts: Mapping[int, str]) -> tuple[int, ...]:
        """Those, each with its dead session, that were surely never sent; others are in doubt."""
        found = list(read_marks(self._folder, self._boot))
        covered = {session for one in found for session in one.sessions}
        marked = {attempt for one in found for attempt in one.attempts}
        return tuple(
            number
            for number, session in attempts.items()
            if session in covered and number not in marked
        )

    def forget(self, sessions: Collection[str]) -> None:
        """These are dead, and what they had sent is on record as in doubt: their files may go."""
        for one in read_marks(self._folder, self._boot):
            if one.sessions <= set(sessions):
                one.file.unlink(missing_ok=True)

    def close(self) -> None:
        """In good order: all that was sent has its end on record, or is in doubt."""
        with self._lock:
            self._give_up()

    def _make(self) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC
        handle = os.open(self._file, flags, 0o600)
        os.pwrite(handle, MAGIC.ljust(BOOT, b"\0") + self._boot, 0)
        self._handle, self._process = handle, os.getpid()

    def _give_up(self) -> None:
        """In a forked child only its handle is closed: the file is its parent's."""
        handle, self._handle = self._handle, None
        if handle is not None:
            ours = self._process == os.getpid()
            with suppress(OSError):
                if ours:
                    os.ftruncate(handle, 0)
                    self._file.unlink(missing_ok=True)
            os.close(handle)


def _slot(attempt: int) -> bytes:
    """Its number, and what tells whether that is still the number that was written."""
    number = attempt.to_bytes(5, "little")
    return number + crc32(number).to_bytes(4, "little")[:3]


def read_marks(folder: Path, boot: bytes) -> Iterator[Marked]:
    """What files of this boot of this machine say; one that cannot be read, or has a damaged mark, says
    nothing: an attempt that was sent must not be taken for unsent."""
    files: Iterable[Path] = ()
    with suppress(OSError):
        files = sorted(folder.iterdir())
    for file in files:
        try:
            data = file.read_bytes()
        except OSError:
            continue
        if not boot or not data.startswith(MAGIC) or data[BOOT : BOOT + len(boot)] != boot:
            continue
        names = (data[at : at + NAME] for at in range(SESSIONS, min(SLOTS, len(data)), NAME))
        slots = (data[at : at + 8] for at in range(SLOTS, len(data) - 7, 8))
        marks = {slot: int.from_bytes(slot[:5], "little") for slot in slots if any(slot)}
        if any(slot != _slot(attempt) for slot, attempt in marks.items()):
            continue
        yield Marked(
            file,
            frozenset(name.decode("ascii", "replace") for name in names if any(name)),
            frozenset(marks.values()),
        )
