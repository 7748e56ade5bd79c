"""What is tried besides the plan as it is: other concurrency, a smaller budget, limits, an outage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from fanfold.errors import BadInput
from fanfold.plans.plan import Plan
from fanfold.work.batch import Seconds
from fanfold.work.member import Traits
from fanfold.work.nearest import quoted, remedy
from fanfold.work.options import parse_budget
from fanfold.work.reader import Misfit
from fanfold.work.task import Budget

OF_MEMBERS = ("rpm", "tpm", "slots", "outage")
KINDS = ("concurrency", "budget", *OF_MEMBERS)


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """One row of what is tried; without anything the plan as it is. `rpm`, `tpm`, `slots`: of `member`.
    `outage`: so many seconds in which `member` cannot be reached, from `since` on; None: after a quarter
    of the usual time."""

    name: str = "as it is"
    concurrency: int | None = None
    budget: Budget | None = None
    member: str = ""
    rpm: int | None = None
    tpm: int | None = None
    slots: int | None = None
    outage: float | None = None
    since: float | None = None

    def limited(self, traits: Mapping[str, Traits]) -> dict[str, Traits]:
        """The members with other limits."""
        found = dict(traits)
        stated = {"rpm": self.rpm, "tpm": self.tpm, "concurrency": self.slots}
        changed = {name: value for name, value in stated.items() if value is not None}
        if changed:
            one = found[self.member]
            limits = msgspec.structs.replace(one.limits, **changed)
            found[self.member] = msgspec.structs.replace(one, limits=limits)
        return found


def parse_what_ifs(given: Sequence[str], members: Sequence[str]) -> list[Scenario]:
    """`concurrency=8,16`, `budget=5`, `rpm=ada:60`, `outage=ada:10m`, each; a row for each value."""
    return [row for said in given for row in _rows(said, members)]


def _rows(said: str, members: Sequence[str]) -> list[Scenario]:
    kind, equals, rest = (word.strip() for word in said.partition("="))
    if kind not in KINDS:
        raise BadInput(f"--what-if {said}: unknown kind {quoted(kind)}: {remedy(kind, KINDS)}")
    if not equals or not rest:
        example = "ada:60" if kind in OF_MEMBERS else "8,16"
        raise BadInput(f"--what-if {said}: a value is missing; write {kind}={example}")
    if kind == "budget" and "=" in rest:  # budget=usd=5,calls=100
        return [Scenario(name=said, budget=parse_budget(rest, f"--what-if {said}"))]
    if kind in ("concurrency", "budget"):
        return [_plain(kind, value.strip(), said) for value in rest.split(",")]
    member, colon, values = rest.partition(":")
    if not colon or not values:
        raise BadInput(f"--what-if {said}: write {kind}=MEMBER:VALUE")
    if member not in members:
        raise BadInput(
            f"--what-if {said}: there is no member `{member}`: {remedy(member, members)}"
        )
    return [_of_member(kind, member, value.strip(), said) for value in values.split(",")]


def _plain(kind: str, value: str, said: str) -> Scenario:
    if kind == "budget":
        return Scenario(name=f"budget={value}", budget=parse_budget(value, f"--what-if {said}"))
    return Scenario(name=f"concurrency={value}", concurrency=_count(value, said))


def _of_member(kind: str, member: str, value: str, said: str) -> Scenario:
    name = f"{kind}={member}:{value}"
    if kind != "outage":
        return Scenario(name=name, member=member, **{kind: _count(value, said)})  # type: ignore[arg-type]
    long, at, since = value.partition("@")
    try:
        lasts = float(Seconds.from_value(long))
        begins = float(Seconds.from_value(since)) if at else None
    except Misfit:
        what = f"--what-if {said}: an outage is such as {member}:10m, or {member}:10m@90s"
        raise BadInput(what) from None
    return Scenario(name=name, member=member, outage=lasts, since=begins)


def _count(value: str, said: str) -> int:
    if not value.isdecimal() or not 1 <= int(value) <= 10**9:
        raise BadInput(f"--what-if {said}: a whole number of at least 1 is needed, not {value!r}")
    return int(value)


def usual_concurrency(plan: Plan) -> int:
    """Calls at once, in the step that has most of them."""
    steps = plan.steps
    return max((asking.concurrency for step in steps for _, asking in step.asks()), default=1)


def ladder(plan: Plan, most: int) -> list[Scenario]:
    """Concurrencies around that of the plan that are worth a look; not more than there are items."""
    usual = usual_concurrency(plan)
    tried = {max(1, usual // 2), *(many for many in (usual * 2, usual * 4) if many <= most)}
    return [
        Scenario(name=f"concurrency={many}", concurrency=many) for many in sorted(tried - {usual})
    ]
