"""From what a step states to what the patterns take: its terms and its prompt."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Protocol

import msgspec

from fanfold.errors import BadInput
from fanfold.gates import kinds as gates
from fanfold.gates.default import standard
from fanfold.members.target import unloaded
from fanfold.patterns.prompt import KNOWN_NAMES, Prompt, Verbatim, WithParents
from fanfold.plans.asking import Asking, keep_template
from fanfold.plans.header import PlanHeader
from fanfold.plans.reading import resolver
from fanfold.plans.variables import NAME as VARS
from fanfold.work.ask import Reply, Schema
from fanfold.work.batch import batch_of
from fanfold.work.budget import combined
from fanfold.work.file_templates import file_templates
from fanfold.work.media_files import MediaFiles
from fanfold.work.member import Traits
from fanfold.work.task import Task, Terms, known_as
from fanfold.work.template import Template
from fanfold.work.tool import StatedTools
from fanfold.work.typed import definition_of

UNLOADED_SCHEMA = Schema.of({"type": "object"})
SAMPLES_OF_A_ROUND = 1_000_000  # more than anybody asks for in one


class Knows(Protocol):
    """A run, as far as it is needed here: who may answer on these terms."""

    def traits(self, terms: Terms) -> list[Traits]: ...


class Ready:
    """`results` are those of the plan's steps so far; prompts see them as `steps`. `resolver` imports
    the functions that the plan names, or only looks for them. `round`: of a repeat; each has steps
    and keys of its own."""

    def __init__(
        self,
        plan: PlanHeader,
        results: dict[str, Any],
        run: Knows | None = None,
        resolver: Callable[[Path], Callable[[str], Any]] = resolver,
    ) -> None:
        self.plan, self.results, self.run = plan, results, run
        self.round = 1
        self.resolve = resolver(Path(plan.folder))

    def named(self, step: str) -> str:
        """How a step, or a batch of its items, is on record."""
        return step if self.round == 1 else f"{step}#{self.round}"

    def terms(self, asking: Asking, step: str, keep: str | None = None) -> Terms:
        stated = None if asking.gate is None else gates.from_plan(list(asking.gate), self.resolve)
        budget = combined(asking.budget, self.plan.step_budgets.get(step))
        terms = Terms(
            step=self.named(step), called=step, gate=standard(stated, self.schema(asking)),
            who=asking.who, revise=asking.revise,
            escalate=asking.escalate, on_failure=asking.on_failure, in_doubt=asking.in_doubt,
            concurrency=asking.concurrency, budget=budget, keep=self._keep(keep),
            hedge=asking.hedge, batch=asking.batch, attempts=asking.attempts, tools=asking.tools,
        )  # fmt: skip
        return self._in_batches(terms)

    def _in_batches(self, terms: Terms) -> Terms:
        """As the operator says (`--batch`), where the step states nothing and somebody can."""
        said = self.plan.overrides.batch
        if said is None or terms.batch is not None or terms.hedge is not None or self.run is None:
            return terms
        if isinstance(terms.tools, StatedTools) and terms.tools.tools:
            return terms
        if all(one.batch is None for one in self.run.traits(terms)):
            return terms
        return msgspec.structs.replace(terms, batch=batch_of(said))

    def prompt(self, asking: Asking, known: Collection[str] = KNOWN_NAMES) -> Prompt:
        user: Template | Verbatim | None = None
        if asking.prompt is not None and asking.verbatim:
            unchanged = WithParents if asking.verbatim == "parents" else Verbatim
            user = unchanged(asking.prompt)
        elif asking.prompt is not None:
            user = Template(asking.prompt, name=self.plan.file, known={*known, VARS})
        names = {"task": self.plan.task or "", VARS: self.plan.vars, "steps": dict(self.results)}
        sample = (self.round - 1) * SAMPLES_OF_A_ROUND
        files = MediaFiles(self.plan.folder, inside=not self.plan.allow_outside)
        made = Prompt(
            user, (), self.schema(asking), asking.params, names, sample,
            attach=asking.attach, files=files,
            carries=file_templates(
                asking.inputs, asking.outputs, {*known, "item", VARS}, self.plan.folder
            ),
        )  # fmt: skip
        return made.opened(asking.opening)

    def schema(self, asking: Asking) -> Schema | None:
        """That of a type is made when it is imported; whoever only looks knows that there is one."""
        if asking.schema_type is None:
            return asking.schema
        found = self.resolve(asking.schema_type)
        if found is unloaded:
            return UNLOADED_SCHEMA
        try:
            return Schema.of(definition_of(found))
        except BadInput as error:
            raise BadInput(
                error.what, file=self.plan.file, line=asking.lines.get("schema")
            ) from None

    def _keep(self, expression: str | None) -> Callable[[Task, Reply], bool] | None:
        """`keep: reply.relevant` as a filter: an expression over the reply and the item."""
        if expression is None:
            return None
        template, values = keep_template(expression, self.plan.file), self.plan.vars

        def keep(task: Task, reply: Reply) -> bool:
            item = task.ask.items[0].view()
            return bool(template.render(reply=reply.value, item=item, vars=values))

        return known_as("pure", keep)
