"""How far the store had come, in a small file outside the write-ahead log.

After a crash the newest commits are only in the log. If that is removed or garbled, SQLite opens an
older state silently; the marks show that something is missing. They are written after each
commit, without waiting for the disk, so they may be behind but are never ahead.
"""

from __future__ import annotations

import os
import sqlite3
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from fanfold.journal.facts import AddRun, DropRun, EndAttempt, Fact, StartAttempt

_LINE = struct.Struct(">16sQQQ")


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

    def follow(self, facts: Sequence[Fact], answers: Sequence[Any]) -> None:
        """After a commit: what these facts were given."""
        runs, attempts, replies = self.highest
        for fact, answer in zip(facts, answers, strict=True):
            if isinstance(fact, StartAttempt):
                attempts = max(attempts, answer.attempt)
            elif isinstance(fact, EndAttempt):
                if answer:
                    replies = max(replies, answer[-1])
            elif isinstance(fact, AddRun):
                runs = max(runs, answer)
            elif isinstance(fact, DropRun):
                runs = min(runs, fact.run - 1)
        highest = Highest(runs, attempts, replies)
        if highest != self.highest:
            self.write(highest)

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
