"""A simulation as a record: distributions, where the time goes, what was tried, and which concurrency is
worth it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from statistics import fmean

import msgspec

from fanfold.observe.waits import wait_reason
from fanfold.plans.plan import Plan, askings
from fanfold.simulate.runs import BUSY, Simulated, Simulator
from fanfold.simulate.what_if import Scenario, ladder, usual_concurrency
from fanfold.work.outcome import STATES
from fanfold.work.waiting import WaitingCalls

WORTH = 0.05  # less than this part of the time is no gain
BINDING = ("rate", "slot", "refused", "money", "breaker")
BINDS = 0.1  # of the time of all calls, from which on a wait is what holds them up
CALLS = 2_500  # that are simulated of the plan as it is, about, where `runs` is not stated
RUNS = (5, 20)
OF_REST = 4  # what is tried is simulated once for so many runs of the plan as it is
LEAST_RUNS = 3


class Spread(msgspec.Struct, frozen=True):
    """Of an amount over all runs: one in ten is below `p10`, one in ten above `p90`."""

    p10: float = 0.0
    p50: float = 0.0
    p90: float = 0.0
    mean: float = 0.0


class SimulatedTotal(msgspec.Struct, frozen=True, kw_only=True):
    """What runs came to. `outcomes`: of the items, those that there are."""

    name: str
    usd: Spread
    seconds: Spread
    calls: Spread
    tokens: Spread
    outcomes: dict[str, Spread]


class SimulatedPart(msgspec.Struct, frozen=True, kw_only=True):
    """Of a step or a member. `seconds`: for how long a call of the step was under way; `errors`: calls of
    the member without a reply."""

    name: str
    calls: Spread
    usd: Spread
    seconds: Spread | None = None
    errors: Spread | None = None


class TimeShare(msgspec.Struct, frozen=True):
    """Of the seconds of all calls, waiting for leave to go included. `why`: see `WaitReason`; nothing of
    those that are under way."""

    what: str
    share: float
    why: str = ""


class PlanSimulation(msgspec.Struct, frozen=True, kw_only=True):
    """`simulated`: so many items represent all `items`. `known`: how each member behaves at each step,
    and where that is from; `ended`: why runs stopped or items did not pass, and in how many runs."""

    plan: str
    items: int | None
    simulated: int | None
    runs: int
    seed: int
    total: SimulatedTotal
    steps: list[SimulatedPart]
    members: list[SimulatedPart]
    time: list[TimeShare]
    what_if: list[SimulatedTotal]
    advice: str
    known: list[str]
    ended: dict[str, int]


def simulation(
    simulator: Simulator, what_ifs: Sequence[Scenario], runs: int | None, seed: int
) -> PlanSimulation:
    """The plan as it is, and what is tried besides; without a word about concurrency some of these."""
    if runs is None:
        runs = min(RUNS[1], max(RUNS[0], CALLS // simulator.calls_of_one()))
    whole = simulator.simulate(Scenario(), runs)
    fewer = max(LEAST_RUNS, ceil(runs / OF_REST))
    rows = list(what_ifs)
    if not any(one.concurrency for one in rows):
        rows += ladder(simulator.plan, simulator.whole)
    tried = [simulator.simulate(one, fewer) for one in rows]
    at_once = {one.scenario.concurrency: one for one in tried if one.scenario.concurrency}
    items = None if simulator.items is None else len(simulator.items)
    return PlanSimulation(
        plan=simulator.plan.name,
        items=None if items is None else simulator.whole,
        simulated=items, runs=runs, seed=seed,
        total=_total(whole),
        steps=_parts(whole, "step", ("seconds",)),
        members=_parts(whole, "member", ("errors",)),
        time=time_shares(whole),
        what_if=[_total(one) for one in tried],
        advice=advice({usual_concurrency(simulator.plan): whole} | at_once),
        known=[
            *(f"{who} at {step}: {how.known}" for (who, step), how in sorted(whole.used.items())),
            *_left_out(simulator.plan),
        ],
        ended=dict(whole.ended.most_common(5)),
    )  # fmt: skip


def _left_out(plan: Plan) -> list[str]:
    """What the plan states and stand-ins do not do."""
    said = []
    for name, asking in askings(plan):
        if asking.batch is not None:
            said.append(f"{name}: batches are not simulated; its asks go online, at the full price")
        if asking.tools is not None:
            said.append(f"{name}: its tools are not called")
    return said


def spread(amounts: Sequence[float]) -> Spread:
    """`amounts` from the lowest to the highest; between two of them in proportion."""

    def at(share: float) -> float:
        place = share * (len(amounts) - 1)
        low = int(place)
        high = min(low + 1, len(amounts) - 1)
        return amounts[low] + (amounts[high] - amounts[low]) * (place - low)

    return Spread(*(round(x, 9) for x in (at(0.1), at(0.5), at(0.9), fmean(amounts))))


def _total(found: Simulated) -> SimulatedTotal:
    outcomes = {state: found.of("total", "", state) for state in STATES}
    names = ("usd", "seconds", "calls", "tokens")
    amounts = {name: spread(found.of("total", "", name)) for name in names}
    return SimulatedTotal(
        name=found.scenario.name, **amounts,
        outcomes={state: spread(many) for state, many in outcomes.items() if many[-1] >= 0.5},
    )  # fmt: skip


def _parts(found: Simulated, kind: str, more: Sequence[str]) -> list[SimulatedPart]:
    names = dict.fromkeys(who for one in found.runs for of, who, _ in one if of == kind)
    amounts = ("calls", "usd", *more)
    return [
        SimulatedPart(name=name, **{what: spread(found.of(kind, name, what)) for what in amounts})
        for name in names
    ]


def time_shares(found: Simulated) -> list[TimeShare]:
    """The largest first."""
    spent = {("with the members", ""): sum(one.get(BUSY, 0.0) for one in found.runs)}
    for why, who in found.waits:
        name = f"waiting {wait_reason(_plainly(found.waits[why, who]))}", why
        waited = sum(one.get(("wait", why, who), 0.0) for one in found.runs)
        spent[name] = spent.get(name, 0.0) + waited
    whole = sum(spent.values()) or 1.0
    shares = [
        TimeShare(what, round(part / whole, 4), why) for (what, why), part in spent.items() if part
    ]
    return sorted(shares, key=lambda one: (-one.share, one.what))


def _plainly(one: WaitingCalls) -> WaitingCalls:
    """Without what changes from moment to moment."""
    words = {"refused": "it was asked too often", "money": "all is spent or reserved"}
    return msgspec.structs.replace(one, said=words.get(one.why, one.said))


# ── advice ───────────────────────────────────────────────────────────────────────────────────


TIMELESS = (
    "No call takes time here, so nothing can be said of concurrency; state a latency:"
    " --member NAME:latency=2s."
)


def advice(tried: Mapping[int, Simulated]) -> str:
    """By concurrency: which is worth it, and what binds beyond it, in one or two sentences."""
    if len(tried) < 2:
        return ""
    rows = sorted(tried)
    times = {one: spread(tried[one].of("total", "", "seconds")).p50 for one in rows}
    if max(times.values()) <= 0.0:
        return TIMELESS
    worth = min(times.values()) * (1 + WORTH) + 1e-9
    chosen, last = next(one for one in rows if times[one] <= worth), rows[-1]
    waits = [one for one in time_shares(tried[last]) if one.why in BINDING]
    binds = (
        f"at {last}, {waits[0].share:.0%} of the calls' time is {waits[0].what}" if waits else ""
    )
    bound = bool(waits) and waits[0].share >= BINDS
    if chosen == last:
        more = f"and more is of little use: {binds}" if bound else "and more may be faster still"
        return f"A concurrency of {chosen} is the fastest of those tried, {more}."
    why = binds if bound else "there is not more to do at once"
    return f"Beyond a concurrency of {chosen} nothing is gained: {why}."
