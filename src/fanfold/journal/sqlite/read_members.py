"""Questions about members: what their calls took so far, what they spent in a month, what a cascade
saved, and who answered what. Only metered members have attempts; others are counted from outcomes. What
went through a batch says nothing of what calls take.

What the better member of a cascade would have cost is an estimate: its price, times what the replies
of the others took on average. Replies of earlier runs are not counted: they cost nothing here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import ceil
from statistics import fmean, median, variance
from typing import Any

import msgspec

from fanfold.errors import StoreError
from fanfold.journal.answers import AnsweredItems, CallHistory, MonthUse
from fanfold.journal.decide import month_bounds
from fanfold.journal.sqlite.budgets import ADD_UP
from fanfold.journal.sqlite.checksum import of_results, sound
from fanfold.journal.sqlite.read_tables import TABLES
from fanfold.journal.sqlite.sealing import spending_holds
from fanfold.journal.sqlite.stored import RUN, run_in
from fanfold.journal.sqlite.trouble import Ask
from fanfold.price import FREE, Price, cost, dollars
from fanfold.work.member import MemberStats
from fanfold.work.outcome import Saving

_price = msgspec.json.Decoder(Price | None).decode

NEWEST = 1000
LOOKED_AT = 100_000  # attempts that are searched, counted back from the newest

_OF_MEMBER = (
    "select a.no, a.run, a.step, a.state, a.ids, a.cost, a.input + a.cache_read + a.cache_write,"
    " a.output, a.took from attempts a"
    " join steps s on s.run = a.run and s.no = a.step"
    " where a.no > (select coalesce(max(no), 0) from attempts) - :searched"
    " and a.member = :member and a.answerer = :answerer"
    " and a.state not in ('started', 'late') and a.submission = 0"
    " and (cast(:step as text) is null or s.name = :step)"
    " order by a.no desc limit :newest"
)
_TIMES = (
    "select a.no, a.took from attempts a"
    " join steps s on s.run = a.run and s.no = a.step"
    " where a.no > (select coalesce(max(no), 0) from attempts) - :searched"
    " and a.member = :member and a.answerer = :answerer and s.name = :step"
    " and a.state in ('ok', 'late') and a.took is not null and a.hedge_of is null and a.submission = 0"
    " order by a.no desc limit :newest"
)
_ANSWERED = (
    "select exists(select 1 from attempts"
    " where no > (select coalesce(max(no), 0) from attempts) - :searched"
    " and member = :member and answerer = :answerer and state = 'ok' limit 1)"
)
_ASKED = (
    "select count(*) from (select distinct a.member, a.ids from attempts a"
    " join steps s on s.run = a.run and s.no = a.step where a.run = ?1"
    " and a.no >= (select first_attempt from runs where no = ?1)"
    " and s.name = ?2 and a.state <> 'error') asked"
)
_CASCADES = (
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


@sound
class MemberRows:
    _execute: Ask
    _damaged_attempts: Callable[[Sequence[int]], set[int]]
    _check_attempts: Callable[[Sequence[int]], None]

    def call_history(self, member: str, answerer: str, step: str) -> CallHistory | None:
        return self._history(member, answerer, step) or self._history(member, answerer, None)

    def member_stats(self, member: str, answerer: str, step: str | None) -> MemberStats | None:
        rows = self._calls(member, answerer, step)
        if not rows:
            return None
        times = [max(row[-1], 0.0) for row in rows if row[2] == "ok"]
        settled = len({(run, no, ids) for run, no, state, ids, *_ in rows if state == "ok"})
        return MemberStats(settled / len(rows), median(times) if times else 0.0, len(rows))

    def tasks_asked(self, run: int, step: str) -> int:
        return int(self._execute(_ASKED, (run, step)).fetchone()[0])

    def has_answered(self, member: str, answerer: str) -> bool:
        given = {"member": member, "answerer": answerer, "searched": LOOKED_AT}
        return bool(self._execute(_ANSWERED, given).fetchone()[0])

    def latencies(self, member: str, answerer: str, step: str) -> list[float]:
        """How long the newest calls at this step took, the last one last, whichever run it was.

        Second requests of hedges are left out: those that were answered are the quick ones. First
        ones that came too late are among them, with the time they had.
        """
        given = {"member": member, "answerer": answerer, "step": step, "newest": NEWEST,
                 "searched": LOOKED_AT}  # fmt: skip
        return [seconds for (seconds,) in reversed(self._of_attempts(_TIMES, given))]

    def _calls(self, member: str, answerer: str, step: str | None) -> list[Any]:
        given = {"member": member, "answerer": answerer, "step": step, "newest": NEWEST,
                 "searched": LOOKED_AT}  # fmt: skip
        return self._of_attempts(_OF_MEMBER, given)

    def _of_attempts(self, question: str, given: dict[str, Any]) -> list[Any]:
        """What it says of attempts, of any run, behind their numbers. Estimates are made of those that are
        sound."""
        rows = self._execute(question, given).fetchall()
        damaged = self._damaged_attempts([no for no, *_ in rows])
        return [row[1:] for row in rows if row[0] not in damaged]

    def _history(self, member: str, answerer: str, step: str | None) -> CallHistory | None:
        rows = self._calls(member, answerer, step)
        good = [row[3:] for row in rows if row[2] == "ok"]
        if not good:
            return None
        wanted = len({(run, no, ids) for run, no, state, ids, *_ in rows if state == "ok"})
        metered = [row for row in good if row[2] or row[3]]  # some replies have no usage
        costs, times = [row[1] for row in good], sorted(max(row[4], 0.0) for row in good)
        inputs, outputs = [row[2] for row in metered], [row[3] for row in metered]
        return CallHistory(
            len(good), step, fmean(costs), _variance(costs), _mean(inputs),
            _mean(outputs), median(times), times[ceil(0.9 * len(times)) - 1],
            len(good) / wanted - 1.0, 1.0 - len(good) / len(rows),
        )  # fmt: skip

    # ── money ──

    def month_uses(self, month: str) -> dict[str, MonthUse]:
        rows = self._execute(
            f"select {TABLES['spending'].columns} from spending order by member"
        ).fetchall()
        if not all(map(spending_holds, rows)):
            raise StoreError("the store: what a member spent in a month is damaged; restore a copy")
        return {row[0]: MonthUse(row[2], row[3]) for row in rows if row[1] == month}

    def month_use(self, member: str, month: str) -> MonthUse:
        """All runs say which attempts need not be looked at."""
        self._check_attempts([])
        for row in self._execute(f"select {RUN} from runs"):
            run_in(row)
        first, after = month_bounds(month)
        given = {"member": member, "first": first, "after": after}
        return MonthUse(*self._execute(ADD_UP, given).fetchone())

    @of_results
    def savings(self, run: int) -> tuple[Saving, ...]:
        found = []
        for step, name, members, price in self._execute(_CASCADES, (run,)).fetchall():
            settled = self._execute(_SETTLED, (run, step, members)).fetchone()[0]
            if settled:
                taken = self._execute(_TAKEN, (run, name, members)).fetchone()
                found.append(_saving(name, members, settled, _price(price), taken))
        return tuple(found)

    # ── who answered, for members whose calls have no attempts of their own ──

    @of_results
    def answered_items(self, run: int) -> dict[tuple[int, str], AnsweredItems]:
        """Who answered is on record twice, with the outcome and with its reply: of a row that is damaged
        they say different things, or it is not found."""
        rows = self._execute(
            "select o.step, count(*) filter (where o.reply is not null"
            " and (r.no is null or r.member <> coalesce(o.member, ''))),"
            " coalesce(r.member, iif(o.body is null, '', o.member)) as who,"
            " count(*) filter (where o.body is not null or r.run = :run),"
            " count(*) filter (where r.run <> :run),"
            " sum(o.calls), count(o.body) + count(distinct iif(r.run = :run, r.no, null))"
            " from outcomes o left join replies r on r.no = o.reply"
            " where o.run = :run group by o.step, who order by o.step, who",
            {"run": run},
        ).fetchall()
        if damaged := sum([row[1] for row in rows]):
            raise StoreError(f"the store: {damaged} of its replies are damaged; restore a copy")
        found = {(step, member): AnsweredItems(*numbers) for step, _, member, *numbers in rows}
        for step, member, calls in self._unplaced(run):
            of = found.get((step, member), AnsweredItems())
            found[step, member] = msgspec.structs.replace(
                of, calls=of.calls + calls, replies=of.replies + calls
            )
        return found

    def _unplaced(self, run: int) -> list[tuple[int, str, int]]:
        """Calls of functions and the like that no outcome counts, by step and member."""
        question = "select step, member, calls from unplaced where run = ?"
        found: list[tuple[int, str, int]] = self._execute(question, (run,)).fetchall()
        return found

    @of_results
    def free_calls(self, run: int) -> dict[int, int]:
        rows = self._execute(
            "select step, sum(calls) from outcomes where run = ? and body is not null group by step",
            (run,),
        )
        calls = Counter(dict(rows.fetchall()))
        for step, _, more in self._unplaced(run):
            calls[step] += more
        return dict(calls)


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


def _mean(numbers: Sequence[float]) -> float:
    return fmean(numbers) if numbers else 0.0


def _variance(numbers: Sequence[float]) -> float:
    return float(variance(numbers)) if len(numbers) > 1 else 0.0
