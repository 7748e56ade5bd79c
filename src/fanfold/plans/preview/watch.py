"""What a watch would ask, in a preview: a sample of the items, once more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from fanfold.patterns.prompt import make_task
from fanfold.patterns.watching import watch_terms
from fanfold.plans.preview.answers import judges_of, rows_of
from fanfold.plans.preview.asks import AskEstimate, PreviewContext
from fanfold.plans.preview.standin import Size
from fanfold.plans.preview.stations import PassingItem, Station
from fanfold.price import nanos
from fanfold.run.forecast import StepPreview
from fanfold.work.drift import in_sample
from fanfold.work.task import AnswerWatch, Place, Terms


def watched_station(context: PreviewContext, step: Any, station: Station) -> Station:
    """The same, and a line for what the step's watch asks, if it asks anybody."""
    (terms,) = step.item_terms(context.ready)
    watch: AnswerWatch | None = terms.watch
    if watch is None or (watch.gate is None and watch.truth.kind != "member"):
        return station
    return WatchedStation(context, step, station, terms)


class WatchedStation:
    """A station, and whoever checks a sample of what passes it."""

    def __init__(self, context: PreviewContext, step: Any, station: Station, terms: Terms) -> None:
        assert terms.watch is not None
        self._station, self._watch, self._tasks = station, terms.watch, 0
        self._terms = watch_terms(terms, terms.watch)
        (_, asking), *_ = [one for one in step.asks() if one[0].endswith(".watch")]
        judges = judges_of(context, asking) if terms.watch.gate is not None else ()
        self._estimate = AskEstimate(
            context, self._terms, context.ready.prompt(asking), judges=judges
        )

    @property
    def size(self) -> Size:
        return self._station.size

    def take(self, passing: Sequence[PassingItem], span: range) -> list[PassingItem]:
        checked = [one for one in passing if in_sample(one.item.id, self._watch.rate)]
        estimated = self._estimate
        tasks = [
            make_task(estimated.prompt, one.seen(), self._terms, Place(0, one.at))
            for one in checked
        ]
        for task, left in zip(tasks, estimated.left(tasks), strict=True):
            if self._watch.gate is None:
                estimated.count(task, left)
            else:
                estimated.count_judges(task, left)
        self._tasks += len(tasks)
        return self._station.take(passing, span)

    def rows(self, times: float | None) -> list[StepPreview]:
        made = rows_of(self._terms.step, "watch", self._estimate, self._tasks, times)
        if self._watch.gate is not None:
            made = [msgspec.structs.replace(one, name=self._terms.step) for one in made[1:]]
        return [*self._station.rows(times), *map(self._within_budget, made)]

    def _within_budget(self, line: StepPreview) -> StepPreview:
        if self._watch.budget.usd is None:
            return line
        most, made = nanos(self._watch.budget.usd), line.forecast
        worst = most if made.worst is None else min(most, made.worst)
        p50 = None if made.p50 is None else min(most, made.p50)
        return msgspec.structs.replace(
            line, forecast=msgspec.structs.replace(made, worst=worst, p50=p50)
        )
