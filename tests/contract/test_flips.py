"""A value that has changed in a row of a store: every question is answered as before, or refused in a line
that says that something is damaged."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fanfold.errors import FanfoldError
from fanfold.journal import opening
from fanfold.journal.sqlite.read_tables import TABLES
from tests.contract.backends import BACKENDS
from tests.contract.test_questions import QUESTIONS, fill
from tests.contract.test_store import within

ESTIMATES = ("call_history", "member_stats", "latencies", "has_answered", "has_content")
"""Are made of what is sound; so there may be less of it. What is not there is stored again."""
SOFT = ("settled", "endings", "step_endings", "names", "records")
"""What they name is not damaged. That something is missing is seen by whoever counts, or lists the runs."""
COLUMNS = {table: of.columns.split(", ") for table, of in TABLES.items()}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    backend = BACKENDS["sqlite"](tmp_path_factory.mktemp("flips"))
    within(backend, fill)
    return Path(backend.place)


def answers(store: Path) -> dict[str, Any]:
    """To each question, or why it was refused."""
    try:
        view = opening.look(store)
    except FanfoldError as error:
        return dict.fromkeys(QUESTIONS, error)
    found: dict[str, Any] = {}
    for question, calls in QUESTIONS.items():
        try:
            given = [getattr(view.read, question)(*call) for call in calls]
            found[question] = [list(a) if isinstance(a, Iterator) else a for a in given]
        except FanfoldError as error:
            found[question] = error
    view.close()
    return found


def wrong(found: dict[str, Any], truth: dict[str, Any]) -> list[str]:
    """Questions that were answered otherwise, in silence; and errors of more than a line."""
    return [
        f"{question}: {found[question]!r:.300}, not {truth[question]!r:.300}"
        for question in QUESTIONS
        if question not in ESTIMATES
        and (question not in SOFT or "damaged" not in f"{found['tally']!r} {found['runs']!r}")
        and ("\n" in str(found[question]) if isinstance(found[question], FanfoldError)
             else found[question] != truth[question] and "damaged" not in repr(found[question]))
    ]  # fmt: skip


def flipped(value: Any, bit: int) -> Any:
    """One bit of it is another."""
    match value:
        case int():
            return value ^ 1 << bit
        case float():
            (raw,) = struct.unpack(">q", struct.pack(">d", value))
            return struct.unpack(">d", struct.pack(">q", raw ^ 1 << 45 + bit))[0]
        case str() if value:
            at = len(value) // 2
            return value[:at] + chr(ord(value[at]) ^ 1 << bit % 3) + value[at + 1 :]
        case bytes() if value:
            at = len(value) // 2
            return value[:at] + bytes([value[at] ^ 1 << bit]) + value[at + 1 :]
    return "x" if value == "" else b"x" if value == b"" else 1


def flips(store: Path, table: str, every: bool) -> list[str]:
    truth, found = answers(store), []
    assert not [one for one in truth.values() if isinstance(one, FanfoldError)], truth
    with closing(sqlite3.connect(store / "journal.db", isolation_level=None)) as db:
        key = COLUMNS[table][: TABLES[table].key]
        rows = db.execute(f"select * from {table}").fetchall()
        assert rows, f"there is nothing in {table}"
        names = [one[1] for one in db.execute(f"pragma table_info({table})")]
        for n, name in enumerate(names):
            for row in rows if every else [rows[n % len(rows)]]:
                old, new = row[n], flipped(row[n], n % 5)
                where = " and ".join(f"{one} = ?" for one in key)
                after = [new if one == name else row[names.index(one)] for one in key]
                before = [row[names.index(one)] for one in key]
                change = f"update {table} set {name} = ? where {where}"
                try:
                    db.execute(change, (new, *before))
                except sqlite3.IntegrityError:  # no page could hold it either
                    continue
                told = wrong(answers(store), truth)
                found += [f"{table}.{name} of {before}: {one}" for one in told[:1]]
                db.execute(change, (old, *after))
    assert answers(store) == truth
    return found


@pytest.mark.parametrize("table", TABLES)
def test_no_value_that_has_changed_is_told_as_right(store: Path, table: str) -> None:
    if table not in ("ranges",):  # nothing takes one here
        assert flips(store, table, every=False) == []


@pytest.mark.sweep
@pytest.mark.parametrize("table", TABLES)
def test_no_value_of_any_row_that_has_changed_is_told_as_right(store: Path, table: str) -> None:
    if table not in ("ranges",):
        assert flips(store, table, every=True) == []
