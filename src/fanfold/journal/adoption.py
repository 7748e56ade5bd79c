"""Attempts that were lost with their process, but whose work was found again: agents' workers."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import msgspec

from fanfold.journal import spending
from fanfold.journal.checksum import sound

_ids = msgspec.json.Decoder(tuple[str, ...]).decode


class Adopt(msgspec.Struct, frozen=True):
    """From now on these are under way again, in this session. Answers those that were still in
    doubt: what was repeated meanwhile, or taken by another, is not taken over."""

    run: int
    session: str
    attempts: tuple[int, ...]


class Lost(msgspec.Struct, frozen=True):
    """An attempt in doubt that nobody has repeated. `cost` and `tokens` are what it counts as."""

    no: int
    step: int
    member: str
    answerer: str
    ids: tuple[str, ...]
    keys: tuple[bytes, ...]
    cost: int
    tokens: int


def adopt(db: sqlite3.Connection, facts: list[Adopt]) -> list[tuple[int, ...]]:
    return [_adopted(db, fact) for fact in facts]


def _adopted(db: sqlite3.Connection, fact: Adopt) -> tuple[int, ...]:
    taken = []
    for number in fact.attempts:
        spending.regain(db, number)
        changed = db.execute(
            "update attempts set state = 'started', session = ?, ended = null, error = null,"
            " bound = 0"
            " where no = ? and run = ? and state = 'in_doubt' and again = 0",
            (fact.session, number, fact.run),
        ).rowcount
        if changed:
            taken.append(number)
    return tuple(taken)


@sound
class Doubts:
    """For readers."""

    def __init__(self, execute: Callable[[str, Any], Any]) -> None:
        self._execute = execute

    def of(self, run: int) -> list[Lost]:
        rows = self._execute(
            "select no, step, member, answerer, ids, cost, tokens from attempts where run = ?1"
            " and no >= (select first_attempt from runs where no = ?1)"
            " and state = 'in_doubt' and again = 0 order by no",
            (run,),
        ).fetchall()
        return [
            Lost(no, step, member, answerer, _ids(ids), self._keys(no), cost, tokens)
            for no, step, member, answerer, ids, cost, tokens in rows
        ]

    def _keys(self, attempt: int) -> tuple[bytes, ...]:
        rows = self._execute("select key from claims where attempt = ? order by key", (attempt,))
        return tuple(row[0] for row in rows)

    def places(self, run: int, id: str) -> list[tuple[int, int]]:
        """Batch and position of the planned items with this id."""
        rows = self._execute(
            "select batch, position from items where run = ? and id = ?", (run, id)
        )
        return [(batch, position) for batch, position in rows]
