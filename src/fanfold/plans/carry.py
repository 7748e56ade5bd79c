"""Run the steps of a plan one after the other: each step says how, the state of the run is here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import takewhile
from typing import Any, Protocol

import msgspec

from fanfold.errors import BadInput, FanfoldError, RunStopped, StoreError
from fanfold.patterns.arguments import reply_of
from fanfold.patterns.asked_reduce import AskedReduce, placeholder_asks
from fanfold.patterns.pipeline import Mode, Stage, onward, pipe_batch
from fanfold.patterns.prompt import Prompt, lacking_field, make_task
from fanfold.plans.condition import COUNTED, COUNTS, condition, holds
from fanfold.plans.flow import FieldRead, FlowStep, leg
from fanfold.plans.header import PlanHeader
from fanfold.plans.output import Output
from fanfold.plans.produced import ProducedReplies, listed
from fanfold.plans.ready import Ready
from fanfold.run.planning import Batch
from fanfold.run.run import Run
from fanfold.run.sources import Rows
from fanfold.work.ask import Ask
from fanfold.work.item import Item, Source
from fanfold.work.outcome import Outcome
from fanfold.work.raised import error_text
from fanfold.work.task import NOBODY, Place, Task, Terms
from fanfold.work.tree import widths

Say = Callable[[str], None]


async def carry_out(
    run: Run,
    plan: PlanHeader,
    source: Source | None,
    say: Say,
    output: Output,
    ready: Callable[[PlanHeader, dict[str, Any], Run], Ready] = Ready,
) -> None:
    """All steps in order. Raises RunStopped when the run stops early; the rest is in the journal.
    `ready`: makes of what steps state what the patterns take."""
    state = PlanState(run, plan, say, output)
    state.ready = ready(plan, state.results, run)
    await state.carry_out(source)


class CarriedStep(FlowStep, Protocol):
    """A step that can be carried out; see `steps/kind.Step`."""

    @property
    def needs_flow(self) -> bool: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    def all_terms(self, ready: Ready) -> list[Terms]: ...
    def item_reads(self) -> Iterator[FieldRead]: ...
    def asks_each(self, ready: Ready) -> int: ...
    def check_size(self, size: int) -> None: ...
    async def carry(self, state: PlanState) -> None: ...


class DividedStep(msgspec.Struct, frozen=True):
    """What another process must know to do a part of a step: its name, the results so far, and which steps
    its items have passed."""

    step: str
    results: dict[str, Any]
    passed: tuple[str, ...]


_encode = msgspec.json.Encoder().encode
_divided = msgspec.json.Decoder(DividedStep).decode


class PlanState:
    """How far a plan is: the items in the flow, what they have been through, the results so far.

    `following`: the step after the one that is carried out just now; who does its work too says
    `skip_following`. `lost` are the steps that gave no result: what reads them is not carried out.
    """

    def __init__(self, run: Run, plan: PlanHeader, say: Say, output: Output) -> None:
        self.run, self.say, self.output = run, say, output
        self._steps: Sequence[CarriedStep] = plan.steps
        self._position = 0
        self.results: dict[str, Any] = {}
        self.ready = Ready(plan, self.results, run)
        self.batch: Batch | None = None
        self.passed: list[Terms] = []
        self.value: Any = None
        self.folded = False
        self.unforeseen = False  # how many items there are was not known at the start
        self.of_input: tuple[Batch, Terms] | None = None  # the input, and the last step it passed
        self._replies: dict[str, tuple[Batch, Terms]] = {}
        self._worked: dict[str, tuple[Batch, Terms]] = {}  # by step: its items, however they ended
        self._when, self._last = plan.when, ""  # the step where the items leave the flow
        self._lost: set[str] = set()
        self._without_items = ""  # the step that failed: those after it have no items
        self._skip = False

    async def carry_out(self, source: Source | None) -> None:
        await self._begin()
        if source is not None:
            await self._start_input(source)
        await self._carry_steps()

    async def _begin(self) -> None:
        for step in self._steps:
            for terms in step.all_terms(self.ready):
                await self.run.begin(terms)

    async def _start_input(self, source: Source) -> None:
        self._position = next(n for n, step in enumerate(self._steps) if step.takes_items)
        await self.start(source, "input")

    async def carry_round(self, steps: Sequence[CarriedStep], number: int) -> bool:
        """These steps, as round so and so of a repeat. False: one of them gave no result."""
        around = self._steps, self._position
        self._steps, self.ready.round = steps, number
        try:
            for step in steps if number > 1 else ():
                for terms in step.all_terms(self.ready):
                    await self.run.begin(terms)
            await self._carry_steps()
        finally:
            (self._steps, self._position), self.ready.round = around, 1
        return self._lost.isdisjoint(step.name for step in steps)

    async def _carry_steps(self) -> None:
        for position, step in enumerate(self._steps):
            self._position = position
            if self._skip:
                self._skip = False
            elif lacks := _reads(step) & self._lost:
                self._lose(step, f"steps.{min(lacks)} gave no result, which it reads")
            elif self._without_items and step.produced_by is None and step.needs_flow:
                self._lose(step, f"there are no items, since `{self._without_items}` gave none")
            else:
                await self._carry(step)

    async def _carry(self, step: CarriedStep) -> None:
        when = self._when.get(step.name)
        try:
            if when is not None and not await self.holds(when):
                await self._leave_out(step, f"not run: its condition is false: {when}")
                return
            if step.produced_by is not None:
                await self._produced(step.produced_by, step)
            await step.carry(self)
            if self.batch is not None:
                self._worked |= {
                    one.seen_as: (self.batch, one) for one in step.item_terms(self.ready)
                }
        except (RunStopped, StoreError, BadInput):
            raise
        except FanfoldError as error:
            self._lose(step, str(error))

    @property
    def following(self) -> CarriedStep | None:
        """None when it may not be taken."""
        after = self._position + 1
        step = self._steps[after] if after < len(self._steps) else None
        return None if step is None or step.name in self._when else step

    def skip_following(self) -> None:
        self._skip = True

    # ── conditions ──

    async def holds(self, expression: str, round: int | None = None) -> bool:
        """A condition, with the results so far and counts of items."""
        plan = self.ready.plan
        template = condition(expression, plan.file)
        await self.run.flush()
        counts = {name: self._counts(name) for name in template.fields(COUNTS)}
        number = round or self.ready.round
        return holds(template, plan, steps=self.results, counts=counts, round=number)

    def _counts(self, name: str) -> dict[str, int]:
        """How the items of a step ended, those included that did not come to it."""
        found = dict.fromkeys(COUNTED, 0)
        if name in self._worked:
            batch, terms = self._worked[name]
            found["planned"] = batch.size
            found["passed"] = sum(1 for _ in self.run.behind(batch, terms))
            for one in self.run.missing(batch, terms):
                found[one.state or "cancelled"] += 1
        return found

    async def _leave_out(self, step: CarriedStep, why: str) -> None:
        """A step that is not taken gives an empty list. Items go on as they came to it; where they
        would be those of a list there are none."""
        self.results |= {name: [] for name in step.names}
        self.run.note_step(self.ready.named(step.name), why)
        for terms in step.item_terms(self.ready):
            self.run.needs.drop(terms.step)
        if step.produced_by is not None or (step.takes_items and self.batch is None):
            await self.start(Rows([]), self.ready.named(step.name))
        elif step.takes_items:
            await self.leave_flow(step.item_terms(self.ready)[-1], why)

    async def leave_flow(self, terms: Terms, why: str) -> None:
        """If this is their last step, the items end here, with the reply of the last one that they
        passed; without any they are skipped."""
        if self.batch is None or terms.step != self._last:
            return
        self.run.recall(self.batch, terms)
        for position, item in self.items().source.walk():
            ended = Outcome(item.id, "skipped", reasons=(why,))
            if self.passed:
                value = item.view()["steps"][self.passed[-1].seen_as]
                ended = Outcome(item.id, "passed", reply_of(value, "step"))
            place = Place(self.batch.no, position)
            self.run.settle(Task(item.id, Ask(items=(item,)), terms, place), ended)
        await self.run.flush()

    # ── items ──

    async def start(self, source: Source, name: str) -> None:
        """New items are in the flow: plan them all, before anything is asked about them."""
        ahead = leg(self._steps, self._position)
        through = [terms for step in ahead for terms in step.item_terms(self.ready)]
        self.batch = await self.run.plan(source, through[0], through[-1], name)
        self._need(self.batch, ahead, through)
        self._last = through[-1].step
        self._without_items, self.unforeseen = "", name != "input"
        for step in ahead:
            step.check_size(self.batch.size)
        self.passed = []

    def _need(self, batch: Batch, ahead: Sequence[CarriedStep], through: Sequence[Terms]) -> None:
        """What it takes to get all items through."""
        needs = self.run.needs
        needs.flow(batch.no, [terms.step for terms in through], batch.size)
        for step in ahead:
            for terms in step.item_terms(self.ready):
                if terms.who == NOBODY:
                    needs.drop(terms.step)
                elif (many := step.asks_each(self.ready)) > 1:
                    needs.times(terms.step, many)

    def items(self) -> Batch:
        """The items in the flow as the next step sees them: with their replies so far."""
        assert self.batch is not None
        return onward(self.run, self.batch, self.passed)

    async def _produced(self, name: str, step: CarriedStep) -> None:
        """What an earlier step produced is in the flow. It may be anything: what cannot be planned
        is this step's loss."""
        there = self._replies.get(name)
        try:
            made = (
                listed(name, self.results[name])
                if there is None
                else ProducedReplies(self.run, *there)
            )
            await self.start(made, self.ready.named(step.name))
        except BadInput as error:
            raise FanfoldError(f"steps.{name}: {error.what}") from None

    async def govern_items(self, terms: Terms, prompt: Prompt, times: int = 1) -> None:
        """How many items there are was perhaps not foreseen: may they be asked? `times`: so many
        asks about each."""
        if self.unforeseen:
            source = self.items().source
            await self.run.govern(terms, _foreseen(source, terms, prompt, times))

    async def through_stages(self, stages: Sequence[Stage], mode: Mode) -> None:
        """The items in the flow go through these stages."""
        assert self.batch is not None
        for stage in stages if self.unforeseen else ():
            await self.run.govern(stage.terms, placeholder_asks(self.batch.size))
        await pipe_batch(self.run, self.batch, tuple(stages), mode, self.passed)
        self.went_through([stage.terms for stage in stages])

    def went_through(self, terms: Iterable[Terms]) -> None:
        """The items have replies of these steps."""
        assert self.batch is not None
        for one in terms:
            self.passed.append(one)
            self._replies[one.seen_as] = (self.batch, one)
            if not self.unforeseen:
                self.of_input = (self.batch, one)
        self.folded = False

    # ── several processes ──

    def is_divided(self, step: FlowStep) -> bool:
        """Whether other processes of the run, if there may be any, do a part of this step."""
        share, top = self.run.share, self.ready.round == 1 and not self.unforeseen
        return share is not None and top and step in self.ready.plan.steps

    def dividing(
        self, step: FlowStep, terms: Terms, unit: int
    ) -> AbstractAsyncContextManager[None]:
        """Meanwhile they may. `unit`: see `DivideBatch`."""
        assert self.batch is not None and self.run.share is not None
        told = DividedStep(step.name, self.results, tuple(one.step for one in self.passed))
        return self.run.share.dividing(self.batch, terms, unit, _encode(told))

    async def take_part(self, source: Source, told: bytes) -> None:
        """As a process that another one leads: a part of the step that is divided now."""
        divided = _divided(told)
        await self._begin()
        self.results |= divided.results
        await self._start_input(source)
        terms = {one.step: one for step in self._steps for one in step.item_terms(self.ready)}
        self.passed = [terms[name] for name in divided.passed]
        self._position = [step.name for step in self._steps].index(divided.step)
        await self._steps[self._position].carry(self)

    # ── results ──

    def result(self, step: FlowStep, value: Any) -> None:
        self.results[step.name] = value
        self.show(value)
        if value is None:
            self._lost.add(step.name)

    def show(self, value: Any) -> None:
        """What a `write` after it writes, and the run gives back."""
        self.value, self.folded = value, True
        self.run.set_result(value)

    def _lose(self, step: CarriedStep, why: str) -> None:
        self.run.flawed(f"{step.name}: {why}")
        self._lost.add(step.name)
        self.results[step.name] = None
        if step.produced_by is not None:
            self.batch, self.passed = None, []
        if step.takes_items:
            self._without_items = step.name
        if self._without_items:
            self.value, self.folded = None, True

    async def govern_reduce(self, how: Any) -> None:
        """The asks of a tree over items that nobody could count beforehand."""
        if self.unforeseen and isinstance(how, AskedReduce):
            assert self.batch is not None
            nodes = sum(widths(self.batch.size, how.fan_in)[1:])
            await self.run.govern(how.terms, placeholder_asks(nodes))

    async def or_flag(self, name: str, making: Any) -> Any:
        """A reduce that fails gives no result and flags the run; the replies are in the journal."""
        try:
            value = await making
            msgspec.json.encode(value)
        except (RunStopped, StoreError, BadInput):
            raise
        except FanfoldError as error:
            self.run.flawed(f"{name}: {str(error).removeprefix('reduce: ')}")
        except Exception as error:
            self.run.flawed(f"{name} raised {error_text(error)}")
        else:
            return value
        return None


def _foreseen(source: Source, terms: Terms, prompt: Prompt, times: int) -> Iterator[Ask]:
    for _, item in source.walk():
        ask = make_task(prompt, item, terms, None).ask
        for sample in range(times):
            yield msgspec.structs.replace(ask, sample=sample) if sample else ask


def _reads(step: FlowStep) -> set[str]:
    """The steps whose results or replies a step reads."""
    read = set() if step.produced_by is None else {step.produced_by}
    return read.union(*(asking.fields_read("steps") for _, asking in step.asks()))


def check_fields(plan: PlanHeader, items: Iterable[tuple[int, Item]]) -> None:
    """The first item must have the fields that steps over the input go by, else it says so now, and
    not when the steps before have been paid for. What is taken only `when` something holds is left out."""
    first = next(iter(items), None)
    for step in takewhile(lambda step: step.produced_by is None, plan.steps):
        if first is None or not step.takes_items or step.name in plan.when:
            continue
        for read in step.item_reads():
            if fault := lacking_field(read.reader, read.names, first[1]):
                if read.unwritten:
                    fault = _without_prompt(read.unwritten, fault, first[1])
                raise BadInput(fault, file=plan.file, line=read.line)


def _without_prompt(step: str, fault: str, item: Item) -> str:
    """Nobody wrote the prompt that reads what the item lacks."""
    own = next((name for name in item.view() if name != "id"), "id")
    gets = fault.replace("the prompt reads", f"`{step}` has no `prompt`, so it gets", 1)
    return f'{gets}; give it one, such as `prompt: "{{{{ item.{own} }}}}"`'
