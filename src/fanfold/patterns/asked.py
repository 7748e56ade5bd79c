"""One ask that makes one answer of many: an asked reduce, a combine, a synthesis."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Unpack

import msgspec

from fanfold.errors import FanfoldError
from fanfold.patterns.how import By, How, by_run, terms_of
from fanfold.patterns.prompt import Prompt, check_prompt, prompt_of
from fanfold.run.run import Run
from fanfold.work.arguments import public
from fanfold.work.ask import Ask, Message
from fanfold.work.item import Item
from fanfold.work.outcome import Missing, Outcome
from fanfold.work.task import Task, Terms
from fanfold.work.tree import check_fan_in

NAMES = frozenset({"parts", "items", "missing", "steps", "task"})
TOLD = 100  # ids behind a part that are listed when a prompt does not show its parts by itself

_encode = msgspec.json.Encoder().encode


class Whole(msgspec.Struct, frozen=True, gc=False):
    """One part on its way into an asked reduce: its own id, and those of the items behind it."""

    id: str
    ids: tuple[str, ...]
    value: Any

    def view(self) -> dict[str, Any]:
        return {"id": self.id, "ids": list(self.ids), "value": self.value}


class Asked(msgspec.Struct, frozen=True):
    """Who is asked to make one of many, and how. `fan_in`: at most so many in one ask."""

    prompt: Prompt
    terms: Terms
    fan_in: int = 10
    by: By = by_run


@public
def asked(
    prompt: str | None = None,
    *,
    fan_in: int = 10,
    schema: dict[str, Any] | type | None = None,
    by: By = by_run,
    **how: Unpack[How],
) -> Asked:
    """Let a member make one answer of many. In `prompt`, `parts` are the answers, each with `id`,
    `ids` and `value` (`items` is another name for them), and `missing` the items that have none;
    what it does not show is appended.

    A function member receives `{"parts": [...], "missing": [...]}`. `by` is another way to carry
    the ask out: a vote, say. A reduce of more than `fan_in` parts is a tree of such asks: higher up
    a part is an answer of this ask, and its `ids` are all the items behind it. Each is told who is
    missing among the items below it; the last one, of all.
    """
    check_fan_in(fan_in)
    made = prompt_of(prompt, schema, NAMES)
    return Asked(made, terms_of(how, made.schema, "reduce"), fan_in, by)


async def get_ready(run: Run, way: Asked) -> None:
    """Before anything is asked: those who would make one of many are there."""
    await run.begin(way.terms)
    if way.by is by_run:
        check_prompt(way.prompt, way.terms.step, run.traits(way.terms))
    begin = getattr(way.by, "begin", None)
    if begin is not None:
        await begin(run)


async def compose(
    run: Run, way: Asked, id: str, parts: Sequence[Whole], missing: Iterable[Missing] = ()
) -> Outcome:
    """One answer of these parts. It is gated like any ask; look at the outcome's state."""
    absent = [{"id": one.id, "state": one.state, "reasons": list(one.reasons)} for one in missing]
    made = Item(id, {"parts": [part.view() for part in parts], "missing": absent})
    try:
        prompt = way.prompt.knowing(items=made.data["parts"])
        ask = prompt.about(made, _listing(prompt, parts, absent))
    except FanfoldError as error:
        return Outcome(id, "failed", reasons=(str(error),))
    return await way.by(run, Task(id, ask, way.terms))


def asks_of(way: Asked, parts: Sequence[Whole]) -> Ask:
    """The ask of `compose` for these parts, for those who only want to know its size."""
    made = Item("", {"parts": [part.view() for part in parts], "missing": []})
    return way.prompt.about(made, _listing(way.prompt, parts, []))


def standins(many: int) -> Iterator[Ask]:
    """So many asks that differ, for the governor to count when theirs cannot be made yet."""
    return (Ask((Message("user", str(n)),)) for n in range(many))


def value_of(run: Run, step: str, outcome: Outcome) -> Any:
    """The value that passed; else none, and the run is flagged with the reason."""
    if outcome.state == "passed":
        return outcome.value
    why = "; ".join(outcome.reasons) or "no reason was given"
    run.flawed(f"{step}: {outcome.state}: {why}")
    return None


def _listing(prompt: Prompt, parts: Sequence[Whole], absent: list[dict[str, Any]]) -> str:
    """What the prompt does not show by itself: the parts under their ids, and who is missing."""
    blocks = []
    if not (prompt.shows("parts") or prompt.shows("items")):
        blocks += [f"### {_label(part)}\n{_text(part.value)}" for part in parts]
    if absent and not prompt.shows("missing"):
        named = ", ".join(f"{one['id']} ({one['state'] or 'not reached'})" for one in absent[:TOLD])
        more = f", and {len(absent) - TOLD} more" if len(absent) > TOLD else ""
        blocks.append(f"There is no answer for: {named}{more}")
    return "\n\n".join(blocks)


def _label(part: Whole) -> str:
    if part.ids in ((), (part.id,)):
        return part.id
    more = f", and {len(part.ids) - TOLD} more" if len(part.ids) > TOLD else ""
    return f"{part.id} ({', '.join(part.ids[:TOLD])}{more})"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _encode(value).decode()
