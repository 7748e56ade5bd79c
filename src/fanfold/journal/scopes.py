"""Budgets of runs that others were started within: what those spend counts there too.

A worker that runs `fanfold` itself starts runs below its own attempt, in the same store but in other
processes. Their starts, and those of the run above them, are held against its budget here, in the
transaction that claims the key. Most runs neither have any below them nor stand below another: they
are not looked at further. Parts of a run that its own process carries out share its ledger anyhow.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any

import msgspec

from fanfold.journal.facts import Claim, Start
from fanfold.price import dollars, nanos

_ROW = (
    "select r.id, r.name, r.session, r.parent, iif(json_valid(cast(r.budget as text)),"
    " json_extract(cast(r.budget as text), '$.usd'), null),"
    " exists(select 1 from runs c"
    " where c.parent >= r.id and c.parent < r.id || ';' and c.session <> r.session)"
    " from runs r where r.{} = ?"
)
_KIND = (
    "select json_extract(cast(plan as text), '$.kind') from runs where id = ? and length(plan) > 0"
)
_BELOW = (
    "with recursive below(no, id) as (select no, id from runs where {} union"
    " select r.no, r.id from below b join runs r"
    " on r.parent = b.id or (r.parent > b.id || ':' and r.parent < b.id || ';'))"
)
_SPENT = (
    _BELOW + " select coalesce(sum(iif(a.state = 'started', 0, a.cost)), 0),"
    " coalesce(sum(iif(a.state = 'started', a.cost, 0)), 0) from attempts a"
    " where a.run in (select no from below)"
    " and a.no >= (select min(first_attempt) from runs where no in (select no from below))"
)


class Scope(msgspec.Struct):
    """A limit in nano-dollars, what was settled within it and what is reserved. `inside`: the start
    is for a run below it, whose own parent holds a part of it until it ends."""

    name: str
    limit: int
    settled: int
    reserved: int
    inside: bool

    def refuse(self, amount: int) -> Claim | None:
        """One inside never waits: what it would wait for may be held by whoever waits for it."""
        if self.settled + self.reserved + amount <= self.limit:
            return None
        never = self.inside or self.settled + amount > self.limit
        left = dollars(max(0, self.limit - self.settled - self.reserved))
        why = f"dollars of {self.name}: ${left:.6f} left, the next call may cost ${dollars(amount):.6f}"
        return Claim(broke="never" if never else "now", why=why)


class Scopes:
    """The scopes of the starts of one transaction, by run; most groups have none."""

    def __init__(self, db: sqlite3.Connection, facts: Iterable[Start]) -> None:
        self._db = db
        self._scopes = {run: self._of(run) for run in {fact.run for fact in facts}}

    def refuse(self, fact: Start) -> Claim | None:
        """None: it fits, and is reserved."""
        scopes = self._scopes[fact.run]
        for scope in scopes:
            if (claim := scope.refuse(fact.reserved)) is not None:
                return claim
        for scope in scopes:
            scope.reserved += fact.reserved
        return None

    def _of(self, run: int) -> list[Scope]:
        row = self._db.execute(_ROW.format("no"), (run,)).fetchone()
        if row is None:
            return []
        found: list[Scope] = []
        id, name, session, parent, usd, has_children = row
        if has_children and usd is not None:
            found.append(self._run_scope(id, name, usd, inside=False))
        seen = {id}
        while parent is not None:
            id, _, attempt = parent.partition(":")
            above = self._db.execute(_ROW.format("id"), (id,)).fetchone()
            if above is None or id in seen:
                break
            seen.add(id)
            _, name, its_session, further, usd, _ = above
            elsewhere = its_session != session
            if elsewhere and attempt and self._is_fleet(id):
                found += self._worker_scope(parent, attempt, name)
            if elsewhere and usd is not None:
                found.append(self._run_scope(id, name, usd, inside=True))
            parent = further
        return found

    def _is_fleet(self, id: str) -> bool:
        return bool(self._db.execute(_KIND, (id,)).fetchone() == ("fleet",))

    def _run_scope(self, id: str, name: str, usd: float, *, inside: bool) -> Scope:
        settled, reserved = self._db.execute(_SPENT.format("id = ?"), (id,)).fetchone()
        return Scope(f"run {name}", nanos(usd), settled, reserved, inside)

    def _worker_scope(self, span: str, attempt: str, name: str) -> list[Scope]:
        """All that a fleet's worker starts takes no more than was reserved for the worker itself."""
        row: Any = self._db.execute(
            "select reserved from attempts where no = ?", (int(attempt),)
        ).fetchone()
        if row is None or not row[0]:
            return []
        settled, reserved = self._db.execute(_SPENT.format("parent = ?"), (span,)).fetchone()
        return [Scope(f"a worker of {name}", row[0], settled, reserved, True)]
