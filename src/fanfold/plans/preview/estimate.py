"""What a plan will do and take, before anything is asked, paid or written."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Protocol

import msgspec

from fanfold.journal.contract import StoreView
from fanfold.members.roster import Roster
from fanfold.plans.condition import condition, holds, reads_steps
from fanfold.plans.header import PlanHeader
from fanfold.plans.inputs import Numbered, open_input
from fanfold.plans.preview.asks import Premises, PreviewContext
from fanfold.plans.preview.standin import Size
from fanfold.plans.preview.stations import PassingItem, Station
from fanfold.run.forecast import Forecast, Note, Preview, StepPreview, at_once, in_turn
from fanfold.run.planning import duplicate_id
from fanfold.work.item import Item, Source

CHUNK = 64
_NOT_READ = {"command": "runs the program", "http": "fetches it"}


def readable_input(
    plan: PlanHeader, spool: Path | None = None, *, also: bool = False
) -> Source | None:
    """The plan's input, when it can be read without running or fetching anything; else None.

    `also`: the operator said that it may. What can be read only once is kept in `spool`.
    """
    if plan.input is None or (plan.input.kind in _NOT_READ and not also):
        return None
    return open_input(plan.input, plan.folder, spool=spool)


class PreviewedStep(Protocol):
    """A step that can be previewed; see `steps/kind.Step`."""

    @property
    def name(self) -> str: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def produced_by(self) -> str | None: ...
    def preview(self, estimate: Estimate) -> PartPreview: ...


def estimate(
    plan: PlanHeader,
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
    sample = Sample(source, premises.measured)
    context = PreviewContext(plan, roster, archive, premises, (sample.many, sample.size or 0))
    return Estimate(context, sample).preview()


class Sample:
    """The items that are measured: all, or every so many of a large input."""

    def __init__(self, source: Source | None, most: int) -> None:
        self._source = source
        self.size = None if source is None else _counted(source)
        whole = self.size or 0
        self._stride = max(1, -(-whole // most))
        self.many = len(range(0, whole, self._stride))

    @property
    def times(self) -> float | None:
        """How many items each that is measured represents."""
        if self.size is None:
            return None
        return self.size / self.many if self.many else 1.0

    def chunks(self) -> Iterator[tuple[list[PassingItem], range]]:
        if self._source is None:
            return
        chosen = every(self._source, self.size or 0, self._stride)
        walk = (PassingItem(at, item) for at, (_, item) in enumerate(chosen))
        while chunk := list(islice(walk, CHUNK)):
            yield chunk, range(chunk[0].at, chunk[-1].at + 1)


def every(source: Source, size: int, stride: int) -> Iterator[tuple[int, Item]]:
    """The first item of so many, and then each that is `stride` later."""
    if isinstance(source, Numbered):
        return source.every(stride)
    skip = bytearray(b"\1") * size if stride > 1 else bytearray()
    skip[::stride] = bytes(len(skip[::stride]))
    return source.walk(skip)


def _counted(source: Source) -> int:
    """How many items there are. A duplicate id is refused, as the run refuses it."""
    if isinstance(source, Numbered):
        return source.size
    marks = array("q", (hash(item.id) for _, item in source.walk()))
    twice = {one for one, other in pairwise(sorted(marks)) if one == other}
    if twice:  # two ids may have one hash
        seen: dict[str, int] = {}
        for position, item in source.walk():
            if hash(item.id) in twice and seen.setdefault(item.id, position) != position:
                raise duplicate_id(source, item.id, seen[item.id], position)
    return len(marks)


class PartPreview(msgspec.Struct):
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


class Estimate:
    """Goes through the steps in order, then lets the items pass once through all stations."""

    def __init__(self, context: PreviewContext, sample: Sample) -> None:
        self.context, self.sample = context, sample
        self.known = True  # items in the flow can be measured
        self.last = Size(0, 0)  # of one reply of the latest step with replies
        self.notes: list[Note] = []

    def preview(self) -> Preview:
        plan = self.context.plan
        steps: Sequence[PreviewedStep] = plan.steps
        parts = [self.part(step) for step in steps]
        flow = [one for part in parts if part.flows for one in part.stations]
        for passing, span in self.sample.chunks():
            for station in flow:
                passing = station.take(passing, span)
        times = self.sample.times
        rows = [part.rows(times) for part in parts]
        total = in_turn(_taken(part, lines) for part, lines in zip(parts, rows, strict=True))
        return Preview(
            name=plan.name,
            steps=tuple(line for lines in rows for line in lines),
            total=msgspec.structs.replace(total, step=""),
            budget=self.context.premises.budget,
            notes=(*self._about_the_input(), *self.notes, *total.notes),
        )

    def part(self, step: PreviewedStep) -> PartPreview:
        """What another step produced is not known yet. A step that may not be taken counts as if it
        were, unless its condition is decided now."""
        plan, when = self.context.plan, self.context.plan.when.get(step.name)
        if when is not None:
            template, said = condition(when, plan.file), when.replace("{", "{{").replace("}", "}}")
            if reads_steps(template):
                self.notes.append(Note(f"{{}}: counted, but run only when {said}", step.name))
            elif not holds(template, plan):
                self.notes.append(Note(f"{{}}: not run: its condition is false: {said}", step.name))
                self.context.ready.results.update({name: [] for name in step.names})
                return PartPreview()
        self.known = self.known and step.produced_by is None
        return step.preview(self)

    def _about_the_input(self) -> list[Note]:
        spec, sample = self.context.plan.input, self.sample
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

    # ── for the steps ──

    def through(self, stations: Sequence[Station], *, side_by_side: bool = False) -> PartPreview:
        """Each item gets a reply and goes on."""
        self.last = stations[-1].size
        return PartPreview(stations, flows=self.known, side_by_side=side_by_side)

    def into_one(self, name: str, stations: Sequence[Station]) -> PartPreview:
        """The items come to one result, `steps.NAME`."""
        self.context.record(name, stations[-1].size)
        return PartPreview(stations, flows=self.known)

    def at_once(self, name: str, lines: Sequence[StepPreview], size: Size) -> PartPreview:
        """What does not depend on the items in the flow is known at once."""
        self.context.record(name, size)
        return PartPreview(lines=lines)


def _taken(part: PartPreview, lines: Sequence[StepPreview]) -> Forecast:
    """What is not known does not count in what is expected; what is not bounded has no worst case."""
    made = [line.forecast for line in lines] or [Forecast()]
    return at_once(made) if part.side_by_side else in_turn(made)
