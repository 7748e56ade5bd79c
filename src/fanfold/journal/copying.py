"""One store as another, and whether a store still is what was recorded in it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any, cast

import msgspec

from fanfold.errors import BadInput, StoreError
from fanfold.journal import opening
from fanfold.journal.contract import Store, StoreView
from fanfold.journal.facts import CopyRows
from fanfold.journal.sqlite import checksum, sums
from fanfold.journal.sqlite.checksum import SUMMED
from fanfold.journal.sqlite.read_tables import PAGE, TABLES, TableRows
from fanfold.journal.sqlite.sealing import ATTEMPT, HOLDS, attempt_holds
from fanfold.journal.sqlite.stored import ATTEMPT_STATES, item_is_sound, reply_is_sound
from fanfold.work.item import digest

MOST = 20  # problems that are named
_FOLDERS = ("inputs", "agents")
_STATE = TABLES["attempts"].columns.split(", ").index("state")
_ATTEMPT = [TABLES["attempts"].columns.split(", ").index(name) for name in ATTEMPT.split(", ")]


class CheckedStore(msgspec.Struct, frozen=True):
    """By table how many rows, and a checksum of them all; nano-dollars of all attempts; what is wrong."""

    tables: dict[str, tuple[int, int]]
    cost: int
    problems: tuple[str, ...] = ()


@checksum.reports_damage
def check(view: StoreView) -> CheckedStore:
    read = cast(TableRows, view.read)
    tables: dict[str, tuple[int, int]] = {}
    problems = [f"the database: {flaw}" for flaw in read.flaws()]
    cost = 0
    for table, (columns, width) in TABLES.items():
        count, whole = 0, 0
        for row in read.rows(table):
            count, whole = count + 1, checksum.of(whole, *row)
            if not _sound(table, row):
                problems.append(f"{table}: the row {_key(row[:width])} is damaged")
            if table == "attempts":
                cost += row[columns.split(", ").index("cost")]
        tables[table] = count, whole
    for table, many, other in read.lacking():
        problems.append(f"{table}: {many} of them name rows of {other} that are not there")
    for run, step, member in read.wrong_sums():
        problems.append(
            f"sums: of run {run}, step {step}, member {member} are not what its attempts are"
        )
    for member, month, settled, reserved, _ in read.rows("spending"):
        if settled + reserved > view.read.month_use(member, month).whole:
            problems.append(f"spending: {member} in {month} is more than its attempts took")
    return CheckedStore(tables, cost, tuple(problems[:MOST]))


def _key(values: tuple[Any, ...]) -> str:
    return " ".join(one.hex() if isinstance(one, bytes) else str(one) for one in values)


def _sound(table: str, row: tuple[Any, ...]) -> bool:
    try:
        return table not in _CHECKS or _CHECKS[table](row)
    except (TypeError, ValueError):  # a column is not even of its type
        return False


def _run_is_sound(row: tuple[Any, ...]) -> bool:
    named = dict(zip(TABLES["runs"].columns.split(", "), row, strict=True))
    whole = (named[column] for column in SUMMED)
    return named["status"] == "removed" or checksum.holds(named["crc"], *whole)


def _reply_is_sound(row: tuple[Any, ...]) -> bool:
    """One that was discarded answers no key, and is not used."""
    no, _, key, answerer, member, run, private, body, blob, cost, at, crc = row
    columns = (no, key, answerer, member, run, private, cost, at)
    return key == b"" or reply_is_sound((*columns, body, blob, crc))


def _outcome_is_sound(row: tuple[Any, ...]) -> bool:
    body, crc, body_crc, by_parent = row[12:]
    whole = checksum.outcome_holds(crc, row[:12], body_crc, by_parent)
    return whole and (body is None or checksum.holds(body_crc, payload=body))


def _attempt_is_sound(row: tuple[Any, ...]) -> bool:
    return row[_STATE] in ATTEMPT_STATES and attempt_holds([row[n] for n in _ATTEMPT])


def _sum_is_sound(row: tuple[Any, ...]) -> bool:
    *_, checked = row
    return checked is None or checked == sums.weighed(row[3:-1])


_CHECKS: dict[str, Callable[[tuple[Any, ...]], bool]] = {
    "runs": _run_is_sound,
    "items": item_is_sound,
    "attempts": _attempt_is_sound,
    "replies": _reply_is_sound,
    "outcomes": _outcome_is_sound,
    "blobs": lambda row: digest(row[1]) == row[0],
    "sums": _sum_is_sound,
    **HOLDS,
}


async def copy(source: str, target: str) -> CheckedStore:
    """All runs of one store into a new one, checked afterwards. An interrupted copy can be repeated."""
    if opening.exists(target):
        view = opening.look(target)
        try:
            if view.read.runs():
                raise BadInput(f"{target}: has runs already; a store is copied into a new one")
        finally:
            view.close()
    opening.look(source).close()  # it must be there
    opening.open_store(source).close()  # what could not be saved before is in it now
    view = opening.look(source)
    try:
        _refuse_busy(view, source)
        store = opening.open_store(target)
        try:
            await _fill(store, view)
            before, after = check(view), check(store)
            for folder in _FOLDERS:
                if (view.files / folder).is_dir():
                    shutil.copytree(view.files / folder, store.files / folder, dirs_exist_ok=True)
        finally:
            store.close()
    finally:
        view.close()
    if before.tables != after.tables:
        raise StoreError(
            f"{target}: is not what {source} is; was that written to meanwhile? Try again"
        )
    return after


async def _fill(store: Store, view: StoreView) -> None:
    read = cast(TableRows, view.read)
    for table in TABLES:
        some: list[tuple[Any, ...]] = []
        for row in read.rows(table):
            some.append(row)
            if len(some) == PAGE:
                await store.write(CopyRows(table, some))
                some = []
        if some:
            await store.write(CopyRows(table, some))


def _refuse_busy(view: StoreView, source: str) -> None:
    for run in view.read.runs():
        if run.status == "running" and run.session and view.sessions.alive(run.session):
            raise BadInput(f"{source}: run {run.name} is running; copy it when it is over")
