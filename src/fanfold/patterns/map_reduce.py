"""MapReduce: the same ask over many items, then many passed replies into one result."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing
from typing import Any, Unpack

import msgspec

from fanfold.errors import BadInput, FanfoldError
from fanfold.patterns.arguments import Folded, PatternOptions, pattern, prompt_for, terms_of
from fanfold.patterns.asked_reduce import AskedReduce
from fanfold.patterns.prompt import (
    Prompt,
    check_prompt,
    make_task,
    make_tasks,
    prompt_of,
    readable,
)
from fanfold.patterns.reduce import (
    Landing,
    Reducing,
    absent_of,
    begin_reduce,
    grow,
    reduce_batch,
    reducing,
)
from fanfold.patterns.watching import watching
from fanfold.run.demand import embeds
from fanfold.run.planning import Batch
from fanfold.run.run import Run
from fanfold.run.shares import Ranges
from fanfold.run.sources import source_of
from fanfold.run.stream import Sharding
from fanfold.run.task_state import TaskState
from fanfold.work.ask import Ask
from fanfold.work.batch import SHARD_AND_BATCH
from fanfold.work.check import whole
from fanfold.work.document import Node
from fanfold.work.item import Item, Source
from fanfold.work.options import option
from fanfold.work.outcome import Part
from fanfold.work.reader import read_record
from fanfold.work.routed import Route, read_route
from fanfold.work.shard import ShardSize
from fanfold.work.split import TakeApart, fields_of, inputs_together, shard_ask
from fanfold.work.task import Place, Reducer, Task, Terms, reads_of
from fanfold.work.watch import script_watch


@pattern
async def map_reduce(
    run: Run,
    items: Source | Iterable[Any],
    *,
    prompt: str | None = None,
    schema: dict[str, Any] | type | None = None,
    shard: int | Mapping[str, Any] | None = None,
    reduce: Reducer | AskedReduce | None = None,
    fan_in: int | None = None,
    route: Mapping[str, Any] | str | None = None,
    watch: Mapping[str, Any] | None = None,
    **how: Unpack[PatternOptions],
) -> Folded:
    """Ask `prompt` about each item, gate the replies, and reduce what passed.

    Without `reduce` the value is None and the replies stay in the journal: a million of them
    never sit in memory. `shard=n` sends n items in one ask, `shard={"tokens": n}` or `{"bytes": n}`
    as many as fit; `{"count": n}` makes n asks of all of them, with `"hash": "item.FIELD"` those with
    equal values in one, and `{"range": "item.FIELD", "bounds": [a, b]}` goes by what lies between.

    `route={"by": FIELD, "to": {VALUE: member}, "else": member}`: who answers goes by the item;
    or `{"rules": […], "else": member}`, or the file of them that `tune --learned` wrote.
    `watch={"truth": "member:ID", "target": 0.95, "rate": 0.02}`: a sample of the answers is checked, and
    when fewer than the target are right the run is flagged, or pauses (`"on_drift": "pause"`).

    With `fan_in`, and always with `reduce=asked(...)`, the reduce is a tree that grows while the
    map goes on: at most `fan_in` neighbours become one, and so on up. A reducer of your own is then
    applied to its own results too, so it must give back what it can take. An asked reduce that does
    not pass its gate gives None and flags the run.
    """
    reduction = reducing(reduce, fan_in)
    asked = prompt_of(prompt, schema, how=how)
    size = option("shard", shard, read_shard)
    terms = _terms(how, asked, option("route", route, read_route))
    if terms.route is not None and size is not None:
        raise BadInput("state `route` or `shard`, not both")
    terms = msgspec.structs.replace(terms, watch=option("watch", watch, script_watch))
    if terms.batch is not None and size is not None:
        raise BadInput(SHARD_AND_BATCH)
    check_prompt(asked, terms, run.traits(terms))
    source = readable(source_of(items, run.spool), [asked], reads_of(terms.gate))
    batch = await run.plan(source, terms)
    value = await fold_batch(run, batch, terms, asked, size, reduction)
    if reduce is not None:
        run.set_result(value)
    return Folded(value, run.receipt(), run, batch, terms)


def _terms(how: PatternOptions, prompt: Prompt, route: Route | None) -> Terms:
    if route is None:
        return terms_of(how, prompt.schema, "map")
    for name in ("member", "members", "needs"):
        if name in how:
            raise BadInput(f"state `route` or `{name}`, not both")
    terms = terms_of({**how, "members": route.members}, prompt.schema, "map")
    return msgspec.structs.replace(terms, route=route)


async def map_batch(
    run: Run, batch: Batch, terms: Terms, prompt: Prompt, shard: ShardSize | None = None
) -> None:
    """Carry every item of a batch through one step. The replies are in the journal afterwards."""
    made, sharding = _prompt(run, batch, terms, prompt), sharding_of(prompt, shard, batch.size)
    if run.share is not None and run.share.divides:
        return await _map_ranges(run, batch, terms, made, sharding)
    tasks = make_tasks(run.remaining(batch, terms), batch.no, terms, made)
    if terms.watch is None:
        return await run.drain(tasks, sharding)
    async with (
        watching(run, batch, terms, prompt) as watch,
        aclosing(run.stream(watch.seen(tasks), sharding)) as landing,
    ):
        async for outcome in landing:
            await watch.landed(outcome)
    await run.flush()
    return None


async def _map_ranges(
    run: Run, batch: Batch, terms: Terms, prompt: Prompt, sharding: Sharding | None
) -> None:
    """The same, as one of several processes: this one does those ranges of the batch that it takes."""
    assert run.share is not None
    run.recall(batch, terms)
    ranges = Ranges(run.share)

    async def tasks() -> AsyncGenerator[Task, None]:
        async for position, item in ranges.items(batch.source):
            yield make_task(prompt, item, terms, Place(batch.no, position))

    async with aclosing(run.stream(tasks(), sharding, terms)) as landing:
        async for outcome in landing:
            ranges.landed(outcome.position)
    await run.flush()


def _prompt(run: Run, batch: Batch, terms: Terms, prompt: Prompt) -> Prompt:
    """Of a single ask nobody would read what a service keeps."""
    made = prompt_for(run, terms, prompt)
    return made if batch.size > 1 else msgspec.structs.replace(made, alone=True)


async def fold_batch(
    run: Run,
    batch: Batch,
    terms: Terms,
    prompt: Prompt,
    shard: ShardSize | None,
    reduction: Reducing,
) -> Any:
    """Carry every item of a batch through one step, and reduce: in a tree, while they land."""
    await begin_reduce(run, reduction)
    if reduction.fan_in is None:
        await map_batch(run, batch, terms, prompt, shard)
        return await reduce_batch(run, batch, terms, reduction)
    landings = _mapped(run, batch, terms, prompt, shard)
    value = await grow(run, batch.size, landings, reduction, absent_of(run, batch, terms))
    await run.flush()
    return value


async def _mapped(
    run: Run, batch: Batch, terms: Terms, prompt: Prompt, shard: ShardSize | None
) -> AsyncGenerator[Landing, None]:
    """Each planned position as it lands. The source is walked in planned order, also on resume, so
    that a tree over it waits for few at a time."""
    run.recall(batch, terms)
    walk = _Walk(batch)
    tasks = make_tasks(walk.items(), batch.no, terms, _prompt(run, batch, terms, prompt))
    sharding = sharding_of(prompt, shard, batch.size)
    async with (
        watching(run, batch, terms, prompt) as watch,
        aclosing(run.stream(watch.seen(tasks), sharding)) as landing,
    ):
        async for outcome in landing:
            await watch.landed(outcome)
            for position in walk.passed_over():
                yield position, None
            at, passed = outcome.position, outcome.state == "passed"
            yield at, Part(outcome.id, at, outcome.value) if passed else None
    for position in walk.passed_over():
        yield position, None


class _Walk:
    """A batch's items in planned order, and the positions that its source does not give: those that
    left the flow before."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._gaps: list[range] = []

    def items(self) -> Iterator[tuple[int, Item]]:
        after = 0
        for position, item in self._batch.source.walk():
            self._note(after, position)
            after = position + 1
            yield position, item
        self._note(after, self._batch.size)

    def _note(self, first: int, end: int) -> None:
        if first < end:
            self._gaps.append(range(first, end))

    def passed_over(self) -> Iterator[int]:
        """Those that were not told yet."""
        gaps, self._gaps = self._gaps, []
        for gap in gaps:
            yield from gap


def read_shard(node: Node) -> ShardSize:
    """So many items, or a mapping as in a plan."""
    if isinstance(node.value, dict):
        return read_record(node, ShardSize)
    return ShardSize(items=whole(least=1)(node))


def sharding_of(prompt: Prompt, size: ShardSize | None, of: int) -> Sharding | None:
    """How several of these asks become one, and its reply several again. There are `of` items."""
    if size is None:
        return None
    fields = fields_of(prompt.schema)

    def together(states: tuple[TaskState, ...]) -> tuple[Ask, TakeApart]:
        asks = [(state.task.id, state.ask) for state in states]
        whole = tuple(item for _, ask in asks for item in ask.items)
        ids = tuple([id for id, _ in asks])
        if embeds(states[0].eligible):
            return inputs_together(asks), TakeApart(ids, True, in_order=True)
        made = shard_ask(asks, prompt.rendered_together(whole))
        typed = prompt.schema is not None or "messages" not in states[0].eligible.takes
        return made, TakeApart(ids, typed, fields)

    def flaw(task: Task) -> str | None:
        """It is shown as if it stood beside another that is like it."""
        try:
            prompt.rendered_together((*task.ask.items, *task.ask.items))
        except FanfoldError as error:
            return str(error)
        return None

    return Sharding(together, flaw, size, of)
