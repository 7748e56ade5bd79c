"""The fan-out governor: before a stage whose size nobody knew at the start, may it be made?"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from itertools import islice
from math import ceil

import msgspec

from fanfold.journal.answers import CallHistory
from fanfold.price import dollars, nanos
from fanfold.run.context import Context
from fanfold.run.demand import Candidate, expected_parts
from fanfold.run.forecast import Forecast
from fanfold.run.meter import Meter, StepMembers
from fanfold.run.remaining import Survey
from fanfold.run.settings import Approve, Govern
from fanfold.run.stopping import Stop
from fanfold.work.ask import Ask
from fanfold.work.member import Traits
from fanfold.work.outcome import StopCause
from fanfold.work.task import Task, Terms

CHUNK = 64
SAMPLED = 20_000  # asks that are measured; of more of them, these stand for all

# ── decide ───────────────────────────────────────────────────────────────────────────────────


class Hold(msgspec.Struct, frozen=True):
    """Not like this. `cap`: nobody is asked, only this cap helps."""

    reason: str
    cap: int = 0


def weigh(govern: Govern, stage: Forecast, before: int, unpriced: bool = False) -> Hold | None:
    """None: it may go on. `before`: the asks of the run so far that nobody could foresee.
    `unpriced`: somebody paid may answer, and nobody knows the price.

    Cases: above the cap; a yes was given; small and cheap; to be approved.
    """
    whole = before + stage.tasks
    if whole > govern.cap:
        so_far = f" after {before:,} before" if before else ""
        return Hold(
            f"{_about_to(stage)}{so_far}, which is above the cap of {govern.cap:,};"
            f" allow it with --cap {whole}",
            cap=whole,
        )
    cost = likely_cost(stage)
    many = stage.tasks > govern.max_tasks
    dear = unpriced if cost is None else cost > nanos(govern.approve_over)
    if govern.yes or not stage.tasks or not (many or dear):
        return None
    flags = [f"--max-tasks {stage.tasks}"] if many else []
    flags += [f"--approve-over {_cents(cost)}"] if dear and cost is not None else []
    instead = f" or {' '.join(flags)}" if flags and not (dear and cost is None) else ""
    return Hold(f"{told(stage)}; approve it with --yes{instead}")


def likely_cost(stage: Forecast) -> int | None:
    """What is held against `approve_over`: without calls on record nothing but the worst case."""
    return stage.p90 if stage.measured else stage.worst


def told(stage: Forecast) -> str:
    """What is about to happen, for a question or a reason: `map would ask 547 tasks …, at most $6`."""
    cost = likely_cost(stage)
    if cost is None:
        return f"{_about_to(stage)}, at a price that is not known"
    return f"{_about_to(stage)}, {'about' if stage.measured else 'at most'} {_usd(cost)}"


def _about_to(stage: Forecast) -> str:
    tasks = "1 task that was" if stage.tasks == 1 else f"{stage.tasks:,} tasks that were"
    return f"{stage.step} would ask {tasks} not in the preview"


def _usd(amount: int) -> str:
    return f"${dollars(amount):,.2f}" if amount >= nanos(0.01) else f"${dollars(amount):.6f}"


def _cents(amount: int) -> str:
    """Rounded up, so that it suffices."""
    return f"{ceil(amount / nanos(0.01)) / 100:.2f}"


# ── act ──────────────────────────────────────────────────────────────────────────────────────


class Governor:
    """Counts, over a run, the asks that nobody could foresee. One question at a time.

    What earlier invocations asked of a step counts from the moment that step comes again, so that
    stopping and resuming is no way around the cap.
    """

    def __init__(self, ctx: Context, govern: Govern, approve: Approve | None) -> None:
        self._ctx, self._govern, self._approve = ctx, govern, approve
        self._asked = 0
        self._steps: set[str] = set()
        self._past: dict[tuple[str, str], CallHistory] = {}
        self._one_at_a_time = asyncio.Lock()

    async def allow(self, terms: Terms, asks: Iterable[Ask]) -> None:
        """Returns when the stage may go on; else the run pauses, and RunStopped is raised."""
        if not any(candidate.traits.metered for candidate in self._candidates(terms)):
            return
        async with self._one_at_a_time:
            self._ctx.stopping.raise_if_stopping()
            self._recall(terms.step)
            stage = await self._measured(terms, asks)
            unpriced = any(_unpriced(one.traits) for one in self._candidates(terms))
            held = weigh(self._govern, stage, self._asked, unpriced)
            if held is not None and not await self._approved(held, stage):
                cause = StopCause("cap", cap=held.cap) if held.cap else StopCause("approval")
                self._ctx.stopping.halt(Stop("paused", held.reason, cause=cause))
            self._ctx.stopping.raise_if_stopping()
            self._asked += stage.tasks

    def approve_all(self) -> None:
        """At an operator's word: stages that nobody foresaw may be made, up to the cap."""
        self._govern = msgspec.structs.replace(self._govern, yes=True)

    async def _approved(self, held: Hold, stage: Forecast) -> bool:
        if held.cap or self._approve is None:
            return False
        said = self._approve(stage)
        return bool(await said if isinstance(said, Awaitable) else said)

    def _recall(self, step: str) -> None:
        ctx = self._ctx
        if step not in self._steps:
            self._steps.add(step)
            if ctx.record.resumed:
                self._asked += ctx.store.read.tasks_asked(ctx.record.no, step)

    async def _measured(self, terms: Terms, asks: Iterable[Ask]) -> Forecast:
        """All are looked up and counted; others get a turn in between."""
        replies, eligible = self._ctx.replies, self._ctx.choose.eligible(terms.who)
        accept = frozenset(eligible.accept)
        survey = Survey(
            eligible.takes, lambda keys: replies.recorded_all(keys, accept), careful=True,
            tools=self._ctx.choose.tools_for(terms, eligible),
        )  # fmt: skip
        meter, tasks, measured = Meter(self._cast(terms)), 0, 0
        rest = iter(asks)
        while chunk := [Task("", ask, terms) for ask in islice(rest, CHUNK)]:
            for left in survey.remaining(chunk):
                tasks += left.asks
                if measured < SAMPLED:
                    meter.add(left)
                    measured += left.asks
            await asyncio.sleep(0)
        found = meter.forecast()
        return found.scaled(tasks / measured) if tasks > measured else found

    def _cast(self, terms: Terms) -> StepMembers:
        ctx, eligible = self._ctx, self._ctx.choose.eligible(terms.who)
        better = [ctx.choose.escalation(id).candidates[0] for id in terms.escalate]
        past = {one.traits.id: self._history(one.traits, terms.step) for one in
                (*eligible.candidates, *better)}  # fmt: skip
        slots = min(terms.concurrency, ctx.limits.max_concurrency)
        members = tuple(one.member for one in eligible.candidates)
        return StepMembers(
            terms.step, members, tuple(one.member for one in better), slots, past,
            extra=0.0 if terms.hedge is None else terms.hedge.extra,
            parts=expected_parts(eligible.candidates, slots),
        )  # fmt: skip

    def _history(self, traits: Traits, step: str) -> CallHistory | None:
        """Looked up once there is one; a stage inside a stage comes here for every item."""
        known = self._past.get((traits.id, step))
        if known is None and traits.metered:
            known = self._ctx.store.read.call_history(traits.id, traits.answerer, step)
            if known is not None and known.step is not None:
                self._past[traits.id, step] = known
        return known

    def _candidates(self, terms: Terms) -> list[Candidate]:
        choose = self._ctx.choose
        found = [choose.eligible(terms.who), *(choose.escalation(id) for id in terms.escalate)]
        return [candidate for eligible in found for candidate in eligible.candidates]


def _unpriced(traits: Traits) -> bool:
    return traits.metered and traits.price is None and traits.tier == "paid"
