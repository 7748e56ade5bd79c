"""Who may take a task, and who should. Pure: facts in, a ranking out, with its reasons in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from math import inf, log2
from typing import Literal

import msgspec

from fanfold.errors import BadInput
from fanfold.price import cost, dollars
from fanfold.work.member import MemberStats, Tier, Traits

USUAL_INPUT, USUAL_OUTPUT = 1000, 500  # tokens of the call that members are compared by
ORDER = (
    f"The cheapest first, by a call of {USUAL_INPUT:,} tokens in and {USUAL_OUTPUT} out (--tokens N:"
    " N in); at the same cost local, subscription, paid."
)
Obstacle = Literal[
    "disabled", "not good at it", "context too small", "price unknown", "paid not allowed",
    "paid not enabled", "closed",
]  # fmt: skip
_ENABLE = "write enabled: true, or name it"
_TIERS: dict[Tier, int] = {"local": 0, "subscription": 1, "paid": 2}


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """What a task asks of a member, and what is known of the members besides their traits.

    `members`: only these, as they are named. `given`: a script handed these over, paid or not.
    `tokens`: of the prompt, 0 when it is not known yet; `max_tokens`: of the reply, where it is
    not the member's own limit.
    `dollars`: there is a dollar budget. `use`: the n best. `closed`: why nothing may be sent to
    some (a breaker, a monthly budget); `busy`: the share of their slots that is taken. `turn`
    rotates those who are alike.
    """

    members: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    tokens: int = 0
    max_tokens: int | None = None
    dollars: bool = False
    use: int | None = None
    allow_paid: bool = False
    given: frozenset[str] = frozenset()
    closed: Mapping[str, str] = {}
    busy: Mapping[str, float] = {}
    turn: int = 0


class Ranked(msgspec.Struct, frozen=True):
    """One who may. `grade` 0 is the best class; members of one class share the load.

    `why` is for the record of an attempt, `reasons` are for people. `chosen`: among the `use` best.
    """

    id: str
    grade: int
    why: str
    reasons: tuple[str, ...] = ()
    chosen: bool = True


class Excluded(msgspec.Struct, frozen=True):
    """One who may not, and why."""

    id: str
    reason: str


class Ranking(msgspec.Struct, frozen=True):
    """Everyone, once: who may, best first, and who may not. `miss`: why nobody may."""

    ranked: tuple[Ranked, ...] = ()
    barred: tuple[Excluded, ...] = ()
    miss: str = ""

    @property
    def chosen(self) -> tuple[Ranked, ...]:
        """Those who are to answer. BadInput with the nearest miss when there is nobody."""
        if not self.ranked:
            raise BadInput(self.miss)
        return tuple(one for one in self.ranked if one.chosen)


def rank(
    candidates: Sequence[Traits], need: Need, stats: Mapping[str, MemberStats] = {}
) -> Ranking:
    """First who may, then who should.

    Everyone who is good at all that is needed fits alike; what else it is good at is no matter.
    Classes go by cost, then by tier: a class is only for when every better one cannot be used.
    Within a class the least busy comes first, then who did better at such tasks, then the order of
    the roster, turned. Those that are named are one class, in the order in which they were named.
    """
    found = {traits.id: traits for traits in candidates}
    asked = [found[id] for id in need.members if id in found] if need.members else candidates
    why_not = {one.id: _in_the_way(one, need) for one in asked}
    barred = [Excluded(id, reason) for id, reason in why_not.items() if reason]
    barred += [Excluded(id, "not in the roster") for id in need.members if id not in found]
    able = [one for one in asked if not why_not[one.id]]
    ranked = _named(able) if need.members else _routed(able, need, stats)
    most = len(ranked) if need.use is None else need.use
    return Ranking(
        tuple(msgspec.structs.replace(one, chosen=n < most) for n, one in enumerate(ranked)),
        tuple(barred),
        "" if ranked else _miss(candidates, need, why_not),
    )


def explain(ranking: Ranking) -> list[str]:
    """One line for each member: its place and why, or what is in its way."""
    lines = []
    for place, one in enumerate(ranking.ranked, 1):
        spare = "" if one.chosen else " (not among those to use)"
        lines.append(f"{place}. {one.id}{spare}: {'; '.join(one.reasons or (one.why,))}")
    return [*lines, *(f"-  {one.id}: {one.reason}" for one in ranking.barred)]


# ── who may ──────────────────────────────────────────────────────────────────────────────────


def obstacles(traits: Traits, need: Need) -> tuple[Obstacle, ...]:
    """All that keeps a member from a task, the heaviest first: the rule for the router, for
    members that are named and for delegated work, each with words of its own. Two switches
    for those that are paid: allowed at all, and enabled (or named) one by one."""
    paid = traits.tier == "paid" and traits.id not in need.given
    no_price = traits.price is None and (need.dollars or traits.budget_usd_month is not None)
    found: tuple[tuple[bool, Obstacle], ...] = (
        (not traits.enabled, "disabled"),
        (bool(lacking(traits, need.needs)), "not good at it"),
        (not context_fits(traits, need.tokens, need.max_tokens), "context too small"),
        (no_price, "price unknown"),
        (paid and not need.allow_paid, "paid not allowed"),
        (paid and not (traits.enabled_written or need.members), "paid not enabled"),
        (traits.id in need.closed, "closed"),
    )
    return tuple(obstacle for there, obstacle in found if there)


def lacking(traits: Traits, needs: Iterable[str]) -> list[str]:
    return [word for word in needs if word not in traits.good_at]


def _in_the_way(traits: Traits, need: Need) -> str:
    """The first obstacle, in words; nothing, if it may."""
    found = obstacles(traits, need)
    if not found:
        return ""
    match found[0]:
        case "disabled":
            return "switched off (enabled: false)"
        case "not good at it":
            return f"not good at {joined(lacking(traits, need.needs))}"
        case "context too small":
            return _too_long(traits, need.tokens)
        case "price unknown":
            return "its price is not known, and there is a dollar budget"
        case "paid not allowed":
            how = "paid; allow it with --allow-paid or settings.allow_paid"
            return how if "paid not enabled" not in found else f"{how}, and {_ENABLE}"
        case "paid not enabled":
            return f"paid; {_ENABLE}"
        case "closed":
            return need.closed[traits.id]


def context_fits(traits: Traits, tokens: int, most: int | None = None) -> bool:
    """Prompt and longest reply together; a context that is not stated is taken to be enough."""
    return traits.context is None or tokens + (most or traits.max_tokens) <= traits.context


def _too_long(traits: Traits, tokens: int) -> str:
    reply = f"{traits.max_tokens:,} for the reply"
    return f"its context is {traits.context:,} tokens, {tokens:,} and {reply} are needed"


def joined(words: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _miss(candidates: Sequence[Traits], need: Need, why_not: Mapping[str, str]) -> str:
    """Why nobody may, with the one who comes nearest."""
    if not candidates:
        return "the roster has no members; add one, or name a roster with --roster"
    named = [one for one in candidates if not need.members or one.id in need.members]
    on = [one for one in named if one.enabled]
    good = [one for one in on if set(need.needs) <= set(one.good_at)]
    if need.needs and not good:
        near = nearest(need.needs, on)
        said = f"no member is good at {joined(need.needs)}"
        return f"{said}; nearest: {near}" if near else f"{said}; add it to a member's good_at"
    fitting = [one for one in good if context_fits(one, need.tokens)]
    if good and not fitting:
        widest = max(good, key=lambda one: one.context or 0)
        return (
            f"needs {need.tokens:,} tokens, the largest context is"
            f" {widest.context:,} ({widest.id}), {widest.max_tokens:,} of it for the reply"
        )
    near = ", ".join(f"{one.id} ({why_not[one.id]})" for one in fitting[:1] if why_not.get(one.id))
    if near:
        return f"no member may be used; nearest: {near}"
    return "no member may be used; enable one in the roster, or --allow-paid"


def nearest(needs: Sequence[str], members: Iterable[Traits]) -> str:
    """Who is good at most of it, and at what; nothing, if nobody is good at any of it."""
    has = {
        one.id: [word for word in dict.fromkeys(needs) if word in one.good_at] for one in members
    }
    near = max(has, key=lambda id: len(has[id]), default="")
    return f"{near} ({joined(has[near])})" if near and has[near] else ""


# ── who should ───────────────────────────────────────────────────────────────────────────────


def _named(able: Sequence[Traits]) -> list[Ranked]:
    return [Ranked(one.id, 0, "named", ("named",)) for one in able]


def _routed(able: Sequence[Traits], need: Need, stats: Mapping[str, MemberStats]) -> list[Ranked]:
    """Alike in everything stay in the order of the roster, turned."""
    in_order = list(able)
    if in_order:
        turn = need.turn % len(in_order)
        in_order = in_order[turn:] + in_order[:turn]
    in_order.sort(key=lambda one: (
        _cost_class(one, need), need.busy.get(one.id, 0.0), standing(stats.get(one.id))
    ))  # fmt: skip
    found: list[Ranked] = []
    for grade, (_, group) in enumerate(groupby(in_order, key=lambda one: _cost_class(one, need))):
        alike = list(group)
        for one in alike:
            reasons = _reasons(one, need, stats.get(one.id))
            found.append(Ranked(one.id, grade, _why(one, need, grade, len(alike)), reasons))
    return found


def _cost_class(traits: Traits, need: Need) -> tuple[float, int]:
    """The cheapest first; at the same cost local, then subscription, then paid. What has no price
    counts as free, but if it is paid, as the dearest."""
    tier = _TIERS[traits.tier]
    if traits.price is None:
        return inf if traits.tier == "paid" else 0.0, tier
    return _per_call(traits, need), tier


def _per_call(traits: Traits, need: Need) -> float:
    """Of a usual call, the same for all: their `max_tokens` say nothing about their cost."""
    assert traits.price is not None
    return float(cost(traits.price, need.tokens or USUAL_INPUT, USUAL_OUTPUT))


def standing(stats: MemberStats | None) -> tuple[int, int]:
    """How good the past was, lower is better: tenths of failure, then doublings of the time.

    Nearly alike counts as alike, so that ties do rotate; who was never asked is given a chance.
    """
    if stats is None:
        return 0, 0
    failed = 10 - int(10 * min(max(stats.success, 0.0), 1.0) + 1e-9)
    return failed, max(0, round(log2(stats.seconds)) + 1) if stats.seconds > 0 else 0


# ── in words ─────────────────────────────────────────────────────────────────────────────────


def _why(traits: Traits, need: Need, grade: int, alike: int) -> str:
    """Short: it is in every attempt's record."""
    good = f" that is good at {joined(need.needs)}" if need.needs else ""
    if grade:
        return f"next best{good}"
    if alike > 1:
        return f"one of the {alike} best{good}"
    return f"best{good}" if need.needs else "cheapest"


def _reasons(traits: Traits, need: Need, stats: MemberStats | None) -> tuple[str, ...]:
    found = []
    if need.needs:
        found.append(f"good at {joined(need.needs)}")
    found.append(_cost_told(traits, need))
    if busy := need.busy.get(traits.id):
        found.append(f"{busy:.0%} busy")
    if stats is not None:
        found.append(
            f"{stats.success:.0%} success, {stats.seconds:.1f} s, in {stats.calls:,} calls"
        )
    return tuple(found)


def _cost_told(traits: Traits, need: Need) -> str:
    if traits.price is None:
        noted = f" (`cost: {traits.cost_text}`)" if traits.cost_text else ""
        return f"{traits.tier}, price not known{noted}"
    usd = dollars(int(_per_call(traits, need)))
    return f"{traits.tier}, about ${usd:.6f} a call" if usd else f"{traits.tier}, free"
