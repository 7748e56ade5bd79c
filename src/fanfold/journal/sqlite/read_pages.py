"""Questions of the live page: a page of items, counts by step, cost over time, who spent what when.

Each answers for a run of a million items in a fraction of a second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from fanfold.journal.answers import ItemFilter, ListedItem
from fanfold.journal.costs import DaySpending, ReplyCosts
from fanfold.journal.sqlite.checksum import of_results, sound
from fanfold.journal.sqlite.trouble import Ask
from fanfold.work.outcome import State

_reasons = msgspec.json.Decoder(tuple[str, ...]).decode
_FIELDS = "select i.batch, i.position, i.id, o.state, o.reasons, o.member, o.cost, o.calls"
_SAME = "{0}.run = {1}.run and {0}.batch = {1}.batch and {0}.position = {1}.position"
_ALL = (
    f"{_FIELDS} from items i left join outcomes o on {_SAME.format('o', 'i')} and o.step ="
    f" (select max(l.step) from outcomes l where {_SAME.format('l', 'i')})"
    " where i.run = :run and {more}"
)
"""Of items, each with its last outcome."""
_RARE = (
    f"{_FIELDS} from outcomes o join items i on {_SAME.format('i', 'o')}"
    " where o.run = :run and o.state = :state and o.state <> 'passed' and {more}"
    f" and not exists (select 1 from outcomes l where {_SAME.format('l', 'o')} and l.step > o.step)"
)
"""Of outcomes, by the index of those that are not `passed`."""
_FOUND = "(:text = '%%' or i.id like :text escape '\\')"
LONGEST_TEXT = 10_000  # of what is searched for; SQLite refuses patterns far above that
BLOCK = 10_000
_ENDED = (
    "select count(*) from (select distinct position from outcomes where run = ? and batch = ?"
    " and position >= ? and position < ?) ended"
)
_COSTS = (
    "select cast((started + coalesce(took, 0) - :origin) / :width as integer), sum(cost), count(*)"
    " from attempts where run = :run and no >= (select first_attempt from runs where no = :run)"
    " and lost <> 'unsent' and state <> 'started' group by 1 order by 1"
)
_TALLY = (
    "select step, state, count(*) from outcomes where run = ? and state <> 'passed'"
    " group by step, state"
    " union all select step, 'all', count(*) from outcomes where run = ? group by step"
)
_SPENDING = (
    "select cast(started / 86400 as integer), run, step, member, answerer, count(*), sum(cost),"
    " sum(iif(state = 'error', cost, 0)), sum(iif(state = 'in_doubt', cost, 0)),"
    " sum(iif(state = 'late', cost, 0)), sum(input + output + cache_read + cache_write),"
    " sum(saved)"
    " from attempts where started >= :start and lost <> 'unsent'"
    " group by 1, run, step, member, answerer order by 1, run, step, member, answerer"
)
_REPLY_COSTS = (
    "select coalesce(sum(case when o.state = 'kicked' then o.cost when r.run = o.run and o.calls > 1"
    " then max(0, o.cost - r.cost) else 0 end), 0),"
    " coalesce(sum(case when r.run <> o.run then r.cost else 0 end), 0),"
    " count(*) filter (where r.run <> o.run)"
    " from outcomes o left join replies r on r.no = o.reply where o.run = ?"
)


@sound
class PageRows:
    _execute: Ask
    _verify: Callable[..., None]

    @of_results
    def list_items(self, run: int, wanted: ItemFilter) -> list[ListedItem]:
        rare = wanted.state not in ("", "pending", "passed")
        side, order = ("<", "desc") if wanted.before else (">", "asc")
        of = "o" if rare else "i"
        more = [_FOUND, f"({of}.batch, {of}.position) {side} (:batch, :position)"]
        if not rare and wanted.state:
            more.append("o.state is null" if wanted.state == "pending" else "o.state = :state")
        question = (_RARE if rare else _ALL).format(more=" and ".join(more))
        batch, position = wanted.place
        if wanted.state == "pending" and not wanted.before:
            batch, position = self._before_pending(run, batch, position)
        rows = self._execute(
            f"{question} order by {of}.batch {order}, {of}.position {order} limit :limit",
            {"run": run, "state": wanted.state, "text": _pattern(wanted.text), "batch": batch,
             "position": position, "limit": wanted.limit},
        ).fetchall()  # fmt: skip
        return [_listed(row) for row in (reversed(rows) if wanted.before else rows)]

    def _before_pending(self, run: int, batch: int, position: int) -> tuple[int, int]:
        """A later place before which no item is pending: blocks whose items have all ended are passed
        over, for there may be a million of them."""
        sizes = self._execute(
            "select no, size from batches where run = ? and no >= ? order by no", (run, batch)
        )
        for no, size in sizes.fetchall():
            for first in range(position + 1 if no == batch else 0, size, BLOCK):
                end = min(first + BLOCK, size)
                (ended,) = self._execute(_ENDED, (run, no, first, end)).fetchone()
                if ended < end - first:
                    return no, first - 1
        return batch, position

    @of_results
    def step_tally(self, run: int) -> dict[tuple[int, State], int]:
        """Those that passed are the most, as a rule, and are what is left of all: sorting a million of
        them by state takes three times as long as counting them."""
        tally: dict[tuple[int, State], int] = {}
        passed: Counter[int] = Counter()
        for step, state, many in self._execute(_TALLY, (run, run)):
            if state == "all":
                passed[step] += many
            else:
                tally[step, state] = many
                passed[step] -= many
        return tally | {(step, "passed"): many for step, many in passed.items() if many}

    def costs_over_time(self, run: int, origin: float, width: float) -> list[tuple[int, int, int]]:
        given = {"run": run, "origin": origin, "width": width}
        return [(at, cost, calls) for at, cost, calls in self._execute(_COSTS, given)]

    def spending(self, start: float) -> list[DaySpending]:
        since = "select no from runs where ended is null or ended >= ?"
        for (run,) in self._execute(since, (start,)).fetchall():
            self._verify(run)
        return [DaySpending(*row) for row in self._execute(_SPENDING, {"start": start})]

    @of_results
    def reply_costs(self, run: int) -> ReplyCosts:
        return ReplyCosts(*self._execute(_REPLY_COSTS, (run,)).fetchone())


_PLAIN = str.maketrans({sign: f"\\{sign}" for sign in "%_\\"})


def _pattern(text: str) -> str:
    """Any text that has this one in it: none of its characters means anything else."""
    return f"%{text[:LONGEST_TEXT].translate(_PLAIN)}%"


def _listed(row: Any) -> ListedItem:
    batch, position, id, state, reasons, member, cost, calls = row
    why = _reasons(reasons) if reasons else ()
    return ListedItem(id, (batch, position), state, why, member, cost or 0, calls or 0)
