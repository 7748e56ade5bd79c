"""Who takes the next call, and may it go now? `decide` changes the accounts and answers at once;
whoever has to wait is handed a grant when something was given back.

A call of a metered member is claimed on record before it is sent, which takes a commit. While all
slots are taken, a few calls get their reservation and may be claimed ahead (`Grant.slot` is False);
they get a slot, before all others, when one is free. What was refused with a stated wait is claimed
meanwhile too, and goes first: else those claimed already take what the account gives then, each time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from fanfold.errors import InvalidReply, RateLimited, RunStopped, Terminal, TimedOut, Transient
from fanfold.journal.answers import Shortage
from fanfold.run.breaker import FULL, GO, Wait
from fanfold.run.demand import Candidate, Demand, NeededCall, StepState, broken
from fanfold.run.grant import (
    Grant,
    NobodyLeft,
    Queues,
    Undecided,
    Unfunded,
    bears,
    earlier,
    into_batch,
    put_in,
    suffices,
    why,
    why_closed,
    with_less,
)
from fanfold.run.limits import Limits
from fanfold.run.months import SharedBudget
from fanfold.run.unpaid import CannotPay
from fanfold.work.budget import NOTHING, Accounts, Amount, fit_all, reserve_all, settle_all
from fanfold.work.member import Request

Now = Callable[[], float]


class Dispatch:
    """Takes reservation and slot in one synchronous step. `deadline`: no call starts after it."""

    def __init__(self, limits: Limits, now: Now, deadline: float | None = None) -> None:
        self.limits, self._now, self.deadline = limits, now, deadline
        self.halted: RunStopped | None = None
        self.held: str | None = None  # why nothing new is sent for now
        self.on_freed: list[Callable[[], object]] = []  # asked before those who wait
        self.on_halt: list[Callable[[str], object]] = []  # told why
        self._outer: dict[tuple[str, str], SharedBudget] = {}  # of runs, that refused a claim
        self.queues = Queues()
        self.claimed: deque[tuple[Grant, asyncio.Future[bool]]] = deque()
        self._timers: dict[str, tuple[float, asyncio.TimerHandle]] = {}
        self._turn = 0
        self._poke_due = False
        self.reserved_ahead = 0  # nano-dollars, for calls that are not sent yet

    # ── decide ──

    def decide(self, demand: Demand) -> Grant | Wait:
        """Cases: a member has a free slot and the money suffices; all slots are taken, and it may be
        claimed ahead, or waits; it may go later, and who is of a worse class than it `holds` is not
        asked meanwhile, unless a breaker is why; the money may suffice later; no member is left; the
        money never suffices."""
        if self.held is not None:
            return Wait(None)
        if demand.outdated:
            demand.look_again()
        if demand.batch:
            now = self._now()
            if self.deadline is not None and now >= self.deadline:
                raise Unfunded("seconds of the run: all were used")
            return into_batch(demand, now, self.shared)
        step, limits, now = demand.step, self.limits, self._now()
        crowded = step.in_flight >= step.concurrency or limits.in_flight >= limits.max_concurrency
        few = step.ahead < max(2, step.concurrency // 4) or demand.not_before > now
        if crowded and not (demand.claim_ahead and few):
            return FULL
        if self.deadline is not None and now >= self.deadline:
            raise Unfunded("seconds of the run: all were used")
        candidates = demand.candidates
        if len(candidates) > 1:
            self._turn += 1
            candidates = demand.in_order(self._turn)
        found = Undecided()
        for candidate in candidates:
            unpriced = step.dollars and candidate.traits.price is None
            if unpriced or candidate.grade > found.worst_grade:
                continue
            if grant := self._offer(demand, candidate, found, now, crowded):
                return grant
        may_claim = demand.claim_ahead and (found.until is None or demand.not_before > now)
        if found.ahead and may_claim:
            return self._granted(demand, *found.ahead, now, ahead=True)
        if found.waits:
            return Wait(found.until)
        raise found.short or NobodyLeft(why_closed(candidates, now))

    def _offer(
        self, demand: Demand, candidate: Candidate, found: Undecided, now: float, crowded: bool
    ) -> Grant | None:
        """A grant, if this member can take it at once and the money suffices; else why not."""
        request, amount = demand.request(candidate)
        gauge, traits = candidate.gauge, candidate.traits
        verdict = gauge.check(now, amount.tokens, request.prefix)
        refused = demand.not_before > now and traits.id == demand.avoid
        if verdict is not GO and verdict is not FULL:
            if isinstance(verdict, Wait):
                found.closed_until(verdict.until, candidate, now, request.prefix)
            if not (refused and isinstance(verdict, Wait)) or broken(gauge):
                return None
        accounts, shared = demand.step.accounts, None
        if gauge.month is not None or self._outer:
            shared = self.shared(candidate)
            accounts = (*accounts, *(one.account(now) for one in shared))
        fit, account = fit_all(accounts, amount)
        if fit == "never" and request.least is not None:
            fit, request, amount = with_less(accounts, request, amount)
        if fit == "fits":
            if verdict is GO and not crowded and not refused:
                return self._granted(demand, candidate, request, amount, accounts, now)
            found.wait(candidate.holds)
            if refused:
                found.until = earlier(found.until, demand.not_before)
            few = gauge.ahead < max(2, gauge.most // 4) or refused
            if traits.metered and not traits.agent and few and not broken(gauge):
                found.ahead = found.ahead or (candidate, request, amount, accounts)
        elif fit == "never":
            found.short = Unfunded(account.shortage(amount), CannotPay(account, amount, traits.id))
        else:
            found.wait_for_money(candidate.grade, shared or ())
        return None

    def shared(self, candidate: Candidate) -> list[SharedBudget]:
        month = candidate.gauge.month
        return [*self._outer.values()] if month is None else [*self._outer.values(), month]

    def could_pay(self, demand: Demand, candidate: Candidate, amount: Amount) -> bool:
        """Whether this amount may still fit, now or later."""
        now = self._now()
        shared = [one.account(now) for one in self.shared(candidate)]
        return fit_all((*demand.step.accounts, *shared), amount)[0] != "never"

    def refused_outside(self, short: Shortage) -> None:
        """The budget of a surrounding run, or what all processes of this one may take, refused a claim:
        from now on it counts here too."""
        scope = short.scope, short.unit
        if scope not in self._outer:
            self._outer[scope] = SharedBudget(short.scope, short.limit, short.unit)
        self._outer[scope].refused(short, self._now())

    def forget_outside(self) -> None:
        """A budget has changed: what was learned of those outside says nothing any more."""
        self._outer.clear()

    def _granted(
        self, demand: Demand, candidate: Candidate, request: Request, amount: Amount,
        accounts: Accounts, now: float, *, ahead: bool = False,
    ) -> Grant:  # fmt: skip
        """Its reservation, and a slot; or, `ahead`, a place among those who wait for one."""
        reserve_all(accounts, amount)
        demand.step.dearest = demand.step.dearest.at_least(amount)
        grant = Grant(candidate, request, amount, demand.step, accounts)
        if candidate.grade or demand.failures:
            grant.why = why(demand, candidate)
        grant.repeated, grant.not_before = demand.refusals > 0, demand.not_before
        if not ahead:
            return self._start(grant, now)
        grant.started, grant.ahead = now, True
        self.reserved_ahead += amount.usd
        grant.gauge.ahead += 1
        grant.step.ahead += 1
        return grant

    def _start(self, grant: Grant, now: float) -> Grant:
        gauge = grant.gauge
        grant.started, grant.slot = now, True
        grant.permit = self.limits.take(gauge, now, grant.reserved.tokens, grant.request.prefix)
        throttle = gauge.pool.throttle
        grant.order = throttle.sent
        if grant.repeated:
            throttle.refusals.repeated(throttle.sent)
        grant.step.in_flight += 1
        return grant

    # ── a slot for what was claimed ahead ──

    async def slot(self, grant: Grant) -> bool:
        """Wait for a slot. False: its member is closed meanwhile, or the run stops; then nothing may
        be sent, and who decides anew finds another or the reason."""
        waits: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        entry = (grant, waits)
        put_in(self.claimed, entry, lambda one: one[0].repeated, first=grant.repeated)
        self._give_slots()
        return waits.result() if waits.done() else await waits

    def _give_slots(self) -> None:
        """First come, first served; a step or a member that is full holds up only its own."""
        now = self._now()
        late = self.halted is not None or (self.deadline is not None and now >= self.deadline)
        held: set[object] = set()  # members and steps of those that have to wait
        for entry in tuple(self.claimed):
            grant, waits = entry
            if (grant.gauge in held or grant.step in held) and not waits.done():
                continue
            closed = late or waits.done() or broken(grant.gauge)
            may = False if closed else self._may_start(grant, now)
            if may is None:
                if self.limits.in_flight >= self.limits.max_concurrency:
                    return
                if grant.not_before <= now:
                    held.add(grant.step if grant.step.full else grant.gauge)
                continue
            self.claimed.remove(entry)
            if may:
                self._leave_ahead(grant)
                self._start(grant, now)
            if not waits.done():
                waits.set_result(may)

    def members_changed(self) -> None:
        """Who waits looks again; what was claimed ahead is given back for that, none was sent."""
        for _, waits in self.claimed:
            if not waits.done():
                waits.set_result(False)
        self.queues.look_again()
        self.poke()

    def _may_start(self, grant: Grant, now: float) -> bool | None:
        """None: not yet."""
        step, limits = grant.step, self.limits
        full = step.in_flight >= step.concurrency or limits.in_flight >= limits.max_concurrency
        if full or self.held is not None:
            return None
        verdict = grant.gauge.check(now, grant.reserved.tokens, grant.request.prefix)
        if verdict is GO and grant.not_before > now:
            verdict = Wait(grant.not_before)
        if isinstance(verdict, Wait):
            if verdict.until is not None:  # nothing else would wake it
                self._poke_at(f"slot of {grant.traits.id}", verdict.until)
            return None
        return verdict is GO

    def _leave_ahead(self, grant: Grant) -> None:
        if grant.ahead:
            grant.ahead = False
            self.reserved_ahead -= grant.reserved.usd
            grant.gauge.ahead -= 1
            grant.step.ahead -= 1

    # ── give back ──

    def settle(self, grant: Grant, actual: Amount) -> None:
        """The call has ended: its slot is free, its reservation released, what it took is settled."""
        if grant.slot:
            grant.slot = False
            self.limits.give(grant.gauge, grant.permit)
            grant.step.in_flight -= 1
        elif grant.ahead:
            self._leave_ahead(grant)
        settle_all(grant.accounts, grant.reserved, actual)
        for act in tuple(self.on_freed):
            act()
        if (self.queues.many or self.claimed) and not self._poke_due:
            self._poke_due = True
            asyncio.get_running_loop().call_soon(self.poke)

    def failed(self, grant: Grant, ids: tuple[str, ...], error: Exception) -> None:
        """What a call about these items that brought no reply says about its member."""
        limits, gauge, now = self.limits, grant.gauge, self._now()
        match error:
            case RateLimited():
                limits.failed(gauge, grant.permit, now)
                limits.refused(gauge, grant.order, now, error, grant.repeated)
            case Terminal(scope="pool" | "member"):
                limits.closed(gauge, error, now)
            case Transient() | TimedOut() if grant.traits.metered and not grant.batch:
                limits.silent(gauge, grant.permit, ids, now, error)
            case _:
                gauge.proven |= isinstance(error, InvalidReply)  # an answer all the same
                limits.failed(gauge, grant.permit, now)

    # ── wait ──

    def admit_now(self, demand: Demand) -> Grant | None:
        """Leave at once, if nobody waits before us and nothing is in the way."""
        if self.halted is not None:
            raise self.halted
        if self.queues.many and self.queues.before(demand):
            return None
        decision = self.decide(demand)
        return decision if isinstance(decision, Grant) else None

    def spare(self, demand: Demand, others: Sequence[NeededCall]) -> Grant | None:
        """Leave for a call that need not be made: at once, or not at all. What is left then must
        suffice for the `others`, which need to be made."""
        if self.halted is not None or not suffices(demand, others):
            return None
        now, everyone = self._now(), demand.candidates
        outer = tuple([one.account(now) for one in self._outer.values()])
        demand.candidates = tuple([c for c in everyone if bears(demand, c, others, outer, now)])
        try:
            decision = self.decide(demand)
        except (NobodyLeft, Unfunded):
            return None
        finally:
            demand.candidates = everyone
        return decision if isinstance(decision, Grant) else None

    async def admit(self, demand: Demand) -> Grant:
        """First come, first served in a queue; but a step that is full holds up only itself."""
        must_wait = self.queues.before(demand)
        mine = self.queues.add(demand)
        if not must_wait:
            self._serve(demand.queue)
        try:
            return await mine.future
        except asyncio.CancelledError:
            if mine.queued:
                self.queues.leave(mine)
                self.poke()
            elif not mine.future.cancelled() and mine.future.exception() is None:
                self.settle(mine.future.result(), NOTHING)
            raise

    def poke(self) -> None:
        """Something was given back, or the run is stopping: hand out what is free now, to those who
        were claimed ahead first, then to the first of each queue, by who came first. After calls
        have ended it comes when all that ended in the same moment were heard: refusals count."""
        self._poke_due = False
        if self.claimed:
            self._give_slots()
        for name in self.queues.names():
            self._serve(name)

    def _serve(self, name: str) -> None:
        """Grant to the first, and to the next, until one has to wait. A full step is skipped."""
        full: set[StepState] = set()
        while waiter := self.queues.first(name, full):
            try:
                if self.halted is not None:
                    raise self.halted
                decision = self.decide(waiter.demand)
            except Exception as error:
                self.queues.leave(waiter)
                if not waiter.future.done():
                    waiter.future.set_exception(error)
                if (
                    self.queues.many
                ):  # the others after it has made of that what it will: a stop, say
                    asyncio.get_running_loop().call_soon(self.poke)
                return
            if isinstance(decision, Wait):
                if decision.until is not None:
                    self._poke_at(name, decision.until)
                if not waiter.demand.step.full:
                    return
                full.add(waiter.demand.step)
                continue
            self.queues.leave(waiter)
            if waiter.future.done():  # it was cancelled in this moment
                self.settle(decision, NOTHING)
            else:
                waiter.future.set_result(decision)

    def _poke_at(self, name: str, until: float) -> None:
        """Once for each name, at the earliest time. Traps: a timer may ring a little too soon, then it is
        set again; what uvloop gives for less than a millisecond does not know its time."""
        loop = asyncio.get_running_loop()
        when = loop.time() + max(0.0, until - self._now())
        if (known := self._timers.get(name)) is not None:
            known_at, timer = known
            if known_at <= when:
                return
            timer.cancel()
        self._timers[name] = when, loop.call_at(when, self._rang, name)

    def _rang(self, name: str) -> None:
        del self._timers[name]
        self.poke()

    def hold(self, why: str) -> None:
        """Nothing new is sent until `release`; what is under way ends by itself."""
        self.held, self._held_since = why, self._now()

    def release(self) -> float:
        """Seconds that it was held; they do not count against the deadline."""
        self.held, took = None, self._now() - self._held_since
        if self.deadline is not None:
            self.deadline += took
        return took

    def halt(self, error: RunStopped) -> None:
        self.halted = error
        for act in self.on_halt:
            act(str(error))
        self.poke()
