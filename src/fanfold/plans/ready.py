"""From what a plan states to what the patterns take: terms, prompts, reducers, voters."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Protocol

import msgspec

from fanfold.errors import FanfoldError
from fanfold.gates import stated as gates
from fanfold.gates.default import standard
from fanfold.patterns import fold as reduces
from fanfold.patterns import graph
from fanfold.patterns.arguments import TaskHandler, ask_member
from fanfold.patterns.asked_reduce import PART_NAMES, AskedReduce
from fanfold.patterns.divide import Division
from fanfold.patterns.ensemble import voters
from fanfold.patterns.map_reduce import sharding_of
from fanfold.patterns.nested import map_reduce_inside
from fanfold.patterns.panel import JUDGE_NAMES, Panel, VoteJudge, VoteOptions, panel_of
from fanfold.patterns.pipeline import Stage
from fanfold.patterns.prompt import KNOWN_NAMES, Prompt, Verbatim, WithParents
from fanfold.patterns.scatter import Question
from fanfold.plans import plan as plans
from fanfold.plans.plan import (
    Asking,
    Conduct,
    Divide,
    Ensemble,
    Graph,
    Map,
    MapReduce,
    Pipeline,
    Plan,
    Reduce,
    Scatter,
    Step,
    combined,
)
from fanfold.plans.steps.asking import keep_template, resolver
from fanfold.plans.variables import NAME as VARS
from fanfold.plans.walk import of_step
from fanfold.run.stream import Sharding
from fanfold.work.ask import Reply
from fanfold.work.item import Item
from fanfold.work.member import Traits
from fanfold.work.pieces import Fits
from fanfold.work.task import Reducer, Task, Terms, known_as
from fanfold.work.template import Template


class Knows(Protocol):
    """A run, as far as it is needed here: who may answer on these terms."""

    def traits(self, terms: Terms) -> list[Traits]: ...


TASK_NAMES = ("parents", "missing", "steps", "task", VARS)


class Ready:
    """`results` are those of the plan's steps so far; prompts see them as `steps`. `resolver` imports
    the functions that the plan names, or only looks for them."""

    def __init__(
        self,
        plan: Plan,
        results: dict[str, Any],
        run: Knows | None = None,
        resolver: Callable[[Path], Callable[[str], Any]] = resolver,
    ) -> None:
        self.plan, self.results, self._run = plan, results, run
        self.resolve = resolver(Path(plan.folder))

    def terms(self, asking: Asking, step: str, keep: str | None = None) -> Terms:
        stated = None if asking.gate is None else gates.from_plan(list(asking.gate), self.resolve)
        budget = combined(asking.budget, self.plan.step_budgets.get(step))
        return Terms(
            step=step, gate=standard(stated, asking.schema), who=asking.who, revise=asking.revise,
            escalate=asking.escalate, on_failure=asking.on_failure, in_doubt=asking.in_doubt,
            concurrency=asking.concurrency, budget=budget, keep=self._keep(keep),
            hedge=asking.hedge,
        )  # fmt: skip

    def prompt(self, asking: Asking, known: Collection[str] = KNOWN_NAMES) -> Prompt:
        user: Template | Verbatim | None = None
        if asking.prompt is not None and asking.verbatim:
            as_it_stands = WithParents if asking.verbatim == "parents" else Verbatim
            user = as_it_stands(asking.prompt)
        elif asking.prompt is not None:
            user = Template(asking.prompt, name=self.plan.file, known={*known, VARS})
        names = {"task": self.plan.task or "", VARS: self.plan.vars, "steps": dict(self.results)}
        return Prompt(user, None, asking.schema, asking.params, names)

    def into_one(self, reduce: Reduce) -> Reducer | AskedReduce:
        if reduce.vote is not None:
            return self._asked(reduce, reduce.vote, self.voters(reduce.vote))
        if reduce.ask is not None:
            return self._asked(reduce, reduce.ask, ask_member)
        return reduces.from_plan(reduce.kind, reduce.options, self.resolve)

    def _asked(self, reduce: Reduce, asking: Asking, by: TaskHandler) -> AskedReduce:
        prompt, terms = self.prompt(asking, PART_NAMES), self.terms(asking, reduce.name)
        return AskedReduce(prompt, terms, reduce.fan_in or 10, by)

    # ── steps that give each item a reply ──

    def item_terms(self, step: Step) -> list[Terms]:
        """On which terms the items of the flow go through a step, in order."""
        match step:
            case Map() | Ensemble():
                return [self.terms(step, step.name, step.keep)]
            case MapReduce():
                whole = Asking(who=step.map.who, concurrency=step.concurrency, revise=0)
                return [self.terms(whole, step.name)]
            case Pipeline():
                return [terms for stage in step.stages for terms in self.item_terms(stage)]
            case Divide() | Conduct() | Scatter():
                return [self.terms(step, step.name)]
            case _:
                return []

    def all_terms(self, step: Step) -> list[Terms]:
        """Of everything that a step asks, so that what is wrong shows before anything is asked."""
        match step:
            case Graph():
                return [self.terms(task, step.name) for task in step.tasks]
            case Scatter():
                return self._terms_of_scatter(step)
            case _:
                own = self.item_terms(step)
                there = {terms.step for terms in own}
                asked = of_step(step)
                return own + [self.terms(asking, at) for at, asking in asked if at not in there]

    def _terms_of_scatter(self, step: Scatter) -> list[Terms]:
        common = self.terms(step, step.name)
        whos = [entry.who or step.who for entry in step.over] or [step.who]
        own = [msgspec.structs.replace(common, who=who) for who in dict.fromkeys(whos)]
        return own + ([] if step.synthesise is None else self.all_terms(step.synthesise))

    def sharding(self, step: Map) -> Sharding | None:
        shard = step.shard
        if shard is None:
            return None
        return sharding_of(self.prompt(step), items=shard.items, tokens=shard.tokens)

    def stage(self, step: plans.Stage) -> Stage:
        terms = self.item_terms(step)[0]
        match step:
            case Map():
                return Stage(self.prompt(step), terms, self.sharding(step))
            case Ensemble():
                return Stage(self.prompt(step), terms, None, self.voters(step))
            case MapReduce():
                return Stage(Prompt(), terms, None, self._inside(step))

    def _inside(self, step: MapReduce) -> TaskHandler:
        return map_reduce_inside(
            _at(step.over), self.prompt(step.map), self.terms(step.map, step.map.name, step.map.keep),
            self.into_one(step.reduce), step.reduce.fan_in,
        )  # fmt: skip

    # ── votes ──

    def panel(self, step: Ensemble) -> Panel:
        return panel_of(self._voters(step), self._knobs(step))

    def voters(self, step: Ensemble) -> TaskHandler:
        return voters(self._voters(step), **self._knobs(step))

    def _voters(self, step: Ensemble) -> list[str]:
        """Those who are named, or else all that fit."""
        assert self._run is not None
        terms = msgspec.structs.replace(self.terms(step, step.name), escalate=())
        return [traits.id for traits in self._run.traits(terms)]

    def _knobs(self, step: Ensemble) -> VoteOptions:
        decide: Any = step.decide
        if step.judge is not None:
            decide = VoteJudge(
                self.prompt(step.judge, JUDGE_NAMES), self.terms(step.judge, ""), step.picks
            )
        elif ":" in step.decide:
            decide = self.resolve(step.decide)
        return VoteOptions(
            samples=step.samples, decide=decide, weights=step.weights or None, quorum=step.quorum,
            stop_early=step.stop_early, confidence=step.confidence, field=step.field,
        )  # fmt: skip

    # ── the other patterns ──

    def division(self, step: Divide) -> Division:
        split = self.resolve(step.split) if ":" in step.split else step.split
        return Division(
            self.into_one(step.combine), Fits(step.tokens, step.items), split, step.max_depth,
            step.max_pieces,
        )  # fmt: skip

    def questions(self, step: Scatter, prompt: Prompt, terms: Terms) -> list[Question]:
        made = []
        for at, entry in enumerate(step.over):
            own, asked = terms, prompt
            if entry.who is not None:
                own = msgspec.structs.replace(terms, who=entry.who)
            if entry.prompt is not None:
                asked = self.prompt(msgspec.structs.replace(step, prompt=entry.prompt))
            made.append(Question(at, Item(entry.id, entry.data), asked, own))
        return made

    def nodes(self, step: Graph) -> list[graph.GraphNode]:
        return [
            graph.GraphNode(
                task.id, self.prompt(task, TASK_NAMES), self.terms(task, step.name),
                task.depends_on, task.partial, task.weight, sample=task.sample,
            )
            for task in step.tasks
        ]  # fmt: skip

    def _keep(self, expression: str | None) -> Callable[[Task, Reply], bool] | None:
        """`keep: reply.relevant` as a filter: an expression over the reply and the item."""
        if expression is None:
            return None
        template, values = keep_template(expression, self.plan.file), self.plan.vars

        def keep(task: Task, reply: Reply) -> bool:
            item = task.ask.items[0].view()
            return bool(template.render(reply=reply.value, item=item, vars=values))

        return known_as("pure", keep)


def _at(path: str) -> Callable[[dict[str, Any]], list[Any]]:
    """`item.files` or `steps.NAME.parts`: the list there, in an item as a stage receives it."""
    root, *rest = path.split(".")
    names = ["steps", *rest] if root == "steps" else rest

    def found(data: dict[str, Any]) -> Any:
        value: Any = data
        for name in names:
            if not isinstance(value, dict) or name not in value:
                raise FanfoldError(f"there is no {path}")
            value = value[name]
        return value

    return found
