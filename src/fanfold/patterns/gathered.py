"""All items of a batch at once, for those who compare them with one another: what becomes of each
follows from all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from fanfold.errors import BadInput
from fanfold.gates.default import default
from fanfold.patterns.prompt import lacking_field
from fanfold.run.planning import Batch
from fanfold.run.run import Run
from fanfold.work.ask import Ask, Reply
from fanfold.work.blocking import Block, item_names
from fanfold.work.check import described
from fanfold.work.item import Item, Source
from fanfold.work.outcome import Outcome
from fanfold.work.reader import listed
from fanfold.work.task import NOBODY, Place, Task, Terms

_PAGE = 1000


def need_field(name: str, source: Source, *fields: str | None) -> Source:
    """The first item must have a field that an operator goes by, else it says so before it plans."""
    first = next(iter(source.walk()), None)
    if first is not None and (why := lacking_field(name, item_names(*fields), first[1])):
        raise BadInput(why)
    return source


def needed_block(block: Any, source: Source) -> Source:
    """Of a script: it is one, and the first item has its fields."""
    if not isinstance(block, Block):
        raise BadInput(f"`block` must be a Block(…), not {described(block)}")
    for fields in (listed(block.on), (block.key,), (block.vector,)):
        need_field("block", source, *fields)
    return source


def terms_of_nobody(step: str, called: str = "") -> Terms:
    """Of a step whose items are settled without an ask about each."""
    return Terms(step, default(), NOBODY, revise=0, called=called)


def terms_within(terms: Terms, part: str) -> Terms:
    """The same for what is asked within the step."""
    return msgspec.structs.replace(terms, step=f"{terms.step}.{part}")


async def settle_all(
    run: Run, batch: Batch, terms: Terms, ended: Iterable[tuple[int, Item, Outcome]]
) -> None:
    """Write down how each item ended; a resumed run writes the same again."""
    run.recall(batch, terms)
    for n, (position, item, outcome) in enumerate(ended, 1):
        task = Task(item.id, Ask(items=(item,)), terms, Place(batch.no, position))
        run.settle(task, outcome)
        if n % _PAGE == 0:
            await run.flush()
            await asyncio.sleep(0)
    await run.flush()


class Gathered:
    """The items of a batch that are in the flow, in memory."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        rows = list(batch.source.walk())
        self.items: Sequence[Item] = [item for _, item in rows]
        self._positions = [position for position, _ in rows]

    async def settle(self, run: Run, terms: Terms, outcomes: Iterable[Outcome]) -> None:
        """How each of them ended, in their order."""
        ended = zip(self._positions, self.items, outcomes, strict=True)
        await settle_all(run, self._batch, terms, ended)


def passed(item: Item, value: Any) -> Outcome:
    """As the journal gives it back: a text is a text."""
    reply = Reply(text=value) if isinstance(value, str) else Reply(data=value)
    return Outcome(item.id, "passed", reply)
