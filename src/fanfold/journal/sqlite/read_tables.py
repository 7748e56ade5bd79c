"""Whole tables, for copies and checks: which there are, and their rows in the order of their keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from fanfold.errors import StoreError
from fanfold.journal.sqlite.sums import COLUMNS as SUM_COLUMNS
from fanfold.journal.sqlite.sums import GROUPS, SUMS, WHOLE
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
        " took, hedge_of, lost, queue, shared, saved, shard, submission, unplaced, crc, end_crc", 1,
    ),
    "sums": TableColumns(f"run, step, member, {SUM_COLUMNS}", 3),
    "claims": TableColumns("key, answerer, attempt, crc", 3),
    "spending": TableColumns("member, month, settled, reserved, checked", 2),
    "outcomes": TableColumns(
        "run, batch, position, step, state, reply, reasons, member, cost, calls, key, answerer, body,"
        " crc, body_crc, by_parent", 4,
    ),
    "unplaced": TableColumns("run, step, member, calls, checked", 3),
    "cascades": TableColumns("run, step, members, price", 2),
    "judging": TableColumns("run, key, session, crc", 3),
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
_STEP = "not exists (select 1 from steps o where o.run = t.run and o.no = t.step)"
_RUN = "not exists (select 1 from runs o where o.no = t.run)"
REFERENCES = (
    ("outcomes", "replies", "t.reply is not null and not exists"
     " (select 1 from replies o where o.no = t.reply)"),
    ("outcomes", "steps", _STEP),
    ("outcomes", "items", "not exists (select 1 from items o"
     " where o.run = t.run and o.batch = t.batch and o.position = t.position)"),
    ("attempts", "steps", _STEP),
    ("sums", "attempts", "not exists (select 1 from attempts o"
     " where o.run = t.run and o.step = t.step and o.member = t.member)"),
    ("batches", "items", "t.size <> (select count(*) from items o"
     " where o.run = t.run and o.batch = t.no)"),
    ("steps", "runs", _RUN),
    ("batches", "runs", _RUN),
)  # fmt: skip
"""Rows of the first name rows of the second: where they do not find them."""


_OF_ALL = f"{WHOLE} {GROUPS}"
_OF_RUN = f"{WHOLE} and run = ?1 and no >= (select first_attempt from runs where no = ?1) {GROUPS}"
_RECORDED = f"select run, step, member, {SUM_COLUMNS} from sums"


def wrong_sums(ask: Ask, run: int | None = None) -> list[tuple[int, int, str]]:
    """Run, step and member whose sums are not what the attempts add up to; of one run, or of all."""
    given = () if run is None else (run,)
    real = {row[:3]: row[3:] for row in map(tuple, ask(_OF_RUN if given else _OF_ALL, given))}
    which = " where run = ?" if given else ""
    told = {row[:3]: row[3:] for row in map(tuple, ask(_RECORDED + which, given))}
    nothing = (0,) * (len(SUMS) - 1)
    return [
        key for key in {**real, **told}
        if tuple(map(int, real.get(key, nothing)[: len(nothing)])) != told.get(key, nothing)[: len(nothing)]
    ]  # fmt: skip


class TableRows:
    _execute: Ask
    flaws: Callable[[], list[str]]
    """What is wrong with the database itself."""

    def lacking(self) -> Iterator[tuple[str, int, str]]:
        """Tables that name rows of another which are not there: how many, and of which. A page that is
        blank, or another's, leaves no other trace."""
        for table, other, named in REFERENCES:
            question = (
                f"select count(*) from {table} t where {named} and not exists"
                " (select 1 from runs r where r.no = t.run and r.status = 'removed')"
            )
            if many := int(self._execute(question).fetchone()[0]):
                yield table, many, other

    def wrong_sums(self) -> list[tuple[int, int, str]]:
        return wrong_sums(self._execute)

    def rows(self, table: str) -> Iterator[tuple[Any, ...]]:
        """Trap: of a damaged tree, what is behind a row may be before it; that would go on for ever."""
        columns, width = TABLES[table]
        key = ", ".join(columns.split(", ")[:width])
        question = f"select {columns} from {table} {{}} order by {key} limit {PAGE}"
        later = question.format(f"where ({key}) > ({', '.join('?' * width)})")
        page, ends = self._execute(question.format("")).fetchall(), set[tuple[Any, ...]]()
        while page:
            yield from map(tuple, page)
            end = tuple(page[-1][:width])
            if end in ends:
                raise StoreError(f"the store: {table} is damaged: out of order; restore a copy")
            ends.add(end)
            page = self._execute(later, end).fetchall()
