"""Limits that the store itself counts, in the transaction that claims a key: what all processes took."""

from __future__ import annotations

import msgspec


class MonthlyLimit(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What a member may spend in a month (`2025-06`, UTC), over all runs of the store, in
    nano-dollars. `anew`: first recompute what it has spent so far from the attempts."""

    month: str
    limit: int
    anew: bool = False


class SharedLimit(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What a run that several processes carry out may take, or one of its steps (its number; None is the
    run). `name`: the account, for people. Dollars in nano-dollars; None: no limit."""

    name: str
    step: int | None = None
    usd: int | None = None
    tokens: int | None = None
    calls: int | None = None
