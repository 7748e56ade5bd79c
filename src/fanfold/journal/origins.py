"""Which planned items stand behind a result, and which do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from fanfold.errors import StoreError
from fanfold.journal.checksum import sound
from fanfold.journal.stored import ITEM, item_is_sound
from fanfold.work.outcome import Missing, State

_reasons = msgspec.json.Decoder(tuple[str, ...]).decode
PAGE = 1000

_BEHIND = (
    f"select o.position, {ITEM} from outcomes o join items i"
    " on i.run = o.run and i.batch = o.batch and i.position = o.position"
    " where o.run = ? and o.batch = ? and o.position > ? and o.step = ? and o.state = 'passed'"
    " order by o.position limit ?"
)
_MISSING = (
    f"select i.position, {ITEM}, o.state, o.reasons from items i left join outcomes o"
    " on o.run = i.run and o.batch = i.batch and o.position = i.position and o.step ="
    " (select max(step) from outcomes where run = i.run and batch = i.batch and position = i.position)"
    " where i.run = ?1 and i.batch = ?2 and i.position > ?3 and not exists (select 1 from outcomes p"
    " where p.run = i.run and p.batch = i.batch and p.position = i.position and p.step = ?4"
    " and p.state = 'passed') order by i.position limit ?5"
)
_REASONS = (
    "select i.id, o.reasons from (select batch, position, state, reasons, max(step) from outcomes"
    " where run = :run group by batch, position) o join items i on i.run = :run"
    " and i.batch = o.batch and i.position = o.position"
    " where o.state in (select value from json_each(:states)) and o.reasons is not null"
    " order by o.batch, o.position"
)


@sound
class Origins:
    """Answers a page at a time, so that a million ids never sit in memory at once."""

    def __init__(self, execute: Callable[[str, Any], Any]) -> None:
        self._execute = execute

    def behind(self, run: int, batch: int, step: int) -> Iterator[str]:
        for _, *item in self._paged(_BEHIND, run, batch, step):
            yield _id_of(item)

    def missing(
        self, run: int, batch: int, step: int, first: int = 0, end: int | None = None
    ) -> Iterator[Missing]:
        """At the positions from `first` up to `end`."""
        for position, *item, state, reasons in self._paged(_MISSING, run, batch, step, first - 1):
            if end is not None and position >= end:
                return
            yield Missing(_id_of(item), position, state, _reasons(reasons) if reasons else ())

    def reasons(self, run: int, states: Sequence[State]) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The items that ended in one of `states`, each with why."""
        given = {"run": run, "states": msgspec.json.encode(states).decode()}
        for id, reasons in self._execute(_REASONS, given):
            yield id, _reasons(reasons)

    def _paged(
        self, question: str, run: int, batch: int, step: int, after: int = -1
    ) -> Iterator[Any]:
        while True:
            page = self._execute(question, (run, batch, after, step, PAGE)).fetchall()
            yield from page
            if len(page) < PAGE:
                return
            after = page[-1][0]


def _id_of(item: Sequence[Any]) -> str:
    if not item_is_sound(item):
        raise StoreError(f"the store: item {item[3]!a} is damaged; run the plan again")
    return str(item[3])
