"""Who takes the next task, and may it go now? `decide` changes the books and says what to do;
`admit` only waits as it is told."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from itertools import takewhile

import msgspec

from fanfold.errors import (
    FanfoldError,
    InvalidReply,
    RateLimited,
    RunStopped,
    Terminal,
    TimedOut,
    Transient,
)
from fanfold.members.route import joined
from fanfold.run.aside import SetAside
from fanfold.run.ledger import Fit, Ledger, Sum
from fanfold.run.limits import FULL, GO, PLAIN, Closed, Limits, Wait
from fanfold.run.want import Candidate, Step, Want, broken
from fanfold.work.member import Request

LAST = 1 << 30  # a grade that no class has
UNKNOWN = (0, 0)  # the past of a member that has none
Now = Callable[[], float]


class NobodyLeft(FanfoldError):
    """Every member that could take the task is closed for good."""


class Unfunded(FanfoldError):
    """The money does not suffice, and nothing under way can refund enough. `short`: for this ask;
    None where no other could be paid either."""

    def __init__(self, lacks: str, short: SetAside | None = None) -> None:
        self.short = short
        super().__init__(f"out of budget: {lacks}")


class Grant:
    """Leave to make one call: the member, the reservation, the permit."""

    __slots__ = ("gauge", "member", "order", "permit", "request", "reserved", "started", "step", "traits",
                 "under_way", "why")  # fmt: skip

    def __init__(self, candidate: Candidate, request: Request, reserved: Sum, step: Step) -> None:
        self.member, self.gauge, self.traits = candidate.member, candidate.gauge, candidate.traits
        self.request, self.reserved, self.step = request, reserved, step
        self.started, self.order = 0.0, 0
        self.permit = PLAIN
        self.under_way = True
        self.why = ""


class Turn:
    """A place in the queue: which step it is for, what its owner waits for, and since when."""

    __slots__ = ("no", "step", "woken")

    def __init__(self, no: int, step: Step, woken: asyncio.Future[None]) -> None:
        self.no, self.step, self.woken = no, step, woken


class Dispatch:
    """Holds the ledger and the limits together, so that taking from both is one step."""

    def __init__(self, ledger: Ledger, limits: Limits, now: Now) -> None:
        self.ledger, self.limits, self._now = ledger, limits, now
        self.halted: RunStopped | None = None
        self.deadline: float | None = None
        self.on_freed: list[Callable[[], object]] = []  # those who may go before who waits
        self._lanes: dict[str, deque[Turn]] = {}
        self._waiting = self._came = 0
        self._turn = 0
        self._spares: list[Grant] = []

    # ── decide ──

    def decide(self, want: Want) -> Grant | Wait:
        """Cases: the step is full; a member may go and the money suffices; it may go later, and
        who is of a worse class is not asked meanwhile, unless a breaker is why; the money may
        suffice later; no member is left; the money never suffices."""
        if want.step.full or self.limits.full:
            return FULL
        now = self._now()
        if self.deadline is not None and now >= self.deadline:
            raise Unfunded("seconds of the run: all were used")
        candidates = want.candidates
        if len(candidates) > 1:
            candidates = self._in_order(want)
        until: float | None = None
        waiting, worst_grade = False, LAST
        broke: Unfunded | None = None
        for candidate in candidates:
            if candidate.grade > worst_grade or (
                want.step.dollars and candidate.traits.price is None
            ):
                continue
            request, sum = want.request(candidate)
            verdict = candidate.gauge.check(now, sum.tokens)
            if verdict is GO:
                fit, account = self.ledger.fit(want.step.chain, sum)
                if fit == "never" and request.least is not None:
                    fit, request, sum = self._less(want.step, request, sum)
                if fit == "fits":
                    return self._grant(want, candidate, request, sum, now)
                if fit == "never":
                    short = SetAside(account, sum, candidate.traits.id)
                    broke = Unfunded(account.lacks(sum), short)
                else:
                    waiting, worst_grade = True, min(worst_grade, candidate.grade)
            elif isinstance(verdict, Wait):
                waiting = True
                if not broken(candidate.gauge):
                    worst_grade = min(worst_grade, candidate.grade)
                if verdict.until is not None:
                    until = verdict.until if until is None else min(until, verdict.until)
            elif isinstance(verdict, Closed) and verdict.unfunded:
                broke = broke or Unfunded(verdict.reason)
        if broke is not None and not waiting:
            raise broke
        if not waiting:
            raise NobodyLeft(self._why_closed(candidates, now))
        return Wait(until)

    def _less(self, step: Step, request: Request, sum: Sum) -> tuple[Fit, Request, Sum]:
        """It can do with less than its most: with what is left, if that is enough; else when it may
        become so."""
        least = Sum(request.least or 0, sum.tokens, sum.calls)
        fit, _ = self.ledger.fit(step.chain, least)
        if fit != "fits":
            return fit, request, sum
        left = min(one.left().usd for one in step.chain if one.max_usd is not None)
        granted = Sum(min(sum.usd, left), sum.tokens, sum.calls)
        return "fits", msgspec.structs.replace(request, most=granted.usd), granted

    def _why_closed(self, candidates: tuple[Candidate, ...], now: float) -> str:
        verdicts = [(c.traits.id, c.gauge.check(now, 0)) for c in candidates]
        reasons = [v.reason if v.reason.startswith(id) else f"{id}: {v.reason}"
                   for id, v in verdicts if isinstance(v, Closed)]  # fmt: skip
        return "; ".join(dict.fromkeys(reasons)) or "no member is left to ask"

    def _in_order(self, want: Want) -> tuple[Candidate, ...]:
        """Those that failed come last, the one asked last after the others of its class; then the
        least loaded, and who did better before; ties rotate."""
        self._turn += 1
        turn, many = self._turn, len(want.candidates)
        spread = [want.candidates[(n + turn) % many] for n in range(many)]
        failures, past = want.failures, want.step.past
        spread.sort(key=lambda c: (
            failures.get(c.traits.id, 0), c.grade, c.traits.id == want.avoid,
            c.gauge.in_flight / c.gauge.most, past.get(c.traits.id, UNKNOWN),
        ))  # fmt: skip
        return tuple(spread)

    def _grant(
        self, want: Want, candidate: Candidate, request: Request, sum: Sum, now: float
    ) -> Grant:
        step = want.step
        self.ledger.reserve(step.chain, sum)
        grant = Grant(candidate, request, sum, step)
        grant.started, grant.why = now, candidate.why
        if candidate.grade or want.failures:
            grant.why = _why(want, candidate)
        grant.permit = self.limits.take(candidate.gauge, now, sum.tokens)
        grant.order = candidate.gauge.pool.throttle.sent
        step.in_flight += 1
        return grant

    # ── give back ──

    def settle(self, grant: Grant, actual: Sum) -> None:
        """The call is over: its slot is free, its reservation released, what it took is settled."""
        if grant.under_way:
            grant.under_way = False
            self.limits.give(grant.gauge, grant.permit)
            grant.step.in_flight -= 1
        self.ledger.settle(grant.step.chain, grant.reserved, actual)
        for act in tuple(self.on_freed):
            act()
        if self._waiting:
            self.poke()

    def failed(self, grant: Grant, ids: tuple[str, ...], error: Exception) -> None:
        """What a call about these items that brought no reply says about its member."""
        limits, gauge, now = self.limits, grant.gauge, self._now()
        match error:
            case RateLimited():
                limits.failed(gauge, grant.permit, now)
                limits.refused(gauge, grant.order, now, error)
            case Terminal(scope="pool" | "member"):
                until = None if error.reset_after is None else now + error.reset_after
                limits.trip(gauge, error.scope, str(error), until)
            case Transient() | TimedOut() if grant.traits.metered:
                limits.silent(gauge, grant.permit, ids, now, error)
            case _:
                gauge.proven |= isinstance(error, InvalidReply)  # an answer all the same
                limits.failed(gauge, grant.permit, now)

    # ── wait ──

    def admit_now(self, want: Want) -> Grant | None:
        """Leave at once, if nobody waits before us and nothing is in the way."""
        if self.halted is not None:
            raise self.halted
        if self._waiting and not _may_pass(self._lanes.get(want.lane, ()), want.step):
            return None
        decision = self.decide(want)
        return decision if isinstance(decision, Grant) else None

    def spare(self, want: Want, others: int) -> Grant | None:
        """Leave for a call that need not be made: at once, or not at all. What is left then must
        suffice for so many `others` like it, which need to be made."""
        if self.halted is not None or not self._suffices(want, others + 1):
            return None
        try:
            decision = self.decide(want)
        except (NobodyLeft, Unfunded):
            return None
        if not isinstance(decision, Grant):
            return None
        self._spares = [one for one in self._spares if one.under_way]
        self._spares.append(decision)
        return decision

    def _suffices(self, want: Want, many: int) -> bool:
        """Whether so many such asks can be paid, each by the dearest who may answer."""
        sums = [want.request(one)[1] for one in want.candidates]
        if not sums or not any(account.bounded for account in want.step.chain):
            return bool(sums)
        amounts = [(one.usd, one.tokens, one.calls) for one in sums]
        most = Sum(*(many * max(each) for each in zip(*amounts, strict=True)))
        return self.ledger.fit(want.step.chain, most)[0] == "fits"

    @property
    def needed_in_flight(self) -> int:
        """Calls under way, but for those that need not have been made."""
        return self.limits.in_flight - sum(one.under_way for one in self._spares)

    async def admit(self, want: Want) -> Grant:
        """First come, first served within a lane; but a step that is full holds up only itself."""
        return await self._queue(want, self._lanes.setdefault(want.lane, deque()))

    async def _queue(self, want: Want, lane: deque[Turn]) -> Grant:
        loop = asyncio.get_running_loop()
        self._came += 1
        mine = Turn(self._came, want.step, loop.create_future())
        lane.append(mine)
        self._waiting += 1
        try:
            while True:
                timer = None
                if _may_pass(takewhile(lambda turn: turn is not mine, lane), want.step):
                    if self.halted is not None:
                        raise self.halted
                    decision = self.decide(want)
                    if isinstance(decision, Grant):
                        return decision
                    if decision.until is not None:
                        timer = loop.call_later(decision.until - self._now(), _wake, mine)
                await mine.woken
                if timer is not None:
                    timer.cancel()
                mine.woken = loop.create_future()
        finally:
            self._waiting -= 1
            lane.remove(mine)
            _wake_first(lane)

    def poke(self) -> None:
        """Something was given back, or the run is stopping: let the first of each lane ask again,
        who came first before the others."""
        lanes = [lane for lane in self._lanes.values() if lane]
        if len(lanes) > 1:
            lanes.sort(key=lambda lane: lane[0].no)
        for lane in lanes:
            _wake_first(lane)

    def halt(self, error: RunStopped) -> None:
        self.halted = error
        self.poke()


def _why(want: Want, candidate: Candidate) -> str:
    """Why it is not one of the first choice."""
    if want.failures:
        return f"{candidate.why}; after {joined(sorted(want.failures))} failed"
    better = [one.traits.id for one in want.candidates if one.grade < candidate.grade]
    return f"{candidate.why}; {joined(better)} cannot be used now" if better else candidate.why


def _may_pass(before: Iterable[Turn], step: Step) -> bool:
    """Those who were there before wait only because their own steps are full."""
    return all(turn.step is not step and turn.step.full for turn in before)


def _wake_first(lane: Iterable[Turn]) -> None:
    """The first one, and as long as steps are full, the first of another step after it."""
    steps: list[Step] = []
    for turn in lane:
        if turn.step not in steps:
            _wake(turn)
            if not turn.step.full:
                return
            steps.append(turn.step)


def _wake(turn: Turn) -> None:
    if not turn.woken.done():
        turn.woken.set_result(None)
