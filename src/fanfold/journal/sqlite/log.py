"""The log of commits: one row for each, so that another process can follow in order and without gaps."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fanfold.journal.facts import Fact
from fanfold.journal.sqlite.bulk import Database
from fanfold.journal.sqlite.checksum import sound
from fanfold.journal.sqlite.rows import apply
from fanfold.journal.sqlite.trouble import Ask, translate
from fanfold.journal.stream import Commit, decode_light, encode_light

KEPT = 3600.0  # seconds of facts' own time
MOST = 1000  # commits in memory at once
BETWEEN = 4096  # commits from one pruning to the next


class Log:
    """The writer's side. It runs inside the writer's transaction."""

    def __init__(self) -> None:
        self.at = 0.0
        self._since_pruned = BETWEEN
        self.position = 0

    def append(self, db: Database, facts: Sequence[Fact], answers: Sequence[Any]) -> None:
        for fact in facts:  # nobody asks the machine: in a simulation its time means nothing
            at = getattr(fact, "at", None)
            if at is not None and at > self.at:
                self.at = at
        light = encode_light(facts, answers)
        if light:
            self.position = self.put(db, light)
        self._since_pruned += 1
        if self._since_pruned > BETWEEN:
            self._since_pruned = 0
            prune(db)

    def put(self, db: Database, light: bytes) -> int:
        put = "insert into log (at, facts) values (?, ?)"
        return db.execute(put, (self.at, light)).lastrowid or 0


def commit_facts(
    db: sqlite3.Connection, file: Path, facts: list[Any], log: Log, keep: bool
) -> list[Any]:
    """See `home.Backing.commit`."""
    position = log.position
    try:
        db.execute("begin immediate")
        answers = apply(db, facts)
        log.append(db, facts, answers)
        db.execute("commit" if keep else "rollback")
        if not keep:
            log.position = position
    except Exception as error:
        log.position = position
        if db.in_transaction:
            db.execute("rollback")
        raise translate(error, file) if isinstance(error, sqlite3.Error) else error from error
    return answers


def prune(db: Database) -> None:
    """Followers are never long behind; one that is reads the tables again."""
    db.execute("delete from log where at < (select max(at) from log) - ?", (KEPT,))


class Following:
    """What stores and views that have a reader let others follow."""

    read: LogRows

    @property
    def position(self) -> int:
        return self.read.position()

    def since(self, position: int) -> list[Commit] | None:
        return self.read.since(position)


@sound
class LogRows:
    """The readers' side."""

    _execute: Ask

    def position(self) -> int:
        question = "select seq from sqlite_sequence where name = 'log'"
        row = self._execute(question).fetchone()
        return 0 if row is None else int(row[0])

    def since(self, position: int) -> list[Commit] | None:
        newest = self.position()
        if newest == position:
            return []
        rows = self._execute(
            "select position, at, facts from log where position > ? order by position limit ?",
            (position, MOST),
        ).fetchall()
        if newest < position or not rows or rows[0][0] != position + 1:
            return None
        return [decode_light(*row) for row in rows]
