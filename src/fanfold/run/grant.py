"""Leave to make a call, who waits for it, and why there is none."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from itertools import takewhile
from typing import NamedTuple, TypeVar

import msgspec

from fanfold.errors import FanfoldError
from fanfold.members.route import joined
from fanfold.run.breaker import GO, Closed, Go, Wait
from fanfold.run.demand import Candidate, Demand, NeededCall, StepState, broken
from fanfold.run.limits import MAX_WAIT, PLAIN, Gauge
from fanfold.run.months import SharedBudget
from fanfold.run.unpaid import CannotPay
from fanfold.work.budget import Accounts, Amount, Fit, fit_all, reserve_all
from fanfold.work.member import Request

T = TypeVar("T")
LAST = 1 << 30  # a grade that no class has


class NobodyLeft(FanfoldError):
    """Every member that could take the task is closed for good."""


class Unfunded(FanfoldError):
    """The money does not suffice, and nothing in flight can refund enough. `short`: for this ask;
    None where no other could be paid either."""

    def __init__(self, shortage: str, short: CannotPay | None = None) -> None:
        self.short = short
        super().__init__(f"out of budget: {shortage}")


class Grant:
    """Leave to make one call: the member, the reservation, and a slot, at once or later.

    `slot`: it holds one. `ahead`: it waits for one, with its reservation. `repeated`: for an ask that
    was refused before, and is to wait until `not_before`. `batch`: it needs no slot.
    """

    __slots__ = ("accounts", "ahead", "batch", "gauge", "not_before", "order", "permit", "repeated",
                 "request", "reserved", "slot", "started", "step", "traits", "why")  # fmt: skip

    def __init__(
        self, candidate: Candidate, request: Request, reserved: Amount, step: StepState,
        accounts: Accounts,
    ) -> None:  # fmt: skip
        self.gauge, self.traits = candidate.gauge, candidate.traits
        self.request, self.reserved, self.step, self.accounts = request, reserved, step, accounts
        self.started, self.order, self.not_before = 0.0, 0, 0.0
        self.permit = PLAIN
        self.slot = self.ahead = self.repeated = self.batch = False
        self.why = candidate.why


class Undecided:
    """Why none of the members that were looked at takes a call at once. `waits`: one may later, at
    `until` or when something is given back; nobody of a class worse than `worst_grade` is asked
    meanwhile. `short`: the money never suffices for one of them. `ahead`: who may claim it ahead."""

    waits, worst_grade = False, LAST
    until: float | None = None
    short: Unfunded | None = None
    ahead: tuple[Candidate, Request, Amount, Accounts] | None = None

    def wait(self, grade: int) -> None:
        self.waits, self.worst_grade = True, min(self.worst_grade, grade)

    def wait_for_money(self, grade: int, shared: Iterable[SharedBudget]) -> None:
        """That others hold: nobody here is told when they give it back, so it is looked at again."""
        self.wait(grade)
        for one in shared:
            self.until = earlier(self.until, one.look_at)

    def closed_until(
        self, until: float | None, candidate: Candidate, now: float, prefix: str
    ) -> None:
        """By a rate, or by a breaker: then those of worse classes need not wait for it."""
        gauge = candidate.gauge
        holds = candidate.grade if gauge.probing(now, prefix) else candidate.holds
        self.wait(LAST if broken(gauge) else holds)
        self.until = earlier(self.until, until)


def _breakers(gauge: Gauge, now: float) -> Go | Wait | Closed:
    """Whether anything may be sent there: what needs no slot waits for nothing else."""
    verdicts = [one.check(now, MAX_WAIT) for one in (gauge.pool.breaker, gauge.breaker)]
    return next((one for one in verdicts if one is not GO), GO)


def into_batch(
    demand: Demand, now: float, shared: Callable[[Candidate], list[SharedBudget]]
) -> Grant | Wait:
    """What goes to a batch service takes no slot and no rate; only the money must suffice."""
    found, candidates = Undecided(), demand.in_order(0)
    for candidate in candidates:
        verdict = _breakers(candidate.gauge, now)
        if demand.step.dollars and candidate.traits.price is None:
            continue
        if isinstance(verdict, Wait):
            found.closed_until(verdict.until, candidate, now, "")
        if verdict is not GO:
            continue
        request, amount = demand.request(candidate)
        outer = shared(candidate)
        accounts = (*demand.step.accounts, *(one.account(now) for one in outer))
        fit, account = fit_all(accounts, amount)
        if fit == "fits":
            reserve_all(accounts, amount)
            grant = Grant(candidate, request, amount, demand.step, accounts)
            grant.started, grant.batch = now, True
            return grant
        if fit == "never":
            lack = CannotPay(account, amount, candidate.traits.id)
            found.short = Unfunded(account.shortage(amount), lack)
        else:
            found.wait_for_money(candidate.grade, outer)
    if found.waits:
        return Wait(found.until)
    raise found.short or NobodyLeft(why_closed(candidates, now))


def with_less(accounts: Accounts, request: Request, amount: Amount) -> tuple[Fit, Request, Amount]:
    """It can do with less than its most: with what is left, if that is enough; else when it may
    become so."""
    least = Amount(request.least or 0, amount.tokens, amount.calls)
    fit, _ = fit_all(accounts, least)
    if fit != "fits":
        return fit, request, amount
    remaining = min(one.remaining().usd for one in accounts if one.max_usd is not None)
    granted = Amount(min(amount.usd, remaining), amount.tokens, amount.calls)
    return "fits", msgspec.structs.replace(request, most=granted.usd), granted


def suffices(demand: Demand, others: Iterable[NeededCall]) -> bool:
    """Whether this ask and the others can be paid, each by the dearest who may answer."""
    made = [demand.request(one) for one in demand.candidates]
    accounts = demand.step.accounts
    if not made or not any(account.bounded for account in accounts):
        return bool(made)
    longest = max((request for request, _ in made), key=lambda one: one.input_tokens)
    own = reduce(Amount.at_least, (amount for _, amount in made))
    return _fit_together(accounts, longest, own, others)


def bears(
    demand: Demand, candidate: Candidate, others: Sequence[NeededCall], outer: Accounts, now: float
) -> bool:
    """Whether they fit this member's month too, and `outer`, the budgets of runs around ours."""
    request, amount = demand.request(candidate)
    if (month := candidate.gauge.month) is not None:
        own = [one.if_by(candidate.traits.id) for one in others]
        if not _fit_together((month.account(now),), request, amount, own):
            return False
    return not outer or _fit_together(outer, request, amount, others)


def _fit_together(
    accounts: Accounts, request: Request, own: Amount, others: Iterable[NeededCall]
) -> bool:
    needed = (one.amount(own, request).times(one.many) for one in others)
    return fit_all(accounts, sum(needed, own))[0] == "fits"


def why_closed(candidates: tuple[Candidate, ...], now: float) -> str:
    verdicts = [(c.traits.id, c.gauge.check(now, 0)) for c in candidates]
    reasons = [v.reason if v.reason.startswith(id) else f"{id}: {v.reason}"
               for id, v in verdicts if isinstance(v, Closed)]  # fmt: skip
    return "; ".join(dict.fromkeys(reasons)) or "no member is left to ask"


def why(demand: Demand, candidate: Candidate) -> str:
    """Why it is not one of the first choice."""
    if demand.failures:
        return f"{candidate.why}; after {joined(sorted(demand.failures))} failed"
    better = [one.traits.id for one in demand.candidates if one.grade < candidate.grade]
    return f"{candidate.why}; {joined(better)} cannot be used now" if better else candidate.why


def earlier(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else min(one, other)


# ── who waits ────────────────────────────────────────────────────────────────────────────────


class Waiter:
    """Somebody who waits for a grant."""

    __slots__ = ("demand", "future", "no", "queued")

    def __init__(self, no: tuple[bool, int], demand: Demand) -> None:
        self.no, self.demand, self.queued = no, demand, True
        self.future: asyncio.Future[Grant] = asyncio.get_running_loop().create_future()


def put_in(queue: deque[T], one: T, is_first: Callable[[T], bool], *, first: bool) -> None:
    """At the end; or, `first`, behind those that are first too, and before all others."""
    if first:
        queue.insert(sum(1 for _ in takewhile(is_first, queue)), one)
    else:
        queue.append(one)


class Retry(NamedTuple):
    """A call that this member refused, and when it is tried again. `look` is called when an order or
    another roster may have changed who can take it."""

    member: str
    until: float
    look: Callable[[], object]


class Queues:
    """Who waits for a grant: first come, first served among those for the same members; but a step that
    is full holds up only itself. One queue for each set of members, in it one for each step. `many`: how
    many wait in all of them. `retries`: calls that were refused, and wait by themselves."""

    def __init__(self) -> None:
        self._steps: dict[str, dict[StepState, deque[Waiter]]] = {}
        self._came = self.many = 0
        self.retries: dict[object, Retry] = {}

    @contextmanager
    def backing_off(self, member: str, until: float, look: Callable[[], object]) -> Iterator[None]:
        key = object()
        self.retries[key] = Retry(member, until, look)
        try:
            yield
        finally:
            del self.retries[key]

    def look_again(self) -> None:
        for retry in self.retries.values():
            retry.look()

    def groups(self) -> Iterator[tuple[Demand, int]]:
        """Those who wait for the same: the first of them, and how many there are."""
        for steps in self._steps.values():
            for waiters in steps.values():
                yield waiters[0].demand, len(waiters)

    def add(self, demand: Demand) -> Waiter:
        """Whoever was refused (429) comes before those who were not: it was here before them."""
        self._came += 1
        self.many += 1
        first = demand.refusals > 0
        waiter = Waiter((not first, self._came), demand)
        queue = self._steps.setdefault(demand.queue, {}).setdefault(demand.step, deque())
        put_in(queue, waiter, lambda one: one.demand.refusals > 0, first=first)
        return waiter

    def leave(self, waiter: Waiter) -> None:
        steps = self._steps[waiter.demand.queue]
        queue = steps[waiter.demand.step]
        queue.remove(waiter)
        waiter.queued = False
        self.many -= 1
        if not queue:
            del steps[waiter.demand.step]
            if not steps:
                del self._steps[waiter.demand.queue]

    def before(self, demand: Demand) -> bool:
        """Whether somebody who waits comes before it: before what was refused, only the same."""
        steps = self._steps.get(demand.queue, {})
        if demand.refusals:
            return any(queue[0].demand.refusals > 0 for queue in steps.values())
        return demand.step in steps or not all(step.full for step in steps)

    def first(self, name: str, full: Container[StepState]) -> Waiter | None:
        """Who came first to this queue, of those whose steps are not full."""
        heads = [one[0] for step, one in self._steps.get(name, {}).items() if step not in full]
        return min(heads, key=lambda one: one.no, default=None)

    def names(self) -> list[str]:
        """The queues in which somebody waits, by who came first."""
        return sorted(
            self._steps, key=lambda name: min(one[0].no for one in self._steps[name].values())
        )
