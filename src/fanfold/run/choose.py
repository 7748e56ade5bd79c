"""Who may take a task. Named members share it; else the router ranks those good at what it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Protocol

import msgspec

from fanfold.clock import Clock
from fanfold.errors import BadInput
from fanfold.journal.contract import RunQuestions
from fanfold.journal.decide import month_of
from fanfold.members.roster import RosterSettings
from fanfold.members.route import Need, Ranked, rank
from fanfold.price import nanos
from fanfold.run.limits import Limits
from fanfold.run.want import Candidate
from fanfold.work.member import Member, Traits
from fanfold.work.task import Who


class Company(Protocol):
    """The members at hand: their traits without building them, and one built when it is needed.
    `given`: those that a script made and handed over, which may be used though they are paid."""

    @property
    def traits(self) -> Mapping[str, Traits]: ...

    @property
    def settings(self) -> RosterSettings: ...

    @property
    def given(self) -> frozenset[str]: ...

    def build(self, id: str) -> Member: ...


_ALLOWED = RosterSettings(allow_paid=True)


class Given:
    """Members made by hand, for scripts and tests. Those who are handed over may be used."""

    def __init__(self, *members: Member, settings: RosterSettings = _ALLOWED) -> None:
        self._members: dict[str, Member] = {}
        for member in members:
            if (id := member.traits.id) in self._members:
                raise BadInput(f"`members`: two are called `{id}`; give one another `id`")
            self._members[id] = member
        self.traits: Mapping[str, Traits] = {id: m.traits for id, m in self._members.items()}
        self.settings, self.given = settings, frozenset(self.traits)

    def build(self, id: str) -> Member:
        return self._members[id]


def _nothing_closed() -> Mapping[str, str]:
    return {}


def _never(traits: Traits) -> bool:
    return False


def used_up(read: RunQuestions, traits: Mapping[str, Traits], clock: Clock) -> dict[str, str]:
    """The members whose budget of the month is used up, each with that in words."""
    budgets = {id: t.budget_usd_month for id, t in traits.items() if t.budget_usd_month is not None}
    month = month_of(clock.now())
    return {
        id: f"its budget of the month is used up: ${budget:,.2f}"
        for id, budget in budgets.items()
        if read.month_use(id, month).settled >= nanos(budget)
    }


class Chooser:
    """Works out candidates and keeps one gauge and one built member for each id.

    Members that are named share the load: they are one class. Those that the router chose come in
    classes by fit and cost (`members/route.py`), and `fallback` makes a class of each; see
    `Candidate` for what that means.
    """

    def __init__(
        self,
        company: Company,
        limits: Limits,
        now: float,
        *,
        dollars: bool = False,
        closed: Callable[[], Mapping[str, str]] = _nothing_closed,
        answered: Callable[[Traits], bool] = _never,
    ) -> None:
        self._company, self._limits, self._now = company, limits, now
        self._dollars, self._closed, self._answered = dollars, closed, answered
        self._built: dict[str, Candidate] = {}

    def __call__(self, who: Who) -> tuple[Candidate, ...]:
        if who.members:
            found = [Ranked(self._named(id), 0, who.why) for id in who.members][: who.use]
        else:
            found = list(self._routed(who))
        there = {one.id for one in found}
        last = max(one.grade for one in found)
        others = [self._named(id) for id in dict.fromkeys(who.fallback) if id not in there]
        found += [Ranked(id, last + n, "fallback") for n, id in enumerate(others, 1)]
        return tuple(
            msgspec.structs.replace(self._candidate(one.id), grade=one.grade, why=one.why)
            for one in found
        )

    def accepts(self, who: Who) -> tuple[Traits, ...]:
        """Those whose recorded replies serve as well: all that are good at what it needs, though
        they may not be asked now. What was paid for is not paid again."""
        if who.members:
            return ()
        needs = set(who.needs)
        everyone = self._among(who)
        return tuple(t for t in everyone if t.enabled and needs <= set(t.good_at))

    def known(self, id: str) -> Candidate | None:
        """A member by its id, though no task has asked for it yet; None when there is none."""
        return self._candidate(id) if id in self._company.traits else None

    @property
    def members(self) -> list[Member]:
        return [candidate.member for candidate in self._built.values()]

    def _named(self, id: str) -> str:
        traits = self._company.traits
        if id not in traits:
            near = get_close_matches(id, traits, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise BadInput(f"no member {id!r} in the roster{hint}")
        if not traits[id].enabled:
            raise BadInput(f"member {id} is disabled; set enabled: true in the roster")
        allowed = self._company.settings.allow_paid or id in self._company.given
        if traits[id].tier == "paid" and not allowed:
            raise BadInput(
                f"member {id} is paid; allow it with --allow-paid or settings.allow_paid"
            )
        return id

    def _among(self, who: Who) -> tuple[Traits, ...]:
        everyone = self._company.traits
        return tuple(everyone[id] for id in who.among) if who.among else tuple(everyone.values())

    def _routed(self, who: Who) -> tuple[Ranked, ...]:
        """Capacity and the past are looked at when a task goes out, so they are not in here. If
        budgets of the month are all that is in the way, it is the run that lacks money: then it
        is not refused, but finds out when it asks."""
        need = Need(
            needs=who.needs, dollars=self._dollars, use=who.use,
            allow_paid=self._company.settings.allow_paid, given=self._company.given,
            closed=self._closed(),
        )  # fmt: skip
        everyone = self._among(who)
        found = rank(everyone, need)
        if not found.ranked and need.closed:
            found = rank(everyone, msgspec.structs.replace(need, closed={}))
        return found.chosen

    def _candidate(self, id: str) -> Candidate:
        candidate = self._built.get(id)
        if candidate is None:
            member = self._company.build(id)
            gauge = self._limits.add(member.traits, self._now)
            gauge.proven = gauge.proven or self._answered(member.traits)
            candidate = self._built[id] = Candidate(member, gauge, member.traits)
        return candidate
