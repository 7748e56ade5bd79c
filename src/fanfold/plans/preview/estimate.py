"""What a plan will do and take, before anything is asked, paid or written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import msgspec

from fanfold.journal.contract import StoreView
from fanfold.members.roster import Roster
from fanfold.plans.inputs import open_input
from fanfold.plans.plan import (
    Conduct,
    Divide,
    Ensemble,
    Graph,
    Map,
    MapReduce,
    Once,
    Pipeline,
    Plan,
    Reduce,
    Scatter,
    Stage,
    Step,
    Write,
)
from fanfold.plans.preview.askers import Desk, Premises
from fanfold.plans.preview.standin import Size
from fanfold.plans.preview.stations import (
    Inside,
    Mapped,
    Passing,
    Reduced,
    Station,
    Voted,
    result_size,
)
from fanfold.plans.preview.wholes import Divided, asked_once, graphed, scattered
from fanfold.run.forecast import Forecast, Note, Preview, StepPreview, at_once, in_turn
from fanfold.run.sources import Rows
from fanfold.work.item import Item, Source

__all__ = ["Premises", "estimate", "readable_input"]

CHUNK = 64
_NOT_READ = {"command": "runs the program", "http": "fetches it"}


def readable_input(plan: Plan, spool: Path | None = None, *, also: bool = False) -> Source | None:
    """The plan's input, when it can be read without running or fetching anything; else None.

    `also`: the operator said that it may. What can be read only once is kept in `spool`.
    """
    if plan.input is None or (plan.input.kind in _NOT_READ and not also):
        return None
    return open_input(plan.input, plan.folder, spool=spool)


def estimate(
    plan: Plan,
    roster: Roster,
    source: Source | None,
    archive: StoreView | None,
    premises: Premises = Premises(),
) -> Preview:
    """A preview of the plan over this input, with what is on record.

    All prompts of the first steps are rendered; replies on record are used as the run would use
    them, gate and all. What waits for replies that do not exist yet is measured with stand-ins of
    the usual length. `source` None: the input is not read, so how many items there are is unknown.
    """
    desk = Desk(plan, roster, archive, premises)
    return _Estimate(desk, _Sample(source, premises.measured)).preview()


class _Sample:
    """The items that are measured: all, or every so many of a large input."""

    def __init__(self, source: Source | None, most: int) -> None:
        self._source = source
        self.size = None if source is None else sum(1 for _ in source.walk())
        whole = self.size or 0
        self._stride = max(1, -(-whole // most))
        self.many = len(range(0, whole, self._stride))

    @property
    def times(self) -> float | None:
        """How many items stand behind each that is measured."""
        if self.size is None:
            return None
        return self.size / self.many if self.many else 1.0

    def chunks(self) -> Iterator[tuple[list[Passing], range]]:
        if self._source is None:
            return
        skip = bytearray(b"\1") * (self.size or 0) if self._stride > 1 else bytearray()
        skip[:: self._stride] = bytes(len(skip[:: self._stride]))
        walk = (Passing(at, item) for at, (_, item) in enumerate(self._source.walk(skip)))
        while chunk := list(islice(walk, CHUNK)):
            yield chunk, range(chunk[0].at, chunk[-1].at + 1)


class _Part(msgspec.Struct):
    """One step of the plan: the stations its items pass, or the lines that are known at once.

    `flows`: items that can be measured come there. `side_by_side`: its lines take their time at
    the same time.
    """

    stations: Sequence[Station] = ()
    lines: Sequence[StepPreview] = ()
    flows: bool = True
    side_by_side: bool = False

    def rows(self, times: float | None) -> list[StepPreview]:
        known = times if self.flows else None
        return [*(line for one in self.stations for line in one.rows(known)), *self.lines]


class _Estimate:
    """Goes through the steps in order, then lets the items pass once through all stations."""

    def __init__(self, desk: Desk, sample: _Sample) -> None:
        self._desk, self._sample = desk, sample
        self._known = True  # items in the flow can be measured
        self._last = Size(0, 0)  # of one reply of the latest step with replies
        self._notes: list[Note] = []

    def preview(self) -> Preview:
        plan = self._desk.plan
        parts = [self._part(step) for step in plan.steps]
        flow = [one for part in parts if part.flows for one in part.stations]
        for passing, span in self._sample.chunks():
            for station in flow:
                passing = station.take(passing, span)
        times = self._sample.times
        rows = [part.rows(times) for part in parts]
        total = in_turn(_taken(part, lines) for part, lines in zip(parts, rows, strict=True))
        return Preview(
            name=plan.name,
            steps=tuple(line for lines in rows for line in lines),
            total=msgspec.structs.replace(total, step=""),
            budget=self._desk.premises.budget,
            notes=(*self._about_the_input(), *self._notes, *total.notes),
        )

    def _about_the_input(self) -> list[Note]:
        spec, sample = self._desk.plan.input, self._sample
        if spec is not None and sample.size is None:
            what = f"the input of kind {spec.kind} is not read for a preview: its size is unknown"
            return [Note(f"{what}; --read-input {_NOT_READ[spec.kind]} once to count it")]
        if sample.size is not None and sample.many < sample.size:
            return [
                Note(
                    f"measured on {sample.many:,} of {sample.size:,} items, spread over the input:"
                    " the worst case is not quite a bound"
                )
            ]
        return []

    # ── from steps to parts ──

    def _part(self, step: Step) -> _Part:
        desk = self._desk
        match step:
            case Map() | Ensemble():
                return self._items(step)
            case MapReduce():
                return self._through([Inside(desk, step)])
            case Pipeline():
                stations = [self._station(stage) for stage in step.stages]
                return self._through(stations, side_by_side=step.mode == "streaming")
            case Divide():
                return self._into_one(step.name, [Divided(desk, step)])
            case Conduct():
                return self._conduct(step)
            case Scatter():
                return self._scatter(step)
            case Reduce():
                return self._reduce(step)
            case Graph():
                return self._fixed(step.name, *graphed(desk, step))
            case Once():
                return self._fixed(step.name, *asked_once(desk, step))
            case Write():
                return _Part()

    def _items(self, step: Map | Ensemble) -> _Part:
        """New items come in where a step works on what another produced: then nobody knows yet."""
        if step.over is not None:
            self._known = False
        elif isinstance(step, Ensemble) and self._desk.plan.input is None and self._known:
            self._sample = _Sample(Rows([Item("question", {})]), 1)
        return self._through([self._station(step, watched=step.over is not None)])

    def _station(self, stage: Stage, *, watched: bool = False) -> Station:
        match stage:
            case Map():
                return Mapped(self._desk, stage, watched=watched)
            case Ensemble():
                return Voted(self._desk, stage, watched=watched)
            case MapReduce():
                return Inside(self._desk, stage)

    def _through(self, stations: list[Station], *, side_by_side: bool = False) -> _Part:
        self._last = stations[-1].size
        return _Part(stations, flows=self._known, side_by_side=side_by_side)

    def _into_one(self, name: str, stations: list[Station]) -> _Part:
        self._desk.record(name, stations[-1].size)
        return _Part(stations, flows=self._known)

    def _fixed(self, name: str, lines: list[StepPreview], size: Size) -> _Part:
        self._desk.record(name, size)
        return _Part(lines=lines)

    def _conduct(self, step: Conduct) -> _Part:
        size = self._sample.size
        if self._known and size is not None and size > step.most:
            self._notes.append(
                Note(
                    f"{{}}: {size:,} items are more than `most` ({step.most}): it will be refused",
                    step.name,
                )
            )
        return self._into_one(step.name, self._with_synthesis(Mapped(self._desk, step), step))

    def _scatter(self, step: Scatter) -> _Part:
        if not step.over:
            stations = self._with_synthesis(Mapped(self._desk, step), step)
            return self._into_one(step.name, stations)
        return self._fixed(step.name, *scattered(self._desk, step))

    def _with_synthesis(self, first: Mapped, step: Conduct | Scatter) -> list[Station]:
        way = step.synthesise
        if way is None or not (way.ask or way.vote):
            return [first]
        return [first, Reduced(self._desk, way, self._sample.many, "synthesise")]

    def _reduce(self, step: Reduce) -> _Part:
        if step.ask or step.vote:
            return self._into_one(step.name, [Reduced(self._desk, step, self._sample.many)])
        many = (self._sample.size or 1) if self._known else 1
        self._desk.record(step.name, result_size(step, self._last, many))
        return _Part()


def _taken(part: _Part, lines: Sequence[StepPreview]) -> Forecast:
    """What is not known does not count in what is expected; what is not bounded has no worst case."""
    made = [line.forecast for line in lines] or [Forecast()]
    return at_once(made) if part.side_by_side else in_turn(made)
