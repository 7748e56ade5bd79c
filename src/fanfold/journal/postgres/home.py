"""Where a store on PostgreSQL is: its tables on the server, and a folder of this machine for files.

One process at a time writes: a transaction holds a lock of the store from its first statement on, so that
claims, budgets and positions are decided one after the other, as with SQLite. Commits gather many facts,
so the lock is short for what it covers. The server ends a transaction whose client has stopped.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
import psycopg

from fanfold.errors import BadInput, StoreBusy, StoreError
from fanfold.journal.answers import Claim, RemovedReplies
from fanfold.journal.facts import EndAttempt, Fact, RemoveRuns, StartAttempt
from fanfold.journal.postgres.connection import (
    Address,
    PostgresConnection,
    Questions,
    named,
    server_errors,
)
from fanfold.journal.postgres.migrations import MIGRATIONS
from fanfold.journal.postgres.sessions import NOW, LeasedSessions
from fanfold.journal.sqlite.bulk import Database
from fanfold.journal.sqlite.disk import made_private
from fanfold.journal.sqlite.log import Log
from fanfold.journal.sqlite.marks import SentFile
from fanfold.journal.sqlite.rows import apply
from fanfold.journal.sqlite.sessions import this_process
from fanfold.journal.sqlite.unsaved import SideFile, left_behind
from fanfold.work.folders import user_folder

OUTAGE = 150.0  # seconds that questions wait for a server that does not answer
_encode = msgspec.msgpack.Encoder().encode
_DROP_ASKS = (
    "delete from asks where split_part(span, ':', 1) in"
    " (select id from runs where no in (select value from json_each(?)))"
)
_ANSWERS: dict[type, Any] = {StartAttempt: Claim, RemoveRuns: RemovedReplies | None}


class ServerLog(Log):
    def put(self, db: Database, light: bytes) -> int:
        """Positions have no gaps: they are given out in the order of commits, under the lock."""
        question = (
            "with next as (update store set position = position + 1 returning position)"
            " insert into log (position, at, facts) select position, cast(? as float8), cast(? as bytea)"
            " from next returning position"
        )
        return int(db.execute(question, (self.at, light)).fetchone()[0])


class LeasedSent(SentFile):
    """Nothing is sent after the lease has ended."""

    sessions: LeasedSessions

    def mark(self, attempt: int) -> None:
        self.sessions.check()
        super().mark(attempt)


class PostgresHome:
    """The tables of one schema."""

    was_displaced = saved_elsewhere = False

    def __init__(self, place: str) -> None:
        self.address = Address(place)
        self.place = self.file = place
        self.identity = self._known_identity()
        self.log: Log = ServerLog()
        self._writer, self._number = secrets.token_hex(8), 0
        self._unsure: dict[int, list[Any]] = {}  # facts of commits that nobody knows the end of
        lock = f"{self.address.schema} {self.identity}".encode()
        self._begin = (
            f"begin; select pg_advisory_xact_lock({0x46464C44}, {crc32(lock) - (1 << 31)})"
        )
        self.sent = LeasedSent(self.files / "sent", this_process().boot)
        self.sessions = LeasedSessions(self.address, self.sent.cover)
        self.sent.sessions = self.sessions

    def _known_identity(self) -> str:
        with server_errors(self.place):
            db = PostgresConnection(self.address)
            try:
                if not there(db):
                    raise StoreError(f"{self.place}: no such store; run a plan with it first")
                (identity, version) = db.execute("select id, version from store").fetchone()
            finally:
                db.close()
        if version > len(MIGRATIONS):
            raise StoreError(f"{self.place}: made by a newer fanfold; upgrade")
        return str(identity)

    @property
    def files(self) -> Path:
        return made_private(user_folder("state") / "stores" / self.identity)

    def connect(self, *, readonly: bool = False, wait: float = 60.0) -> PostgresConnection:
        return PostgresConnection(self.address, wait or 0.001)

    def disconnect(self, db: PostgresConnection) -> None:
        db.close()

    def statements(self, db: PostgresConnection) -> Questions:
        return Questions(db, self.place, OUTAGE)

    # ── a commit ──

    def commit(self, db: PostgresConnection, facts: list[Any], *, keep: bool = True) -> list[Any]:
        try:
            return self._transact(db, facts, keep)
        except psycopg.DataError as error:
            db.rollback()
            said = str(error).partition("\n")[0]
            raise BadInput(
                f"{self.place}: a text cannot be stored there ({said}); take NUL characters out of ids"
            ) from error
        except psycopg.Error as error:
            db.rollback()
            if db.lost:
                db.close()
            raise named(error, self.place) from error
        except BaseException:
            db.rollback()
            raise

    def _transact(self, db: PostgresConnection, facts: list[Any], keep: bool) -> list[Any]:
        position = self.log.position
        db.script(self._begin)
        self.sessions.check_held(db)
        known = self._known(db) if self._unsure else {}
        new = [fact for fact in facts if id(fact) not in known]
        given = apply(db, new) if new else []
        for fact, answer in zip(new, given, strict=True):
            if type(fact) is RemoveRuns and answer is not None:
                listed = msgspec.json.encode([run for run, _ in fact.runs]).decode()
                db.execute(_DROP_ASKS, (listed,))
        self.log.append(db, new, given)
        fresh = iter(given)
        answers = [known[id(fact)] if id(fact) in known else next(fresh) for fact in facts]
        if not keep:
            db.rollback()
            self.log.position = position
            return answers
        self._number += 1
        self._sign(db, answers)
        self.sessions.check()  # it may have stood still meanwhile, but less than the server waits
        self._unsure[self._number] = list(facts)
        db.script("commit")
        self._unsure.clear()
        return answers

    def _sign(self, db: PostgresConnection, answers: list[Any]) -> None:
        db.execute(
            f"insert into writers (id, number, at, answers) values (?, ?, {NOW}, ?) on conflict (id)"
            " do update set number = excluded.number, at = excluded.at, answers = excluded.answers",
            (self._writer, self._number, _encode(answers)),
        )

    def _known(self, db: PostgresConnection) -> dict[int, Any]:
        """The connection was lost at the end of a commit. It is on record, with its answers, or it
        did not take place. Each later try has the facts of those before it."""
        row = db.execute(
            "select number, answers from writers where id = ?", (self._writer,)
        ).fetchone()
        if row is None or row[0] not in self._unsure:
            return {}
        unsure = self._unsure[row[0]]
        answers = msgspec.msgpack.decode(row[1])
        return {
            id(fact): _answer(fact, answer) for fact, answer in zip(unsure, answers, strict=True)
        }

    def busy(self, error: StoreBusy) -> str:
        return str(error)

    # ── while it is open ──

    def attach(self, db: PostgresConnection) -> tuple[str, ...]:
        with server_errors(self.place):
            db.execute(f"delete from writers where at < {NOW} - 86400")
        return ()

    def detach(self) -> None:
        self.sent.close()
        self.sessions.close()

    def side_file(self) -> SideFile:
        return SideFile(self.files, self.identity)

    def left_behind(self) -> AbstractContextManager[list[Fact]]:
        return left_behind(self.files, self.identity)

    def committed(self, facts: Sequence[Fact], answers: Sequence[Any]) -> None:
        self.sent.unmark([fact.attempt for fact in facts if type(fact) is EndAttempt])

    def displaced(self) -> bool:
        return False

    def find_again(self, db: PostgresConnection) -> str:
        raise AssertionError("a store on a server is never displaced")

    def secure(self, starts: int) -> bool:
        return True

    def drop_ballast(self) -> bool:
        return False


def _answer(fact: Fact, answer: Any) -> Any:
    if isinstance(answer, list):
        return tuple(answer)
    kind = _ANSWERS.get(type(fact))
    return answer if kind is None else msgspec.convert(answer, kind)


# ── without opening it ───────────────────────────────────────────────────────────────────────


def there(db: PostgresConnection) -> bool:
    question = (
        "select 1 from information_schema.tables where table_schema = ? and table_name = 'store'"
    )
    return db.execute(question, (db.address.schema,)).fetchone() is not None


def exists(place: str) -> bool:
    address = Address(place)
    db = PostgresConnection(address)
    try:
        with server_errors(place):
            return there(db)
    finally:
        db.close()


def prepare(place: str) -> None:
    """Make what is missing: the schema, its tables, and what came with later versions."""
    address = Address(place)
    db = PostgresConnection(address)
    try:
        with server_errors(place):
            _migrate(db, address.schema)
    finally:
        db.close()


def _migrate(db: PostgresConnection, schema: str) -> None:
    if there(db) and db.execute("select version from store").fetchone()[0] >= len(MIGRATIONS):
        return
    try:
        db.script(f"begin; select pg_advisory_xact_lock({0x46464C44})")
        version = 0
        if there(db):
            (version,) = db.execute("select version from store").fetchone()
        else:
            db.script(f"create schema if not exists {schema}")
        for step in MIGRATIONS[version:]:
            step(db)
        if not version:
            db.execute("insert into store values (?, 0, 0, 180)", (secrets.token_hex(8),))
        if version < len(MIGRATIONS):
            db.execute("update store set version = ?", (len(MIGRATIONS),))
        db.script("commit")
    finally:
        db.rollback()
