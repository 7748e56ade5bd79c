"""`graph`: tasks that depend on one another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta

from fanfold.errors import BadInput, FanfoldError
from fanfold.patterns.asked_reduce import placeholder_asks
from fanfold.patterns.graph import GraphNode, graph_batch, task_ask, task_item
from fanfold.patterns.prompt import WithParents
from fanfold.plans.asking import Asking, written
from fanfold.plans.carry import PlanState
from fanfold.plans.drawing.describe import describe_budget, describe_who, gate_line, joined, many
from fanfold.plans.drawing.sketch import MOST_TASKS, Sketch, lanes, title
from fanfold.plans.preview.answers import judges_of, rows_of
from fanfold.plans.preview.asks import AskEstimate
from fanfold.plans.preview.estimate import Estimate, PartPreview
from fanfold.plans.preview.stations import as_one, sum_of, task_about
from fanfold.plans.reading import StepContext, lines_of
from fanfold.plans.ready import Ready
from fanfold.plans.steps.kind import OwnItem, Step
from fanfold.run.planning import Batch
from fanfold.work import dag
from fanfold.work.ask import Ask
from fanfold.work.check import at
from fanfold.work.document import Node
from fanfold.work.item import Item
from fanfold.work.options import BudgetField, budget_of
from fanfold.work.picture import Arrow, Box, Picture
from fanfold.work.reader import Count, NonNegative, Positive, Text, Whole, Word, listed
from fanfold.work.task import Budget, Terms, Who
from fanfold.work.template import Template

TASK_NAMES = ("parents", "missing", "steps", "task", "vars")
EACH_NAMES = ("item", *TASK_NAMES)
Id = Annotated[Text | int, Meta(extra={"expected": "a text"})]


class GraphTask(Asking, frozen=True, omit_defaults=True, kw_only=True):
    """A task of a graph. `partial`: it can do with the answers of some of its parents, or `always`.

    `weight` is about how long it takes, against the others; for the order when slots are scarce.
    `sample` is part of the key: another number, another ask.
    """

    id: str
    depends_on: tuple[str, ...] = ()
    partial: bool | Literal["always"] = False
    weight: Positive = 1.0
    sample: Whole = 0


class Graph(Step, msgspec.Struct, frozen=True, omit_defaults=True, tag="graph", kw_only=True):
    """Tasks that depend on one another; at least `delay` seconds between two starts.

    `over: steps.NAME`: an earlier step listed them, each with its `id` and `depends_on`, and `each` is
    what is asked about every one.
    """

    name: str = "graph"
    tasks: tuple[GraphTask, ...] = ()
    over: str | None = None
    each: GraphTask | None = None
    concurrency: Count = 8
    delay: NonNegative = 0.0
    budget: Budget = Budget()
    lines: dict[str, int] = {}
    line: int | None = None

    @classmethod
    def read(cls, node: Node, given: Any, reading: StepContext) -> Graph:
        """What the graph states for all of its tasks holds where a task does not state its own."""
        over = None if given.over is None else reading.over(node.child("over"))
        shared = reading.asking(node, given, None if over is None else EACH_NAMES)
        for own in ("concurrency", "over"):
            shared.pop(own, None)
        if (over is None) == (given.tasks is UNSET):
            raise node.bad("a graph needs `tasks`, or `over: steps.NAME` of a step that lists them")
        if over is not None:
            each = GraphTask(**shared, id="", partial=given.partial)
            made: dict[str, Any] = {"over": over, "each": each}
        else:
            made = {"tasks": _read_tasks(node, given, reading, shared)}
        if given.budget is not UNSET:
            made["budget"] = budget_of(given.budget)
        return cls(
            name=given.name, concurrency=given.concurrency, delay=given.delay,
            lines=lines_of(node), line=node.line, **made,
        )  # fmt: skip

    def comparable(self) -> Graph:
        """Tasks that were relaunched have another sample."""
        tasks = tuple(msgspec.structs.replace(task, sample=0) for task in self.tasks)
        return msgspec.structs.replace(self, tasks=tasks)

    @property
    def takes_items(self) -> bool:
        return self.over is not None

    @property
    def folds_items(self) -> bool:
        return self.over is not None

    def asks(self) -> Iterator[tuple[str, Asking]]:
        if self.each is not None:
            yield self.name, self.each
        for task in self.tasks:
            yield f"{self.name}.{task.id}", task

    def budgets(self) -> Iterator[str]:
        """Its tasks share one."""
        yield self.name

    def own_items(self) -> Iterator[OwnItem]:
        for task in sorted(self.tasks, key=lambda one: bool(one.depends_on)):
            yield OwnItem(task.id, None, task, task.depends_on)

    def own_ask(self, own: OwnItem, ready: Ready, replies: dict[str, Any]) -> tuple[Item, Ask]:
        made = task_item({"id": own.id}, own.waits_for, replies)
        assert isinstance(own.asking, GraphTask)
        return made, task_ask(ready.prompt(own.asking, TASK_NAMES), made, own.asking.sample)

    def item_terms(self, ready: Ready) -> list[Terms]:
        return [] if self.each is None else [self._terms(self.each, ready)]

    def _terms(self, task: GraphTask, ready: Ready) -> Terms:
        return ready.terms(task, self.name)

    def all_terms(self, ready: Ready) -> list[Terms]:
        return self.item_terms(ready) + [self._terms(task, ready) for task in self.tasks]

    def nodes(self, ready: Ready) -> list[GraphNode]:
        return [
            GraphNode(
                task.id, ready.prompt(task, TASK_NAMES), ready.terms(task, self.name),
                task.depends_on, task.partial, task.weight, sample=task.sample,
            )
            for task in self.tasks
        ]  # fmt: skip

    async def carry(self, state: PlanState) -> None:
        nodes, batch, name = self.nodes(state.ready), None, state.ready.named(self.name)
        if self.each is not None:
            batch = state.items()
            nodes = self._listed(batch, self.each, state.ready)
            await state.run.govern(
                self._terms(self.each, state.ready), placeholder_asks(len(nodes))
            )
        made = await graph_batch(state.run, nodes, self.concurrency, name, self.delay, batch)
        state.result(self, made)

    def _listed(self, batch: Batch, each: GraphTask, ready: Ready) -> list[GraphNode]:
        """The tasks that a step listed. Whoever wrote the list may have written anything."""
        prompt, terms = ready.prompt(each, EACH_NAMES), self._terms(each, ready)
        nodes = [
            GraphNode(
                item.id, prompt, terms, depends_on(item), each.partial, data={"item": item.view()}
            )
            for _, item in batch.source.walk()
        ]
        try:
            dag.check(nodes)
        except BadInput as error:
            raise FanfoldError(f"{self.over}: {error.what}") from None
        return nodes

    # ── preview ──

    def preview(self, estimate: Estimate) -> PartPreview:
        """One line for all tasks; the time is that of the longest path."""
        if self.each is not None:
            return self._preview_each(estimate, self.each)
        context, values, ends = estimate.context, dict[str, Any](), dict[str, float]()
        stated = {task.id: task for task in self.tasks}
        estimates: list[AskEstimate] = []
        for one in _parents_first(self.nodes(context.ready)):
            estimated = AskEstimate(
                context, one.terms, one.prompt, judges=judges_of(context, stated[one.id])
            )
            parents = {p: values[p] for p in one.depends_on if values[p] is not None}
            made = Item(one.id, {**one.fields(), "parents": parents, "missing": []})
            (values[one.id],) = estimated.take([task_about(estimated, made, one.sample)])
            begins = max((ends[p] for p in one.depends_on), default=0.0)
            ends[one.id] = begins + (estimated.forecast().seconds or 0.0)
            estimates.append(estimated)
        own, *judges = as_one(self.name, "graph", estimates, len(values))
        if own.forecast.seconds is not None:
            seconds = self._seconds(estimates, max(ends.values(), default=0.0))
            timed = msgspec.structs.replace(own.forecast, seconds=seconds)
            own = msgspec.structs.replace(own, forecast=timed)
        size = sum_of(estimated.size for estimated in estimates)
        return estimate.at_once(self.name, [own, *judges], size)

    def _preview_each(self, estimate: Estimate, each: GraphTask) -> PartPreview:
        """Who would be asked; nobody knows how often."""
        context, terms = estimate.context, self._terms(each, estimate.context.ready)
        prompt = context.ready.prompt(each, EACH_NAMES)
        estimated = AskEstimate(context, terms, prompt, judges=judges_of(context, each))
        rows = rows_of(self.name, "graph", estimated, 0, None, watched=True)
        return estimate.at_once(self.name, rows, estimated.size)

    def _seconds(self, estimates: Sequence[AskEstimate], longest: float) -> float:
        work = (
            sum(estimated.forecast().seconds or 0.0 for estimated in estimates) / self.concurrency
        )
        starts = sum(estimated.forecast().most_calls != 0 for estimated in estimates[1:])
        return max(work, self.delay * starts, longest)

    # ── picture ──

    def draw(self, id: str, sketch: Sketch) -> Box:
        try:
            dag.check(self.tasks)
        except BadInput as error:
            raise BadInput(error.what, file=sketch.plan.file, line=self.line) from None
        level = dag.layers(self.tasks)
        deep = max(level.values(), default=-1) + 1
        own = [many(len(self.tasks), "task"), f"longest path {deep}"] if self.each is None else []
        lines = joined([
            *own, f"{self.concurrency} at once", f"{self.delay:g}s between starts" if self.delay else "",
            describe_budget(self.budget),
        ])  # fmt: skip
        small = len(self.tasks) <= MOST_TASKS
        if self.each is not None:
            asked = (describe_who(self.each.who, sketch.roster), *gate_line(self.each))
            inside = Picture(tuple(lanes("task", None)), ())
            return Box(id, title(self.name, "graph"), (*asked, *lines), inside=inside)
        inside = self._draw_tasks(sketch) if small else self._draw_layers(level)
        return Box(id, title(self.name, "graph"), lines, inside=inside)

    def _draw_tasks(self, sketch: Sketch) -> Picture:
        boxes = tuple(_draw_task(task, sketch) for task in self.tasks)
        arrows = tuple(Arrow(above, task.id) for task in self.tasks for above in _above(task))
        return Picture(boxes, arrows)

    def _draw_layers(self, level: dict[str, int]) -> Picture:
        """A box per layer; an arrow where a task of one waits for a task of the other."""
        sizes: dict[int, int] = {}
        for task in self.tasks:
            sizes[level[task.id]] = sizes.get(level[task.id], 0) + 1
        pairs = {(level[above], level[task.id]) for task in self.tasks for above in _above(task)}
        boxes = [
            Box(f"layer {n}", f"layer {n + 1}: {many(sizes[n], 'task')}") for n in sorted(sizes)
        ]
        arrows = tuple(Arrow(f"layer {a}", f"layer {b}") for a, b in sorted(pairs))
        return Picture(tuple(boxes), arrows)


TaskFields = written(
    GraphTask, "a task of a graph", "concurrency", "budget", id=Id,
    depends_on=(Word | int | tuple[Id, ...], ()), verbatim=(bool | Literal["parents"], False),
)  # fmt: skip
Graph.written = written(
    GraphTask, "a graph", "id", "depends_on", "weight", "sample",
    name=(Text, "graph"), tasks=(tuple[TaskFields, ...], UNSET),  # type: ignore[valid-type]
    delay=(NonNegative, 0.0), over=(Text | None, None),
    budget=(BudgetField, UNSET),
)  # fmt: skip


def depends_on(item: Item) -> tuple[str, ...]:
    """The tasks that a listed one waits for: a text, or a list of them."""
    said = item.view().get("depends_on") or ()
    ids = [said] if isinstance(said, str | int) else said
    if not isinstance(ids, list | tuple) or not all(isinstance(id, str | int) for id in ids):
        raise FanfoldError(
            f"task `{item.id}`: its `depends_on` must be a list of ids, not {said!r}"
        )
    return tuple(dict.fromkeys(map(str, ids)))


def _read_tasks(
    node: Node, given: Any, reading: StepContext, shared: dict[str, Any]
) -> tuple[GraphTask, ...]:
    for field in ("prompt", "prompt_file", "partial"):
        if field in node.value:
            what = f"`{field}` of a graph goes with `over`; each of its `tasks` has its own"
            raise node.child(field).bad(what)
    children = node.child("tasks")
    tasks = tuple(
        _read_task(children.child(n), one, reading, shared) for n, one in enumerate(given.tasks)
    )
    at(children, lambda: dag.check(tasks))
    return tasks


def _read_task(node: Node, given: Any, reading: StepContext, shared: dict[str, Any]) -> GraphTask:
    own = reading.asking(node, given, TASK_NAMES)
    lines = {**shared["lines"], **own["lines"]}
    if "opening" in shared and "opening" in own:
        own["opening"] = own["opening"].over(shared["opening"])
    task = GraphTask(
        **{**shared, **own, "lines": lines}, id=str(given.id),
        depends_on=tuple(map(str, listed(given.depends_on))), partial=given.partial,
        weight=given.weight, sample=given.sample,
    )  # fmt: skip
    if task.prompt is not None and "prompt" in own and task.verbatim is not True:
        for parent in sorted(_parents_read(task, task.prompt, node) - set(task.depends_on)):
            what = f"the prompt of `{task.id}` reads parents.{parent}: add it to `depends_on`"
            raise node.bad(what)
    return task


def _parents_read(task: GraphTask, prompt: str, node: Node) -> set[str]:
    if task.verbatim == "parents":
        return WithParents(prompt).fields("parents")
    return Template(prompt, name=node.file, known=TASK_NAMES).fields("parents")


def _parents_first(nodes: Sequence[GraphNode]) -> Iterator[GraphNode]:
    waiting, done = list(nodes), set[str]()
    while waiting:
        one = next(one for one in waiting if done.issuperset(one.depends_on))
        waiting.remove(one)
        done.add(one.id)
        yield one


def _above(task: GraphTask) -> list[str]:
    return list(dict.fromkeys(task.depends_on))


def _draw_task(task: GraphTask, sketch: Sketch) -> Box:
    who = describe_who(task.who, sketch.roster) if task.who != Who() else ""
    enough = "needs no parent" if task.partial == "always" else "some of its parents are enough"
    lines = joined([who, enough if task.partial else ""])
    return Box(task.id, task.id, (*lines, *gate_line(task)))
