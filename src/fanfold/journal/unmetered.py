"""Who answered what, for members whose calls have no attempts of their own: functions and the like."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from fanfold.journal.checksum import sound


class Answered(msgspec.Struct, frozen=True):
    """How many items a member answered: with new replies, with those of earlier runs. `calls` are
    those that the outcomes counted; for metered members the attempts know better."""

    new: int = 0
    earlier: int = 0
    calls: int = 0


@sound
class Unmetered:
    """Counted from the outcomes, and where no outcome counts a call, from `unplaced`."""

    def __init__(self, execute: Callable[[str, Any], Any]) -> None:
        self._execute = execute

    def answered(self, run: int) -> dict[tuple[int, str], Answered]:
        """By step number and member: whose replies stand behind the run's outcomes. Under the
        member "" those that have none, with the calls that were made for them."""
        rows = self._execute(
            "select o.step, coalesce(r.member, iif(o.body is null, '', o.member)) as who,"
            " sum(o.body is not null or coalesce(r.run = :run, 0)), sum(coalesce(r.run <> :run, 0)),"
            " sum(o.calls) from outcomes o left join replies r on r.no = o.reply"
            " where o.run = :run group by o.step, who order by o.step, who",
            {"run": run},
        )
        found = {(step, member): Answered(*numbers) for step, member, *numbers in rows}
        for step, member, calls in self._unplaced(run):
            of = found.get((step, member), Answered())
            found[step, member] = Answered(of.new, of.earlier, of.calls + calls)
        return found

    def _unplaced(self, run: int) -> list[tuple[int, str, int]]:
        """Calls of functions and the like that no outcome counts, by step and member."""
        question = "select step, member, calls from unplaced where run = ?"
        found: list[tuple[int, str, int]] = self._execute(question, (run,)).fetchall()
        return found

    def free_calls(self, run: int) -> dict[int, int]:
        """Calls of functions and the like, by step; they have no attempts of their own."""
        rows = self._execute(
            "select step, sum(calls) from outcomes where run = ? and body is not null group by step",
            (run,),
        )
        calls = Counter(dict(rows.fetchall()))
        for step, _, more in self._unplaced(run):
            calls[step] += more
        return dict(calls)
