"""The shape of each step of a plan, as boxes and arrows."""

from __future__ import annotations

import math
from itertools import pairwise

import msgspec

from fanfold.errors import BadInput
from fanfold.members.roster import Roster
from fanfold.plans.drawing import told
from fanfold.plans.plan import (
    Asking,
    Conduct,
    Divide,
    Ensemble,
    Entry,
    Graph,
    Map,
    MapReduce,
    Node,
    Once,
    Pipeline,
    Plan,
    Reduce,
    Scatter,
    Stage,
    Step,
    Write,
)
from fanfold.work import dag
from fanfold.work.picture import Arrow, Box, Look, Picture

MOST_TASKS = 60
"""A graph, or a scatter, with more than so many is drawn in summary."""

_MOST_LANES = 4


class Sketch(msgspec.Struct, frozen=True):
    """Draws one step after the other, with what is known of the input and the members."""

    plan: Plan
    items: int | None
    roster: Roster | None

    def step(self, id: str, step: Step) -> Box:
        match step:
            case Map():
                return self._map(id, step)
            case Ensemble():
                return self._ensemble(id, step)
            case MapReduce():
                return self._map_reduce(id, step)
            case Pipeline():
                return self._pipeline(id, step)
            case Divide():
                return self._divide(id, step)
            case Scatter():
                return self._scatter(id, step)
            case Graph():
                return self._graph(id, step)
            case Conduct():
                return self._conduct(id, step)
            case Once():
                return self._leaf(id, _title(step.name, "ask"), step)
            case Reduce():
                return self._fold(id, _title(step.name, "reduce"), step)
            case Write():
                return Box(id, _title(step.name, "write"), told.write_told(step), "file")

    def _asked(self, asking: Asking) -> tuple[str, ...]:
        return (told.answerer_told(asking, self.roster), *told.knobs_told(asking))

    def _leaf(self, id: str, title: str, asking: Asking) -> Box:
        who = told.answerer_told(asking, self.roster)
        return Box(id, title, (who, *told.gate_line(asking)))

    def _fold(self, id: str, title: str, step: Reduce) -> Box:
        lines = told.reduce_told(step, self.roster)
        if step.vote is None:
            return Box(id, title, lines, "fold")
        return Box(id, title, lines, "fold", inside=self._votes(step.vote))

    # ── one ask per item ─────────────────────────────────────────────────────────────────────

    def _map(self, id: str, step: Map) -> Box:
        lines = (*self._asked(step), *told.map_told(step))
        fan = _lanes("ask", self._asks(step))
        return Box(id, _title(step.name, "map"), lines, inside=_rows(fan, [_gate(step)]))

    def _asks(self, step: Map) -> int | None:
        """How many asks a map makes at most; what a step produced nobody knows yet."""
        if step.over is not None or self.items is None:
            return None
        if step.shard is None:
            return self.items
        size = step.shard.items
        return None if size is None else math.ceil(self.items / size)

    def _map_reduce(self, id: str, step: MapReduce) -> Box:
        inner = step.map
        lines = (
            *told.joined([f"for each item, over {step.over}", f"{step.concurrency} of them at once"]),
            *self._asked(inner), *told.map_told(inner),
        )  # fmt: skip
        fold = self._fold("reduce", "reduce", step.reduce)
        inside = _rows(_lanes("ask", None), [_gate(inner)], [fold])
        return Box(id, _title(step.name, "map_reduce"), lines, inside=inside)

    def _pipeline(self, id: str, step: Pipeline) -> Box:
        how = {
            "streaming": "streaming: an item goes on as soon as it is ready",
            "batch": "batch: a stage waits for all of the one before",
        }[step.mode]
        stages = [[self._stage(f"stage {n}", stage)] for n, stage in enumerate(step.stages)]
        return Box(id, _title(step.name, "pipeline"), (how,), inside=_rows(*stages))

    def _stage(self, id: str, stage: Stage) -> Box:
        """An item passes it as one ask, so no lanes are drawn."""
        if not isinstance(stage, Map):
            return self.step(id, stage)
        lines = (*self._asked(stage), *told.map_told(stage), *told.gate_line(stage))
        return Box(id, _title(stage.name, "map"), lines)

    # ── several at once ──────────────────────────────────────────────────────────────────────

    def _ensemble(self, id: str, step: Ensemble) -> Box:
        over = told.joined([f"over {step.over}" if step.over else "",
                            f"keep {step.keep}" if step.keep else ""])  # fmt: skip
        lines = (*told.knobs_told(step), *over, *told.gate_line(step))
        return Box(id, _title(step.name, "ensemble"), lines, inside=self._votes(step))

    def _votes(self, step: Ensemble) -> Picture:
        title, *lines = told.decision_told(step, self.roster)
        decision = Box("decision", title, tuple(lines), "fold")
        return _rows(self._voters(step), [decision])

    def _voters(self, step: Ensemble) -> list[Box]:
        members = told.known_members(step.who, self.roster)
        if step.samples is not None and len(members) <= 1:
            who = told.who_told(step.who, self.roster)
            lanes = _lanes("sample", step.samples)
            return [msgspec.structs.replace(box, lines=(who,)) if box.look == "ask" else box
                    for box in lanes]  # fmt: skip
        if members:
            return [Box(f"voter {n}", id) for n, id in enumerate(members)]
        return _lanes("voter", step.who.use)

    def _scatter(self, id: str, step: Scatter) -> Box:
        entries = self._entries(step.over) if step.over else _lanes("ask", self.items)
        then = [[Box("gather", told.gather_told(step), look="fold")]]
        if step.synthesise is not None:
            then.append([self._fold("synthesise", "synthesise", step.synthesise)])
        lines = self._asked(step)[bool(step.over) and all(entry.who for entry in step.over) :]
        lines = (*lines, *told.gate_line(step))
        return Box(id, _title(step.name, "scatter"), lines, inside=_rows(entries, *then))

    def _entries(self, entries: tuple[Entry, ...]) -> list[Box]:
        if len(entries) > MOST_TASKS:
            return _lanes("question", len(entries))
        return [self._entry(n, entry) for n, entry in enumerate(entries)]

    def _entry(self, n: int, entry: Entry) -> Box:
        who = "" if entry.who is None else told.who_told(entry.who, self.roster)
        return Box(f"entry {n}", entry.id, told.joined([who, "own prompt" if entry.prompt else ""]))

    def _conduct(self, id: str, step: Conduct) -> Box:
        lanes = _lanes("ask", self.items)
        then = [[Box("barrier", "barrier", ("all have ended",), "fold")], [_gate(step, kick=False)]]
        if step.synthesise is not None:
            then.append([self._fold("synthesise", "synthesise", step.synthesise)])
        inside = _rows(lanes, *then)
        if step.revise:
            back = Arrow("gate", lanes[-1].id, told.kick_told(step), "back")
            inside = msgspec.structs.replace(inside, arrows=(*inside.arrows, back))
        lines = (*self._asked(step), f"at most {told.many(step.most, 'task')}, planned first")
        return Box(id, _title(step.name, "conduct"), lines, inside=inside)

    def _divide(self, id: str, step: Divide) -> Box:
        sizes = [told.many(step.items, "item") if step.items else "",
                 f"{step.tokens:,} tokens" if step.tokens else ""]  # fmt: skip
        fits = " and ".join(size for size in sizes if size) or "the member's context"
        caps = f"at most {step.max_depth} deep, {told.many(step.max_pieces, 'piece')}"
        split = Box("split", f"split by {step.split}", (f"until a piece fits {fits}", caps), "fold")
        combine = self._fold("combine", "combine", step.combine)
        inside = _rows([split], _lanes("piece", None), [_gate(step)], [combine])
        return Box(id, _title(step.name, "divide"), self._asked(step), inside=inside)

    # ── graph ────────────────────────────────────────────────────────────────────────────────

    def _graph(self, id: str, step: Graph) -> Box:
        try:
            dag.check(step.tasks)
        except BadInput as error:
            raise BadInput(error.what, file=self.plan.file, line=step.line) from None
        level = dag.layers(step.tasks)
        deep = max(level.values(), default=-1) + 1
        lines = told.joined([
            told.many(len(step.tasks), "task"), f"longest path {deep}",
            f"{step.concurrency} at once", f"{step.delay:g}s between starts" if step.delay else "",
            told.budget_told(step.budget),
        ])  # fmt: skip
        small = len(step.tasks) <= MOST_TASKS
        inside = self._tasks(step) if small else _summary(step, level)
        return Box(id, _title(step.name, "graph"), lines, inside=inside)

    def _tasks(self, step: Graph) -> Picture:
        boxes = tuple(self._task(task) for task in step.tasks)
        return Picture(boxes, tuple(Arrow(a, task.id) for task in step.tasks for a in _above(task)))

    def _task(self, task: Node) -> Box:
        stated = task.who != type(task.who)()
        who = told.who_told(task.who, self.roster) if stated else ""
        enough = "needs no parent" if task.partial == "always" else "some of its parents are enough"
        partial = enough if task.partial else ""
        return Box(task.id, task.id, (*told.joined([who, partial]), *told.gate_line(task)))


def _above(task: Node) -> list[str]:
    return list(dict.fromkeys(task.depends_on))


def _summary(step: Graph, level: dict[str, int]) -> Picture:
    """A box per layer; an arrow where a task of one waits for a task of the other."""
    sizes: dict[int, int] = {}
    for task in step.tasks:
        sizes[level[task.id]] = sizes.get(level[task.id], 0) + 1
    pairs = {(level[a], level[task.id]) for task in step.tasks for a in _above(task)}
    boxes = [
        Box(f"layer {n}", f"layer {n + 1}: {told.many(sizes[n], 'task')}") for n in sorted(sizes)
    ]
    return Picture(tuple(boxes), tuple(Arrow(f"layer {a}", f"layer {b}") for a, b in sorted(pairs)))


# ── parts of shapes ──────────────────────────────────────────────────────────────────────────


def _title(name: str, kind: str) -> str:
    return kind if name == kind else f"{name} ({kind})"


def _rows(*rows: list[Box]) -> Picture:
    """Each box of a row leads to each of the next."""
    joined = [Arrow(a.id, b.id) for upper, lower in pairwise(rows) for a in upper for b in lower]
    return Picture(tuple(box for row in rows for box in row), tuple(joined))


def _lanes(what: str, number: int | None) -> list[Box]:
    """So many of a kind side by side, or the first two and the last."""
    if number is not None and number <= _MOST_LANES:
        return [_lane(what, str(n + 1)) for n in range(max(number, 1))]
    last = "n" if number is None else f"{number:,}"
    return [_lane(what, "1"), _lane(what, "2"), _lane(what, "…", "more"), _lane(what, last)]


def _lane(what: str, number: str, look: Look = "ask") -> Box:
    return Box(f"{what} {number}", number if look == "more" else f"{what} {number}", (), look)


def _gate(asking: Asking, *, kick: bool = True) -> Box:
    lines = told.gate_told(asking)
    kicked = told.kick_told(asking) if kick else ""
    return Box("gate", "gate", (*lines, *told.joined([kicked])), "gate")
