"""Carry a plan out on an open run: its steps one after the other, each with its pattern."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from fanfold.errors import BadInput, FanfoldError, RunStopped, StoreError
from fanfold.patterns.asked_reduce import (
    PART_NAMES,
    AskedReduce,
    placeholder_asks,
    synthesis,
    value_or_flag,
)
from fanfold.patterns.conductor import check_size, conduct_batch
from fanfold.patterns.divide import divide_batch
from fanfold.patterns.ensemble import vote_batch
from fanfold.patterns.graph import graph_batch
from fanfold.patterns.map_reduce import fold_batch, map_batch
from fanfold.patterns.panel import JUDGE_NAMES
from fanfold.patterns.pipeline import Stage, onward, pipe_batch
from fanfold.patterns.prompt import KNOWN_NAMES, make_task
from fanfold.patterns.reduce import Reducing, reduce_batch, reducing
from fanfold.patterns.scatter import Question, Reach, gather
from fanfold.plans.flow import leg, produced, takes_items
from fanfold.plans.output import Output
from fanfold.plans.plan import (
    Conduct,
    Divide,
    Ensemble,
    Graph,
    Map,
    MapReduce,
    Once,
    Pipeline,
    Plan,
    Reduce,
    Scatter,
    Step,
    Write,
)
from fanfold.plans.produced import Replies, listed
from fanfold.plans.ready import TASK_NAMES, Ready
from fanfold.plans.walk import of_step
from fanfold.run.planning import Batch
from fanfold.run.run import Run
from fanfold.run.sources import Rows
from fanfold.work.ask import Ask
from fanfold.work.item import Item, Source
from fanfold.work.raised import error_text
from fanfold.work.task import Task, Terms
from fanfold.work.template import Template
from fanfold.work.tree import widths

Say = Callable[[str], None]
_ANY = KNOWN_NAMES | PART_NAMES | JUDGE_NAMES | {*TASK_NAMES}


async def carry_out(run: Run, plan: Plan, source: Source | None, say: Say, output: Output) -> None:
    """All steps in order. Raises RunStopped when the run stops early; the rest is in the journal."""
    await Carrying(run, plan, say, output).all(source)


class Carrying:
    """Where a plan stands: the items in the flow, what they have been through, the results so far.

    `lost` are the steps that gave no result: what reads them is not carried out.
    """

    def __init__(self, run: Run, plan: Plan, say: Say, output: Output) -> None:
        self._run, self._plan, self._say, self._output = run, plan, say, output
        self._results: dict[str, Any] = {}
        self._ready = Ready(plan, self._results, run)
        self._batch: Batch | None = None
        self._passed: list[Terms] = []
        self._replies: dict[str, tuple[Batch, Terms]] = {}
        self._value: Any = None
        self._folded = False
        self._lost: set[str] = set()
        self._gone = ""  # the step that was not carried out: those after it have no items
        self._of_input: tuple[Batch, Terms] | None = None  # the input, and the last step it passed
        self._unforeseen = False  # how many items there are in the flow was not known at the start

    async def all(self, source: Source | None) -> None:
        steps = self._plan.steps
        for step in steps:
            for terms in self._ready.all_terms(step):
                await self._run.begin(terms)
        if source is not None:
            first = next(n for n, step in enumerate(steps) if takes_items(step))
            await self._start(source, first, "input")
        skip = False
        for n, step in enumerate(steps):
            if skip:
                skip = False
            elif lacks := _reads(step) & self._lost:
                self._lose(step, f"steps.{min(lacks)} gave no result, which it reads")
            elif self._gone and produced(step) is None and _goes_on(step):
                self._lose(step, f"there are no items, since `{self._gone}` gave none")
            else:
                following = steps[n + 1] if n + 1 < len(steps) else None
                skip = await self._one(n, step, following)

    async def _one(self, n: int, step: Step, following: Step | None) -> bool:
        """Whether the following step was carried out with it: a reduce that grows with its map."""
        try:
            if isinstance(step, Map) and isinstance(following, Reduce):
                return await self._map(n, step, following)
            await self._carry(n, step)
        except (RunStopped, StoreError, BadInput):
            raise
        except FanfoldError as error:
            self._lose(step, str(error))
        return False

    async def _carry(self, n: int, step: Step) -> None:
        match step:
            case Map():
                await self._map(n, step, None)
            case Ensemble():
                await self._ensemble(n, step)
            case MapReduce():
                await self._stages((self._ready.stage(step),), "streaming")
            case Pipeline():
                stages = tuple(self._ready.stage(stage) for stage in step.stages)
                await self._stages(stages, step.mode)
            case Divide():
                terms = self._ready.terms(step, step.name)
                prompt, division = self._ready.prompt(step), self._ready.division(step)
                self._result(step, await divide_batch(
                    self._run, self._items(), terms, prompt, division))  # fmt: skip
            case Scatter():
                self._result(step, await self._scatter(step))
            case Conduct():
                self._result(step, await self._conduct(step))
            case Graph():
                nodes = self._ready.nodes(step)
                self._result(step, await graph_batch(
                    self._run, nodes, step.concurrency, step.name, step.delay))  # fmt: skip
            case Once():
                self._result(step, await self._ask(step))
            case Reduce():
                self._result(step, await self._reduce(step))
            case Write():
                self._write(step)

    # ── items ──

    async def _start(self, source: Source, n: int, name: str) -> None:
        """New items are in the flow: plan them all, before anything is asked about them."""
        through = [t for step in leg(self._plan.steps, n) for t in self._ready.item_terms(step)]
        self._batch = await self._run.plan(source, through[0], through[-1], name)
        self._gone, self._unforeseen = "", name != "input"
        for step in leg(self._plan.steps, n):
            if isinstance(step, Conduct):
                check_size(self._batch.size, step.most)
        self._passed = []

    def _items(self) -> Batch:
        """The items in the flow as the next step sees them: with their replies so far."""
        assert self._batch is not None
        return onward(self._run, self._batch, self._passed)

    def _went_through(self, terms: Iterable[Terms]) -> None:
        assert self._batch is not None
        for one in terms:
            self._passed.append(one)
            self._replies[one.step] = (self._batch, one)
            if not self._unforeseen:
                self._of_input = (self._batch, one)
        self._folded = False

    async def _produced(self, n: int, step: Map | Ensemble, terms: Terms) -> None:
        """The items that an earlier step gave. So many were not foreseen: may they be asked?"""
        over = produced(step)
        if over is None:
            if self._batch is None:  # an ensemble of one question
                assert isinstance(step, Ensemble)
                await self._start(Rows([Item("question", {})]), n, "input")
            elif self._unforeseen:
                await self._run.govern(terms, self._foreseen(self._items().source, step, terms))
            return
        name = over.removeprefix("steps.")
        there = self._replies.get(name)
        source = listed(name, self._results[name]) if there is None else Replies(self._run, *there)
        await self._start(source, n, step.name)
        await self._run.govern(terms, self._foreseen(source, step, terms))

    def _foreseen(self, source: Source, step: Map | Ensemble, terms: Terms) -> Iterator[Ask]:
        """What would be asked: once for each item, or once for each of its voters."""
        prompt, times = self._ready.prompt(step), 1
        if isinstance(step, Ensemble):
            times = len(self._ready.panel(step).voters)
        for _, item in source.walk():
            ask = make_task(prompt, item, terms, None).ask
            for sample in range(times):
                yield msgspec.structs.replace(ask, sample=sample) if sample else ask

    async def _map(self, n: int, step: Map, following: Reduce | None) -> bool:
        terms = self._ready.terms(step, step.name, step.keep)
        await self._produced(n, step, terms)
        prompt, shard = self._ready.prompt(step), self._ready.sharding(step)
        way = Reducing() if following is None else self._way(following)
        if following is not None:
            await self._govern_reduce(way)
        if following is None or way.fan_in is None:
            await map_batch(self._run, self._items(), terms, prompt, shard)
            self._went_through([terms])
            return False
        value = await self._safely(
            following, fold_batch(self._run, self._items(), terms, prompt, shard, way)
        )
        self._went_through([terms])
        self._result(following, value)
        return True

    async def _ensemble(self, n: int, step: Ensemble) -> None:
        terms = self._ready.terms(step, step.name, step.keep)
        await self._produced(n, step, terms)
        panel = self._ready.panel(step)
        records: dict[int, dict[str, Any]] = {}
        await vote_batch(
            self._run, self._items(), terms, self._ready.prompt(step), panel, records.__setitem__
        )
        self._went_through([terms])
        self._value, self._folded = [records[at] for at in sorted(records)], True
        self._run.set_result(self._value)

    async def _stages(self, stages: tuple[Stage, ...], mode: Any) -> None:
        assert self._batch is not None
        for stage in stages if self._unforeseen else ():
            await self._run.govern(stage.terms, placeholder_asks(self._batch.size))
        await pipe_batch(self._run, self._batch, stages, mode, self._passed)
        self._went_through([stage.terms for stage in stages])

    # ── many into one ──

    def _result(self, step: Step, value: Any) -> None:
        self._results[step.name] = self._value = value
        self._folded = True
        self._run.set_result(value)
        if value is None:
            self._lost.add(step.name)

    def _lose(self, step: Step, why: str) -> None:
        self._run.flawed(f"{step.name}: {why}")
        self._lost.add(step.name)
        self._results[step.name] = None
        if produced(step) is not None:
            self._batch, self._passed = None, []
        if takes_items(step):
            self._gone = step.name
        if self._gone:
            self._value, self._folded = None, True

    def _way(self, step: Reduce) -> Reducing:
        return reducing(self._ready.into_one(step), step.fan_in)

    async def _reduce(self, step: Reduce) -> Any:
        assert self._batch is not None
        batch, terms, way = self._batch, self._passed[-1], self._way(step)
        await self._govern_reduce(way)
        return await self._safely(step, reduce_batch(self._run, batch, terms, way))

    async def _govern_reduce(self, way: Reducing) -> None:
        """The asks of a tree over items that nobody could count beforehand."""
        if self._unforeseen and isinstance(way.how, AskedReduce) and way.fan_in is not None:
            assert self._batch is not None
            nodes = sum(widths(self._batch.size, way.fan_in)[1:])
            await self._run.govern(way.how.terms, placeholder_asks(nodes))

    async def _safely(self, step: Reduce, making: Any) -> Any:
        """A reduce that fails gives no result and flags the run; the replies are in the journal."""
        try:
            value = await making
            msgspec.json.encode(value)
        except (RunStopped, StoreError, BadInput):
            raise
        except FanfoldError as error:
            self._run.flawed(f"{step.name}: {str(error).removeprefix('reduce: ')}")
        except Exception as error:
            self._run.flawed(f"{step.name} raised {error_text(error)}")
        else:
            return value
        return None

    async def _scatter(self, step: Scatter) -> Any:
        terms, prompt = self._ready.terms(step, step.name), self._ready.prompt(step)
        if step.over:
            questions = self._ready.questions(step, prompt, terms)
            source = Rows([question.item for question in questions])
            batch = await self._run.plan(source, questions[0].terms, name=step.name)
        else:
            batch = self._items()
            questions = [Question(at, item, prompt, terms) for at, item in batch.source.walk()]
            if self._unforeseen:
                await self._run.govern(terms, placeholder_asks(len(questions)))
        first = step.first if step.over or step.first is None else min(step.first, len(questions))
        reach = Reach(first or None, step.within)
        reach.check(len(questions))
        outcomes = await gather(self._run, batch, questions, reach)
        way = None if step.synthesise is None else self._ready.into_one(step.synthesise)
        return await synthesis(self._run, outcomes, way)

    async def _conduct(self, step: Conduct) -> Any:
        batch, terms = self._items(), self._ready.terms(step, step.name)
        prompt = self._ready.prompt(step)
        if self._unforeseen:
            await self._run.govern(terms, placeholder_asks(batch.size))
        outcomes = await conduct_batch(self._run, batch, terms, prompt, None, self._say)
        way = None if step.synthesise is None else self._ready.into_one(step.synthesise)
        return await synthesis(self._run, outcomes, way)

    async def _ask(self, step: Once) -> Any:
        ask = self._ready.prompt(step, ("steps", "task")).about(
            Item(step.name, {"steps": dict(self._results)})
        )
        outcome = await self._run.do(Task(step.name, ask, self._ready.terms(step, step.name)))
        return value_or_flag(self._run, step.name, outcome)

    def _write(self, step: Write) -> None:
        """A step that gave no result has nothing that could be written."""
        passed = None if self._batch is None or not self._passed else self._passed[-1]
        if step.with_input:
            if self._of_input is not None:
                self._output.with_input(step, *self._of_input)
        elif step.each:
            if self._batch is not None and passed is not None:
                self._output.each(step, self._batch, passed)
        elif self._folded:
            if self._value is not None:
                self._output.value(step, self._value)
        elif self._batch is not None and passed is not None:
            self._output.parts(step, self._batch, passed)


def _goes_on(step: Step) -> bool:
    """Whether a step works on the items in the flow, or on what they have been through."""
    return takes_items(step) or isinstance(step, Reduce)


def _reads(step: Step) -> set[str]:
    """The steps whose results or replies a step reads."""
    over = produced(step)
    read = set() if over is None else {over.removeprefix("steps.")}
    for _, asking in of_step(step):
        if asking.prompt is not None and not asking.verbatim and "steps" in asking.prompt:
            template = Template(asking.prompt, name="", known=_ANY)
            read |= template.fields("steps")
    return read


def check_fields(plan: Plan, items: Iterable[tuple[int, Item]]) -> None:
    """The first item must have the fields that the first prompt reads, else it says so now."""
    step = next(step for step in plan.steps if takes_items(step))
    first = next(iter(items), None)
    _, asking = next(of_step(step))
    if asking.prompt is None or first is None or isinstance(step, MapReduce):
        return
    template = Template(asking.prompt, name=plan.file, known=_ANY)
    view = first[1].view()
    missing = sorted(field for field in template.fields("item") if field not in view)
    if missing:
        has = ", ".join(map(str, list(view)[:8]))
        raise BadInput(
            f"the prompt reads item.{missing[0]}, but items have: {has}",
            file=plan.file,
            line=asking.lines.get("prompt", asking.line),
        )
