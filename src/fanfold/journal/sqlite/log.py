"""A commit: facts to rows, and a row of the log, so that another process can follow in order and without
gaps.

Facts stand there in a light form: numbers, ids, members, states, costs and reasons, but no reply bodies,
prompts, plans and planned rows. Its cost is per commit: outcomes of unmetered calls are joined into one
fact.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args
from zlib import crc32

import msgspec

from fanfold.journal.answers import Claim
from fanfold.journal.facts import (
    AddRun,
    BeginJudging,
    CopyRows,
    EndAttempt,
    EndItems,
    EndJudging,
    Fact,
    ItemEnding,
    KeepPrompt,
    PlanItems,
    ReopenRun,
    StartAttempt,
)
from fanfold.journal.kept import KeepContent
from fanfold.journal.shares import ShareFact
from fanfold.journal.sqlite.bulk import Database
from fanfold.journal.sqlite.checksum import sound
from fanfold.journal.sqlite.rows import apply
from fanfold.journal.sqlite.trouble import Ask, translate
from fanfold.journal.stream import Commit

KEPT = 3600.0  # seconds of facts' own time
MOST = 1000  # commits in memory at once
BETWEEN = 4096  # commits from one pruning to the next
SHARE_FACTS = get_args(ShareFact)
_SILENT = (PlanItems, CopyRows, KeepPrompt, KeepContent, BeginJudging, EndJudging, *SHARE_FACTS)


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


class Commits:
    """Of a database that SQLite opens, wherever it is."""

    file: Path
    log: Log

    def commit(self, db: sqlite3.Connection, facts: list[Any], *, keep: bool = True) -> list[Any]:
        """See `home.Backing`."""
        log = self.log
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
            ours = isinstance(error, sqlite3.Error)
            raise translate(error, self.file) if ours else error from error
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


# ── the light form ───────────────────────────────────────────────────────────────────────────

_Answer = int | bool | tuple[int, ...] | None
_encode = msgspec.msgpack.Encoder().encode
_replace = msgspec.structs.replace
_decoder: msgspec.msgpack.Decoder[tuple[list[Fact], list[_Answer]]] = msgspec.msgpack.Decoder(
    tuple[list[Fact], list[_Answer]]
)


def encode_light(facts: Sequence[Fact], answers: Sequence[Any]) -> bytes:
    """Empty: there is nothing in it that anybody follows."""
    kept: list[Fact] = []
    given: list[_Answer] = []
    ended: dict[int, list[ItemEnding]] = {}
    for fact, answer in zip(facts, answers, strict=True):
        kind = type(fact)
        if (kind is EndAttempt and not fact.attempt) or kind is EndItems:  # type: ignore[union-attr]
            ended.setdefault(fact.run, []).extend(fact.endings)  # type: ignore[union-attr]
        elif kind is StartAttempt:
            if number := getattr(answer, "attempt", 0):
                kept.append(_replace(fact, keys=(), accept=(), monthly=None, budgets=()))
                given.append(number)
        elif kind is EndAttempt and not isinstance(answer, Exception):
            kept.append(_replace(fact, landed=(), released=()))
            given.append(answer)
        elif kind is AddRun and not answer:
            continue  # another one of its name is under way
        elif kind not in _SILENT and not isinstance(answer, Exception):
            _add(fact, answer, kept, given)
    for run, endings in ended.items():
        if endings:
            kept.append(EndItems(run, endings))  # type: ignore[arg-type]
            given.append(None)
    light = _encode((kept, given)) if kept else b""
    return light and light + crc32(light).to_bytes(4)


def _add(fact: Fact, answer: Any, kept: list[Fact], given: list[_Answer]) -> None:
    match fact:
        case AddRun(record):
            light = _replace(record, no=answer, plan=b"", result=None)
            fact = AddRun(light)
        case ReopenRun():
            fact = _replace(fact, plan=None)
        case _ if not isinstance(answer, int | tuple):
            answer = None
    kept.append(fact)
    given.append(answer)


def decode_light(position: int, at: float, light: bytes) -> Commit:
    if crc32(light[:-4]).to_bytes(4) != light[-4:]:
        raise ValueError("a commit in the log is damaged")
    facts, answers = _decoder.decode(light[:-4])
    known = [
        Claim(attempt=answer)
        if isinstance(fact, StartAttempt) and isinstance(answer, int)
        else answer
        for fact, answer in zip(facts, answers, strict=True)
    ]
    return Commit(position, at, facts, known)
