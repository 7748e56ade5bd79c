"""Steps that ask a cheap member first and a better one after it: what that saved.

What the better one would have cost is an estimate: its price, times what the replies of the others
took on average. Replies of earlier runs are not counted: they cost nobody anything here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from math import ceil
from typing import Any

import msgspec

from fanfold.journal.checksum import sound
from fanfold.price import FREE, Price, cost, dollars
from fanfold.work.outcome import Saving

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Price | None).decode

_OF_RUN = (
    "select c.step, s.name, c.members, c.price from cascades c"
    " join steps s on s.run = c.run and s.no = c.step where c.run = ? order by c.step"
)
_SETTLED = (
    "select count(*) from outcomes o left join replies r on r.no = o.reply where o.run = ?1"
    " and o.step = ?2 and o.state in ('passed', 'skipped') and (o.body is not null or r.run = ?1)"
    " and coalesce(o.member, '') not in (select value from json_each(?3))"
)
_TAKEN = (
    "select coalesce(sum(a.cost), 0), coalesce(sum(iif(a.state = 'ok',"
    " json_array_length(cast(a.ids as text)), 0)), 0),"
    " coalesce(sum(a.input + a.cache_read + a.cache_write), 0), coalesce(sum(a.output), 0)"
    " from attempts a join steps s on s.run = a.run and s.no = a.step where a.run = ?1"
    " and a.no >= (select first_attempt from runs where no = ?1) and s.name in (?2, ?2 || '.vote')"
    " and a.member not in (select value from json_each(?3))"
)


class Cascade(msgspec.Struct, frozen=True):
    """A fact: this step escalates to these members; the price is that of the first."""

    run: int
    step: int
    members: tuple[str, ...]
    price: Price | None = None


def cascade(db: sqlite3.Connection, facts: list[Cascade]) -> list[None]:
    db.executemany(
        "insert or ignore into cascades (run, step, members, price) values (?,?,?,?)",
        [(f.run, f.step, _encode(f.members).decode(), _encode(f.price).decode()) for f in facts],
    )
    return [None] * len(facts)


@sound
class Cascades:
    """For readers."""

    def __init__(self, execute: Callable[[str, Any], Any]) -> None:
        self._execute = execute

    def of(self, run: int) -> tuple[Saving, ...]:
        """By step, in order: those where somebody else settled at least one item."""
        found = []
        for step, name, members, price in self._execute(_OF_RUN, (run,)).fetchall():
            settled = self._execute(_SETTLED, (run, step, members)).fetchone()[0]
            if settled:
                taken = self._execute(_TAKEN, (run, name, members)).fetchone()
                found.append(_saving(name, members, settled, _decode(price), taken))
        return tuple(found)


def _saving(
    step: str, members: str, settled: int, price: Price | None, taken: tuple[int, int, int, int]
) -> Saving:
    spent, replies, tokens_in, tokens_out = taken
    instead = 0
    if replies and (tokens_in or tokens_out):
        usual = ceil(tokens_in / replies), ceil(tokens_out / replies)
        instead = min(settled, replies) * cost(price or FREE, *usual)
    better: str = msgspec.json.decode(members)[0]
    return Saving(step, better, settled, dollars(spent), dollars(instead))
