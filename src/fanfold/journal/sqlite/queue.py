"""A queue of asks in a folder of one machine: for runs elsewhere that reach that machine over a connection.

The same rows as on a server (`postgres/queue`), in a database of its own. Who is alive is known by locks,
which end with their processes, so nobody is ever cut off. Processes wake one another through named pipes.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from fanfold.journal.contract import Sessions
from fanfold.journal.queue import (
    KEPT_DAYS,
    WIRE,
    HeldByWorker,
    MessageState,
    QueuedAsk,
    QueueState,
    TakenAsk,
    WorkerOffer,
    WorkerState,
    misfit,
)
from fanfold.journal.sqlite.disk import made_private, make_private_file
from fanfold.journal.sqlite.sessions import LockedSessions
from fanfold.journal.sqlite.trouble import sqlite_errors, unusable
from fanfold.work.file_pieces import FilePiece, FileSizes

T = TypeVar("T")
TABLES = """
create table if not exists store (id text not null);
create table if not exists ends (id text primary key);
create table if not exists workers (id text primary key, offer blob not null, since real not null);
create table if not exists asks (
  no integer primary key, span text not null unique, owner text not null, worker text not null default '',
  member text not null default '', answerer text not null default '', tags text not null default '',
  wire integer not null default 0, state text not null, cancel text not null default '',
  at real not null, request blob not null default x'', answer blob not null default x'');
create index if not exists waiting on asks (state, no);
create table if not exists pieces (
  span text not null, name text not null, at integer not null, data blob not null,
  primary key (span, name, at));
create table if not exists messages (
  span text not null, number integer not null, text text not null, state text not null default 'waiting',
  primary key (span, number));
create table if not exists carried (
  span text not null, hash text not null, at real not null, content blob not null, primary key (span, hash));
"""
_IN = "in (select value from json_each(?))"
_PUT = (
    "insert into asks (span, owner, member, answerer, tags, wire, state, at, request)"
    " select ?, ?, ?, ?, ?, ?, 'queued', ?, ? where exists (select 1 from ends where id = ?)"
    " on conflict (span) do nothing"
)
_TRACE = (
    "insert into asks (span, owner, state, at) values (?, '', 'withdrawn', ?)"
    " on conflict (span) do update set at = asks.at returning state"
)


class FolderQueue:
    """One process's end of it: that of a connected run, or a worker's."""

    def __init__(self, folder: Path, heard: Callable[[str], None] = lambda payload: None) -> None:
        """`heard` is called when something may have changed, with "cancel" if asks are to be stopped."""
        self.folder, self._heard, self._file = folder, heard, folder / "queue.db"
        try:
            for name in ("", "live", "wake"):
                made_private(folder / name)
            make_private_file(self._file)
        except OSError as error:
            raise unusable(folder, error) from error
        self.sessions: Sessions = LockedSessions(folder / "live")
        self.session = ""
        self._wake: int | None = None
        self._one_at_a_time = asyncio.Lock()
        with sqlite_errors(self._file):
            self._db = sqlite3.connect(
                self._file, timeout=60.0, isolation_level=None, check_same_thread=False
            )
            self._db.execute("pragma journal_mode = wal")
            self._db.execute("pragma synchronous = full")
            self._db.executescript(TABLES)
            new = "insert into store select ? where not exists (select 1 from store)"
            self._db.execute(new, (secrets.token_hex(8),))
            (self.identity,) = self._db.execute("select id from store").fetchone()

    async def enter(self, worker: WorkerOffer | None = None) -> None:
        self.session = self.sessions.enter()
        self._listen()
        if worker is None:
            await self._execute("insert into ends values (?)", self.session)
            old = time.time() - KEPT_DAYS * 86400
            await self._execute("delete from carried where span = '' and at < ?", old)
            return
        known = [id for (id,) in await self._execute("select id from workers")]
        gone = [id for id in known if not self.sessions.alive(id)]
        await self._execute(f"delete from workers where id {_IN}", _listed(gone))
        offer = msgspec.json.encode(worker)
        await self._execute(
            "insert into workers values (?, ?, ?)", self.session, offer, time.time()
        )

    async def leave(self) -> None:
        if self.session:
            await self._execute("delete from workers where id = ?", self.session)
            await self._execute("delete from ends where id = ?", self.session)
            self.sessions.leave(self.session)
        if self._wake is not None:
            asyncio.get_running_loop().remove_reader(self._wake)
            os.close(self._wake)
            self._pipe(self.session).unlink(missing_ok=True)
            self._wake = None
        self._db.close()

    # ── a run's end ──

    async def rejoin(self, before: str) -> None:
        """The same run over a new connection: what the end of the lost one owned is this one's, and
        that end, should it be at work still, can put in nothing more."""

        def work(db: sqlite3.Connection) -> None:
            db.execute("delete from ends where id = ?", (before,))
            db.execute("update asks set owner = ? where owner = ?", (self.session, before))

        await self._transact(work)
        self._tell("")

    async def put(self, asks: Sequence[QueuedAsk]) -> frozenset[str]:
        now, me = time.time(), self.session
        rows = [
            (a.span, me, a.member, a.answerer, " ".join(a.tags), WIRE, now, a.request, me)
            for a in asks
        ]

        def work(db: sqlite3.Connection) -> frozenset[str]:
            db.executemany(_PUT, rows)
            mine = f"select span from asks where owner = ? and span {_IN}"
            found = db.execute(mine, (me, _listed([a.span for a in asks]))).fetchall()
            return frozenset(a.span for a in asks) - {span for (span,) in found}

        refused = await self._transact(work)
        self._tell("")
        return refused

    async def own(self, spans: Collection[str]) -> None:
        statement = f"update asks set owner = ? where span {_IN} and state <> 'withdrawn'"
        await self._execute(statement, self.session, _listed(spans))
        self._tell("")

    async def answers(self, but: Collection[str]) -> list[tuple[str, bytes]]:
        question = "select span, answer from asks where owner = ? and state = 'done' and span not "
        return await self._execute(question + _IN, self.session, _listed(but))

    async def forget(self, spans: Collection[str]) -> None:
        def work(db: sqlite3.Connection) -> None:
            for table in ("asks", "pieces", "messages", "carried"):
                db.execute(f"delete from {table} where span {_IN}", (_listed(spans),))

        await self._transact(work)

    async def cancel(self, spans: Collection[str], message: str = "") -> list[str]:
        statement = (
            "update asks set state = case state when 'queued' then 'withdrawn' else state end,"
            f" cancel = 'yes ' || ? where span {_IN} and state in ('queued', 'taken') returning span, state"
        )
        stopped = await self._execute(statement, message, _listed(spans))
        self._tell("cancel")
        return [span for span, state in stopped if state == "withdrawn"]

    async def withdraw(self, spans: Collection[str]) -> list[str]:
        untaken = f"where owner = ? and worker = '' and span {_IN} returning span"
        change = f"update asks set state = 'withdrawn' {untaken}"
        return [one for (one,) in await self._execute(change, self.session, _listed(spans))]

    async def held_by(self) -> dict[str, list[str]]:
        held: dict[str, list[str]] = {}
        question = "select worker, span from asks where owner = ? and state = 'taken' order by no"
        for worker, span in await self._execute(question, self.session):
            held.setdefault(worker, []).append(span)
        return held

    async def dead(self, workers: Collection[str]) -> set[str]:
        return {one for one in workers if not self.sessions.alive(one)}

    async def has_trace(self, span: str) -> bool:
        ((state,),) = await self._execute(_TRACE, span, time.time())
        return bool(state != "withdrawn")

    async def shown(self, sizes: FileSizes) -> list[FilePiece]:
        question = (
            "select p.span, p.name, p.at, p.data from pieces p join asks a on a.span = p.span"
            " where a.owner = ? and p.at + length(p.data) > coalesce("
            "(select value from json_each(?) where key = p.span || ' ' || p.name), 0)"
            " order by p.span, p.name, p.at"
        )
        known = {
            f"{span} {name}": size for span, files in sizes.items() for name, size in files.items()
        }
        rows = await self._execute(question, self.session, msgspec.json.encode(known).decode())
        return [FilePiece(*row) for row in rows]

    async def lacking(self, hashes: Collection[str]) -> list[str]:
        statement = f"update carried set at = ? where span = '' and hash {_IN} returning hash"
        has = {hash for (hash,) in await self._execute(statement, time.time(), _listed(hashes))}
        return [hash for hash in hashes if hash not in has]

    async def bring(self, hash: str, content: bytes, span: str = "") -> None:
        put = "insert or replace into carried values (?, ?, ?, ?)"
        await self._execute(put, span, hash, time.time(), content)

    async def content(self, hash: str, span: str = "") -> bytes | None:
        question = "select content from carried where span = ? and hash = ?"
        return next((row[0] for row in await self._execute(question, span, hash)), None)

    async def message(
        self, span: str, number: int, text: str, *, last: bool = False
    ) -> MessageState:
        def work(db: sqlite3.Connection) -> MessageState:
            put = "insert or ignore into messages (span, number, text) values (?, ?, ?)"
            db.execute(put, (span, number, text))
            if last:
                refused = "update messages set state = 'refused' where span = ? and number = ?"
                db.execute(f"{refused} and state = 'waiting'", (span, number))
            question = "select state from messages where span = ? and number = ?"
            state: MessageState = db.execute(question, (span, number)).fetchone()[0]
            return state

        state = await self._transact(work)
        if state == "waiting":
            self._tell("cancel")
        return state

    # ── a worker's end ──

    async def take(
        self, members: Mapping[str, str], tags: Sequence[str], most: int
    ) -> list[TakenAsk]:
        def work(db: sqlite3.Connection) -> list[TakenAsk]:
            question = "select span, member, answerer, tags, owner from asks where state = 'queued'"
            found, alive = list[str](), dict[str, bool]()
            for span, member, answerer, wanted, owner in db.execute(f"{question} order by no"):
                if len(found) == most:
                    break
                if members.get(member) != answerer or not set(wanted.split()) <= set(tags):
                    continue
                if owner not in alive:
                    alive[owner] = bool(owner) and self.sessions.alive(owner)
                if alive[owner]:
                    found.append(span)
            listed = _listed(found)
            taken = f"update asks set state = 'taken', worker = ? where span {_IN}"
            db.execute(taken, (self.session, listed))
            question = f"select span, member, request from asks where span {_IN} order by no"
            return [TakenAsk(*row) for row in db.execute(question, (listed,))]

        return await self._transact(work)

    def check(self) -> None:
        """Its lock is held as long as it lives."""

    async def taken(self) -> list[TakenAsk]:
        question = "select span, member, request from asks where worker = ? and state = 'taken'"
        return [TakenAsk(*row) for row in await self._execute(question, self.session)]

    async def report(self, answers: Sequence[tuple[str, bytes]]) -> None:
        done = (
            "update asks set state = 'done', request = x'', answer = ?"
            " where span = ? and worker = ? and state = 'taken'"
        )
        rows = [(answer, span, self.session) for span, answer in answers]
        await self._transact(lambda db: db.executemany(done, rows))
        self._tell("")

    async def show(self, pieces: Sequence[FilePiece]) -> None:
        put = "insert or replace into pieces values (?, ?, ?, ?)"
        rows = [(one.span, one.name, one.at, one.data) for one in pieces]
        await self._transact(lambda db: db.executemany(put, rows))

    async def messages(self) -> list[tuple[str, int, str]]:
        statement = (
            "update messages set state = 'begun' where state in ('waiting', 'begun') and span in"
            " (select span from asks where worker = ? and state = 'taken') returning span, number, text"
        )
        return await self._execute(statement, self.session)

    async def given(self, span: str, number: int, handed: bool) -> None:
        statement = "update messages set state = ? where span = ? and number = ?"
        await self._execute(statement, "handed" if handed else "refused", span, number)
        self._tell("")

    async def to_stop(self) -> dict[str, str]:
        question = (
            "select span, substr(cancel, 5) from asks where worker = ? and state = 'taken'"
            " and cancel <> ''"
        )
        return dict(await self._execute(question, self.session))

    async def left_behind(self, members: Collection[str]) -> list[tuple[TakenAsk, str]]:
        question = (
            f"select span, member, request, worker from asks where state = 'taken' and member {_IN}"
        )
        rows = await self._execute(question, _listed(members))
        dead = await self.dead({row[3] for row in rows})
        return [(TakenAsk(*row[:3]), row[3]) for row in rows if row[3] in dead]

    async def take_over(self, span: str, worker: str) -> bool:
        statement = "update asks set worker = ? where span = ? and worker = ? and state = 'taken' returning 1"
        return bool(await self._execute(statement, self.session, span, worker))

    # ── for people ──

    def state(self) -> QueueState:
        with sqlite_errors(self._file), closing(sqlite3.connect(self._file, timeout=60.0)) as db:
            return state_of(db, self.sessions)

    # ── the database, and who else has it open ──

    async def _execute(self, statement: str, *given: Any) -> list[Any]:
        return await self._transact(lambda db: db.execute(statement, given).fetchall())

    async def _transact(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Durable when it returns. It runs to its end, also if nobody waits for it any more."""
        async with self._one_at_a_time:
            return await asyncio.shield(asyncio.to_thread(self._committed, work))

    def _committed(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with sqlite_errors(self._file):
            self._db.execute("begin immediate")
            try:
                done = work(self._db)
                self._db.execute("commit")
                return done
            finally:
                if self._db.in_transaction:
                    self._db.execute("rollback")

    def _pipe(self, session: str) -> Path:
        return self.folder / "wake" / session

    def _listen(self) -> None:
        os.mkfifo(self._pipe(self.session), 0o600)
        self._wake = os.open(self._pipe(self.session), os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        asyncio.get_running_loop().add_reader(self._wake, self._woken, self._wake)

    def _woken(self, pipe: int) -> None:
        self._heard("cancel" if b"c" in os.read(pipe, 4096) else "")

    def _tell(self, payload: str) -> None:
        """All other ends. One whose process is gone hears nothing, and its pipe is removed."""
        for pipe in (self.folder / "wake").iterdir():
            if pipe.name == self.session:
                continue
            try:
                handle = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError:
                if not self.sessions.alive(pipe.name):
                    pipe.unlink(missing_ok=True)
                continue
            with suppress(BlockingIOError):  # it has enough to hear already
                os.write(handle, b"c" if payload == "cancel" else b".")
            os.close(handle)


def _listed(values: Collection[str]) -> str:
    return msgspec.json.encode(list(values)).decode()


def state_of(db: sqlite3.Connection, sessions: Sessions) -> QueueState:
    held: dict[str, list[HeldByWorker]] = {}
    question = "select worker, span, member, at from asks where state = 'taken' order by no"
    for worker, *rest in db.execute(question):
        held.setdefault(worker, []).append(HeldByWorker(*rest))
    waiting = db.execute(
        "select member, answerer, tags, wire, count(*) from asks where state = 'queued'"
        " group by 1, 2, 3, 4 order by 1, 2, 3, 4"
    ).fetchall()
    workers, now = [], time.time()
    for id, offer, since in db.execute("select id, offer, since from workers order by since"):
        record, alive = msgspec.json.decode(offer, type=WorkerOffer), sessions.alive(id)
        unfit = (misfit(record, one[0], one[1], one[2].split(), one[3]) for one in waiting)
        seen = now if alive else since
        workers.append(
            WorkerState(id, record, alive, since, seen, now, tuple(held.get(id, ())),
                        tuple(filter(None, unfit)))
        )  # fmt: skip
    counts: dict[str, int] = {}
    for member, _, _, _, count in waiting:
        counts[member] = counts.get(member, 0) + count
    return QueueState(tuple(workers), counts)
