"""What members took in a month, over all runs of the store, for those that have a monthly budget.

A row of `spending` is the sum of what the attempts say, kept up so that nobody has to add up: it
changes in the same transaction as they do. `anew` adds up once more, which finds what was spent
before the member had a budget, or by a process that knew of none.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from fanfold.journal import bulk
from fanfold.journal.checksum import sound
from fanfold.journal.facts import Claim, End, Start

_HELD = "select no, member, started, state, cost from attempts where no in ({})"
_CHANGE = (
    "update spending set settled = settled + v.column3, reserved = reserved + v.column4 from ("
)
_OF_PAIR = ") as v where spending.member = v.column1 and spending.month = v.column2"
_ADD_UP = (
    "select coalesce(sum(iif(state = 'started', 0, cost)), 0),"
    " coalesce(sum(iif(state = 'started', cost, 0)), 0) from attempts where no >= (select"
    " coalesce(min(first_attempt), 0) from runs where ended is null or ended >= :first)"
    " and member = :member and started >= :first and started < :after"
)


class Used(msgspec.Struct, frozen=True):
    """Nano-dollars of a member in a month: settled, and reserved for what is under way."""

    settled: int = 0
    reserved: int = 0

    @property
    def whole(self) -> int:
        return self.settled + self.reserved


def month_of(at: float) -> str:
    """The month of a time, in UTC: `2025-06`."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m")


def bounds(month: str) -> tuple[float, float]:
    """When a month begins, and when the next one does."""
    first = datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC)
    after = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
    return first.timestamp(), after.timestamp()


Pair = tuple[str, str]
"""A member and a month."""


class Purses:
    """The purses that the starts of one transaction draw on; most groups need none."""

    def __init__(self, db: sqlite3.Connection, facts: Sequence[Start]) -> None:
        self._purses: dict[Pair, list[int]] = {}
        self._drawn: set[Pair] = set()
        anew: dict[Pair, bool] = {}
        for fact in facts:
            if fact.monthly is not None:
                pair = fact.member, fact.monthly.month
                anew[pair] = anew.get(pair, False) or fact.monthly.anew
        for pair, again in anew.items():
            row = None if again else db.execute(
                "select settled, reserved from spending where member = ? and month = ?", pair
            ).fetchone()  # fmt: skip
            self._purses[pair] = list(_added_up(db, pair) if row is None else row)

    def refuse(self, fact: Start) -> Claim | None:
        """None: it fits and is reserved. A Claim: why not, and whether it may fit later."""
        if fact.monthly is None:
            return None
        pair = fact.member, fact.monthly.month
        settled, reserved = self._purses[pair]
        if settled + reserved + fact.reserved > fact.monthly.limit:
            never = settled + fact.reserved > fact.monthly.limit
            return Claim(broke="never" if never else "now")
        self._purses[pair][1] += fact.reserved
        self._drawn.add(pair)
        return None

    def put(self, db: sqlite3.Connection) -> None:
        rows = [(*pair, *self._purses[pair]) for pair in self._drawn]
        bulk.put(db, "insert or replace into spending (member, month, settled, reserved)", rows)


def _added_up(db: sqlite3.Connection, pair: Pair) -> tuple[int, int]:
    """From the attempts. They have no index by time; older ones than the first of a run that was
    still open in this month need not be looked at."""
    first, after = bounds(pair[1])
    given = {"member": pair[0], "first": first, "after": after}
    settled, reserved = db.execute(_ADD_UP, given).fetchone()
    return settled, reserved


def settle(db: sqlite3.Connection, facts: Iterable[End]) -> None:
    """Before attempts end: what they hold is corrected to what they took."""
    ending = {fact.attempt: fact.cost for fact in facts if fact.monthly}
    if ending:
        _change(db, ending)


def lose(db: sqlite3.Connection, attempts: Sequence[int]) -> None:
    """Before attempts get lost: what was reserved for those under way counts as spent."""
    rows = bulk.among(db, _HELD, attempts)
    _change(db, {no: cost for no, _, _, state, cost in rows if state == "started"})


def regain(db: sqlite3.Connection, attempt: int) -> None:
    """Before an attempt in doubt is under way again: what counts as spent is reserved for it."""
    for _, member, started, state, cost in bulk.among(db, _HELD, [attempt]):
        if state == "in_doubt":
            bulk.put(db, _CHANGE, [(member, month_of(started), -cost, cost)], _OF_PAIR)


def release(db: sqlite3.Connection, attempts: Iterable[int]) -> None:
    """Before attempts that were never sent are called off: they took nothing."""
    _change(db, dict.fromkeys(attempts, 0))


def _change(db: sqlite3.Connection, costs: dict[int, int]) -> None:
    """By attempt, what it took in the end; it may be known already that it is over."""
    changes: dict[Pair, list[int]] = {}
    for no, member, started, state, held in bulk.among(db, _HELD, costs):
        change = changes.setdefault((member, month_of(started)), [0, 0])
        change[1 if state == "started" else 0] -= held
        change[0] += costs[no]
    rows = [(*pair, *change) for pair, change in changes.items()]
    bulk.put(db, _CHANGE, rows, _OF_PAIR)


@sound
class Spending:
    """For readers."""

    def __init__(self, execute: Callable[[str, Any], Any]) -> None:
        self._execute = execute

    def of(self, month: str) -> dict[str, Used]:
        """By member; those that had no budget in this month are not among them."""
        rows = self._execute(
            "select member, settled, reserved from spending where month = ? order by member",
            (month,),
        )
        return {member: Used(settled, reserved) for member, settled, reserved in rows}

    def added_up(self, member: str, month: str) -> Used:
        """From the attempts themselves, for a member that may have had no budget so far."""
        first, after = bounds(month)
        given = {"member": member, "first": first, "after": after}
        return Used(*self._execute(_ADD_UP, given).fetchone())
