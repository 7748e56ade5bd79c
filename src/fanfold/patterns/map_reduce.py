"""MapReduce: the same ask over many items, then many passed replies into one result."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Unpack

from fanfold.patterns.how import Folded, How, terms_of
from fanfold.patterns.prompt import Prompt, make_tasks, prompt_of
from fanfold.run.planning import Batch
from fanfold.run.pursuit import Pursuit
from fanfold.run.run import Run
from fanfold.run.sources import source_of
from fanfold.run.stream import Sharding
from fanfold.work.ask import Ask, Reply
from fanfold.work.item import Source
from fanfold.work.split import estimate_tokens, shard_ask, take_apart
from fanfold.work.task import Reducer, Task, Terms


async def map_reduce(
    run: Run,
    items: Source | Iterable[Any],
    *,
    prompt: str | None = None,
    schema: dict[str, Any] | type | None = None,
    shard: int | None = None,
    reduce: Reducer | None = None,
    **how: Unpack[How],
) -> Folded:
    """Ask `prompt` about each item, gate the replies, and reduce what passed.

    Without `reduce` the value is None and the replies stay in the journal: a million of them
    never sit in memory. `shard=n` sends n items in one ask.
    """
    asked = prompt_of(prompt, schema)
    terms = terms_of(how, asked.schema, "map")
    batch = await run.plan(source_of(items, run.spool), terms)
    sharding = None if shard is None else sharding_of(asked, items=shard)
    await map_batch(run, batch, terms, asked, sharding)
    value = fold(run, batch, terms, reduce)
    return Folded(value, run.receipt(), run, batch, terms)


async def map_batch(
    run: Run, batch: Batch, terms: Terms, prompt: Prompt, shard: Sharding | None = None
) -> None:
    """Carry every item of a batch through one step. The replies are in the journal afterwards."""
    if not run.reads_messages(terms):
        prompt = Prompt(schema=prompt.schema, params=prompt.params)
    tasks = make_tasks(run.remaining(batch, terms), batch.no, terms, prompt)
    await run.drain(tasks, shard)


def fold(run: Run, batch: Batch, terms: Terms, reduce: Reducer | None) -> Any:
    """The pure reduce, over what passed, in planned order."""
    if reduce is None:
        return None
    value = reduce(run.passed(batch, terms))
    run.set_result(value)
    return value


def sharding_of(prompt: Prompt, *, items: int | None = None, tokens: int | None = None) -> Sharding:
    """How several of these asks become one, and its reply several again."""

    def together(
        pursuits: tuple[Pursuit, ...],
    ) -> tuple[Ask, Callable[[Reply], dict[str, Reply]]]:
        asks = [(pursuit.task.id, pursuit.ask) for pursuit in pursuits]
        whole = tuple(item for _, ask in asks for item in ask.items)
        ids = [id for id, _ in asks]
        made = shard_ask(asks, prompt.rendered_together(whole))
        typed = prompt.schema is not None or pursuits[0].circle.takes == ("items",)
        return made, lambda reply: take_apart(reply, ids, typed)

    return Sharding(together, _size, items, tokens)


def _size(task: Task) -> int:
    return sum(estimate_tokens(message.content) for message in task.ask.messages) or 1
