"""What a run was started with, as far as it is shown: its tasks, its members, and where it began."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from fanfold.errors import FanfoldError
from fanfold.journal.answers import decoded
from fanfold.journal.facts import RunRecord
from fanfold.members.agents.dialects import DIALECTS
from fanfold.members.agents.fields import AgentFields
from fanfold.members.entry import MemberEntry
from fanfold.members.roster import DEFAULT_ROSTER, load_roster, read_roster
from fanfold.price import nanos
from fanfold.work.document import Node
from fanfold.work.member import Tier
from fanfold.work.task import Who

Lane = Literal["subscription", "api", "local"]
LANES: dict[Tier, Lane] = {"subscription": "subscription", "paid": "api", "local": "local"}


class PlannedTask(msgspec.Struct, frozen=True):
    """One task of a graph: a worker of a fleet."""

    id: str
    depends_on: tuple[str, ...] = ()
    partial: bool | Literal["always"] = False
    who: Who = Who()

    @property
    def member(self) -> str:
        """The only one who may do it; "" when there are several."""
        return self.who.members[0] if len(self.who.members) == 1 else ""


class PlannedMember(msgspec.Struct, frozen=True):
    """A member as it is shown: its model with the effort, and who pays for it. `cap`: the most that it
    may spend, `most`: what is reserved for it; both in nano-dollars, None: no limit."""

    model: str = ""
    lane: Lane | None = None
    kind: str = ""
    pool: str = ""
    isolated: bool = False
    cap: int | None = None
    most: int | None = None


class RunPlan(msgspec.Struct, frozen=True):
    """`fleet`: it was started from a fleet.json. `folder`: of that file, or of the plan. At most `slots`
    work at once, with `delay` seconds between two starts."""

    fleet: bool = False
    folder: str = ""
    tasks: tuple[PlannedTask, ...] = ()
    members: dict[str, PlannedMember] = {}
    slots: int = 8
    delay: float = 0.0

    def member(self, id: str) -> PlannedMember:
        return self.members.get(id, PlannedMember())


class _StartedStep(msgspec.Struct, frozen=True):
    type: str = ""
    tasks: tuple[PlannedTask, ...] = ()
    concurrency: int = 8
    delay: float = 0.0


class _StartedPlan(msgspec.Struct, frozen=True):
    file: str = ""
    folder: str = ""
    steps: tuple[_StartedStep, ...] = ()


class StartedWith(msgspec.Struct, frozen=True):
    """What is read here of what a run was started with. A fleet with a `roster` was only rehearsed."""

    plan: _StartedPlan = _StartedPlan()
    roster: str | None = None
    members: dict[str, Any] | None = None
    kind: str = "plan"
    spool: str = ""


_decode = msgspec.json.Decoder(StartedWith).decode


def started_with(record: RunRecord) -> StartedWith:
    """Of a script there is nothing. StoreError when it cannot be read."""
    return decoded(_decode, record.plan or b"{}", f"what run {record.name} was started with")


def fleet_folder(record: RunRecord) -> Path | None:
    """The folder of the fleet.json that a run was started from, if it was."""
    try:
        return Path(record.folder) if started_with(record).kind == "fleet" else None
    except FanfoldError:
        return None


def run_plan(record: RunRecord) -> RunPlan:
    """Empty for a run of a script, and where the stored plan cannot be read."""
    try:
        stored = started_with(record)
    except FanfoldError:
        return RunPlan(folder=record.folder)
    plan = stored.plan
    graphs = [step for step in plan.steps if step.type == "graph"]
    first = graphs[0] if graphs else _StartedStep()
    return RunPlan(
        stored.kind == "fleet", plan.folder or record.folder,
        tuple(task for step in graphs for task in step.tasks), _members(stored),
        first.concurrency, first.delay,
    )  # fmt: skip


def _members(stored: StartedWith) -> dict[str, PlannedMember]:
    """None where the roster file was deleted or cannot be read: the rest is shown all the same."""
    try:
        if stored.members is not None:
            roster = read_roster(Node(stored.members, stored.plan.file, {}))
        else:
            roster = load_roster(stored.roster or DEFAULT_ROSTER)
    except FanfoldError:
        return {}
    return {id: _planned_member(entry) for id, entry in roster.entries.items()}


def _planned_member(entry: MemberEntry) -> PlannedMember:
    traits, fields, model = entry.traits, entry.fields, entry.traits.model or ""
    lane = LANES[traits.tier]
    if not isinstance(fields, AgentFields):
        return PlannedMember(model, lane, traits.kind, traits.pool, False, None, None)
    named = f"{model}({fields.effort})" if fields.effort else model
    cap = fields.max_budget_usd
    return PlannedMember(
        named, lane, traits.kind, traits.pool, fields.isolation == "worktree",
        None if cap is None else nanos(cap), DIALECTS[traits.kind].most(traits, fields),
    )  # fmt: skip
