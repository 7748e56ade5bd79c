"""Whole tables, for copies and checks: which there are, and their rows in the order of their keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from fanfold.journal.sqlite.sums import COLUMNS as SUM_COLUMNS
from fanfold.journal.sqlite.trouble import Ask

PAGE = 500


class TableColumns(NamedTuple):
    """The first `key` columns are the table's key."""

    columns: str
    key: int


TABLES = {
    "steps": TableColumns("run, no, name, note", 2),
    "batches": TableColumns("run, no, name, fingerprint, size, last_step", 2),
    "items": TableColumns("run, batch, position, id, hash, crc", 3),
    "blobs": TableColumns("hash, data", 1),
    "replies": TableColumns(
        "no, key8, key, answerer, member, run, private, reply, blob, cost, at, crc", 1
    ),
    "attempts": TableColumns(
        "no, run, step, session, member, answerer, state, ids, reserved, tokens, cost, input, output,"
        " cache_read, cache_write, started, ended, error, why, repeats, repeated, again, unusable, bound,"
        " took, hedge_of, lost, queue, shared, saved, shard, submission, unplaced", 1,
    ),
    "sums": TableColumns(f"run, step, member, {SUM_COLUMNS}", 3),
    "claims": TableColumns("key, answerer, attempt", 3),
    "spending": TableColumns("member, month, settled, reserved", 2),
    "outcomes": TableColumns(
        "run, batch, position, step, state, reply, reasons, member, cost, calls, key, answerer, body,"
        " crc, body_crc, by_parent", 4,
    ),
    "unplaced": TableColumns("run, step, member, calls", 3),
    "cascades": TableColumns("run, step, members, price", 2),
    "judging": TableColumns("run, key, session", 3),
    "beats": TableColumns("run, active", 1),
    "waits": TableColumns("run, at, waits", 1),
    "prompts": TableColumns("no, run, step, id, member, key, messages", 1),
    "attached": TableColumns("run, name, hash", 2),
    "orders": TableColumns("no, run, at, by, what, value, state, answered, said", 1),
    "submissions": TableColumns(
        "no, run, step, id, member, service, state, lines, claimed, at, due, reading", 1
    ),
    "sharers": TableColumns("run, session, joined, low, high, wants, gone, stop, counts", 2),
    "divisions": TableColumns("run, lead, batch, step, size, unit, next, state", 1),
    "ranges": TableColumns("run, first, after, session, done", 2),
    "runs": TableColumns(
        "no, id, name, status, reason, created, ended, session, plan, folder, budget, active, result,"
        " first_attempt, parent, crc, cause, tags", 1,
    ),
}  # fmt: skip
"""All that a copy has. The runs come last: a store without them counts as empty."""


class TableRows:
    _execute: Ask
    flaws: Callable[[], list[str]]
    """What is wrong with the database itself."""

    def lacking_replies(self) -> int:
        """How many outcomes point to a reply that is not there."""
        question = (
            "select count(*) from outcomes o where o.reply is not null and not exists"
            " (select 1 from replies r where r.no = o.reply)"
        )
        return int(self._execute(question).fetchone()[0])

    def rows(self, table: str) -> Iterator[tuple[Any, ...]]:
        columns, width = TABLES[table]
        key = ", ".join(columns.split(", ")[:width])
        question = f"select {columns} from {table} {{}} order by {key} limit {PAGE}"
        page = self._execute(question.format("")).fetchall()
        while page:
            yield from map(tuple, page)
            places = ", ".join("?" * width)
            later = question.format(f"where ({key}) > ({places})")
            page = self._execute(later, tuple(page[-1][:width])).fetchall()
