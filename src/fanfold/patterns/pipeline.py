"""Pipeline: stages one after the other, each with its own member, gate and failure policy."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeAlias, Unpack

import msgspec

from fanfold.errors import BadInput
from fanfold.patterns.arguments import (
    OF_ASKS,
    Folded,
    PatternOptions,
    TaskHandler,
    ask_member,
    begin_handler,
    handler,
    pattern,
    prompt_for,
    terms_of,
)
from fanfold.patterns.asked_reduce import AskedReduce, expect_tree
from fanfold.patterns.map_reduce import map_batch, read_shard, sharding_of
from fanfold.patterns.prompt import Prompt, make_task, make_tasks, prompt_of, readable
from fanfold.patterns.reduce import begin_reduce, reduce_batch, reducing
from fanfold.run.planning import Batch
from fanfold.run.run import Run
from fanfold.run.sources import source_of
from fanfold.work.arguments import public
from fanfold.work.check import described
from fanfold.work.item import Item, Source
from fanfold.work.options import option
from fanfold.work.outcome import Outcome, Part
from fanfold.work.shard import ShardSize
from fanfold.work.task import Place, Reducer, Task, Terms, Who, reads_of

Mode: TypeAlias = Literal["streaming", "batch"]
"""Each item goes on as soon as it is ready, or a stage waits for the whole of the one before."""


class Stage(msgspec.Struct, frozen=True):
    """What is done with an item at one point of its way. `by` is how: one ask, or a pattern."""

    prompt: Prompt
    terms: Terms
    shard: ShardSize | None = None
    by: TaskHandler = ask_member


@public
def stage(
    prompt: str | None = None,
    *,
    schema: dict[str, Any] | type | None = None,
    shard: int | Mapping[str, Any] | None = None,
    by: TaskHandler = ask_member,
    **how: Unpack[PatternOptions],
) -> Stage:
    """One stage of a `pipeline`. In `prompt`, `item` has the fields of the input, and `steps` the
    replies of the stages before: `{{ steps.draft }}` for one with `step="draft"`.

    A function member receives the item with `steps` in it; a field of the item's own that is named
    so is hidden from the second stage on. Without `step` it is called stage1, stage2 and so on.
    """
    if shard is not None and by is not ask_member:
        raise BadInput("a stage with `by` takes items one by one; leave `shard` out")
    size = option("shard", shard, read_shard)
    made = prompt_of(prompt, schema, how=how)
    terms, inside = terms_of(how, made.schema, ""), getattr(by, "terms", None)
    stated = how if prompt is None else {"prompt": prompt, **how}
    for name in (name for name in stated if name in OF_ASKS and isinstance(inside, Terms)):
        raise BadInput(f"`{name}` has no use in this stage: give it to what is in its `by`")
    if isinstance(inside, Terms) and terms.who == Who():  # who answers is named in there
        terms = msgspec.structs.replace(terms, who=inside.who)
    return Stage(made, terms, size, handler(by))


@pattern
async def pipeline(
    run: Run,
    items: Source | Iterable[Any],
    *stages: Stage,
    mode: Mode = "streaming",
    reduce: Reducer | AskedReduce | None = None,
) -> Folded:
    """Carry each item through the stages; one that does not pass leaves there with its outcome.

    *streaming*: an item goes on as soon as it is ready, and few wait between two stages. *batch*: a
    stage waits for the whole of the one before. Either way a reply on record is not asked for
    again, so a resumed run repeats only what has failed. `reduce` takes what passed the last stage.
    """
    reduction, named = reducing(reduce), _checked(stages, mode)
    await begin_stages(run, named)
    await begin_reduce(run, reduction)
    last = named[-1].terms
    asking = [one for one in named if one.by is ask_member]
    checks = [read for one in asking for read in reads_of(one.terms.gate)]
    source = readable(source_of(items, run.spool), [one.prompt for one in asking], checks)
    batch = await run.plan(source, named[0].terms, last)
    run.needs.flow(batch.no, [one.terms.step for one in named], batch.size)
    if isinstance(reduction.how, AskedReduce):
        expect_tree(run, reduction.how, batch.size)
    await pipe_batch(run, batch, named, mode)
    value = await reduce_batch(run, batch, last, reduction)
    if reduce is not None:
        run.set_result(value)
    return Folded(value, run.receipt(), run, batch, last)


async def begin_stages(run: Run, stages: Sequence[Stage]) -> None:
    """Before anything is planned: steps are numbered along the flow, and who is to answer is there."""
    for stage in stages:
        await run.begin(stage.terms)
        await begin_handler(run, stage.by, stage.prompt, stage.terms)


async def pipe_batch(
    run: Run, batch: Batch, stages: Sequence[Stage], mode: Mode, earlier: Sequence[Terms] = ()
) -> None:
    """Carry the items of a batch, or those that passed the `earlier` steps, through all stages.

    The steps must have been begun in this order. The replies are in the journal afterwards.
    """
    for stage in stages:
        if stage.by is not ask_member:
            run.needs.times(stage.terms.step, getattr(stage.by, "asks", 1))
    if mode == "streaming":
        await _stream(run, batch, _ahead(stages), earlier)
    else:
        for n, stage in enumerate(stages):
            before = [*earlier, *(one.terms for one in stages[:n])]
            await _whole(run, onward(run, batch, before), stage)
    await run.flush()


def _ahead(stages: Sequence[Stage]) -> list[Stage]:
    """A stage that starts on parts of the reply before has a say in how that is asked for."""
    found = list(stages)
    for n, stage in enumerate(stages[1:]):
        ahead = getattr(stage.by, "ahead", None)
        if ahead is not None and found[n].by is ask_member and found[n].shard is None:
            found[n] = msgspec.structs.replace(found[n], by=ahead)
    return found


def _checked(stages: tuple[Stage, ...], mode: str) -> tuple[Stage, ...]:
    """The stages with their names, which must differ; prompts read only what is there by then."""
    if not stages:
        raise BadInput("a pipeline needs at least one stage: pipeline(run, items, stage(...))")
    if mode not in ("streaming", "batch"):
        raise BadInput(f"`mode` is streaming or batch, not {mode!r}")
    named: list[Stage] = []
    for n, stage in enumerate(stages, 1):
        if not isinstance(stage, Stage):
            raise BadInput(f"stage {n} must be made by stage(…), not {described(stage)}")
        name = stage.terms.step or f"stage{n}"
        before = [one.terms.step for one in named]
        if name in before:
            raise BadInput(f"two stages are named {name!r}; give each a `step` of its own")
        _check_reads(stage.prompt, name, before)
        terms = msgspec.structs.replace(stage.terms, step=name)
        named.append(msgspec.structs.replace(stage, terms=terms))
    return tuple(named)


def _check_reads(prompt: Prompt, name: str, before: list[str]) -> None:
    known = {*before, *prompt.names.get("steps", ())}
    for field in sorted(prompt.user.fields("steps") - known) if prompt.user else ():
        there = f"there are: {', '.join(sorted(known))}" if known else "no stage comes before it"
        raise BadInput(f"the prompt of {name} reads steps.{field}, but {there}")


# ── a stage waits for the whole of the one before ────────────────────────────────────────────


async def _whole(run: Run, batch: Batch, stage: Stage) -> None:
    terms = stage.terms
    if stage.by is ask_member:
        await map_batch(run, batch, terms, stage.prompt, stage.shard)
        return
    tasks = make_tasks(run.remaining(batch, terms), batch.no, terms, stage.prompt)
    async for _ in run.stream(tasks, None, terms, partial(_by, run, stage.by)):
        pass
    await run.flush()


def onward(run: Run, batch: Batch, earlier: Sequence[Terms]) -> Batch:
    """The batch as the next step sees it."""
    return Batch(batch.no, Onward(run, batch, earlier), batch.size) if earlier else batch


class Onward:
    """The items that passed the earlier steps, each with its replies so far under `steps`."""

    def __init__(self, run: Run, batch: Batch, earlier: Sequence[Terms]) -> None:
        self._run, self._batch, self._earlier = run, batch, earlier

    def walk(self, skip: bytes | bytearray = b"") -> Iterator[tuple[int, Item]]:
        replies = [(terms.seen_as, self._run.passed(self._batch, terms)) for terms in self._earlier]
        last = replies[-1][1]
        others = [(name, _Seeker(parts)) for name, parts in replies[:-1]]
        items = iter(self._batch.source.walk())
        for part in last:
            if part.position < len(skip) and skip[part.position]:
                continue
            item = next(item for position, item in items if position == part.position)
            steps = {name: seeker.at(part.position) for name, seeker in others}
            steps[self._earlier[-1].seen_as] = part.value
            yield part.position, Item(item.id, {**item.view(), "steps": steps})

    def fingerprint(self) -> str:
        return self._batch.source.fingerprint()


class _Seeker:
    """Finds the part of a position in parts that come in order."""

    def __init__(self, parts: Iterator[Part]) -> None:
        self._parts = parts

    def at(self, position: int) -> Any:
        return next(part.value for part in self._parts if part.position == position)


# ── each item goes on as soon as it is ready ─────────────────────────────────────────────────


async def _stream(
    run: Run, batch: Batch, stages: Sequence[Stage], earlier: Sequence[Terms]
) -> None:
    """A stream for each stage, which takes its tasks from the one before; the last is pulled at."""
    legs = [_Leg(run, batch, stage) for stage in stages]
    first = onward(run, batch, earlier)
    flow = legs[0].outcomes(legs[0].entering(run.remaining(first, stages[0].terms), bool(earlier)))
    for before, leg in pairwise(legs):
        run.recall(batch, leg.stage.terms)
        flow = leg.outcomes(leg.coming_from(before, flow))
    async with aclosing(flow):
        async for outcome in flow:
            legs[-1].leave(outcome)


class _Carried(NamedTuple):
    """An item on its way: what a template sees of it, and its replies so far."""

    id: str
    view: dict[str, Any]
    steps: dict[str, Any]


class _Leg:
    """A stage while items go through it. It keeps those that are under way here, and no others."""

    def __init__(self, run: Run, batch: Batch, stage: Stage) -> None:
        self._run, self._batch, self.stage = run, batch, stage
        self._prompt = stage.prompt
        if stage.by is ask_member:
            self._prompt = prompt_for(run, stage.terms, stage.prompt)
        self._under_way: dict[int, _Carried] = {}

    def outcomes(
        self, tasks: Iterable[Task] | AsyncGenerator[Task, None]
    ) -> AsyncGenerator[Outcome, None]:
        stage = self.stage
        handler = None if stage.by is ask_member else partial(_by, self._run, stage.by)
        shard = sharding_of(stage.prompt, stage.shard, self._batch.size)
        return self._run.stream(tasks, shard, stage.terms, handler)

    def entering(self, items: Iterable[tuple[int, Item]], has_steps: bool) -> Iterator[Task]:
        """The first stage. What it is given is kept apart, so that a function may change its own."""
        for position, item in items:
            view = {**item.view()}
            steps = view["steps"] if has_steps else {}
            self._under_way[position] = _Carried(item.id, view, steps)
            yield self._task(position, item)

    async def coming_from(
        self, before: _Leg, outcomes: AsyncGenerator[Outcome, None]
    ) -> AsyncGenerator[Task, None]:
        """A later stage: those that passed the one before."""
        async with aclosing(outcomes):
            async for outcome in outcomes:
                one = before.leave(outcome)
                if outcome.state == "passed":
                    steps = {**one.steps, before.stage.terms.seen_as: outcome.value}
                    self._under_way[outcome.position] = _Carried(one.id, one.view, steps)
                    item = Item(one.id, {**one.view, "steps": {**steps}})
                    yield self._task(outcome.position, item)

    def leave(self, outcome: Outcome) -> _Carried:
        return self._under_way.pop(outcome.position)

    def _task(self, position: int, item: Item) -> Task:
        return make_task(self._prompt, item, self.stage.terms, Place(self._batch.no, position))


async def _by(run: Run, by: TaskHandler, task: Task) -> Outcome:
    """The outcome is that of the task's place, whatever stands behind it."""
    assert task.place is not None
    run.needs.add(task.terms.step, -getattr(by, "asks", 1))
    return msgspec.structs.replace(await by(run, task), position=task.place.position)
