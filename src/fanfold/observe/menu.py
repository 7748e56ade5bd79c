"""The menu: who is there, good at what, at which price, ready or not."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from fanfold.observe.amounts import of_budget
from fanfold.observe.table import Column, aligned
from fanfold.price import dollars
from fanfold.work.member import Traits

Used = Mapping[str, int]
"""What members with a monthly budget took so far this month, in nano-dollars."""
_NOTHING: Used = MappingProxyType({})


def menu(
    members: Mapping[str, Traits],
    trouble: Mapping[str, str | None],
    width: int,
    used: Used = _NOTHING,
) -> str:
    """A table; `trouble` has an entry for each member that was checked."""
    rows = list(members.values())
    columns = [
        Column("member", [t.id for t in rows]),
        Column("kind", [t.kind for t in rows]),
        Column("model", [t.model or "" for t in rows], rank=2, least=10),
        Column("tier", [t.tier if t.enabled else f"{t.tier} (off)" for t in rows], rank=1),
        Column("price", [t.price_text for t in rows], rank=0),
        Column("at once", [str(t.limits.concurrency) for t in rows], right=True, rank=3),
        Column("good at", [", ".join(t.good_at) for t in rows], rank=1, least=12),
    ]
    if any(t.budget_usd_month is not None for t in rows):
        columns.append(Column("this month", [month_text(t, used) for t in rows], right=True))
    if trouble:
        states = ["ready" if trouble.get(t.id) is None else "not ready" for t in rows]
        columns.append(Column("state", states))
    troubles = [f"{id}: {what}" for id, what in trouble.items() if what is not None]
    return "\n".join([*aligned(columns, width), *troubles])


def menu_json(
    members: Mapping[str, Traits], trouble: Mapping[str, str | None], used: Used = _NOTHING
) -> list[Any]:
    return [
        {
            "id": t.id, "kind": t.kind, "model": t.model, "tier": t.tier, "enabled": t.enabled,
            "good_at": t.good_at, "price": t.price, "context": t.context, "limits": t.limits,
            "pool": t.pool, "budget_usd_month": t.budget_usd_month,
            "used_usd_month": None if t.budget_usd_month is None else dollars(used.get(t.id, 0)),
            **({"cost": t.cost_text} if t.cost_text else {}),
            **({"ready": trouble[t.id] is None, "trouble": trouble[t.id]} if t.id in trouble else {}),
        }
        for t in members.values()
    ]  # fmt: skip


def month_text(traits: Traits, used: Used) -> str:
    """`$3.20 of $20.00`; nothing where there is no monthly budget."""
    if traits.budget_usd_month is None:
        return ""
    return of_budget(dollars(used.get(traits.id, 0)), traits.budget_usd_month)
