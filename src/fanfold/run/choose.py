"""Who may take a task. Named members share it; else the router ranks those good at what it needs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress

import msgspec

from fanfold.clock import Clock
from fanfold.errors import BadInput
from fanfold.journal.decide import month_of
from fanfold.journal.questions import RunQuestions
from fanfold.members.route import Need, Ranked, obstacles, rank
from fanfold.price import nanos, scaled
from fanfold.run.demand import Candidate, Eligible
from fanfold.run.executor import Executor
from fanfold.run.limits import Gauge, Limits
from fanfold.run.member_sources import MemberSource
from fanfold.run.months import MonthBudget
from fanfold.run.tools import Toolbox
from fanfold.work.batch import AT_BATCH, without_service
from fanfold.work.member import Member, Traits
from fanfold.work.nearest import quoted, remedy
from fanfold.work.task import Budget, Terms, ToolUser, Who
from fanfold.work.tool import StatedTools, one_of_all


def months_used_up(
    read: RunQuestions, traits: Mapping[str, Traits], clock: Clock
) -> dict[str, str]:
    """The members whose budget of the month is used up, each with that in words."""
    budgets = {id: t.budget_usd_month for id, t in traits.items() if t.budget_usd_month is not None}
    month = month_of(clock.now())
    return {
        id: f"its budget of the month is used up: ${budget:,.2f}"
        for id, budget in budgets.items()
        if read.month_use(id, month).settled >= nanos(budget)
    }


class Chooser:
    """Works out who is eligible; has one gauge and one built member for each id.

    Members that are named share the load: they are one class. Those that the router chose come in
    classes by cost (`members/route.py`), of which the worse take what the better cannot take now,
    unless `spread` is `best`; `fallback` makes a class of each. See `Candidate`.
    """

    def __init__(
        self, source: MemberSource, limits: Limits, executor: Executor, clock: Clock,
        read: RunQuestions | None = None, budget: Budget = Budget(),
    ) -> None:  # fmt: skip
        """Without `read` nothing is known of what members did before."""
        self._source, self._limits, self._executor = source, limits, executor
        self._read, self._clock, self._began = read, clock, clock.monotonic()
        self._dollars = budget.usd is not None
        self._built: dict[str, Candidate] = {}
        self._eligible: dict[Who, Eligible] = {}
        self._escalations: dict[str, Eligible] = {}
        self._batched: dict[str, Traits] = {}
        self._tools: dict[str, Member] = {}
        self.tools = Toolbox(executor, self._add_tool)

    def _add_tool(self, member: Member) -> None:
        """It is known by its id, but no task is routed to it."""
        self._tools[member.traits.id] = member
        self._candidate(member.traits.id)

    # ── who may answer ──

    def eligible(self, who: Who) -> Eligible:
        found = self._eligible.get(who)
        if found is None:
            found = self._eligible[who] = self._work_out(who)
        return found

    def _work_out(self, who: Who) -> Eligible:
        candidates = self._candidates(who)
        traits = [candidate.traits for candidate in candidates]
        takes = tuple(dict.fromkeys(t.takes for t in traits))
        also = [t for t in self.accepts(who) if t.takes in takes]
        own = None if who.tools else one_of_all((t.id, t.tools) for t in traits)
        clash = own if isinstance(own, str) else ""
        return Eligible(
            candidates,
            tuple(dict.fromkeys(t.answerer for t in (*traits, *also))),
            takes,
            any(t.metered for t in traits),
            not any(t.shared for t in traits),
            ",".join(t.id for t in traits),
            self.tools.loop(own) if isinstance(own, StatedTools) and own.tools else None,
            clash,
        )

    def tools_for(self, terms: Terms, eligible: Eligible) -> ToolUser | None:
        """Those of the step, or else of whoever may answer."""
        stated = terms.tools
        if stated is None:
            if eligible.clash:
                raise BadInput(eligible.clash)
            return eligible.tools
        if isinstance(stated, StatedTools):
            return self.tools.loop(stated) if stated.tools else None
        return stated

    async def get_ready(self, terms: Terms) -> None:
        """All who may answer on these terms, and their tools, so that what is wrong shows early."""
        for who in terms.whos:
            await self.open(who)
        await self.open_tools(terms)

    async def open_tools(self, terms: Terms) -> None:
        """Of all who may answer on these terms. BadInput: one of them cannot be had."""
        for who in terms.whos:
            await self.tools.get_ready(self.tools_for(terms, self.eligible(who)))

    def update(self, source: MemberSource) -> None:
        """Other members from now on: new ones, and slots, rates, switches and prices of those that are
        there (not the price of an agent, which counts by it while it works); whatever else is changed of
        them counts from the next run on. Where nobody is left for some tasks, those wait for a pause with
        the reason. Who is not in `source` is switched off."""
        now, self._source = self._clock.monotonic(), source
        for id, built in tuple(self._built.items()):
            if id in self._tools:
                continue
            traits = source.traits.get(id) or msgspec.structs.replace(built.traits, enabled=False)
            built.gauge.update(traits, now)
            if traits.price != built.traits.price and not traits.agent:
                priced = msgspec.structs.replace(built.traits, price=traits.price)
                self._built[id] = msgspec.structs.replace(built, traits=priced)
        for who, before in tuple(self._eligible.items()):
            with suppress(BadInput):
                fresh = self._work_out(who)
                if (fresh.metered, fresh.private) == (before.metered, before.private):
                    before.candidates, before.accept = fresh.candidates, fresh.accept
                else:  # tasks that have begun stay with those who were there
                    self._eligible[who] = fresh
        self._escalations.clear()

    def escalation(self, member: str) -> Eligible:
        """The member to which tasks escalate, alone."""
        found = self._escalations.get(member)
        if found is None:
            plain = self.eligible(Who(members=(member,)))
            ours = tuple(msgspec.structs.replace(c, why="escalated") for c in plain.candidates)
            found = self._escalations[member] = msgspec.structs.replace(plain, candidates=ours)
        return found

    def batched(self, candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
        """Those of them who have a batch service, as they are asked there: at its price."""
        found = [self.by_batch(one) for one in candidates]
        return tuple([one for one in found if one is not None])

    def check(self, terms: Terms) -> None:
        """All who may answer on these terms can, at its price."""
        self.check_prices(terms.whos, terms.budget)
        self.check_batch(terms)

    def check_batch(self, terms: Terms) -> None:
        """Whoever states a batch wants its price: somebody who may answer must have such a service."""
        if terms.batch is None:
            return
        for who in terms.whos[:1]:
            candidates = self.eligible(who).candidates
            if candidates and not any(one.traits.batch is not None for one in candidates):
                why = self._without_batch(who, [one.traits.id for one in candidates])
                raise BadInput(f"step {terms.step}: {why}")

    def _without_batch(self, who: Who, asked: list[str]) -> str:
        """Whoever has such a service may be one who has no money for it now."""
        closed = self._months_used_up()
        for one in self.accepts(who):
            if one.batch is not None and one.id in closed:
                what = f"member {one.id} has the batch service that `batch` needs, but {closed[one.id]}"
                return (
                    f"{what}; raise `budget_usd_month` of {one.id}, or leave `batch` out until then"
                )
        return without_service(asked)

    def by_batch(self, candidate: Candidate) -> Candidate | None:
        traits = candidate.traits
        if traits.batch is None:
            return None
        known = self._batched.get(traits.id)
        if known is None:
            price = None if traits.price is None else scaled(traits.price, traits.batch)
            known = msgspec.structs.replace(traits, price=price, at=AT_BATCH)
            self._batched[traits.id] = known
        return msgspec.structs.replace(candidate, traits=known)

    @property
    def ids(self) -> Collection[str]:
        return self._source.traits

    def known(self, id: str) -> Candidate | None:
        """A member by its id, though no task has asked for it yet; None when there is none."""
        return self._candidate(id) if id in self._source.traits else None

    async def open(self, who: Who) -> None:
        """Get all who may answer ready, so that what is wrong with them shows early."""
        for candidate in self.eligible(who).candidates:
            await self._executor.open(candidate.traits.id)

    def check_prices(self, whos: Iterable[Who], budget: Budget = Budget()) -> None:
        """Under a dollar budget nobody is asked whose price is not known; a member's own budget of
        the month is one too. Those that nobody named are passed over, if others are left."""
        unlimited = not self._dollars and budget.usd is None
        for who in whos:
            everyone = [candidate.traits for candidate in self.eligible(who).candidates]
            unpriced = [t for t in everyone if (t.price is None or not t.bounded)
                        and not (unlimited and t.budget_usd_month is None)]  # fmt: skip
            named = [t for t in unpriced if t.id in (*who.members, *who.fallback)]
            if named or len(unpriced) == len(everyone) > 0:
                raise self._unbounded((named or unpriced)[0])

    def _unbounded(self, traits: Traits) -> BadInput:
        """The cost of an ask of this member has no upper bound."""
        under = "so it cannot run under a dollar budget"
        if traits.price is not None:
            what = f"nothing bounds what member {traits.id} spends, {under}; give it a `max_budget_usd`"
            return self._source.bad(traits.id, what, "max_budget_usd")
        such = ""
        if traits.kind == "command":
            such = ", such as `price: {call: 0}` for one that is free"
        elif traits.remote:
            such = ", or `tier: local` if its model runs on this machine"
        what = f"member {traits.id} has no known price, {under}; give it a `price`{such}"
        return self._source.bad(traits.id, what, "price")

    # ── working it out ──

    def _candidates(self, who: Who) -> tuple[Candidate, ...]:
        if who.use == 0:
            return ()
        if who.members:
            named = [self._named(id, bool(who.tools)) for id in who.members][: who.use]
            found = [Ranked(id, 0, who.why) for id in named]
        else:
            found = list(self._routed(who))
        there = {one.id for one in found}
        last = max(one.grade for one in found)
        overflow = {one.id: last for one in found} if who.spread != "best" else {}
        fallback = [id for id in dict.fromkeys(who.fallback) if id not in there]
        others = [self._named(id, bool(who.tools)) for id in fallback]
        found += [Ranked(id, last + n, "fallback") for n, id in enumerate(others, 1)]
        return tuple(
            msgspec.structs.replace(
                self._candidate(one.id),
                grade=one.grade,
                why=one.why,
                overflow=overflow.get(one.id, 0),
            )
            for one in found
        )

    def accepts(self, who: Who) -> tuple[Traits, ...]:
        """Those whose recorded replies serve as well: all that are good at what it needs, though
        they may not be asked now. What was paid for is not paid again."""
        if who.members:
            return ()
        need = self._need(who)
        unfit = {"disabled", "not good at it"}
        return tuple(t for t in self._among(who) if unfit.isdisjoint(obstacles(t, need)))

    def _named(self, id: str, with_tools: bool = False) -> str:
        traits = self._source.traits
        if id in self._tools:
            return id
        if id not in traits:
            raise BadInput(f"there is no member {quoted(id)}: {remedy(id, traits)}")
        in_the_way = obstacles(traits[id], self._need(Who(members=(id,))))
        if "disabled" in in_the_way:
            what = f"member {id} is disabled; set enabled: true in the roster"
            raise self._source.bad(id, what, "enabled")
        if "paid not allowed" in in_the_way:
            what = f"member {id} is paid; allow it with --allow-paid or settings.allow_paid"
            raise self._source.bad(id, what, "tier")
        if with_tools and not traits[id].takes_tools:
            raise self._source.bad(id, no_tools(traits[id]), "kind")
        return id

    def _need(self, who: Who, closed: Mapping[str, str] = {}) -> Need:
        return Need(
            members=who.members, needs=who.needs, use=who.use, dollars=self._dollars,
            allow_paid=self._source.settings.allow_paid, given=self._source.given, closed=closed,
        )  # fmt: skip

    def _among(self, who: Who) -> tuple[Traits, ...]:
        traits = self._source.traits
        everyone = [traits[id] for id in who.among] if who.among else list(traits.values())
        return tuple(one for one in everyone if one.takes_tools or not who.tools)

    def _routed(self, who: Who) -> tuple[Ranked, ...]:
        """Capacity and the past are looked at when a task goes out, so they are not in here. Whoever
        lacks a key or a program is passed over while others are left. If budgets of the month are all
        that is in the way, it is the run that lacks money: then it is not refused, but finds out when
        it asks."""
        everyone, months = self._among(who), self._months_used_up()
        missing = self._missing(everyone, self._need(who))
        for closed in ({**months, **missing}, missing, {}):
            found = rank(everyone, self._need(who, closed))
            if found.ranked:
                break
        return found.chosen

    def _missing(self, among: Iterable[Traits], need: Need) -> dict[str, str]:
        """Of those who may be asked: what they lack for that."""
        able = [one.id for one in among if not obstacles(one, need)]
        return {id: lacks for id in able if (lacks := self._source.missing(id))}

    def _months_used_up(self) -> Mapping[str, str]:
        if self._read is None:
            return {}
        return months_used_up(self._read, self._source.traits, self._clock)

    def _candidate(self, id: str) -> Candidate:
        candidate = self._built.get(id)
        if candidate is None:
            member = self._tools.get(id) or self._source.build(id)
            self._executor.add(member)
            candidate = self._built[id] = Candidate(
                member, self._gauge(member.traits), member.traits
            )
        return candidate

    def _gauge(self, traits: Traits) -> Gauge:
        read = self._read
        proven = read is not None and read.has_answered(traits.id, traits.answerer)
        month = None if traits.budget_usd_month is None else MonthBudget(traits, self._clock)
        return self._limits.add(traits, self._began, month=month, proven=proven)


def no_tools(traits: Traits) -> str:
    """Why a step with tools cannot ask this member."""
    own = "; it has tools of its own" if traits.agent else ""
    what = f"member {traits.id} (kind {traits.kind}) cannot be given tools{own}"
    return f"{what}; name one of kind openai or anthropic, or leave `tools` out"
