"""Replies that are being judged by code of the user's, so that a gate which ends the process is found.

A mark is written before the gate begins and removed when it has answered. A mark that is left over
from a session that died says: the process ended while this reply was being judged.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import msgspec

from fanfold.journal import bulk


class Judging(msgspec.Struct, frozen=True):
    """A gate is about to judge the replies to these asks."""

    run: int
    session: str
    keys: tuple[bytes, ...]


class Judged(msgspec.Struct, frozen=True):
    """It has judged this one: whatever happened to earlier processes, it was not the gate."""

    run: int
    key: bytes


def begin(db: sqlite3.Connection, facts: list[Judging]) -> list[None]:
    rows = [(fact.run, key, fact.session) for fact in facts for key in dict.fromkeys(fact.keys)]
    bulk.put(db, "insert or ignore into judging (run, key, session)", rows)
    return [None] * len(facts)


def judged(db: sqlite3.Connection, facts: list[Judged]) -> list[None]:
    rows = [(fact.run, fact.key) for fact in facts]
    bulk.put(db, "delete from judging where (run, key) in (", rows, ")")
    return [None] * len(facts)


class Marks:
    """For readers."""

    def __init__(self, execute: Callable[[str, Any], Any]) -> None:
        self._execute = execute

    def crashes(self, run: int) -> dict[bytes, int]:
        """In how many sessions the process ended while the reply to an ask was judged, by key."""
        question = "select key, count(*) from judging where run = ? group by key"
        return dict(self._execute(question, (run,)).fetchall())
