"""The queue of asks for workers, in the schema of a store.

A row is one ask, from `queued` to `taken` to `done`; it stays until what came of it is on record with
the run that asked. Each statement is a transaction, and can be repeated after a lost connection. An ask
is taken only while the leases of its run and of the worker are good; so after a crash nothing more is
begun, and what a resumed run finds `queued` was never sent. `withdrawn` keeps a late process from
putting in what others know as not there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

import msgspec
import psycopg
from psycopg import sql

from fanfold.errors import StoreAway
from fanfold.journal.postgres.connection import (
    Address,
    PostgresConnection,
    Questions,
    named,
    server_errors,
)
from fanfold.journal.postgres.home import OUTAGE, prepare
from fanfold.journal.postgres.sessions import NOW, LeasedSessions
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
from fanfold.work.file_pieces import FilePiece, FileSizes

LEAVING = 5.0  # seconds that a server which is away is waited for at the end
BETWEEN = 0.5  # seconds until a server that does not answer is tried again
_ALIVE = f"exists (select 1 from sessions where id = {{}} and until > {NOW})"
_PUT = f"""
with new as (
  insert into asks (span, owner, member, answerer, tags, wire, state, at, request)
  select v.span, $1, v.member, v.answerer, string_to_array(v.tags, ' '), {WIRE}, 'queued', {NOW}, v.request
  from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::bytea[])
    as v(span, member, answerer, tags, request)
  where {_ALIVE.format("$1")} on conflict (span) do nothing returning 1),
told as (select pg_notify($7, '') where exists (select 1 from new)) select count(*) from told"""
_REFUSED = (
    "select v.span from unnest($1::text[]) as v(span)"
    " where not exists (select 1 from asks a where a.span = v.span and a.owner = $2)"
)
_ANSWERS = "select span, answer from asks where owner = $1 and state = 'done' and span <> all($2)"
_TAKE = f"""
with free as (
  select a.span from asks a where a.state = 'queued' and a.wire = {WIRE} and a.tags <@ $2::text[]
    and (a.member, a.answerer) in (select * from unnest($3::text[], $4::text[]))
    and {_ALIVE.format("a.owner")} and {_ALIVE.format("$1")}
  order by a.no limit $5 for update of a skip locked)
update asks a set state = 'taken', worker = $1 from free where a.span = free.span
returning a.span, a.member, a.request"""
_REPORT = """
with done as (
  update asks a set state = 'done', request = '', answer = v.answer
  from unnest($2::text[], $3::bytea[]) as v(span, answer)
  where a.span = v.span and a.worker = $1 and a.state = 'taken' returning a.owner),
told as (select pg_notify('fanfold_' || owner, '') from (select distinct owner from done) as o)
select count(*) from told"""
_CANCEL = """
with stopped as (
  update asks set state = case state when 'queued' then 'withdrawn' else state end,
    cancel = 'yes ' || $2
  where span = any($1) and state in ('queued', 'taken') returning span, worker, state),
told as (select count(pg_notify('fanfold_' || worker, 'cancel'))
  from (select distinct worker from stopped where worker <> '') as w)
select span from stopped, told where state = 'withdrawn'"""
_WITHDRAW = """
update asks set state = 'withdrawn' where owner = $2 and worker = '' and span = any($1) returning span"""
_FORGET = """
with done as (delete from pieces where span = any($1)),
said as (delete from messages where span = any($1)),
kept as (delete from carried where span = any($1)) delete from asks where span = any($1)"""
_LACKING = f"update carried set at = {NOW} where span = '' and hash = any($1) returning hash"
_BRING = f"""
insert into carried values ($1, $2, {NOW}, $3)
on conflict (span, hash) do update set at = excluded.at, content = excluded.content"""
_SHOWN = """
select p.span, p.name, p.at, p.data from pieces p join asks a on a.span = p.span
  left join unnest($2::text[], $3::text[], $4::bigint[]) as h(span, name, size)
    on h.span = p.span and h.name = p.name
where a.owner = $1 and p.at + length(p.data) > coalesce(h.size, 0) order by p.span, p.name, p.at"""
_MESSAGE = """
with put as (
  insert into messages (span, number, text) values ($1, $2, $3) on conflict do nothing returning state),
told as (select pg_notify('fanfold_' || worker, 'cancel') from asks where span = $1 and worker <> '')
select coalesce((select state from messages where span = $1 and number = $2), 'waiting')
from (select count(*) from told) as t, (select count(*) from put) as p"""
_MESSAGES = """
update messages set state = 'begun' where state in ('waiting', 'begun') and span in
  (select span from asks where worker = $1 and state = 'taken') returning span, number, text"""
_SHOW = """
insert into pieces select v.* from unnest($1::text[], $2::text[], $3::bigint[], $4::bytea[]) as v
on conflict (span, name, at) do update set data = excluded.data"""
_TRACE = f"""
insert into asks (span, owner, state, at) values ($1, '', 'withdrawn', {NOW})
on conflict (span) do update set at = asks.at returning state"""
_STATE = f"""
select w.id, w.host, w.pid, w.slots, w.tags, w.members, w.version, w.wire, w.since,
  coalesce(s.until > {NOW}, false), coalesce(s.until - (select lease from store), w.since), {NOW}
from workers w left join sessions s on s.id = w.id order by w.host, w.since"""


class PostgresQueue:
    """One process's end of it: a run's, or a worker's. Statements wait for a server that is away."""

    def __init__(self, place: str, heard: Callable[[str], None] = lambda payload: None) -> None:
        """`heard` is called when something may have changed, with "cancel" if asks are to be stopped."""
        prepare(place)
        self.place, self.address, self._heard = place, Address(place), heard
        self._direct = PostgresConnection(self.address)
        asked = Questions(self._direct, place, OUTAGE)
        (self.identity,) = asked.execute("select id from store").fetchone()
        self.sessions = LeasedSessions(self.address, lambda session: None)
        self.session = ""
        self._db: psycopg.AsyncConnection[Any] | None = None
        self._listening: asyncio.Task[None] | None = None

    # ── a run's end ──

    async def enter(self, worker: WorkerOffer | None = None) -> None:
        self.session = await asyncio.to_thread(self.sessions.enter)
        channels = [f"fanfold_{self.session}", *([self._channel] if worker else ())]
        tried = asyncio.Event()
        self._listening = asyncio.create_task(self._listen(channels, tried))
        await tried.wait()
        if worker is None:
            old = f"at < {NOW} - {KEPT_DAYS * 86400}"
            await self._execute(f"delete from carried where span = '' and {old}")
        else:
            w = worker
            await self._execute(
                f"delete from workers where since < {NOW} - 86400 and id not in (select id from sessions)"
            )
            await self._execute(
                f"insert into workers values ($1, $2, $3, $4, $5, $6, $7, $8, {NOW})",
                self.session, w.host, w.pid, w.slots, list(w.tags), w.wire, w.version,
                msgspec.json.encode(w.members),
            )  # fmt: skip

    async def put(self, asks: Sequence[QueuedAsk]) -> frozenset[str]:
        """The spans that were refused: this process may count as dead, or another took their run over."""
        spans = [ask.span for ask in asks]
        columns = ([ask.member for ask in asks], [ask.answerer for ask in asks],
                   [" ".join(ask.tags) for ask in asks], [ask.request for ask in asks])  # fmt: skip
        await self._execute(_PUT, self.session, spans, *columns, self._channel)
        return frozenset(span for (span,) in await self._execute(_REFUSED, spans, self.session))

    async def own(self, spans: Collection[str]) -> None:
        """Asks of an earlier process of the run are this one's."""
        await self._execute(
            "update asks set owner = $1 where span = any($2)", self.session, list(spans)
        )
        await self._execute("select pg_notify($1, '')", self._channel)

    async def answers(self, but: Collection[str]) -> list[tuple[str, bytes]]:
        return await self._execute(_ANSWERS, self.session, list(but))

    async def forget(self, spans: Collection[str]) -> None:
        """How they ended is on record."""
        await self._execute(_FORGET, list(spans))

    async def cancel(self, spans: Collection[str], message: str = "") -> list[str]:
        """What nobody has taken is withdrawn; else its worker stops it, and says how it ended."""
        return [span for (span,) in await self._execute(_CANCEL, list(spans), message)]

    async def withdraw(self, spans: Collection[str]) -> list[str]:
        return [span for (span,) in await self._execute(_WITHDRAW, list(spans), self.session)]

    async def held_by(self) -> dict[str, list[str]]:
        """This run's asks that are under way, by the session of their worker."""
        question = "select worker, array_agg(span) from asks where owner = $1 and state = 'taken' group by 1"
        return dict(await self._execute(question, self.session))

    async def dead(self, workers: Collection[str]) -> set[str]:
        life = self.sessions.life
        return await asyncio.to_thread(lambda: {one for one in workers if life(one) == "dead"})

    async def has_trace(self, span: str) -> bool:
        """Whether an ask was put in. If not, it never will be: a process that only seems dead, and comes
        back, finds it withdrawn."""
        asked = Questions(self._direct, self.place, OUTAGE)
        row = await asyncio.to_thread(lambda: asked.execute(_TRACE, (span,)).fetchone())
        return bool(row[0] != "withdrawn")

    async def shown(self, sizes: FileSizes) -> list[FilePiece]:
        known = [(span, *one) for span, files in sizes.items() for one in files.items()]
        columns = [list(column) for column in zip(*known, strict=True)] or [[], [], []]
        rows = await self._execute(_SHOWN, self.session, *columns)
        return [FilePiece(*row) for row in rows]

    async def lacking(self, hashes: Collection[str]) -> list[str]:
        has = {hash for (hash,) in await self._execute(_LACKING, list(hashes))}
        return [hash for hash in hashes if hash not in has]

    async def bring(self, hash: str, content: bytes, span: str = "") -> None:
        await self._execute(_BRING, span, hash, content)

    async def content(self, hash: str, span: str = "") -> bytes | None:
        question = "select content from carried where span = $1 and hash = $2"
        rows = await self._execute(question, span, hash)
        return bytes(rows[0][0]) if rows else None

    async def message(
        self, span: str, number: int, text: str, *, last: bool = False
    ) -> MessageState:
        if last:
            refused = "update messages set state = 'refused' where span = $1 and number = $2"
            await self._execute(f"{refused} and state = 'waiting'", span, number)
        ((state,),) = await self._execute(_MESSAGE, span, number, text)
        return cast(MessageState, state)

    # ── a worker's end ──

    async def take(
        self, members: Mapping[str, str], tags: Sequence[str], most: int
    ) -> list[TakenAsk]:
        self.check()
        ids, answerers = list(members), list(members.values())
        rows = await self._execute(_TAKE, self.session, list(tags), ids, answerers, most)
        return [TakenAsk(*row) for row in rows]

    async def taken(self) -> list[TakenAsk]:
        """All that it holds: after a lost connection it may not know of some."""
        question = "select span, member, request from asks where worker = $1 and state = 'taken'"
        return [TakenAsk(*row) for row in await self._execute(question, self.session)]

    async def report(self, answers: Sequence[tuple[str, bytes]]) -> None:
        spans, said = [span for span, _ in answers], [answer for _, answer in answers]
        await self._execute(_REPORT, self.session, spans, said)

    async def show(self, pieces: Sequence[FilePiece]) -> None:
        columns = ([one.span for one in pieces], [one.name for one in pieces],
                   [one.at for one in pieces], [one.data for one in pieces])  # fmt: skip
        await self._execute(_SHOW, *columns)

    async def messages(self) -> list[tuple[str, int, str]]:
        return await self._execute(_MESSAGES, self.session)

    async def given(self, span: str, number: int, handed: bool) -> None:
        statement = "update messages set state = $3 where span = $1 and number = $2"
        await self._execute(statement, span, number, "handed" if handed else "refused")

    async def to_stop(self) -> dict[str, str]:
        question = (
            "select span, substr(cancel, 5) from asks where worker = $1 and state = 'taken'"
            " and cancel <> ''"
        )
        return dict(await self._execute(question, self.session))

    async def left_behind(self, members: Collection[str]) -> list[tuple[TakenAsk, str]]:
        """What workers hold that are dead, each with the worker's session."""
        question = "select span, member, request, worker from asks where state = 'taken' and member = any($1)"
        found = [
            (TakenAsk(*row[:3]), row[3]) for row in await self._execute(question, list(members))
        ]
        dead = await self.dead({worker for _, worker in found})
        return [(ask, worker) for ask, worker in found if worker in dead]

    async def take_over(self, span: str, worker: str) -> bool:
        question = (
            "update asks set worker = $1 where span = $2 and worker = $3 and state = 'taken'"
            " returning 1"
        )
        return bool(await self._execute(question, self.session, span, worker))

    def check(self) -> None:
        self.sessions.check()

    async def leave(self) -> None:
        if self.session:
            with suppress(TimeoutError):
                async with asyncio.timeout(LEAVING):
                    await self._execute("delete from workers where id = $1", self.session)
            await asyncio.to_thread(self.sessions.leave, self.session)
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait((self._listening,))
        if self._db is not None:
            await self._db.close()
        self._direct.close()
        self.sessions.close()

    # ── for people ──

    def state(self) -> QueueState:
        """Not while another thread asks whether something has a trace."""
        with server_errors(self.place):
            return _state(self._direct, self.sessions)

    # ── the connection ──

    @property
    def _channel(self) -> str:
        """Where workers hear of new asks."""
        return f"fanfold_asks_{self.identity}"

    async def _execute(self, statement: str, *given: Any) -> list[Any]:
        async def once(db: psycopg.AsyncConnection[Any]) -> list[Any]:
            done = await db.execute(sql.SQL(statement), given, binary=True)
            return await done.fetchall() if done.description else []

        while True:
            try:
                return await self._on_connection(once)
            except StoreAway:
                await asyncio.sleep(BETWEEN)

    async def _on_connection(
        self, work: Callable[[psycopg.AsyncConnection[Any]], Awaitable[list[Any]]]
    ) -> list[Any]:
        try:
            if self._db is None or self._db.closed:
                self._db = await self.address.connect_async(60.0)
            return await work(self._db)
        except psycopg.Error as error:
            trouble = named(error, self.place)
            if self._db is not None and isinstance(trouble, StoreAway):
                await self._db.close()
            raise trouble from error

    async def _listen(self, channels: Sequence[str], tried: asyncio.Event) -> None:
        """On a connection of its own, made again when it was lost; then all may have changed."""
        while True:
            try:
                db = await self.address.connect_async(60.0)
                async with db:
                    for channel in channels:
                        await db.execute(sql.SQL(f"listen {channel}"))
                    self._heard("cancel")
                    tried.set()
                    async for told in db.notifies():
                        self._heard(told.payload)
            except psycopg.Error:
                tried.set()
                await asyncio.sleep(BETWEEN)


def _state(db: PostgresConnection, sessions: LeasedSessions) -> QueueState:
    def ask(question: str) -> list[Any]:
        return db.open().execute(sql.SQL(question), binary=True).fetchall()

    held: dict[str, list[HeldByWorker]] = {}
    for worker, *rest in ask(
        "select worker, span, member, at from asks where state = 'taken' order by no"
    ):
        held.setdefault(worker, []).append(HeldByWorker(*rest))
    waiting = ask(
        "select member, answerer, tags, wire, count(*) from asks where state = 'queued'"
        " group by 1, 2, 3, 4 order by 1, 2, 3, 4"
    )
    workers = []
    for id, host, pid, slots, tags, members, version, wire, since, alive, seen, now in ask(_STATE):
        record = WorkerOffer(
            host=host, pid=pid, slots=slots, tags=tuple(tags), version=version, wire=wire,
            members=msgspec.json.decode(members, type=dict[str, str]),
        )  # fmt: skip
        here = alive and sessions.life(id) != "dead"
        misfits = tuple(filter(None, (misfit(record, *one[:4]) for one in waiting)))
        workers.append(
            WorkerState(id, record, here, since, seen, now, tuple(held.get(id, ())), misfits)
        )
    counts: dict[str, int] = {}
    for member, _, _, _, count in waiting:
        counts[member] = counts.get(member, 0) + count
    return QueueState(tuple(workers), counts)
