"""What a member's calls took so far: the ground that forecasts stand on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from statistics import fmean, median, variance
from typing import Any

import msgspec

from fanfold.journal.checksum import sound
from fanfold.work.member import MemberStats

NEWEST = 1000
LOOKED_AT = 100_000  # attempts that are searched, counted back from the newest

_OF_MEMBER = (
    "select a.run, a.step, a.state, a.ids, a.cost, a.input + a.cache_read + a.cache_write,"
    " a.output, a.took from attempts a"
    " join steps s on s.run = a.run and s.no = a.step"
    " where a.no > (select coalesce(max(no), 0) from attempts) - :searched"
    " and a.member = :member and a.answerer = :answerer"
    " and a.state not in ('started', 'late') and (:step is null or s.name = :step)"
    " order by a.no desc limit :newest"
)
_TIMES = (
    "select a.took from attempts a"
    " join steps s on s.run = a.run and s.no = a.step"
    " where a.no > (select coalesce(max(no), 0) from attempts) - :searched"
    " and a.member = :member and a.answerer = :answerer and s.name = :step"
    " and a.state in ('ok', 'late') and a.took is not null and a.why not like 'hedge%'"
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
    " and s.name = ?2 and a.state <> 'error')"
)


class Past(msgspec.Struct, frozen=True):
    """The newest calls of a member that brought a reply. `step` is None when they are of all steps.

    `cost` (nano-dollars), `input` and `output` are means of one call, cached input included;
    `latency` is the median in seconds, `slow` the 90th percentile. `kicks`: how many more replies
    were asked for, for each one that was wanted; several samples of one question look like that
    too. `errors` is the share of attempts that brought no reply.
    """

    calls: int
    step: str | None = None
    cost: float = 0.0
    cost_variance: float = 0.0
    input: float = 0.0
    input_variance: float = 0.0
    output: float = 0.0
    output_variance: float = 0.0
    latency: float = 0.0
    slow: float = 0.0
    kicks: float = 0.0
    errors: float = 0.0


@sound
class History:
    """Only metered members have one: calls that cost nothing leave no attempts behind."""

    def __init__(self, execute: Callable[[str, Any], Any]) -> None:
        self._execute = execute

    def of(self, member: str, answerer: str, step: str) -> Past | None:
        """At this step, whichever run it was; else at all steps; None when it was never asked.

        A member that has become another model since (another answerer) begins anew.
        """
        return self._past(member, answerer, step) or self._past(member, answerer, None)

    def stats(self, member: str, answerer: str, step: str | None) -> MemberStats | None:
        """How well and how fast it answered at this step (None: at all of them), whichever run it
        was. An error, or a reply that had to be asked for again, is no success."""
        rows = self._rows(member, answerer, step)
        if not rows:
            return None
        times = [max(row[-1], 0.0) for row in rows if row[2] == "ok"]
        settled = len({(run, no, ids) for run, no, state, ids, *_ in rows if state == "ok"})
        return MemberStats(settled / len(rows), median(times) if times else 0.0, len(rows))

    def asked(self, run: int, step: str) -> int:
        """How many tasks of a run's step were asked, whatever came of it; refusals do not count."""
        return int(self._execute(_ASKED, (run, step)).fetchone()[0])

    def answered(self, member: str, answerer: str) -> bool:
        """Whether it ever did, at any step."""
        given = {"member": member, "answerer": answerer, "searched": LOOKED_AT}
        return bool(self._execute(_ANSWERED, given).fetchone()[0])

    def latencies(self, member: str, answerer: str, step: str) -> list[float]:
        """How long the newest calls at this step took, the last one last, whichever run it was.

        Second requests of hedges are left out: those that were answered are the quick ones. First
        ones that came too late are among them, with the time they had.
        """
        given = {"member": member, "answerer": answerer, "step": step, "newest": NEWEST,
                 "searched": LOOKED_AT}  # fmt: skip
        return [seconds for (seconds,) in reversed(self._execute(_TIMES, given).fetchall())]

    def _rows(self, member: str, answerer: str, step: str | None) -> list[Any]:
        given = {"member": member, "answerer": answerer, "step": step, "newest": NEWEST,
                 "searched": LOOKED_AT}  # fmt: skip
        found: list[Any] = self._execute(_OF_MEMBER, given).fetchall()
        return found

    def _past(self, member: str, answerer: str, step: str | None) -> Past | None:
        rows = self._rows(member, answerer, step)
        good = [row[3:] for row in rows if row[2] == "ok"]
        if not good:
            return None
        wanted = len({(run, no, ids) for run, no, state, ids, *_ in rows if state == "ok"})
        told = [row for row in good if row[2] or row[3]]  # some replies do not tell their usage
        costs, times = [row[1] for row in good], sorted(max(row[4], 0.0) for row in good)
        inputs, outputs = [row[2] for row in told], [row[3] for row in told]
        return Past(
            len(good), step, fmean(costs), _variance(costs), _mean(inputs), _variance(inputs),
            _mean(outputs), _variance(outputs), median(times), times[ceil(0.9 * len(times)) - 1],
            len(good) / wanted - 1.0, 1.0 - len(good) / len(rows),
        )  # fmt: skip


def _mean(numbers: Sequence[float]) -> float:
    return fmean(numbers) if numbers else 0.0


def _variance(numbers: Sequence[float]) -> float:
    return float(variance(numbers)) if len(numbers) > 1 else 0.0
