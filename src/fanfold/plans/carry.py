"""Carry a plan out on an open run: input, map, reduce, write, one step after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from fanfold.errors import BadInput, FanfoldError, RunStopped, StoreError
from fanfold.gates import stated as gates
from fanfold.gates.default import standard
from fanfold.patterns import stated as reduces
from fanfold.patterns.map_reduce import map_batch, sharding_of
from fanfold.patterns.prompt import KNOWN_NAMES, Prompt
from fanfold.plans.asking import keep_template, resolver
from fanfold.plans.plan import Map, Plan, Reduce, Write
from fanfold.plans.write import write_parts, write_value
from fanfold.run.planning import Batch
from fanfold.run.run import Run
from fanfold.work.ask import Reply
from fanfold.work.item import Item, Source
from fanfold.work.outcome import Part
from fanfold.work.task import Task, Terms
from fanfold.work.template import Template


class Stage(msgspec.Struct, frozen=True):
    """A map of the plan, made ready."""

    step: Map
    terms: Terms
    prompt: Prompt


async def carry_out(run: Run, plan: Plan, source: Source) -> None:
    """All steps in order. Raises RunStopped when the run stops early; the rest is in the journal."""
    resolve = resolver(Path(plan.folder))
    stages = {
        step.name: _stage(step, plan, resolve) for step in plan.steps if isinstance(step, Map)
    }
    last = list(stages.values())[-1]
    first = next(iter(stages.values()))
    batch = await run.plan(source, first.terms, last.terms, "input")
    for stage in stages.values():
        await run.begin(stage.terms)
    done: list[Stage] = []
    value: Any = None
    folded = False
    for step in plan.steps:
        match step:
            case Map():
                await _map(run, batch, stages[step.name], done)
                done.append(stages[step.name])
            case Reduce():
                value, folded = _reduce(run, batch, done[-1], step, resolve), True
                run.set_result(value)
            case Write():
                _write(run, batch, done[-1], Path(plan.folder) / step.path, value, folded)


def _stage(step: Map, plan: Plan, resolve: Callable[[str], Any]) -> Stage:
    stated = None if step.gate is None else gates.from_plan(list(step.gate), resolve)
    user = None if step.prompt is None else Template(step.prompt, name=plan.file, known=KNOWN_NAMES)
    terms = Terms(
        step=step.name, gate=standard(stated, step.schema), who=step.who, revise=step.revise,
        escalate=step.escalate, on_failure=step.on_failure, in_doubt=step.in_doubt,
        concurrency=step.concurrency, budget=step.budget, keep=_keep(step.keep, plan),
    )  # fmt: skip
    return Stage(
        step, terms, Prompt(user, None, step.schema, step.params, {"task": plan.task or ""})
    )


def _keep(expression: str | None, plan: Plan) -> Callable[[Task, Reply], bool] | None:
    """`keep: reply.relevant` as a filter: an expression over the reply and the item."""
    if expression is None:
        return None
    template = keep_template(expression, plan.file)
    return lambda task, reply: bool(
        template.render(reply=reply.value, item=task.ask.items[0].view())
    )


async def _map(run: Run, batch: Batch, stage: Stage, earlier: list[Stage]) -> None:
    """The first map sees the input; a later one sees what passed before it, with its replies."""
    shard = stage.step.shard
    sharding = None
    if shard is not None:
        sharding = sharding_of(stage.prompt, items=shard.items, tokens=shard.tokens)
    if earlier:
        batch = Batch(batch.no, Onward(run, batch, [stage.terms for stage in earlier]), batch.size)
    await map_batch(run, batch, stage.terms, stage.prompt, sharding)


class Onward:
    """The items that passed the earlier steps, each with its replies so far under `steps`."""

    def __init__(self, run: Run, batch: Batch, earlier: list[Terms]) -> None:
        self._run, self._batch, self._earlier = run, batch, earlier

    def walk(self, skip: bytes | bytearray = b"") -> Iterator[tuple[int, Item]]:
        replies = [(terms.step, self._run.passed(self._batch, terms)) for terms in self._earlier]
        last = replies[-1][1]
        others = [(name, _Seeker(parts)) for name, parts in replies[:-1]]
        items = iter(self._batch.source.walk())
        for part in last:
            if part.position < len(skip) and skip[part.position]:
                continue
            item = next(item for position, item in items if position == part.position)
            steps = {name: seeker.at(part.position) for name, seeker in others}
            steps[self._earlier[-1].step] = part.value
            yield part.position, Item(item.id, {**item.view(), "steps": steps})

    def fingerprint(self) -> str:
        return self._batch.source.fingerprint()


class _Seeker:
    """Finds the part of a position in parts that come in order."""

    def __init__(self, parts: Iterator[Part]) -> None:
        self._parts = parts

    def at(self, position: int) -> Any:
        return next(part.value for part in self._parts if part.position == position)


def _reduce(
    run: Run, batch: Batch, stage: Stage, step: Reduce, resolve: Callable[[str], Any]
) -> Any:
    """A reduce that fails gives no result and flags the run; the replies are safe in the journal."""
    reduce = reduces.from_plan(step.kind, step.options, resolve)
    try:
        value = reduce(run.passed(batch, stage.terms))
        msgspec.json.encode(value)
    except (RunStopped, StoreError):
        raise
    except FanfoldError as error:
        run.flawed(f"{step.name}: {error}")
    except Exception as error:
        run.flawed(f"{step.name} raised {type(error).__name__}: {error}")
    else:
        return value
    return None


def _write(run: Run, batch: Batch, stage: Stage, path: Path, value: Any, folded: bool) -> None:
    try:
        if not folded:
            write_parts(path, run.passed(batch, stage.terms))
        elif value is not None:
            write_value(path, value)
    except OSError as error:
        run.flawed(f"{path}: cannot be written: {error.strerror}")


def check_fields(plan: Plan, items: Iterable[tuple[int, Item]]) -> None:
    """The first item must have the fields that the first prompt reads, else it says so now."""
    step = next(step for step in plan.steps if isinstance(step, Map))
    first = next(iter(items), None)
    if step.prompt is None or first is None:
        return
    template = Template(step.prompt, name=plan.file, known=KNOWN_NAMES)
    view = first[1].view()
    missing = sorted(field for field in template.fields("item") if field not in view)
    if missing:
        has = ", ".join(map(str, list(view)[:8]))
        raise BadInput(
            f"the prompt reads item.{missing[0]}, but items have: {has}",
            file=plan.file,
            line=step.lines.get("prompt", step.line),
        )
