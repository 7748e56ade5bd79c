"""`repeat`: steps again and again, until a condition holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, Union

import msgspec

from fanfold.plans.asking import Asking, written
from fanfold.plans.carry import PlanState
from fanfold.plans.condition import read_condition
from fanfold.plans.drawing.picture import step_box
from fanfold.plans.drawing.sketch import Sketch, title
from fanfold.plans.flow import FieldRead, Flow
from fanfold.plans.preview.estimate import Estimate, PartPreview
from fanfold.plans.preview.standin import Size
from fanfold.plans.preview.stations import PassingItem, Station
from fanfold.plans.reading import StepContext
from fanfold.plans.ready import Ready
from fanfold.plans.steps.kind import Step, StepEntry
from fanfold.plans.steps.sequence import StepSequence
from fanfold.plans.steps.table import KINDS
from fanfold.run.forecast import Note, StepPreview
from fanfold.work.document import Node
from fanfold.work.picture import Arrow, Box, Picture
from fanfold.work.reader import Count, Text
from fanfold.work.task import NOBODY, Terms

_NOT_WITHIN = ("list_files", "write")


class RepeatEntry(StepEntry):
    """A step within a repeat as it is written."""

    kinds: ClassVar[dict[str, Any]] = {
        name: kind for name, kind in KINDS.items() if name not in _NOT_WITHIN
    }
    unknown = "{} cannot be within a `repeat`"
    common = ("when",)


if TYPE_CHECKING:
    RepeatedStep: TypeAlias = Step
else:
    RepeatedStep = Union[  # noqa: UP007
        tuple(kind for kind in RepeatEntry.kinds.values() if issubclass(kind, Step))
    ]


class Repeat(Step, msgspec.Struct, frozen=True, omit_defaults=True, tag="repeat", kw_only=True):
    """The steps, round after round, until `until` is true after one, at most `at_most` rounds.

    They work on the items in the flow, and then give them replies, or on none and on lists.
    """

    name: Text = "repeat"
    steps: tuple[RepeatedStep, ...]
    until: Text
    at_most: Count
    line: int | None = None

    @classmethod
    def read(cls, node: Node, given: Any, reading: StepContext) -> Repeat:
        """Prompts may read what a later step of it gave in the round before."""
        listed, entries = node.child("steps"), given.steps
        ahead: dict[bool, list[str]] = {True: [], False: []}
        for n, entry in enumerate(entries):
            stated = listed.child(n).child(entry.kind).value
            name = stated.get("name", entry.kind) if isinstance(stated, dict) else entry.kind
            ahead[getattr(entry.kinds[entry.kind], "gives_replies", None) is True].append(str(name))
        inner = StepSequence(
            msgspec.structs.replace(
                reading,
                replies=(*reading.replies, *ahead[True]),
                results=[*reading.results, *ahead[False]],
            )
        )
        inner.read(listed, entries)
        names = [name for step in inner.steps for name in step.names]
        until = read_condition(node.child("until"), reading, [*reading.earlier, *names])
        return cls(
            name=given.name, steps=tuple(inner.steps), until=until, at_most=given.at_most,
            line=node.line,
        )  # fmt: skip

    def comparable(self) -> Repeat:
        steps = tuple(step.comparable() for step in self.steps)
        return msgspec.structs.replace(self, steps=steps)

    # ── items ──

    @property
    def names(self) -> tuple[str, ...]:
        return (*(name for step in self.steps for name in step.names), self.name)

    @property
    def folds_items(self) -> bool:
        """Whether it works on lists: the items after it are not those before."""
        return any(step.produced_by is not None for step in self.steps)

    @property
    def takes_items(self) -> bool:
        return not self.folds_items and any(step.takes_items for step in self.steps)

    @property
    def gives_replies(self) -> bool:
        return self.takes_items

    @property
    def reply_names(self) -> tuple[str, ...]:
        found = tuple(name for step in self.steps for name in step.reply_names)
        return found if self.takes_items else ()

    @property
    def result_names(self) -> tuple[str, ...]:
        lists = () if self.takes_items else tuple(n for one in self.steps for n in one.reply_names)
        return (*lists, *(name for one in self.steps for name in one.result_names), self.name)

    def item_reads(self) -> Iterator[FieldRead]:
        for step in self.steps:
            yield from step.item_reads() if step.takes_items else ()

    def plain_targets(self) -> Iterator[str]:
        for step in self.steps:
            yield from step.plain_targets()

    def asks(self) -> Iterator[tuple[str, Asking]]:
        for step in self.steps:
            yield from step.asks()

    def budgets(self) -> Iterator[str]:
        for step in self.steps:
            yield from step.budgets()

    def item_asks(self) -> Iterator[tuple[str, Asking | str]]:
        for step in self.steps:
            yield from step.item_asks() if step.takes_items else ()

    def item_terms(self, ready: Ready) -> list[Terms]:
        """Items leave it after the last round, whichever that is."""
        if not self.takes_items:
            return []
        who = next((asking.who for step in self.steps for _, asking in step.asks()), NOBODY)
        return [ready.terms(Asking(who=who, revise=0), self.name)]

    def all_terms(self, ready: Ready) -> list[Terms]:
        within = [terms for step in self.steps for terms in step.all_terms(ready)]
        return [*self.item_terms(ready), *within]

    def lists_read(self) -> set[str]:
        return set().union(*(step.lists_read() for step in self.steps)) - set(self.names)

    def check_flow(self, flow: Flow) -> None:
        takers = [step for step in self.steps if step.needs_flow or step.takes_items]
        if self.folds_items and takers[0].produced_by is None:
            what = f"`{takers[0].name}` works on the items in the flow, and a later step on a list"
            raise flow.bad(takers[0], f"{what}; in a `repeat` state `over: steps.NAME` in both")
        for step in takers if self.takes_items else ():
            if step.folds_items:
                what = f"in a `repeat`, `{step.name}` needs `over: steps.NAME`"
                raise flow.bad(step, f"{what}: it ends the items that are in the flow")
        within = msgspec.structs.replace(flow) if self.folds_items else flow
        within.through(self.steps)

    # ── run ──

    async def carry(self, state: PlanState) -> None:
        for name in self.names:
            state.results.setdefault(name, [])
        done, number = False, 0
        while not done and number < self.at_most:
            number += 1
            if not await state.carry_round(self.steps, number):
                break
            done = await state.holds(self.until, number)
        said = f"{number} of at most {self.at_most} rounds"
        state.run.note_step(self.name, said if done else f"{said}, and still not {self.until}")
        state.results[self.name] = {"rounds": number, "done": done}
        for terms in self.item_terms(state.ready):
            await state.leave_flow(terms, said)

    # ── preview and picture ──

    def preview(self, estimate: Estimate) -> PartPreview:
        """As if all rounds were needed. What a prompt shows of the round before is as long as what
        the same step gives in this one, so sizes are found in a first pass."""
        results, known, notes = estimate.context.ready.results, estimate.known, len(estimate.notes)
        for name in self.names:
            results.setdefault(name, [])
        for step in self.steps:
            estimate.part(step)
        estimate.known = known
        del estimate.notes[notes:]
        parts = [estimate.part(step) for step in self.steps]
        what = f"{{}}: counted with all of at most {self.at_most} rounds"
        estimate.notes.append(Note(what, self.name))
        stations = [RepeatedStation(one, self.at_most) for part in parts for one in part.stations]
        lines = [_times(line, self.at_most) for part in parts for line in part.lines]
        return PartPreview(stations, lines, flows=all(part.flows for part in parts))

    def draw(self, id: str, sketch: Sketch) -> Box:
        boxes = [step_box(step, f"within {n}", sketch) for n, step in enumerate(self.steps)]
        back = Arrow(boxes[-1].id, boxes[0].id, f"until {self.until}", "back")
        chain = [Arrow(a.id, b.id) for a, b in pairwise(boxes)]
        lines = (f"until {self.until}", f"at most {self.at_most} rounds")
        arrows = (*chain, back) if len(boxes) > 1 else ()
        return Box(id, title(self.name, "repeat"), lines, inside=Picture(tuple(boxes), arrows))


Repeat.written = written(Repeat, "a repeat", steps=tuple[RepeatEntry, ...])


class RepeatedStation:
    """In a preview: what items pass in one round, counted so many times."""

    def __init__(self, station: Station, rounds: int) -> None:
        self._station, self._rounds = station, rounds

    @property
    def size(self) -> Size:
        return self._station.size

    def take(self, passing: Sequence[PassingItem], span: range) -> list[PassingItem]:
        return self._station.take(passing, span)

    def rows(self, times: float | None) -> list[StepPreview]:
        return [_times(row, self._rounds) for row in self._station.rows(times)]


def _times(row: StepPreview, rounds: int) -> StepPreview:
    tasks = None if row.tasks is None else row.tasks * rounds
    return msgspec.structs.replace(row, tasks=tasks, forecast=row.forecast.scaled(rounds))
