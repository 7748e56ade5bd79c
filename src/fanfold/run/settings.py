"""How a run is carried out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from fanfold.run.forecast import Forecast
from fanfold.work.arguments import Checked
from fanfold.work.task import Budget

Approve: TypeAlias = Callable[[Forecast], Awaitable[bool] | bool]
"""Asks somebody whether a stage may go on; the answer holds for that stage."""


class Govern(
    msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, metaclass=Checked
):
    """When a stage whose size was not known at the start needs a yes; `cap` holds always.

    It needs one above `max_tasks` tasks, or above `approve_over` dollars (the 90th percentile of
    the forecast; the worst case when nothing is on record). `yes` is that yes, beforehand. `cap`
    is for all such asks of the run together.

    Only what may cost something counts: stages that functions answer, and replies on record, never
    hold.
    """

    max_tasks: int = 100
    approve_over: float = 1.0
    cap: int = 1000
    yes: bool = False


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How a run is carried out; what is done is in its tasks, and what its roster says in `Company`.

    `retry_in_doubt`: ids whose attempts in doubt may be repeated; None means all of them.
    `govern`: how far stages may grow that nobody could foresee; `approve` asks somebody above that.
    `anew`: graph tasks of an earlier run that are carried out again, and with `only` no others.
    `serving`: requests that have nothing to do with one another; what one of them lacks (money, a
    member that is left) does not stop the others.
    `restated`: steps whose budget was given anew; what orders said of it before does not hold.
    `keep_prompts`: requests are stored as they are sent, so that they can be shown later.
    `lead`: the session that leads, where several processes carry the run out; see `run/shares`.
    `taken_over`: from one that led it and died; what was ordered of that holds.
    `steps`: all that there will be, where that is known; other names mean nothing in an order.
    """

    budget: Budget = Budget()
    fresh: bool = False
    seed: int = 0
    retry_in_doubt: frozenset[str] | None = frozenset()
    govern: Govern = Govern()
    approve: Approve | None = None
    serving: bool = False
    keep_prompts: bool = False
    anew: frozenset[str] = frozenset()
    only: bool = False
    restated: frozenset[str] = frozenset()
    lead: str = ""
    taken_over: bool = False
    steps: frozenset[str] = frozenset()
