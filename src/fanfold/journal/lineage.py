"""Which run started which: what a tree of runs is made of. One pass over the attempts for all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from fanfold.journal.checksum import sound
from fanfold.work.ask import Usage
from fanfold.work.outcome import State

_encode = msgspec.json.Encoder().encode

_BELOW = (
    "with recursive below(no, id, parent) as (select no, id, null from runs where no = ?1 union"
    " select r.no, r.id, r.parent from below b join runs r"
    " on r.parent = b.id or (r.parent > b.id || ':' and r.parent < b.id || ';'))"
    " select no, parent from below order by no"
)
_OF_RUNS = (
    "from attempts where run in (select value from json_each(:runs)) and no >="
    " (select min(first_attempt) from runs where no in (select value from json_each(:runs)))"
)
_IDS = "select no, id from runs where no in (select value from json_each(?))"
_TOTALS = (
    "select run, step, member, count(*), sum(cost), sum(input), sum(output), sum(cache_read),"
    " sum(cache_write), sum(state = 'error'), sum(state = 'in_doubt'), sum(repeats),"
    " sum(coalesce(took, 0)), sum(bound and cost > 0)"
    f" {_OF_RUNS} group by run, step, member"
)
_CHOSEN = (
    "select no from (select no, row_number() over (partition by run, step, member order by"
    f" state in ('error', 'in_doubt') desc, cost desc, no) as place {_OF_RUNS})"
    " where place <= :most"
)
_OUTCOMES = (
    "select o.step, i.id, o.state, r.run, r.member, r.at from items i join outcomes o"
    " on o.run = i.run and o.batch = i.batch and o.position = i.position"
    " left join replies r on r.no = o.reply and r.answerer <> 'fanfold'"
    " where i.run = ? and i.id in (select value from json_each(?))"
)


class Total(msgspec.Struct, frozen=True):
    """What one member did at one step of a run. `seconds` are those of its calls, added up;
    `bounds` attempts are only known to have cost at most what they count as."""

    run: int
    step: int
    member: str
    calls: int
    cost: int
    usage: Usage
    errors: int
    in_doubt: int
    repeats: int
    seconds: float
    bounds: int = 0


class Settled(msgspec.Struct, frozen=True):
    """How an item ended at a step. `reply`: the one behind it, by its run, its member and the time
    when it came, which is the time when its attempt ended; None where no single reply is."""

    state: State
    reply: tuple[int, str, float] | None = None


@sound
class Lineage:
    """Runs by what started them. `runs` are numbers of runs."""

    def __init__(self, execute: Callable[[str, Any], Any]) -> None:
        self._execute = execute

    def below(self, run: int) -> dict[int, str | None]:
        """The run and all that were started on its behalf, at any depth, each once: number to the
        span that started it. The first one has no span here, whatever started it."""
        found: dict[int, str | None] = {}
        for no, parent in self._execute(_BELOW, (run,)):
            found.setdefault(no, parent)
        return found | {run: None}

    def spent_below(self, run: int) -> dict[str, tuple[int, int]]:
        """By the span of this run that started them: nano-dollars that the runs below took in all,
        and how many of their attempts are only known to have cost at most that."""
        below = self.below(run)
        if len(below) == 1:
            return {}
        by_id = {id: no for no, id in self._execute(_IDS, (_list(below),))}
        found: dict[str, tuple[int, int]] = {}
        for total in self.totals(no for no in below if no != run):
            span = self._from(run, total.run, below, by_id)
            cost, bounds = found.get(span, (0, 0))
            found[span] = cost + total.cost, bounds + total.bounds
        return found

    def _from(self, top: int, run: int, below: dict[int, str | None], by_id: dict[str, int]) -> str:
        """The span of the topmost run that a run below it goes back to."""
        span = below[run] or ""
        while (above := by_id.get(span.partition(":")[0], top)) != top:
            span = below[above] or ""
        return span

    def totals(self, runs: Iterable[int]) -> list[Total]:
        rows = self._execute(_TOTALS, {"runs": _list(runs)})
        return [
            Total(run, step, member, calls, cost, Usage(i, o, cr, cw), *rest)
            for run, step, member, calls, cost, i, o, cr, cw, *rest in rows
        ]

    def chosen(self, runs: Iterable[int], most: int) -> list[int]:
        """The attempts to look at: of each step and member those that gave no reply and then the
        dearest, at most so many."""
        rows = self._execute(_CHOSEN, {"runs": _list(runs), "most": most})
        return [row[0] for row in rows]

    def outcomes(self, run: int, ids: Iterable[str]) -> dict[tuple[int, str], Settled]:
        """By step and item, how it ended there."""
        rows = self._execute(_OUTCOMES, (run, _list(ids)))
        return {
            (step, id): Settled(state, (owner, member, at) if owner is not None else None)
            for step, id, state, owner, member, at in rows
        }


def _list(values: Iterable[object]) -> str:
    return _encode(list(values)).decode()
