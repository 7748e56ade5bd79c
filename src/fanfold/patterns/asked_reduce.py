"""One ask that makes one answer of many: an asked reduce, a combine, a synthesis."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Unpack

import msgspec

from fanfold.errors import FanfoldError, RunStopped, StoreError
from fanfold.patterns.arguments import (
    PatternOptions,
    TaskHandler,
    ask_member,
    begin_handler,
    handler,
    terms_of,
)
from fanfold.patterns.fold import collect
from fanfold.patterns.piecewise import knowing
from fanfold.patterns.prompt import Prompt, prompt_of
from fanfold.run.pool import in_order
from fanfold.run.run import Run
from fanfold.work.arguments import public
from fanfold.work.ask import Ask, Message
from fanfold.work.excerpt import as_text
from fanfold.work.item import Item
from fanfold.work.options import reducer
from fanfold.work.outcome import Missing, Outcome, Part
from fanfold.work.raised import error_text
from fanfold.work.task import Reducer, Task, Terms
from fanfold.work.template import unshown
from fanfold.work.tree import check_fan_in, widths

PART_NAMES = frozenset({"parts", "items", "missing", "steps", "task"})
MOST_IDS = 100  # ids behind a part that are listed when a prompt does not show its parts by itself

_encode = msgspec.json.Encoder().encode


class SourcedPart(msgspec.Struct, frozen=True, gc=False):
    """One part on its way into an asked reduce: its own id, and those of the items behind it."""

    id: str
    ids: tuple[str, ...]
    value: Any

    def view(self) -> dict[str, Any]:
        return {"id": self.id, "ids": list(self.ids), "value": self.value}


class AskedReduce(msgspec.Struct, frozen=True):
    """Who is asked to make one of many, and how. `fan_in`: at most so many in one ask. `partial`: one
    of several such asks that fails is done without, and those behind it count as missing."""

    prompt: Prompt
    terms: Terms
    fan_in: int = 10
    by: TaskHandler = ask_member
    partial: bool = False


@public
def asked(
    prompt: str | None = None,
    *,
    fan_in: int = 10,
    schema: dict[str, Any] | type | None = None,
    by: TaskHandler = ask_member,
    **how: Unpack[PatternOptions],
) -> AskedReduce:
    """Let a member make one answer of many. In `prompt`, `parts` are the answers, each with `id`,
    `ids` and `value` (`items` is another name for them), and `missing` the items that have none;
    what it does not show is appended.

    A function member receives `{"parts": [...], "missing": [...]}`. `by` is another way to carry
    the ask out: a vote, say. A reduce of more than `fan_in` parts is a tree of such asks: higher up
    a part is an answer of this ask, and its `ids` are all the items behind it. Each is told who is
    missing among the items below it; the last one, of all.

    When one of them gets no reply, however often it is tried, the run pauses; resumed, it tries that
    one again. With `on_failure="partial"` the others go on: the items behind it are `missing` in the
    ask above it, and the run ends flagged. The last ask has none above it.
    """
    check_fan_in(fan_in)
    made = prompt_of(prompt, schema, PART_NAMES, how)
    partial = how.get("on_failure") == "partial"
    if partial:
        del how["on_failure"]
    return AskedReduce(made, terms_of(how, made.schema, "reduce"), fan_in, handler(by), partial)


async def begin_asked(run: Run, reduce: AskedReduce) -> None:
    """Before anything is asked: those who would make one of many are there."""
    await run.begin(reduce.terms)
    await begin_handler(run, reduce.by, reduce.prompt, reduce.terms)


def expect_tree(run: Run, reduce: AskedReduce, parts: int) -> None:
    """So many parts will be made one: what that takes is not for second requests."""
    run.needs.least(reduce.terms.step, sum(widths(parts, reduce.fan_in)[1:]))


async def compose(
    run: Run,
    reduce: AskedReduce,
    id: str,
    parts: Sequence[SourcedPart],
    missing: Iterable[Missing] = (),
) -> Outcome:
    """One answer of these parts. It is gated like any ask; look at the outcome's state."""
    absent = [{"id": one.id, "state": one.state, "reasons": list(one.reasons)} for one in missing]
    made = Item(id, {"parts": [part.view() for part in parts], "missing": absent})
    try:
        prompt = reduce.prompt.knowing(items=made.data["parts"])
        ask = prompt.about(made, _listing(prompt, parts, absent))
    except FanfoldError as error:
        return Outcome(id, "failed", reasons=(str(error),))
    return await reduce.by(run, Task(id, ask, reduce.terms))


def ask_about_parts(reduce: AskedReduce, parts: Sequence[SourcedPart]) -> Ask:
    """The ask of `compose` for these parts, for those who only want to know its size."""
    made = Item("", {"parts": [part.view() for part in parts], "missing": []})
    return reduce.prompt.about(made, _listing(reduce.prompt, parts, []))


def placeholder_asks(many: int) -> Iterator[Ask]:
    """So many asks that differ, for the governor to count when theirs cannot be made yet."""
    return (Ask((Message("user", str(n)),)) for n in range(many))


def value_or_flag(run: Run, step: str, outcome: Outcome) -> Any:
    """The value that passed; else none, and the run is flagged with the reason."""
    if outcome.state == "passed":
        return outcome.value
    why = "; ".join(outcome.reasons) or "no reason was given"
    run.flawed(f"{step}: {outcome.state}: {why}")
    return None


def value_or_pause(run: Run, step: str, outcome: Outcome) -> Any:
    """The value that passed. Where somebody was asked and there is no reply the run pauses, to try it
    again; else there is none, and the run is flagged with the reason."""
    if outcome.state == "failed" and outcome.calls:
        why = "; ".join(outcome.reasons) or "no reason was given"
        run.pause(f"{step}: failed: {why}; all that passed is on record, resume to try this again")
        run.pause_if_unpaid()
    return value_or_flag(run, step, outcome)


def left_out(node: str, parts: Sequence[SourcedPart], outcome: Outcome) -> list[Missing]:
    """The items behind an ask that failed, as those above it are told. Why it failed is not told: a
    resumed run asks the same then."""
    why = (f"{node} of the reduce {outcome.state}",)
    return [Missing(id, -1, outcome.state, why) for part in parts for id in part.ids]


def say_left_out(run: Run, step: str, lost: Sequence[Missing], first: Outcome | None) -> None:
    """The result lacks these, though they passed."""
    if first is not None:
        why = "; ".join(first.reasons) or first.state
        run.left_out += lost
        run.flawed(f"{step}: {len(lost)} items that passed are not in the result: {why}")


def _listing(prompt: Prompt, parts: Sequence[SourcedPart], absent: list[dict[str, Any]]) -> str:
    """What the prompt does not show by itself: the parts under their ids, and who is missing."""

    def shown() -> str:
        return "\n\n".join(f"### {_label(part)}\n{as_text(part.value)}" for part in parts)

    def missing() -> str:
        named = [f"{one['id']} ({one['state'] or 'not reached'})" for one in absent]
        return f"There is no answer for: {_few(named)}" if named else ""

    return unshown(prompt.shows, (("parts", "items"), shown), (("missing",), missing))


def _label(part: SourcedPart) -> str:
    return part.id if part.ids in ((), (part.id,)) else f"{part.id} ({_few(part.ids)})"


def _few(names: Sequence[str]) -> str:
    more = f", and {len(names) - MOST_IDS} more" if len(names) > MOST_IDS else ""
    return f"{', '.join(names[:MOST_IDS])}{more}"


# ── a synthesis: of the answers that came, told who is missing ───────────────────────────────────


async def begin_synthesis(run: Run, reduce: Reducer | AskedReduce | None) -> None:
    """Before anything is asked: who would write the synthesis is there."""
    if isinstance(reduce, AskedReduce):
        await begin_asked(run, reduce)
    elif reduce is not None:
        reducer("synthesise", reduce)


def named_after(reduce: Reducer | AskedReduce | None, step: str) -> Reducer | AskedReduce | None:
    """An asked synthesis that was given no name of its own goes by that of its step."""
    if isinstance(reduce, AskedReduce) and reduce.terms.step == "reduce":
        terms = msgspec.structs.replace(reduce.terms, step=f"{step}.synthesise")
        return msgspec.structs.replace(reduce, terms=terms)
    return reduce


async def synthesis(
    run: Run, outcomes: Sequence[Outcome], reduce: Reducer | AskedReduce | None = None
) -> Any:
    """One value of those that passed, in planned order; it becomes the run's result.

    A reducer that raises, an asked synthesis that does not pass, or one of nothing gives None and
    a flagged run. An asked one sees all answers at once, or `fan_in` at a time in a tree.
    """
    if isinstance(reduce, AskedReduce):
        value = await _synthesised(run, reduce, outcomes)
    else:
        value = _reduced(run, reduce or collect(), outcomes)
    run.set_result(value)
    return value


def _reduced(run: Run, reduce: Reducer, outcomes: Sequence[Outcome]) -> Any:
    passed = (one for one in outcomes if one.state == "passed")
    reduce = knowing(reduce, lambda: _missing(outcomes))
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


def _missing(outcomes: Sequence[Outcome]) -> list[Missing]:
    return [Missing(o.id, o.position, o.state, o.reasons) for o in outcomes if o.state != "passed"]


async def _synthesised(run: Run, reduce: AskedReduce, outcomes: Sequence[Outcome]) -> Any:
    """Groups are fixed by the planned order, so that one without an answer shifts no other."""
    step = reduce.terms.step
    slots = [SourcedPart(o.id, (o.id,), o.value) if o.state == "passed" else None for o in outcomes]
    missing = _missing(outcomes)
    if len(missing) == len(outcomes):
        if missing:
            run.flawed(f"{step}: no answer passed, so there is nothing to combine")
        return None
    absent = {one.position: one for one in missing}
    lost = [[absent[o.position]] if o.state != "passed" else [] for o in outcomes]
    level, first = 0, None
    while sum(slot is not None for slot in slots) > reduce.fan_in:
        level += 1
        lost = [
            list(chain(*lost[n : n + reduce.fan_in])) for n in range(0, len(lost), reduce.fan_in)
        ]
        groups = [
            [slot for slot in slots[n : n + reduce.fan_in] if slot is not None]
            for n in range(0, len(slots), reduce.fan_in)
        ]
        slots = []
        for n, made in enumerate(await _grouped(run, reduce, groups, lost, f"{step} {level}")):
            if isinstance(made, Outcome) and not reduce.partial:
                return value_or_pause(run, step, made)
            if isinstance(made, Outcome):
                gone, first = left_out(made.id, groups[n], made), first or made
                lost[n] += gone
                missing += gone
            slots.append(None if isinstance(made, Outcome) else made)
    say_left_out(run, step, [one for one in missing if one.position < 0], first)
    parts = [slot for slot in slots if slot is not None]
    if not parts:
        return None
    return value_or_pause(run, step, await compose(run, reduce, step, parts, missing))


async def _grouped(
    run: Run,
    reduce: AskedReduce,
    groups: Sequence[list[SourcedPart]],
    lost: Sequence[list[Missing]],
    name: str,
) -> list[SourcedPart | Outcome | None]:
    """The next level: one for each group, which is told whom it has `lost`. A group of one goes up
    as it is. An outcome: it did not pass."""
    above: list[SourcedPart | Outcome | None] = [group[0] if group else None for group in groups]
    several = [n for n, group in enumerate(groups) if len(group) > 1]
    made = await in_order(
        several, lambda n: compose(run, reduce, f"{name}.{n + 1}", groups[n], lost[n])
    )
    for n, outcome in zip(several, made, strict=True):
        ids = tuple(id for part in groups[n] for id in part.ids)
        passed = outcome.state == "passed"
        above[n] = SourcedPart(outcome.id, ids, outcome.value) if passed else outcome
    return above
