"""A plan as a picture: its input, its steps in order, and the shape inside of each."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import msgspec

from fanfold.errors import BadInput
from fanfold.members.roster import Roster
from fanfold.plans import rows
from fanfold.plans.drawing import told
from fanfold.plans.drawing.sketch import Sketch
from fanfold.plans.plan import Asking, Input, Pipeline, Plan, Stage, Step
from fanfold.plans.walk import of_step
from fanfold.work.picture import Arrow, Box, Picture
from fanfold.work.template import Template

_COUNTED_BYTES = 64 << 20
_NAMES = (
    "item", "items", "steps", "task", "parts", "missing", "parents", "question", "answers", "vars",
)  # fmt: skip
_INPUT = "input"


def picture(plan: Plan, *, items: int | None = None, roster: Roster | None = None) -> Picture:
    """`items` is how many the input has, when that is known; with a roster, `needs` are names.

    BadInput for a graph with a cycle.
    """
    sketch = Sketch(plan, items, roster)
    boxes = [] if plan.input is None else [_input(plan.input, items)]
    boxes += [_step(sketch, n) for n in range(len(plan.steps))]
    chain = [Arrow(a.id, b.id) for a, b in pairwise(boxes)]
    title = " · ".join(part for part in (plan.name, told.budget_told(plan.budget)) if part)
    return Picture(tuple(boxes), (*chain, *_far_reads(plan)), title)


def count_items(spec: Input, folder: str | Path) -> int | None:
    """How many items the input has; None when that is not known without much reading.

    Nothing is started or fetched, and a file that cannot be read is not an error here.
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
            path = folder / Path(spec.value).expanduser()
            if path.stat().st_size > _COUNTED_BYTES:
                return None
            walk, _ = rows.READERS[spec.kind]
            return sum(1 for _ in walk(path))


def _input(spec: Input, items: int | None) -> Box:
    return Box(_INPUT, "input", told.input_told(spec, items), "input")


# ── steps that look at earlier ones ──────────────────────────────────────────────────────────


def _step(sketch: Sketch, n: int) -> Box:
    box = sketch.step(f"step {n}", sketch.plan.steps[n])
    far = [name for earlier, name in _read_by(sketch.plan, n).items() if earlier < n - 1]
    lines = (*box.lines, *(f"reads steps.{name}" for name in far))
    return msgspec.structs.replace(box, lines=lines)


def _far_reads(plan: Plan) -> list[Arrow]:
    """From each step to the later ones that read its result, but for the very next one."""
    return [
        Arrow(f"step {earlier}", f"step {n}", kind="reads")
        for n in range(len(plan.steps))
        for earlier in _read_by(plan, n)
        if earlier < n - 1
    ]


def _read_by(plan: Plan, n: int) -> dict[int, str]:
    """The earlier steps that a step reads, each with the name by which it does."""
    owner = {name: m for m in range(n) for name in _names(plan.steps[m])}
    read = {name for _, asking in of_step(plan.steps[n]) for name in _steps_in(asking)}
    for part in (plan.steps[n], *_stages(plan.steps[n])):
        over = getattr(part, "over", None)
        if isinstance(over, str) and over.startswith("steps."):
            read.add(over.split(".")[1])
    return {owner[name]: name for name in sorted(read & owner.keys())}


def _names(step: Step) -> tuple[str, ...]:
    return (step.name, *(stage.name for stage in _stages(step)))


def _stages(step: Step) -> tuple[Stage, ...]:
    return step.stages if isinstance(step, Pipeline) else ()


def _steps_in(asking: Asking) -> set[str]:
    if asking.prompt is None or asking.verbatim or "steps" not in asking.prompt:
        return set()
    try:
        return Template(asking.prompt, name="prompt", known=_NAMES).fields("steps")
    except BadInput:
        return set()  # the plan was checked; a name that only this place does not know
