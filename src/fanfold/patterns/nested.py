"""A map_reduce inside a stage: an item becomes a list, the list is mapped, and one value is made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeAlias, Unpack

import msgspec

from fanfold.errors import BadInput, FanfoldError, RunStopped, StoreError
from fanfold.patterns.arguments import (
    NoValue,
    PatternOptions,
    TaskHandler,
    ask_member,
    handler,
    reply_of,
    terms_of,
)
from fanfold.patterns.asked_reduce import AskedReduce, placeholder_asks
from fanfold.patterns.map_reduce import fold_batch
from fanfold.patterns.pipeline import Stage, begin_stages, pipe_batch
from fanfold.patterns.prompt import Prompt, make_task, prompt_of
from fanfold.patterns.reduce import Reducing, begin_reduce, reduce_batch, reducing
from fanfold.run.planning import Batch
from fanfold.run.run import Run
from fanfold.run.sources import Rows, as_item
from fanfold.work.arguments import at_once, public
from fanfold.work.ask import Ask
from fanfold.work.item import Item, canonical
from fanfold.work.options import needed, plain_function
from fanfold.work.outcome import Outcome
from fanfold.work.raised import error_text
from fanfold.work.task import Reducer, Task, Terms
from fanfold.work.tree import widths

MOST_LEVELS = 4

Over: TypeAlias = Callable[[dict[str, Any]], list[Any]]
"""From an item, with the replies it has so far in `steps`, to the list that is worked on."""


@public
def map_reduce_inside(
    over: Over,
    prompt: Prompt,
    terms: Terms,
    reduce: Reducer | AskedReduce,
    fan_in: int | None = None,
    by: TaskHandler = ask_member,
) -> TaskHandler:
    """As a stage: take a list out of the item, ask `prompt` about each part of it, and reduce.

    The parts are planned as a batch of their own, `STAGE/ITEM`, so they count in `planned`, each
    under the id `ITEM/PART`. The stage's gate judges the value. `by` is how each part is carried
    out; it may be another of these, up to four levels deep.
    """
    levels = 1 + getattr(by, "levels", 0)
    if levels > MOST_LEVELS:
        raise BadInput(
            f"map_reduce is nested {levels} levels deep; at most {MOST_LEVELS} are possible:"
            " make one list of the inner ones"
        )
    reduction = msgspec.structs.replace(reducing(reduce, fan_in), inside=True)
    return NestedMapReduce(over, prompt, terms, reduction, by, levels)


@public
def inside(
    over: Over,
    prompt: str | None = None,
    *,
    reduce: Reducer | AskedReduce,
    schema: dict[str, Any] | type | None = None,
    fan_in: int | None = None,
    by: TaskHandler = ask_member,
    **how: Unpack[PatternOptions],
) -> TaskHandler:
    """A map_reduce for a stage, with the arguments of `map_reduce`: `stage(by=inside(...))`."""
    made = prompt_of(prompt, schema, how=how)
    terms = terms_of(how, made.schema, "inside")
    over = needed("over", over, plain_function)
    return map_reduce_inside(over, made, terms, reduce, fan_in, handler(by))


class NestedMapReduce(msgspec.Struct, frozen=True):
    """The way of a task through its parts. `levels`: how deep such ways are nested in it."""

    over: Over
    prompt: Prompt
    terms: Terms
    reduction: Reducing
    by: TaskHandler = ask_member
    levels: int = 1

    async def begin(self, run: Run) -> None:
        """Before the first ask: those who work on the parts are there, and who makes one of them."""
        await begin_stages(run, [self._stage])
        await begin_reduce(run, self.reduction)

    async def __call__(self, run: Run, task: Task) -> Outcome:
        try:
            parts = _parts(self.over, task)
            batch = await run.plan(Rows(parts), self.terms, name=f"{task.terms.step}/{task.id}")
            await run.govern(self.terms, self._asks(parts))
            if isinstance(self.reduction.how, AskedReduce) and self.reduction.fan_in is not None:
                nodes = sum(widths(len(parts), self.reduction.fan_in)[1:])
                await run.govern(self.reduction.how.terms, placeholder_asks(nodes))
            return await settle_value(run, task, await self._folded(run, batch))
        except NoValue as error:
            return run.settle(task, Outcome(task.id, "failed", reasons=(str(error),)))

    @property
    def _stage(self) -> Stage:
        return Stage(self.prompt, self.terms, None, self.by)

    def _asks(self, parts: list[Item]) -> Iterator[Ask]:
        return (make_task(self.prompt, part, self.terms, None).ask for part in parts)

    async def _folded(self, run: Run, batch: Batch) -> Any:
        """Nothing is made of parts of which none passed. What a reducer raises is why there is no
        value; the parts' replies are in the journal."""
        value = await value_of(self._made(run, batch))
        if batch.size and next(run.behind(batch, self.terms), None) is None:
            raise NoValue(f"none of its {batch.size} parts passed {self.terms.step}")
        return value

    async def _made(self, run: Run, batch: Batch) -> Any:
        if self.by is ask_member:
            return await fold_batch(run, batch, self.terms, self.prompt, None, self.reduction)
        await pipe_batch(run, batch, [self._stage], "batch")
        return await reduce_batch(run, batch, self.terms, self.reduction)


async def value_of(making: Awaitable[Any]) -> Any:
    """What a reduce makes; NoValue says why it makes nothing."""
    try:
        return await making
    except (RunStopped, StoreError, BadInput):
        raise
    except FanfoldError as error:
        why = str(error).removeprefix("reduce: ")
        raise NoValue(f"the reduce failed: {why}") from None
    except Exception as error:
        raise NoValue(f"the reduce raised {error_text(error)}") from None


async def settle_value(run: Run, task: Task, value: Any) -> Outcome:
    """How a task ended that has this value, made of others: there is nobody to kick it back to."""
    reply = reply_of(value, "reduce")
    state, verdict = await run.judge(task, reply)
    return run.settle(task, Outcome(task.id, state, reply, verdict.reasons))


def _parts(over: Over, task: Task) -> list[Item]:
    """The list, as items of their own. It comes out of a reply, so it may be anything."""
    view = task.ask.items[0].view()
    try:
        rows = at_once(over(view))
    except Exception as error:
        raise NoValue(f"its list could not be computed: {error_text(error)}") from None
    if not isinstance(rows, list | tuple):
        raise NoValue(f"its list must be a list, not {type(rows).__name__}")
    items: dict[str, Item] = {}
    for position, row in enumerate(rows):
        part = as_item(row, position)
        if part.id in items:
            raise NoValue(f"duplicate id {part.id!r} in its list")
        _check_plain(part.data, position)
        items[part.id] = Item(f"{task.id}/{part.id}", part.data)
    return list(items.values())


def _check_plain(value: Any, position: int) -> None:
    try:
        canonical(value)
    except (UnicodeError, TypeError, OverflowError, RecursionError) as error:
        raise NoValue(f"part {position} of its list is not plain JSON: {error}") from None
