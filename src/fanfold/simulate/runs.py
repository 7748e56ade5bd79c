"""Simulated runs: the real engine carries the real plan out, with stand-ins, on a virtual clock, in memory.

A large input is represented by a sample: its runs are made with all of the sample and with a part of it,
and what grows with the items is extrapolated from there. Deviations grow with the square root.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import sqrt
from statistics import fmean
from typing import Any

import msgspec

from fanfold.clock import RealClock, VirtualLoop
from fanfold.errors import BadInput, RunStopped
from fanfold.journal.decide import month_of
from fanfold.journal.opening import open_store
from fanfold.plans.carry import carry_out
from fanfold.plans.plan import Plan, with_concurrency
from fanfold.plans.prepare import Job
from fanfold.price import dollars
from fanfold.run.open import finish
from fanfold.run.record import start
from fanfold.run.run import Run
from fanfold.run.settings import Settings
from fanfold.run.sources import Rows
from fanfold.simulate.behaviour import Behaviour
from fanfold.simulate.stand_in import (
    NoOutput,
    Premise,
    SeededClock,
    SimulatedWorld,
    StandInMembers,
    StandInReady,
    stood_in,
)
from fanfold.simulate.what_if import Scenario
from fanfold.work.item import Item
from fanfold.work.member import Traits
from fanfold.work.outcome import STATES, Receipt
from fanfold.work.task import Budget
from fanfold.work.waiting import WaitingCalls

LOOK = 0.25  # seconds between looks at why calls wait; more as time goes by
LOOKS = 100
LONGEST = 400 * 86_400.0  # virtual seconds of one run
SEEDS = 100_000  # runs of one seed, at most
BUSY, USD = ("busy", "", ""), ("total", "", "usd")
ADDED = ("calls", "usd", "tokens", "errors", *STATES)
"""What items add up to."""
PART = 4  # of the sample a quarter
ALIKE = 0.15  # so far four times as many items may be from four times as much

Name = tuple[str, str, str]
"""Of what: `total`, `step`, `member` or `wait`; whose; and of what."""

Figures = dict[Name, float]
"""What one run came to."""


@dataclass
class Simulated:
    """Runs of one scenario, each as its figures for the whole input. `waits`: why calls waited, in words'
    worth; `ended`: why runs stopped early, or items did not pass, and in how many runs."""

    scenario: Scenario
    runs: list[Figures] = field(default_factory=list)
    waits: dict[tuple[str, str], WaitingCalls] = field(default_factory=dict)
    used: dict[tuple[str, str], Behaviour] = field(default_factory=dict)
    ended: Counter[str] = field(default_factory=Counter)

    def of(self, kind: str, who: str, what: str) -> list[float]:
        return sorted(one.get((kind, who, what), 0.0) for one in self.runs)


class Simulator:
    """`items`: all, or a sample of `whole`; None where the plan has no input."""

    def __init__(
        self, job: Job, premise: Premise, items: Sequence[Item] | None, whole: int, seed: int
    ) -> None:
        self.plan, self._budget, self._premise = job.stored.plan, job.budget, premise
        self.items, self.whole = items, whole
        self._first_seed, self._members = seed * SEEDS, stand_ins(premise)
        self._usual_seconds = 0.0  # that the sample takes as it is
        self._plain: tuple[list[Figures], list[Figures]] = ([], [])

    @property
    def sampled(self) -> bool:
        return self.items is not None and len(self.items) < self.whole

    def calls_of_one(self) -> int:
        """How many calls a run of the sample takes, about."""
        figures = self._run(Simulated(Scenario()), self._first_seed, self.items)
        return max(1, round(figures["total", "", "calls"]))

    def simulate(self, scenario: Scenario, runs: int) -> Simulated:
        """The same seeds for each scenario, so that what differs is what was changed. The plan as it is
        comes first."""
        found, parts, once = Simulated(scenario), list[Figures](), scenario.outage is not None
        for seed in range(self._first_seed, self._first_seed + runs):
            found.runs.append(self._run(found, seed, self.items))
            if self.sampled and self.items is not None and not once:
                parts.append(self._run(Simulated(scenario), seed, self.items[::PART]))
        if scenario == Scenario():
            self._usual_seconds = fmean(found.of("total", "", "seconds"))
            self._plain = found.runs, parts
        if once:
            found.runs = self._added(found.runs)
        else:
            found.runs = self._corrected(self._for_all(found.runs, parts), scenario)
        most = (self._budget if scenario.budget is None else scenario.budget).usd
        for one in found.runs if most is not None else ():
            one[USD] = min(one[USD], most or 0.0)
        return found

    def _for_all(self, runs: list[Figures], parts: list[Figures]) -> list[Figures]:
        if not parts or self.items is None:
            return runs
        return extrapolated(runs, parts, len(self.items), self.whole)

    def _added(self, runs: list[Figures]) -> list[Figures]:
        """What happens once comes on top, however many items there are."""
        plain, parts = self._plain
        return [
            {name: max(0.0, whole.get(name, 0.0) + one.get(name, 0.0) - usual.get(name, 0.0))
             for name in whole | one}
            for one, usual, whole in zip(runs, plain, self._for_all(plain, parts), strict=False)
        ]  # fmt: skip

    def _corrected(self, runs: list[Figures], scenario: Scenario) -> list[Figures]:
        """What few runs of a scenario say is measured by what the same seeds say of the plan as it is."""
        plain, parts = self._plain
        if scenario == Scenario() or len(runs) >= len(plain):
            return runs
        whole = self._for_all(plain, parts)
        few = self._for_all(plain[: len(runs)], parts[: len(runs)])

        def factor(name: Name) -> float:
            found = fmean(one.get(name, 0.0) for one in few)
            return fmean(one.get(name, 0.0) for one in whole) / found if found else 1.0

        factors = {
            name: factor(name) for one in runs for name in one if name[2] in (*ADDED, "seconds")
        }
        return [
            {name: amount * factors.get(name, 1.0) for name, amount in one.items()} for one in runs
        ]

    def _run(self, found: Simulated, seed: int, items: Sequence[Item] | None) -> Figures:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            return runner.run(self._carry_out(found, seed, items))

    async def _carry_out(
        self, found: Simulated, seed: int, items: Sequence[Item] | None
    ) -> Figures:
        scenario, clock, store = found.scenario, SeededClock(seed), open_store("memory:")
        try:
            plan = stood_in_plan(self.plan, scenario)
            share = len(items) / self.whole if items else 1.0
            members, outages = scenario.limited(self._members), self._outages(scenario)
            world = SimulatedWorld(self._premise, members, outages, seed, share=share)
            store.subscribe(world.heard)
            budget = self._allowed(scenario, share)
            record = await start(store, plan.name, clock, budget)
            govern = msgspec.structs.replace(plan.govern, yes=True, cap=10**9)
            settings = Settings(budget=budget, seed=seed, govern=govern)
            run = Run(store, record, StandInMembers(self._premise, world), settings, clock)
            source = None if items is None else Rows(items)
            watching = asyncio.ensure_future(_watch(run, found))
            try:
                making = partial(StandInReady, world)
                output = NoOutput(run, plan, None)
                await carry_out(run, plan, source, _say_nothing, output, making)
            except RunStopped:
                if run.stopping is None:
                    raise
            finally:
                watching.cancel()
                with suppress(asyncio.CancelledError):
                    figures = await watching
            receipt = await finish(store, run)
            _check_costs(world)
            found.used |= world.used
            _note_ends(found, receipt)
            return figures | _figures(run, receipt)
        finally:
            store.close()

    # ── what a scenario changes ──

    def _allowed(self, scenario: Scenario, share: float) -> Budget:
        """Of a sample the share that it is of the whole."""
        budget = self._budget if scenario.budget is None else scenario.budget
        counts = ("tokens", "calls")
        return Budget.of(**{
            name: max(1, round(amount * share)) if name in counts else amount * share
            for name, amount in msgspec.structs.asdict(budget).items() if amount is not None
        })  # fmt: skip

    def _outages(self, scenario: Scenario) -> dict[str, tuple[float, float]]:
        if scenario.outage is None:
            return {}
        since = self._usual_seconds / 4 if scenario.since is None else scenario.since
        return {scenario.member: (since, since + scenario.outage)}


def _check_costs(world: SimulatedWorld) -> None:
    """A member that nothing bounds, and of which no cost is known, would count as all that there is."""
    for (id, _), how in world.used.items():
        known = how.usd is not None or any(one.usd is not None for one in how.calls)
        if not world.traits[id].bounded and not known:
            what = f"nothing bounds what a call of `{id}` costs, and none is on record"
            raise BadInput(f"{what}; state it, such as --member {id}:usd=0.50")


def stand_ins(premise: Premise) -> Mapping[str, Traits]:
    """The members as stand-ins, with what is left of their budgets of this month."""
    records, found = premise.records, dict[str, Traits]()
    for id, entry in premise.roster.entries.items():
        traits = stood_in(entry.traits, records.answered(entry.traits))
        if traits.budget_usd_month is not None:
            spent = records.spent(id, month_of(RealClock().now()))
            left = max(0.0, traits.budget_usd_month - dollars(spent))
            traits = msgspec.structs.replace(traits, budget_usd_month=left)
        found[id] = traits
    return found


def stood_in_plan(plan: Plan, scenario: Scenario) -> Plan:
    """Without what would need code of the user's."""
    if scenario.concurrency is not None:
        plan = with_concurrency(plan, scenario.concurrency)
    for step in plan.steps:
        if ":" in getattr(step, "split", ""):
            what = "`split` is a function, and a simulation runs no code of yours"
            raise BadInput(what, file=plan.file, line=step.line)
    decided: Plan = _decided(plan)
    return decided


def _decided(value: Any) -> Any:
    """A vote that a function decides is taken to be decided by the majority, and no `watch` pauses a run:
    what stand-ins say is not right or wrong."""
    if isinstance(value, tuple):
        return tuple(_decided(one) for one in value)
    if not isinstance(value, msgspec.Struct):
        return value
    parts = {name: _decided(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(decide := parts.get("decide"), str) and ":" in decide:
        parts["decide"] = "majority"
    if parts.get("on_drift") == "pause":
        parts["on_drift"] = "flag"
    return msgspec.structs.replace(value, **parts)


def _say_nothing(line: str) -> None:
    """Nobody reads what a simulated run says."""


# ── what a run came to ───────────────────────────────────────────────────────────────────────


async def _watch(run: Run, found: Simulated) -> Figures:
    """Seconds of calls, under way and waiting, added up until it is cancelled."""
    figures: Figures = Counter()  # type: ignore[assignment]
    began = at = run.clock.monotonic()
    try:
        while at - began < LONGEST:
            wait = max(LOOK, (at - began) / LOOKS)
            await run.clock.sleep(wait)
            at = run.clock.monotonic()
            figures[BUSY] += wait * sum(run.load().values())
            for one in run.waiting():
                if one.calls and (one.said or one.why != "slot"):  # claimed ahead: no wait
                    figures["wait", one.why, one.who] += wait * one.calls
                    if one.said or (one.why, one.who) not in found.waits:
                        found.waits[one.why, one.who] = one
        run.kill("it does not end within a simulated year")
    except asyncio.CancelledError:
        pass
    return dict(figures)


def _figures(run: Run, receipt: Receipt) -> Figures:
    found: Figures = {
        ("total", "", "seconds"): receipt.seconds,
        USD: receipt.cost_usd,
        ("total", "", "calls"): receipt.calls,
        ("total", "", "planned"): receipt.planned,
        ("total", "", "tokens"): receipt.tokens.total,
    }
    found |= {("total", "", state): getattr(receipt, state) for state in STATES}
    for step in receipt.steps:
        amounts = {"calls": step.calls, "usd": step.cost_usd, "seconds": step.seconds}
        found |= {("step", step.name, what): amount for what, amount in amounts.items()}
    for one in run.store.read.member_totals([run.record.no]):
        members = {
            "calls": one.calls,
            "usd": dollars(one.cost),
            "errors": one.errors + one.in_doubt,
        }
        for what, amount in members.items():
            key = ("member", one.member, what)
            found[key] = found.get(key, 0.0) + amount
    return found


def _note_ends(found: Simulated, receipt: Receipt) -> None:
    if receipt.reason is not None:
        found.ended[f"{receipt.status}: {receipt.reason.partition(': $')[0]}"] += 1
    for one in receipt.reasons[:3]:
        found.ended[one.reason] += 1


# ── from a sample to the whole ───────────────────────────────────────────────────────────────


def extrapolated(
    runs: Sequence[Figures],
    parts: Sequence[Figures],
    many: int,
    whole: int,
    *,
    outage: bool = False,
) -> list[Figures]:
    """What so many times the items make as many times as much of grows with them; all else by a line
    through what a part of the sample and all of it took, on average."""
    few, names = len(range(0, many, PART)), dict.fromkeys(name for one in runs for name in one)
    made: list[Figures] = [{} for _ in runs]
    for name in names:
        taken = [one.get(name, 0.0) for one in runs]
        mean, part = fmean(taken), fmean(one.get(name, 0.0) for one in parts)
        slope = (mean - part) / (many - few)
        even = abs(mean * few - part * many) <= ALIKE * part * many
        if name[2] in ADDED and (even or name[2] in STATES):
            slope = mean / many
        middle = mean + max(0.0, slope) * (whole - many)
        for figures, amount in zip(made, taken, strict=True):
            figures[name] = max(0.0, middle + (amount - mean) * sqrt(whole / many))
    return made
