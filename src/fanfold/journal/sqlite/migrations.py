"""The store's schema, as numbered steps. Never edit a step that has shipped; append one."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable

from fanfold.errors import StoreError
from fanfold.journal.sqlite import checksum
from fanfold.journal.sqlite.bulk import Database
from fanfold.journal.sqlite.sums import CHECKED, FIRST_COLUMNS, FIRST_SUMS

_DRAFT = "the store was made by a draft of fanfold; use another --store DIR"


def draft(db: sqlite3.Connection) -> None:
    """The schema before this one; it was never released, and nothing is carried over from it."""
    if db.execute("select 1 from sqlite_master where name = 'runs'").fetchone():
        raise StoreError(_DRAFT)


def first(db: sqlite3.Connection) -> None:
    """Runs, planned items, replies by content, attempts with their claims, outcomes.

    A reply that serves only its own run (of a function, say) stands in its outcome's row: one row
    instead of two and an index. All others are filed once under their key.

    Claims are the attempts under way or in doubt, by key; there are never many of them.
    `key8` (the first eight bytes of a key) is what is indexed: a narrow index of integers keeps
    the cost of a random insert low when there are millions. `spending` has the members with a
    monthly budget.
    """
    draft(db)
    for statement in (
        """create table runs (
            no integer primary key, id text not null unique, name text not null,
            status text not null, reason text, created real not null, ended real,
            session text not null, plan blob not null, folder text not null, budget blob not null,
            active real not null default 0, result blob, first_attempt integer not null,
            parent text)""",
        "create index runs_by_name on runs (name, no)",
        "create index runs_by_parent on runs (parent) where parent is not null",
        """create table steps (
            run integer not null, no integer not null, name text not null,
            primary key (run, no)) without rowid""",
        """create table batches (
            run integer not null, no integer not null, name text not null,
            fingerprint text not null, size integer not null, last_step integer not null,
            primary key (run, no)) without rowid""",
        """create table items (
            run integer not null, batch integer not null, position integer not null,
            id text not null, hash blob not null,
            primary key (run, batch, position)) without rowid""",
        """create table replies (
            no integer primary key, key8 integer not null, key blob not null,
            answerer text not null, member text not null, run integer not null,
            private integer not null, reply blob, blob blob, cost integer not null, at real not null)""",
        "create index replies_by_key on replies (key8)",
        "create table blobs (hash blob primary key, data blob not null) without rowid",
        """create table attempts (
            no integer primary key, run integer not null, step integer not null,
            session text not null, member text not null, answerer text not null,
            state text not null, ids blob not null, reserved integer not null,
            tokens integer not null, cost integer not null,
            input integer not null default 0, output integer not null default 0,
            cache_read integer not null default 0, cache_write integer not null default 0,
            started real not null, ended real, error text, why text not null,
            repeats integer not null default 0, repeated integer not null default 0,
            again integer not null default 0)""",
        """create table unplaced (
            run integer not null, step integer not null, member text not null,
            calls integer not null, primary key (run, step, member)) without rowid""",
        """create table claims (
            key blob not null, answerer text not null, attempt integer not null,
            primary key (key, answerer, attempt)) without rowid""",
        """create table spending (
            member text not null, month text not null, settled integer not null,
            reserved integer not null, primary key (member, month)) without rowid""",
        """create table cascades (
            run integer not null, step integer not null, members text not null,
            price text not null, primary key (run, step)) without rowid""",
        """create table outcomes (
            run integer not null, batch integer not null, position integer not null,
            step integer not null, state text not null, reply integer, reasons text,
            member text, cost integer not null, calls integer not null,
            key blob, answerer text, body blob,
            primary key (run, batch, position, step)) without rowid""",
    ):
        db.execute(statement)


def unusable_usage(db: sqlite3.Connection) -> None:
    """What is wrong with the usage that a reply reported; empty where nothing is."""
    db.execute("alter table attempts add column unusable text not null default ''")


def identified(db: sqlite3.Connection) -> None:
    """A store is told from another that stood at the same place: marks and side files name it."""
    db.execute("create table store (id text not null)")
    db.execute("insert into store values (lower(hex(randomblob(8))))")


def marks_of_judging(db: sqlite3.Connection) -> None:
    """Replies that a gate of the user's is judging, by the session that does it."""
    db.execute(
        """create table judging (
            run integer not null, key blob not null, session text not null,
            primary key (run, key, session)) without rowid"""
    )


def cost_bounds(db: sqlite3.Connection) -> None:
    """`bound`: what an attempt counts as is the most it can have cost, not what it was billed."""
    db.execute("alter table attempts add column bound integer not null default 0")
    db.execute("update attempts set bound = 1 where state = 'in_doubt'")


def checksums(db: sqlite3.Connection) -> None:
    """Of what results are made of. Rows that are there already have none."""
    for table in ("runs", "items", "replies", "outcomes"):
        db.execute(f"alter table {table} add column crc integer")
    db.execute("alter table outcomes add column body_crc integer")


def durations(db: sqlite3.Connection) -> None:
    """How long an attempt took, by a clock that does not jump; null where nobody knows. And how long
    a run's process has been active so far, for when it dies before it can say so."""
    db.execute("alter table attempts add column took real")
    db.execute(
        "update attempts set took = max(0, ended - started) where ended is not null"
        " and state <> 'started' and error is not 'the process died'"
    )
    db.execute("create table beats (run integer primary key, active real not null)")


def prompts(db: sqlite3.Connection) -> None:
    """Requests as they were sent, of runs that keep them (`keep: prompts`)."""
    db.execute(
        """create table prompts (
            no integer primary key, run integer not null, step integer not null, id text not null,
            member text not null, key blob not null, messages blob not null)"""
    )
    db.execute("create index prompts_by_item on prompts (run, id)")


def hedges_and_losses(db: sqlite3.Connection) -> None:
    """Of which attempt another is a hedge (0: of one that nobody knows), and how it was lost. Texts
    of earlier versions said so; they are read here once, and nowhere else."""
    db.execute("alter table attempts add column hedge_of integer")
    db.execute("alter table attempts add column lost text not null default ''")
    db.execute(
        "update attempts set hedge_of = coalesce((select b.no from attempts b where b.no < attempts.no"
        " and b.run = attempts.run and b.step = attempts.step and b.ids = attempts.ids"
        " and b.why not like 'hedge%' order by b.no desc limit 1), 0) where why like 'hedge%'"
    )
    for lost, error in (
        ("died", "the process died"),
        ("cancelled", "cancelled before it was sent"),
        ("unsent", "not needed any more, and not sent"),
    ):
        db.execute("update attempts set lost = ? where error = ?", (lost, error))


def log_of_commits(db: sqlite3.Connection) -> None:
    """One row for each commit, for processes that follow. Numbers are never given out again, so that
    a follower can tell that rows are gone."""
    db.execute(
        """create table log (
            position integer primary key autoincrement, at real not null, facts blob not null)"""
    )


def orders(db: sqlite3.Connection) -> None:
    """What operators want of a run, and what came of it."""
    db.execute(
        """create table orders (
            no integer primary key, run integer not null, at real not null, by text not null,
            what text not null, value text not null, state text not null default 'given',
            answered real, said text not null default '')"""
    )
    db.execute("create index orders_by_run on orders (run, state)")


def notable_outcomes(db: sqlite3.Connection) -> None:
    """To find the few items among a million that did not pass."""
    db.execute(
        "create index outcomes_notable on outcomes (run, state, batch, position)"
        " where state <> 'passed'"
    )


_BUDGET = re.compile(r"out of budget: (dollars|tokens|calls|seconds) of the (?:run|step (.+?)): ")
_ALLOWED = re.compile(r" with (?:--yes|--cap (\d+))\b")


def stop_causes(db: sqlite3.Connection) -> None:
    """What a run lacked when it stopped. Reasons of earlier versions said so; they are read here once,
    and nowhere else."""
    db.execute("alter table runs add column cause text")
    for no, reason in db.execute(
        "select no, reason from runs where reason is not null and status <> 'removed'"
    ).fetchall():
        cause: dict[str, object] = {}
        if found := _BUDGET.match(reason):
            currency = "usd" if found[1] == "dollars" else found[1]
            cause = {"kind": "budget", "currency": currency, "step": found[2] or ""}
        elif "budget of the month" in reason:
            cause = {"kind": "monthly_budget"}
        elif found := _ALLOWED.search(reason):
            cause = {"kind": "cap", "cap": int(found[1])} if found[1] else {"kind": "approval"}
        if cause:
            db.execute("update runs set cause = ? where no = ?", (json.dumps(cause), no))


def ends_by_parents(db: sqlite3.Connection) -> None:
    """Items that were not tried, since one that they depend on did not pass."""
    db.execute("alter table outcomes add column by_parent integer not null default 0")
    db.execute(
        "update outcomes set by_parent = 1 where reasons like '[\"parent: %' and not exists"
        " (select 1 from json_each(outcomes.reasons) where value not like 'parent: %')"
    )


def notes_of_steps(db: sqlite3.Connection) -> None:
    """What reports say of a step beside its account."""
    db.execute("alter table steps add column note text not null default ''")


def queued_attempts(db: sqlite3.Connection) -> None:
    """Which queue an ask was put into, whose rows say what became of it."""
    db.execute("alter table attempts add column queue text not null default ''")


def prompt_caches(db: sqlite3.Connection) -> None:
    """Of an attempt: tokens that could be read from a cache, and what that saved."""
    db.execute("alter table attempts add column shared integer not null default 0")
    db.execute("alter table attempts add column saved integer not null default 0")


def sums_of_attempts(db: sqlite3.Connection) -> None:
    """What attempts cost, added up by run, step and member; see `sums`."""
    columns = ", ".join(f"{name} integer not null" for name in FIRST_COLUMNS)
    db.execute(
        f"create table sums (run integer not null, step integer not null, member text not null, {columns},"
        " primary key (run, step, member)) without rowid"
    )
    db.execute(FIRST_SUMS)


def queued_shards(db: sqlite3.Connection) -> None:
    """Of an ask about several items in a queue: the key of each, and how its reply becomes theirs."""
    db.execute("alter table attempts add column shard text")


def waits_of_calls(db: sqlite3.Connection) -> None:
    """Why calls of a run that is under way wait."""
    db.execute(
        "create table waits (run integer primary key, at real not null, waits blob not null)"
    )


def tags_of_runs(db: sqlite3.Connection) -> None:
    db.execute("alter table runs add column tags text not null default '[]'")


def attached_files(db: sqlite3.Connection) -> None:
    """Which files went with asks of a run; what is in them is among the blobs."""
    db.execute(
        """create table attached (
            run integer not null, name text not null, hash blob not null,
            primary key (run, name)) without rowid"""
    )


def submissions(db: sqlite3.Connection) -> None:
    """Batches at the services of members, and which attempts are in them."""
    db.execute("alter table attempts add column submission integer not null default 0")
    db.execute("create index attempts_submitted on attempts (submission) where submission <> 0")
    db.execute(
        """create table submissions (
            no integer primary key, run integer not null, step integer not null, id text not null,
            member text not null, service text not null default '',
            state text not null default 'claimed', lines integer not null,
            claimed real not null, at real not null default 0,
            due real, reading blob not null)"""
    )
    db.execute("create index submissions_by_run on submissions (run)")


SHARES = """
create table sharers (
    run {integer} not null, session {text} not null, joined {integer} not null, low {integer} not null,
    high {integer} not null, wants {integer} not null, gone {integer} not null, stop {blob} not null,
    counts {blob} not null, primary key (run, session)){keyed};
create table divisions (
    run {integer} primary key, lead {text} not null, batch {integer} not null, step {integer} not null,
    size {integer} not null, unit {integer} not null, next {integer} not null, state {blob} not null);
create table ranges (
    run {integer} not null, first {integer} not null, after {integer} not null, session {text} not null,
    done {integer} not null, primary key (run, first)){keyed};
"""


def shares_of_runs(db: sqlite3.Connection) -> None:
    """Processes that carry out one run together, and who of them works on which positions."""
    for statement in SHARES.format(
        integer="integer", text="text", blob="blob", keyed=" without rowid"
    ).split(";")[:-1]:
        db.execute(statement)


def unplaced_attempts(db: sqlite3.Connection) -> None:
    """Which attempts were asks about an item that do not end it: a vote, a judge's."""
    db.execute("alter table attempts add column unplaced integer not null default 0")


FIRST_SUMMED = ("id", "name", "folder", "plan", "budget", "result", "parent")
FIRST_HEAD = "run, batch, position, step, state, reply, reasons, member, cost, calls, key, answerer, body_crc"
_WITH_CRC = (
    "attempts", "claims", "judging", "steps", "batches", "cascades", "beats", "waits", "prompts",
    "attached", "orders", "submissions", "sharers", "divisions", "ranges", "store",
)  # fmt: skip


def reseal(db: Database) -> None:
    """Runs, and outcomes by a parent: their checksum was not of all columns. One that is damaged stays so.
    Sums that are added to."""
    of = checksum.of
    columns = f"no, crc, {', '.join(FIRST_SUMMED)}"
    for no, crc, *row in db.execute(f"select {columns} from runs where crc is not null").fetchall():
        if crc == of(*row):
            checksum.sum_up_run(db, no)
    seal = "update outcomes set crc = ? where run = ? and batch = ? and position = ? and step = ?"
    rows = db.execute(f"select crc, {FIRST_HEAD} from outcomes where by_parent = 1").fetchall()
    for crc, *row in rows:
        if crc == of(*row):
            db.execute(seal, (of(*row, 1), *row[:4]))
    db.execute(f"update sums set checked = {CHECKED}")
    for member, month, settled, reserved in db.execute(
        "select member, month, settled, reserved from spending"
    ).fetchall():
        checked = of(member, month) + 3 * settled + 5 * reserved
        seal = "update spending set checked = ? where member = ? and month = ?"
        db.execute(seal, (checked, member, month))
    for *key, calls in db.execute("select run, step, member, calls from unplaced").fetchall():
        seal = "update unplaced set checked = ? where run = ? and step = ? and member = ?"
        db.execute(seal, (of(*key) + calls, *key))
    db.execute("delete from log")  # it had no checksums; followers read the tables again


def checksums_of_all(db: sqlite3.Connection) -> None:
    """Of what is counted and decided upon. Rows that are there already have none, but for those that are
    sums. The store's own name is sealed when it is first opened to write."""
    for table in _WITH_CRC:
        db.execute(f"alter table {table} add column crc integer")
    db.execute("alter table attempts add column end_crc integer")
    for table in ("sums", "spending", "unplaced"):
        db.execute(f"alter table {table} add column checked integer")
    reseal(db)


MIGRATIONS: list[Callable[[sqlite3.Connection], None]] = [
    draft,
    first,
    unusable_usage,
    identified,
    marks_of_judging,
    cost_bounds,
    checksums,
    durations,
    prompts,
    hedges_and_losses,
    log_of_commits,
    orders,
    notable_outcomes,
    stop_causes,
    ends_by_parents,
    notes_of_steps,
    queued_attempts,
    prompt_caches,
    sums_of_attempts,
    queued_shards,
    waits_of_calls,
    tags_of_runs,
    attached_files,
    submissions,
    shares_of_runs,
    unplaced_attempts,
    checksums_of_all,
]
