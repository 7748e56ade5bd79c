"""The schema on PostgreSQL, as numbered steps. Never edit a step that has shipped; append one.

Texts compare by their bytes, as in SQLite, whatever the server's collation is.
"""

from __future__ import annotations

from collections.abc import Callable

from fanfold.journal.postgres.connection import PostgresConnection
from fanfold.journal.postgres.dialect import translate
from fanfold.journal.sqlite.migrations import SHARES, reseal
from fanfold.journal.sqlite.sums import FIRST_COLUMNS, FIRST_SUMS

_FIRST = """
create table runs (
    no bigint primary key, id text collate "C" not null unique, name text collate "C" not null,
    status text collate "C" not null, reason text collate "C", created float8 not null, ended float8,
    session text collate "C" not null, plan bytea not null, folder text collate "C" not null,
    budget bytea not null,
    active float8 not null default 0, result bytea, first_attempt bigint not null,
    parent text collate "C", crc bigint, cause text collate "C");
create index runs_by_name on runs (name, no);
create index runs_by_parent on runs (parent) where parent is not null;
create table steps (
    run bigint not null, no bigint not null, name text collate "C" not null,
    note text collate "C" not null default '', primary key (run, no));
create table batches (
    run bigint not null, no bigint not null, name text collate "C" not null,
    fingerprint text collate "C" not null, size bigint not null, last_step bigint not null,
    primary key (run, no));
create table items (
    run bigint not null, batch bigint not null, position bigint not null,
    id text collate "C" not null, hash bytea not null, crc bigint, primary key (run, batch, position));
create table replies (
    no bigint primary key, key8 bigint not null, key bytea not null,
    answerer text collate "C" not null, member text collate "C" not null, run bigint not null,
    private bigint not null, reply bytea, "blob" bytea, cost bigint not null, at float8 not null,
    crc bigint);
create index replies_by_key on replies (key8);
create table blobs (hash bytea primary key, data bytea not null);
create table attempts (
    no bigint primary key, run bigint not null, step bigint not null,
    session text collate "C" not null, member text collate "C" not null,
    answerer text collate "C" not null,
    state text collate "C" not null, ids bytea not null, reserved bigint not null,
    tokens bigint not null, cost bigint not null,
    input bigint not null default 0, output bigint not null default 0,
    cache_read bigint not null default 0, cache_write bigint not null default 0,
    started float8 not null, ended float8, error text collate "C", why text collate "C" not null,
    repeats bigint not null default 0, repeated bigint not null default 0,
    again bigint not null default 0, unusable text collate "C" not null default '',
    bound bigint not null default 0, took float8, hedge_of bigint,
    lost text collate "C" not null default '');
create index attempts_by_run on attempts (run, no);
create table unplaced (
    run bigint not null, step bigint not null, member text collate "C" not null,
    calls bigint not null, primary key (run, step, member));
create table claims (
    key bytea not null, answerer text collate "C" not null, attempt bigint not null,
    primary key (key, answerer, attempt));
create index claims_by_attempt on claims (attempt);
create table spending (
    member text collate "C" not null, month text collate "C" not null, settled bigint not null,
    reserved bigint not null, primary key (member, month));
create table cascades (
    run bigint not null, step bigint not null, members text collate "C" not null,
    price text collate "C" not null, primary key (run, step));
create table outcomes (
    run bigint not null, batch bigint not null, position bigint not null,
    step bigint not null, state text collate "C" not null, reply bigint, reasons text collate "C",
    member text collate "C", cost bigint not null, calls bigint not null,
    key bytea, answerer text collate "C", body bytea, crc bigint, body_crc bigint,
    by_parent bigint not null default 0, primary key (run, batch, position, step));
create index outcomes_notable on outcomes (run, state, batch, position) where state <> 'passed';
create index outcomes_by_reply on outcomes (reply) where reply is not null;
create table judging (
    run bigint not null, key bytea not null, session text collate "C" not null,
    primary key (run, key, session));
create table beats (run bigint primary key, active float8 not null);
create table prompts (
    no bigint primary key, run bigint not null,
    step bigint not null, id text collate "C" not null, member text collate "C" not null,
    key bytea not null,
    messages bytea not null);
create index prompts_by_item on prompts (run, id);
create table log (position bigint primary key, at float8 not null, facts bytea not null);
create table orders (
    no bigint primary key, run bigint not null, at float8 not null, by text collate "C" not null,
    what text collate "C" not null, value text collate "C" not null,
    state text collate "C" not null default 'given',
    answered float8, said text collate "C" not null default '');
create index orders_by_run on orders (run, state);
create table sessions (
    id text collate "C" primary key, machine text collate "C" not null, owner bytea not null,
    until float8 not null);
create table writers (id text collate "C" primary key, number bigint not null, at float8 not null,
    answers bytea not null);
create table store (
    id text collate "C" not null, version bigint not null, position bigint not null,
    lease float8 not null);
"""


def first(db: PostgresConnection) -> None:
    """All that a store has. `sessions`: who is alive, until when by the server's clock. `writers`: the
    last commit of each open store, with its answers, for one that lost its connection meanwhile."""
    db.script(_FIRST)


_QUEUE = """
alter table attempts add column queue text collate "C" not null default '';
create table asks (
    no bigint generated always as identity, span text collate "C" primary key,
    owner text collate "C" not null, member text collate "C" not null default '',
    answerer text collate "C" not null default '', tags text[] not null default '{}',
    wire bigint not null default 0, state text collate "C" not null,
    worker text collate "C" not null default '', cancel text not null default '',
    at float8 not null, request bytea not null default '', answer bytea not null default '');
create index asks_queued on asks (no) where state = 'queued';
create index asks_by_owner on asks (owner, state);
create index asks_by_worker on asks (worker) where state = 'taken';
create table workers (
    id text collate "C" primary key, host text not null, pid bigint not null, slots bigint not null,
    tags text[] not null, wire bigint not null, version text not null, members bytea not null,
    since float8 not null);
"""


def queue(db: PostgresConnection) -> None:
    """Asks for workers, each with its answer until that is on record; the workers."""
    db.script(_QUEUE)


def prompt_caches(db: PostgresConnection) -> None:
    """Of an attempt: tokens that could be read from a cache, and what that saved."""
    db.script(
        "alter table attempts add column shared bigint not null default 0;"
        "alter table attempts add column saved bigint not null default 0"
    )


def sums_of_attempts(db: PostgresConnection) -> None:
    """As in SQLite; see `sums`."""
    columns = ", ".join(f"{name} bigint not null" for name in FIRST_COLUMNS)
    db.script(
        f"""create table sums (run bigint not null, step bigint not null, member text collate "C" not null,
            {columns}, primary key (run, step, member));"""
    )
    db.script(translate(FIRST_SUMS).text)


def queued_shards(db: PostgresConnection) -> None:
    """As in SQLite."""
    db.script("alter table attempts add column shard text")


def agent_files(db: PostgresConnection) -> None:
    """Files of agents that workers have, in pieces, for runs that look at them; messages to agents."""
    db.script(
        """create table pieces (
            span text collate "C" not null, name text collate "C" not null, at bigint not null,
            data bytea not null, primary key (span, name, at));
        create table messages (
            span text collate "C" not null, number bigint not null, text text not null,
            state text not null default 'waiting', primary key (span, number));"""
    )


def waits_of_calls(db: PostgresConnection) -> None:
    """Why calls of a run that is under way wait."""
    db.script(
        "create table waits (run bigint primary key, at float8 not null, waits bytea not null)"
    )


def tags_of_runs(db: PostgresConnection) -> None:
    db.script("alter table runs add column tags text collate \"C\" not null default '[]'")


def attached_files(db: PostgresConnection) -> None:
    """As in SQLite."""
    db.script(
        """create table attached (
            run bigint not null, name text collate "C" not null, hash bytea not null,
            primary key (run, name));"""
    )


_SUBMISSIONS = """
alter table attempts add column submission bigint not null default 0;
create index attempts_submitted on attempts (submission) where submission <> 0;
create table submissions (
    no bigint primary key, run bigint not null, step bigint not null, id text collate "C" not null,
    member text collate "C" not null, service text collate "C" not null default '',
    state text collate "C" not null default 'claimed', lines bigint not null,
    claimed float8 not null, at float8 not null default 0, due float8,
    reading bytea not null);
create index submissions_by_run on submissions (run);
"""


def submissions(db: PostgresConnection) -> None:
    """Batches at the services of members, and which attempts are in them."""
    db.script(_SUBMISSIONS)


def carried_files(db: PostgresConnection) -> None:
    """What is in files of asks for workers, by hash; and, with the span of an ask, of its answer."""
    db.script(
        """create table carried (
            span text collate "C" not null, hash text collate "C" not null, at float8 not null,
            content bytea not null, primary key (span, hash));"""
    )


def shares_of_runs(db: PostgresConnection) -> None:
    """As in SQLite."""
    db.script(SHARES.format(integer="bigint", text='text collate "C"', blob="bytea", keyed=""))


def unplaced_attempts(db: PostgresConnection) -> None:
    """As in SQLite."""
    db.script("alter table attempts add column unplaced bigint not null default 0;")


def checksums_of_all(db: PostgresConnection) -> None:
    """As in SQLite, but for tables that triggers seal there: the server has checksums of its own."""
    for table, column in (
        ("attempts", "crc"), ("attempts", "end_crc"), ("claims", "crc"), ("judging", "crc"),
        ("sums", "checked"), ("spending", "checked"), ("unplaced", "checked"),
    ):  # fmt: skip
        db.script(f"alter table {table} add column {column} bigint")
    reseal(db)


MIGRATIONS: list[Callable[[PostgresConnection], None]] = [
    first,
    queue,
    prompt_caches,
    sums_of_attempts,
    queued_shards,
    agent_files,
    waits_of_calls,
    tags_of_runs,
    attached_files,
    submissions,
    carried_files,
    shares_of_runs,
    unplaced_attempts,
    checksums_of_all,
]
