"""Who works in a run, as it was planned: from the plan and the roster that it was started with."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from fanfold.errors import FanfoldError
from fanfold.journal.facts import RunRecord
from fanfold.members.agents.dialects import DIALECTS
from fanfold.members.entry import Entry
from fanfold.members.roster import DEFAULT_ROSTER, load_roster, read_roster
from fanfold.price import nanos
from fanfold.work.document import Node
from fanfold.work.member import Tier
from fanfold.work.task import Who

Lane = Literal["subscription", "api", "local"]
LANES: dict[Tier, Lane] = {"subscription": "subscription", "paid": "api", "local": "local"}


class Post(msgspec.Struct, frozen=True):
    """One task of a graph: a worker of a fleet."""

    id: str
    depends_on: tuple[str, ...] = ()
    partial: bool | Literal["always"] = False
    who: Who = Who()

    @property
    def member(self) -> str:
        """The only one who may do it; "" when there are several."""
        return self.who.members[0] if len(self.who.members) == 1 else ""


class Colleague(msgspec.Struct, frozen=True):
    """A member, as far as it is shown: its model with the effort, and who pays for it. `cap`: the most
    that it may spend, `most`: what is reserved for it; both in nano-dollars, None: no limit."""

    model: str = ""
    lane: Lane | None = None
    kind: str = ""
    pool: str = ""
    isolated: bool = False
    cap: int | None = None
    most: int | None = None


class Crew(msgspec.Struct, frozen=True):
    """`fleet`: it was started from a fleet.json. `folder`: where that, or the plan, lies. At most
    `slots` work at once, with `delay` seconds between two starts."""

    fleet: bool = False
    folder: str = ""
    posts: tuple[Post, ...] = ()
    members: dict[str, Colleague] = {}
    slots: int = 8
    delay: float = 0.0

    def colleague(self, member: str) -> Colleague:
        return self.members.get(member, Colleague())


class _Step(msgspec.Struct, frozen=True):
    type: str = ""
    tasks: tuple[Post, ...] = ()
    concurrency: int = 8
    delay: float = 0.0


class _Plan(msgspec.Struct, frozen=True):
    file: str = ""
    folder: str = ""
    steps: tuple[_Step, ...] = ()


class _Stored(msgspec.Struct, frozen=True):
    """What is of interest here, of what a run was started with."""

    plan: _Plan = _Plan()
    roster: str | None = None
    members: dict[str, Any] | None = None
    kind: str = "plan"


def crew_of(record: RunRecord) -> Crew:
    """A run of a script, or with a plan that cannot be read, has none that is known."""
    try:
        stored = msgspec.json.decode(record.plan or b"{}", type=_Stored)
    except msgspec.DecodeError:
        return Crew(folder=record.folder)
    plan = stored.plan
    graphs = [step for step in plan.steps if step.type == "graph"]
    first = graphs[0] if graphs else _Step()
    return Crew(
        stored.kind == "fleet", plan.folder or record.folder,
        tuple(post for step in graphs for post in step.tasks), _members(stored),
        first.concurrency, first.delay,
    )  # fmt: skip


def _members(stored: _Stored) -> dict[str, Colleague]:
    """A roster file that is gone or was changed for the worse is no reason not to look."""
    try:
        if stored.members is not None:
            roster = read_roster(Node(stored.members, stored.plan.file, {}))
        else:
            roster = load_roster(stored.roster or DEFAULT_ROSTER)
    except FanfoldError:
        return {}
    return {id: _colleague(entry) for id, entry in roster.entries.items()}


def _colleague(entry: Entry) -> Colleague:
    traits, effort = entry.traits, entry.setup.effort
    model = traits.model or ""
    named = f"{model}({effort})" if effort else model
    cap, dialect = entry.setup.max_budget_usd, DIALECTS.get(traits.kind)
    return Colleague(
        named, LANES[traits.tier], traits.kind, traits.pool, entry.isolation == "worktree",
        None if cap is None else nanos(cap),
        None if dialect is None else dialect.most(traits, entry.setup),
    )  # fmt: skip
