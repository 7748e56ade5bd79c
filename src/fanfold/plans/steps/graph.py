"""`graph`: tasks that depend on one another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta

from fanfold.errors import BadInput
from fanfold.patterns.graph import GraphNode, graph_batch
from fanfold.patterns.prompt import WithParents
from fanfold.plans.asking import Asking, written
from fanfold.plans.carry import PlanState
from fanfold.plans.drawing.describe import describe_budget, describe_who, gate_line, joined, many
from fanfold.plans.drawing.sketch import MOST_TASKS, Sketch, title
from fanfold.plans.preview.answers import judges_of
from fanfold.plans.preview.asks import AskEstimate
from fanfold.plans.preview.estimate import Estimate, PartPreview
from fanfold.plans.preview.stations import as_one, sum_of, task_about
from fanfold.plans.reading import StepContext, lines_of
from fanfold.plans.ready import Ready
from fanfold.plans.steps.kind import Step
from fanfold.work import dag
from fanfold.work.check import at
from fanfold.work.document import Node
from fanfold.work.item import Item
from fanfold.work.options import BudgetField, budget_of
from fanfold.work.picture import Arrow, Box, Picture
from fanfold.work.reader import Count, NonNegative, Positive, Text, Whole, Word, listed
from fanfold.work.task import Budget, Terms, Who
from fanfold.work.template import Template

TASK_NAMES = ("parents", "missing", "steps", "task", "vars")
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
    """Tasks that depend on one another; at least `delay` seconds between two starts."""

    name: str = "graph"
    tasks: tuple[GraphTask, ...]
    concurrency: Count = 8
    delay: NonNegative = 0.0
    budget: Budget = Budget()
    lines: dict[str, int] = {}
    line: int | None = None

    @classmethod
    def read(cls, node: Node, given: Any, reading: StepContext) -> Graph:
        """What the graph states for all of its tasks holds where a task does not state its own."""
        shared = reading.asking(node, given)
        shared.pop("concurrency", None)
        children = node.child("tasks")
        tasks = tuple(
            _read_task(children.child(n), one, reading, shared) for n, one in enumerate(given.tasks)
        )
        at(children, lambda: dag.check(tasks))
        budget = {} if given.budget is UNSET else {"budget": budget_of(given.budget)}
        return cls(
            name=given.name, tasks=tasks, concurrency=given.concurrency, delay=given.delay,
            lines=lines_of(node), line=node.line, **budget,
        )  # fmt: skip

    def comparable(self) -> Graph:
        """Tasks that were relaunched have another sample."""
        tasks = tuple(msgspec.structs.replace(task, sample=0) for task in self.tasks)
        return msgspec.structs.replace(self, tasks=tasks)

    def asks(self) -> Iterator[tuple[str, Asking]]:
        for task in self.tasks:
            yield f"{self.name}.{task.id}", task

    def task(self, id: str) -> GraphTask | None:
        return next((task for task in self.tasks if task.id == id), None)

    def all_terms(self, ready: Ready) -> list[Terms]:
        return [ready.terms(task, self.name) for task in self.tasks]

    def nodes(self, ready: Ready) -> list[GraphNode]:
        return [
            GraphNode(
                task.id, ready.prompt(task, TASK_NAMES), ready.terms(task, self.name),
                task.depends_on, task.partial, task.weight, sample=task.sample,
            )
            for task in self.tasks
        ]  # fmt: skip

    async def carry(self, state: PlanState) -> None:
        nodes = self.nodes(state.ready)
        made = await graph_batch(state.run, nodes, self.concurrency, self.name, self.delay)
        state.result(self, made)

    # ── preview ──

    def preview(self, estimate: Estimate) -> PartPreview:
        """One line for all tasks; the time is that of the longest path."""
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
        lines = joined([
            many(len(self.tasks), "task"), f"longest path {deep}",
            f"{self.concurrency} at once", f"{self.delay:g}s between starts" if self.delay else "",
            describe_budget(self.budget),
        ])  # fmt: skip
        small = len(self.tasks) <= MOST_TASKS
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
    GraphTask, "a graph", "prompt", "prompt_file", "id", "depends_on", "partial", "weight", "sample",
    name=(Text, "graph"), tasks=tuple[TaskFields, ...],  # type: ignore[valid-type]
    delay=(NonNegative, 0.0),
    budget=(BudgetField, UNSET),
)  # fmt: skip


def _read_task(node: Node, given: Any, reading: StepContext, shared: dict[str, Any]) -> GraphTask:
    own = reading.asking(node, given, TASK_NAMES)
    lines = {**shared["lines"], **own["lines"]}
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
