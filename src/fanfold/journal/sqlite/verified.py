"""Statements on a store in a file, whose rows are verified before anything is told of them.

What a question adds up, the database adds up, which knows nothing of checksums. So all rows of a run are
verified when it is first asked about, once for each connection: what this process or another writes
afterwards comes out of memory. Attempts and results of larger runs than `MOST`, and of those in a list that
have more than `LISTED` together, are verified only by `fanfold store check`, pages and indexes of larger
stores than `SMALL` too.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from fanfold.errors import StoreDamaged, StoreError
from fanfold.journal.answers import DAMAGE
from fanfold.journal.sqlite import sums
from fanfold.journal.sqlite.attempts import key8
from fanfold.journal.sqlite.read_tables import TABLES, wrong_sums
from fanfold.journal.sqlite.sealing import (
    ATTEMPT,
    HOLDS,
    SEALED,
    attempt_holds,
    last_holds,
    sealed_columns,
)
from fanfold.journal.sqlite.stored import (
    ITEM,
    OUTCOME,
    REPLY,
    RUN,
    head_is_sound,
    item_is_sound,
    kept_in,
    reply_is_sound,
    run_in,
)
from fanfold.journal.sqlite.trouble import Statements

MOST = 50_000  # planned items, or attempts, of a run
LISTED = 5_000  # of all further runs together that one connection is asked about
SMALL = 1_000  # pages
_encode = msgspec.json.Encoder().encode
_BOOKS = ("runs", "steps", "batches", "attempts", "sums", "orders", "submissions", "claims")
_RESULTS = ("items", "outcomes")
_RUN_COLUMNS = ("run", "i.run", "o.run")
_ENDED = ("complete", "flagged")
_USED = (
    f"select {REPLY.replace('b.data', 'null')}, o.position from outcomes o left join replies r"
    " on r.no = o.reply where o.run = ? and o.reply is not null"
)
_REMEDY = "restore a copy, or run the plan again: replies are reused"


class CheckedStatements(Statements):
    """`results`: also items, outcomes and replies, where a question adds them up. A run that goes on finds
    those that are damaged itself, and has them made again."""

    def __init__(self, db: sqlite3.Connection, file: Path, *, results: bool) -> None:
        super().__init__(db, file)
        self._results = results
        self._sound: set[tuple[int, bool]] = set()  # runs, and whether with their results
        self._looked_at: set[str] = set()  # tables whose pages are sound
        self._bad: set[int] | None = None  # attempts of a small store
        self._bad_rows: dict[str, list[Any]] = {}  # of a small store, by table
        self._first, self._listed = 0, 0  # the run that was asked about first; rows of the others

    def verify(self, run: int, results: bool = False) -> None:
        wanted = run, results and self._results
        if wanted in self._sound:
            return
        try:
            with self._one_state():
                if not run:
                    there = self._check_store()
                else:
                    there = self._check_results(run) if wanted[1] else self._check_books(run)
        except DAMAGE as error:
            raise self._damaged("a record") from error
        if there:
            self._sound.add(wanted)

    def damaged_attempts(self, numbers: Sequence[int]) -> set[int]:
        """In a small store all: the number may be what is damaged."""
        if self._small():
            if self._bad is None:
                rows = self.execute(f"select {ATTEMPT} from attempts")
                self._bad = {row[0] for row in rows if not attempt_holds(row)}
            return self._bad
        question = f"select {ATTEMPT} from attempts where no in (select value from json_each(?))"
        rows = self.execute(question, (_encode(numbers).decode(),))
        return {row[0] for row in rows if not attempt_holds(row)}

    def flaws(self) -> list[str]:
        """Of the pages, and of rows that only this kind of store has checksums of."""
        found = super().flaws()
        for table in SEALED:
            rows = self.execute(f"select {sealed_columns(table)} from {table}")
            many = sum(not last_holds(row) for row in rows)
            found += [f"{many} rows of {table} are damaged"] if many else []
        return found

    @contextmanager
    def _one_state(self) -> Iterator[None]:
        """Others may write meanwhile."""
        if self._db.in_transaction:
            yield
            return
        self.execute("begin")
        try:
            yield
        finally:
            self.execute("rollback")

    # ── what a run took ──

    def _check_books(self, run: int) -> bool:
        """Whether there is such a run."""
        self._check_pages(_BOOKS)
        row = self.execute(f"select {RUN} from runs where no = ?", (run,)).fetchone()
        if row is None and self._is_named(run):
            raise self._damaged(f"the record of run {run}")
        if row is None or row[3] == "removed":
            return row is not None
        run_in(row)
        self._check_below(row[1])
        self._check_store()
        for table in SEALED:
            self._check_of(run, table, sealed_columns(table), last_holds, f"a row of {table}")
        for table in ("judging", "unplaced"):
            columns, holds = TABLES[table].columns, HOLDS[table]
            self._check_of(run, table, columns, holds, f"a row of {table}")
        self._check_attempts_of(run)
        return True

    def _check_below(self, id: str) -> None:
        """One whose record is damaged may be below this run: where its parent is, or is nearly, this one."""
        question = f"select {RUN}, parent from runs where parent || '' <> ''"
        for *row, parent in self.execute(question) if self._small() else ():
            others = sum(one != other for one, other in zip(str(parent), id, strict=False))
            if others <= 1:
                run_in(row)

    def _is_named(self, run: int) -> bool:
        """Whether a step or a batch is of a run."""
        both = "select 1 from steps where run = ?1 union all select 1 from batches where run = ?1"
        return self.execute(both, (run,)).fetchone() is not None

    def _check_store(self) -> bool:
        """What is of no run; and, of a small store, whether replies are found by their keys."""
        if (0, False) in self._sound:
            return True
        self._check_pages(_BOOKS)
        for table in ("claims", "spending"):
            self._check(
                f"select {TABLES[table].columns} from {table}",
                (),
                HOLDS[table],
                f"a row of {table}",
            )
        if self._small():
            keys = "select key8, key from replies where key <> x''"
            self._check(keys, (), lambda row: row[0] == key8(row[1]), "the key of a reply")
        self._sound.add((0, False))
        return True

    def _check_attempts_of(self, run: int) -> None:
        whole = f"select {sums.COLUMNS} from sums where run = ?"
        self._check(whole, (run,), _sum_holds, "a row of sums")
        (calls,) = self.execute("select total(calls) from sums where run = ?", (run,)).fetchone()
        if not self._may_verify(run, calls):
            return
        question = (
            f"select {ATTEMPT} from attempts where run = ?1"
            " and no >= (select first_attempt from runs where no = ?1)"
        )
        self._check(question, (run,), attempt_holds, "an attempt")
        if wrong_sums(self.execute, run):
            raise self._damaged("an attempt, or a sum of them,")

    # ── what came of it ──

    def _check_results(self, run: int) -> bool:
        self.verify(run)
        row = self.execute("select status from runs where no = ?", (run,)).fetchone()
        planned = self.execute(
            "select coalesce(sum(size), 0) from batches where run = ?", (run,)
        ).fetchone()[0]
        if row is None or row[0] == "removed" or not self._may_verify(run, planned):
            return row is not None
        self._check_pages(_RESULTS)
        self._check_of(run, "items i", ITEM, item_is_sound, "the record of an item")
        self._check_of(run, "outcomes o", OUTCOME, _outcome_holds, "an outcome")
        self._check(_USED, (run,), _reply_holds, "a reply")
        if row[0] in _ENDED and self._ended(run) != planned:
            raise self._damaged("an item or an outcome is missing: its record")
        return True

    def _ended(self, run: int) -> int:
        question = (
            "select count(*) from (select distinct batch, position from outcomes where run = ?)"
        )
        return int(self.execute(question, (run,)).fetchone()[0])

    # ── both ──

    def _may_verify(self, run: int, rows: int) -> bool:
        """Who asks about one run waits for it; a list of many has to be there at once."""
        self._first = self._first or run
        if run == self._first:
            return rows <= MOST
        self._listed += rows
        return self._listed <= LISTED

    def _check_pages(self, tables: tuple[str, ...]) -> None:
        """An index has no checksums, and a row whose key has changed may not be found."""
        if self._looked_at.issuperset(tables):
            return
        if self._small():
            for table in tables:
                for (said,) in self.execute(f"pragma integrity_check({table})"):
                    if said != "ok":
                        raise StoreError(
                            f"{self._file}: damaged ({' '.join(str(said).split())[:200]}); {_REMEDY}"
                        )
        self._looked_at.update(tables)

    def _small(self) -> bool:
        return bool(self.execute("pragma page_count").fetchone()[0] <= SMALL)

    def _check_of(
        self, run: int, table: str, columns: str, holds: Callable[[Any], bool], what: str
    ) -> None:
        """In a small store also rows that would be sound if they were of this run: then they were."""
        at = next(n for n, name in enumerate(columns.split(", ")) if name in _RUN_COLUMNS)
        if not self._small():
            question = f"select {columns} from {table} where +run = ?"
            self._check(question, (run,), holds, what)
            return
        if table not in self._bad_rows:
            rows = self.execute(f"select {columns} from {table}")
            self._bad_rows[table] = [row for row in rows if not holds(row)]
        for row in self._bad_rows[table]:
            if row[at] == run or holds((*row[:at], run, *row[at + 1 :])):
                raise self._damaged(what)

    def _check(
        self, question: str, given: tuple[Any, ...], holds: Callable[[Any], bool], what: str
    ) -> int:
        """How many rows there are."""
        count = 0
        for row in self.execute(question, given):
            count += 1
            if not holds(row):
                raise self._damaged(what)
        return count

    def _damaged(self, what: str) -> StoreError:
        return StoreDamaged(f"{self._file}: {what} is damaged; {_REMEDY}")


def _sum_holds(row: Sequence[Any]) -> bool:
    *amounts, checked = row
    return checked is None or checked == sums.weighed(amounts)


def _outcome_holds(row: Sequence[Any]) -> bool:
    body, body_crc = row[14], row[13]
    return head_is_sound(row) and (body is None or kept_in(body, body_crc) is not None)


def _reply_holds(row: Sequence[Any]) -> bool:
    """One that was discarded has no key any more; who wants its value is told."""
    return row[0] is not None and (row[1] == b"" or reply_is_sound(row[:-1]))
