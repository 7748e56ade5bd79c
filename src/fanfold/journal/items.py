"""The planned items of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fanfold.journal.checksum import sound

MOST = 10_000


@sound
class Items:
    """By an id that somebody typed, or by position."""

    def __init__(self, execute: Callable[[str, Any], Any]) -> None:
        self._execute = execute

    def has(self, run: int, id: str) -> bool:
        question = "select 1 from items where run = ? and id = ? limit 1"
        return self._execute(question, (run, id)).fetchone() is not None

    def ids(self, run: int) -> list[str]:
        """The first of them, in planned order; enough to find one that is spelled alike."""
        question = "select id from items where run = ? order by batch, position limit ?"
        return [row[0] for row in self._execute(question, (run, MOST))]

    def planned(self, run: int, batch: int, first: int, most: int) -> list[tuple[str, bytes]]:
        """Ids and hashes as planned, from position `first` on."""
        question = (
            "select id, hash from items where run = ? and batch = ? and position >= ?"
            " order by position limit ?"
        )
        rows: list[tuple[str, bytes]] = self._execute(
            question, (run, batch, first, most)
        ).fetchall()
        return rows
