"""A plan as a picture: its input, its steps in order, and the shape inside of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import msgspec

from fanfold.errors import BadInput
from fanfold.members.roster import Roster
from fanfold.plans import rows
from fanfold.plans.asking import Asking
from fanfold.plans.drawing.describe import describe_budget, describe_input, joined
from fanfold.plans.drawing.sketch import Sketch
from fanfold.plans.header import Input, PlanHeader
from fanfold.work.files import expanded
from fanfold.work.picture import Arrow, Box, Picture

_COUNTED_BYTES = 64 << 20
_INPUT = "input"


def picture(plan: PlanHeader, *, items: int | None = None, roster: Roster | None = None) -> Picture:
    """`items` is how many the input has, when that is known; with a roster, `needs` are names.

    BadInput for a graph with a cycle.
    """
    sketch = Sketch(plan, items, roster)
    boxes = [] if plan.input is None else [_input(plan.input, items)]
    boxes += [_step(sketch, n) for n in range(len(plan.steps))]
    chain = [Arrow(a.id, b.id) for a, b in pairwise(boxes)]
    title = " · ".join(part for part in (plan.name, describe_budget(plan.budget)) if part)
    return Picture(tuple(boxes), (*chain, *_far_reads(plan)), title)


def count_items(spec: Input, folder: str | Path) -> int | None:
    """How many items the input has; None when that is not known without much reading.

    Nothing is started, fetched or waited for, and a file that cannot be read is not an error here.
    """
    try:
        found = _counted(spec, Path(folder))
    except (BadInput, OSError, ValueError):
        return None
    return found if found is None or spec.limit is None else min(found, spec.limit)


def _counted(spec: Input, folder: Path) -> int | None:
    match spec.kind:
        case "list":
            return len(spec.value)
        case "count":
            return int(spec.value)
        case "files":
            return len(rows.matching(folder, spec.value))
        case "command" | "http":
            return None
        case _:
            path = folder / expanded(spec.value)
            if not path.is_file() or path.stat().st_size > _COUNTED_BYTES:
                return None
            walk, _ = rows.READERS[spec.kind]
            return sum(1 for _ in walk(path))


def _input(spec: Input, items: int | None) -> Box:
    return Box(_INPUT, "input", describe_input(spec, items), "input")


# ── steps that look at earlier ones ──────────────────────────────────────────────────────────


class DrawnStep(Protocol):
    """A step that can be drawn; see `steps/kind.Step`."""

    @property
    def name(self) -> str: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    def asks(self) -> Iterator[tuple[str, Asking]]: ...
    @property
    def produced_by(self) -> str | None: ...
    def lists_read(self) -> set[str]: ...
    def draw(self, id: str, sketch: Sketch) -> Box: ...


def _step(sketch: Sketch, n: int) -> Box:
    step: DrawnStep = sketch.plan.steps[n]
    if any(one.produced_by is not None for one in sketch.plan.steps[: n + 1]):
        sketch = msgspec.structs.replace(sketch, items=None)  # how many there will be nobody knows
    box = step_box(step, f"step {n}", sketch)
    read = _read_by(sketch.plan, n).items()
    far = [name for at, name in read if at < n - 1 and name != step.produced_by]
    lines = (*box.lines, *(f"reads steps.{name}" for name in far))
    return msgspec.structs.replace(box, lines=lines)


def step_box(step: DrawnStep, id: str, sketch: Sketch) -> Box:
    """With what any step may state: where its items come from, and when it is taken."""
    box, when = step.draw(id, sketch), sketch.plan.when.get(step.name)
    over = "" if step.produced_by is None else f"over steps.{step.produced_by}"
    lines = joined([over]) + joined([f"only when {when}" if when else ""])
    return msgspec.structs.replace(box, lines=(*box.lines, *lines))


def _far_reads(plan: PlanHeader) -> list[Arrow]:
    """From each step to the later ones that read its result, but for the very next one."""
    return [
        Arrow(f"step {earlier}", f"step {n}", kind="reads")
        for n in range(len(plan.steps))
        for earlier in _read_by(plan, n)
        if earlier < n - 1
    ]


def _read_by(plan: PlanHeader, n: int) -> dict[int, str]:
    """The earlier steps that a step reads, each with the name by which it does."""
    steps: Sequence[DrawnStep] = plan.steps
    owner = {name: m for m in range(n) for name in steps[m].names}
    read = (
        steps[n].lists_read().union(*(asking.fields_read("steps") for _, asking in steps[n].asks()))
    )
    return {owner[name]: name for name in sorted(read & owner.keys())}
