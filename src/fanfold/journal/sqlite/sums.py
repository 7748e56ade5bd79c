"""Running sums over attempts, by run, step and member: what a run spent is known at once, however many
calls it made. They are kept in the transaction that changes the attempts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from fanfold.journal.sqlite import bulk
from fanfold.journal.sqlite.bulk import Database

SUMS = {
    "calls": "count(*)", "cost": "sum(cost)", "input": "sum(input)", "output": "sum(output)",
    "cache_read": "sum(cache_read)", "cache_write": "sum(cache_write)", "tokens": "sum(tokens)",
    "errors": "count(*) filter (where state = 'error')",
    "in_doubt": "count(*) filter (where state = 'in_doubt')",
    "repeats": "sum(repeats)", "repeated": "sum(repeated)",
    "charged": "count(*) filter (where state <> 'error' or cost > 0)", "hedged": "count(hedge_of)",
    "late": "sum(iif(state = 'late', cost, 0))",
    "unusable": "count(*) filter (where unusable <> '')",
    "bounds": "count(*) filter (where bound <> 0 and cost > 0)",
    "sharing": "count(*) filter (where shared > 0)", "shared": "sum(shared)", "saved": "sum(saved)",
    "started": "count(*) filter (where state = 'started')",
    "reserved": "sum(iif(state = 'started', cost, 0))",
    "doubtful": "sum(iif(state = 'in_doubt', cost, 0))",
}  # fmt: skip
"""The columns of the table, each with what it is of the attempts that were sent. Trap: a change here
needs a migration that makes the table anew."""
COLUMNS = ", ".join(SUMS)
WHOLE = f"select run, step, member, {', '.join(SUMS.values())} from attempts where lost <> 'unsent'"
GROUPS = "group by run, step, member"
_SOME = f"{WHOLE} and no in ({{}}) {GROUPS}"
_ADD = f"insert into sums (run, step, member, {COLUMNS})"
_MORE = "on conflict (run, step, member) do update set " + ", ".join(
    f"{name} = sums.{name} + excluded.{name}" for name in SUMS
)
Key = tuple[int, int, str]


def add(db: Database, numbers: Iterable[int]) -> None:
    """These attempts are new."""
    _put(db, {}, _of(db, numbers))


@contextmanager
def changing(db: Database, numbers: Collection[int]) -> Iterator[None]:
    """These attempts may be changed meanwhile."""
    before = _of(db, numbers)
    yield
    _put(db, before, _of(db, numbers))


def _of(db: Database, numbers: Iterable[int]) -> dict[Key, list[int]]:
    found: dict[Key, list[int]] = {}
    for run, step, member, *sums in bulk.among(db, _SOME, dict.fromkeys(numbers)):
        known = found.get((run, step, member))
        found[run, step, member] = sums if known is None else _added(known, sums, 1)
    return found


def _put(db: Database, before: dict[Key, list[int]], after: dict[Key, list[int]]) -> None:
    none = [0] * len(SUMS)
    rows: list[tuple[Any, ...]] = []
    for key in {**before, **after}:
        more = _added(after.get(key, none), before.get(key, none), -1)
        if any(more):
            rows.append((*key, *more))
    bulk.put(db, _ADD, rows, _MORE)


def _added(one: list[int], other: list[int], sign: int) -> list[int]:
    return [a + sign * b for a, b in zip(one, other, strict=True)]
