"""Who may take a task. Named members, or those good at what it needs, or anyone."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Protocol

from fanfold.errors import BadInput
from fanfold.run.dispatch import Candidate
from fanfold.run.limits import Limits
from fanfold.work.member import Member, Traits
from fanfold.work.task import Who


class Company(Protocol):
    """The members at hand: their traits without building them, and one built when it is needed."""

    @property
    def traits(self) -> Mapping[str, Traits]: ...

    @property
    def allow_paid(self) -> bool: ...

    def build(self, id: str) -> Member: ...


class Given:
    """Members made by hand, for scripts and tests. Those who are handed over may be used."""

    def __init__(self, *members: Member) -> None:
        self._members = {member.traits.id: member for member in members}
        self.traits: Mapping[str, Traits] = {id: m.traits for id, m in self._members.items()}
        self.allow_paid = True

    def build(self, id: str) -> Member:
        return self._members[id]


class Chooser:
    """Works out candidates and keeps one gauge and one built member for each id."""

    def __init__(self, company: Company, limits: Limits, now: float) -> None:
        self._company, self._limits, self._now = company, limits, now
        self._built: dict[str, Candidate] = {}

    def __call__(self, who: Who) -> tuple[Candidate, ...]:
        traits = self._company.traits
        if who.members:
            ids = [self._named(id) for id in who.members]
        else:
            ids = [id for id, t in traits.items() if self._fits(t, who.needs)]
            if not ids:
                raise BadInput(self._nobody(who.needs))
        return tuple(self._candidate(id) for id in ids[: who.use])

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
        if traits[id].tier == "paid" and not self._company.allow_paid:
            raise BadInput(
                f"member {id} is paid; allow it with --allow-paid or settings.allow_paid"
            )
        return id

    def _fits(self, traits: Traits, needs: tuple[str, ...]) -> bool:
        """Two independent switches for paid members: allowed at all, and enabled by name."""
        if not traits.enabled or not set(needs) <= set(traits.good_at):
            return False
        return traits.tier != "paid" or (self._company.allow_paid and traits.enabled_written)

    def _nobody(self, needs: tuple[str, ...]) -> str:
        if not self._company.traits:
            return "the roster has no members; add one, or name a roster with --roster"
        if not needs:
            return "no member may be used; enable one in the roster, or --allow-paid"
        return f"no member is good at {', '.join(needs)}; add it to a member's good_at"

    def _candidate(self, id: str) -> Candidate:
        candidate = self._built.get(id)
        if candidate is None:
            member = self._company.build(id)
            gauge = self._limits.add(member.traits, self._now)
            candidate = self._built[id] = Candidate(member, gauge, member.traits)
        return candidate
