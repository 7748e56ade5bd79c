"""One value of the answers that came: by a function, or by a member who is told who is missing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import msgspec

from fanfold.errors import FanfoldError, RunStopped, StoreError
from fanfold.patterns import asked
from fanfold.patterns.asked import Asked, Whole, compose, value_of
from fanfold.patterns.fold import collect
from fanfold.run.pool import in_order
from fanfold.run.run import Run
from fanfold.work.options import reducer
from fanfold.work.outcome import Missing, Outcome, Part
from fanfold.work.raised import error_text
from fanfold.work.task import Reducer

_encode = msgspec.json.Encoder().encode


async def get_ready(run: Run, way: Reducer | Asked | None) -> None:
    """Before anything is asked: who would write the synthesis is there."""
    if isinstance(way, Asked):
        await asked.get_ready(run, way)
    elif way is not None:
        reducer("synthesise", way)


def named(way: Reducer | Asked | None, step: str) -> Reducer | Asked | None:
    """An asked synthesis that was given no name of its own goes by that of its step."""
    if isinstance(way, Asked) and way.terms.step == "reduce":
        terms = msgspec.structs.replace(way.terms, step=f"{step}.synthesise")
        return msgspec.structs.replace(way, terms=terms)
    return way


async def synthesis(
    run: Run, outcomes: Sequence[Outcome], way: Reducer | Asked | None = None
) -> Any:
    """One value of those that passed, in planned order; it becomes the run's result.

    A reducer that raises, an asked synthesis that does not pass, or one of nothing gives None and
    a flagged run. An asked one sees all answers at once, or `fan_in` at a time in a tree.
    """
    if isinstance(way, Asked):
        value = await _asked(run, way, outcomes)
    else:
        value = _reduced(run, way or collect(), outcomes)
    run.set_result(value)
    return value


def _reduced(run: Run, reduce: Reducer, outcomes: Sequence[Outcome]) -> Any:
    passed = (one for one in outcomes if one.state == "passed")
    try:
        value = reduce(Part(one.id, one.position, one.value) for one in passed)
        _encode(value)
    except (RunStopped, StoreError):
        raise
    except FanfoldError as error:
        run.flawed(f"synthesis: {error}")
    except Exception as error:
        run.flawed(f"synthesis raised {error_text(error)}")
    else:
        return value
    return None


async def _asked(run: Run, way: Asked, outcomes: Sequence[Outcome]) -> Any:
    """Groups are fixed by the planned order, so that one without an answer shifts no other."""
    step = way.terms.step
    slots = [Whole(o.id, (o.id,), o.value) if o.state == "passed" else None for o in outcomes]
    missing = [
        Missing(o.id, o.position, o.state, o.reasons) for o in outcomes if o.state != "passed"
    ]
    if len(missing) == len(outcomes):
        if missing:
            run.flawed(f"{step}: there is no answer that it could be made of")
        return None
    absent = {one.position: one for one in missing}
    lost = [[absent[o.position]] if o.state != "passed" else [] for o in outcomes]
    level = 0
    while sum(slot is not None for slot in slots) > way.fan_in:
        level += 1
        groups = [list(chain(*lost[n : n + way.fan_in])) for n in range(0, len(lost), way.fan_in)]
        grouped = await _grouped(run, way, slots, groups, f"{step} {level}")
        if grouped is None:
            return None
        slots, lost = grouped, groups
    parts = [slot for slot in slots if slot is not None]
    return value_of(run, step, await compose(run, way, step, parts, missing))


async def _grouped(
    run: Run, way: Asked, slots: list[Whole | None], lost: list[list[Missing]], name: str
) -> list[Whole | None] | None:
    """The next level: one for each group, which is told whom it has `lost`. A group of one goes up
    as it is. None: one did not pass."""
    chunks = [slots[n : n + way.fan_in] for n in range(0, len(slots), way.fan_in)]
    groups = [[slot for slot in chunk if slot is not None] for chunk in chunks]
    above: list[Whole | None] = [group[0] if group else None for group in groups]
    several = [n for n, group in enumerate(groups) if len(group) > 1]
    made = await in_order(
        several, lambda n: compose(run, way, f"{name}.{n + 1}", groups[n], lost[n])
    )
    for n, outcome in zip(several, made, strict=True):
        if outcome.state != "passed":
            value_of(run, way.terms.step, outcome)
            return None
        ids = tuple(id for part in groups[n] for id in part.ids)
        above[n] = Whole(outcome.id, ids, outcome.value)
    return above
