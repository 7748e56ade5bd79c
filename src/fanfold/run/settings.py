"""How a run is carried out."""

from __future__ import annotations

import msgspec

from fanfold.run.govern import Approve, Govern
from fanfold.work.task import Budget


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How a run is carried out; what is done is in its tasks, and what its roster says in `Company`.

    `retry_in_doubt`: ids whose attempts in doubt may be repeated; None means all of them.
    `govern`: how far stages may grow that nobody could foresee; `approve` asks somebody above that.
    `anew`: graph tasks of an earlier run that are carried out again, and with `only` no others.
    `serving`: requests that have nothing to do with one another; what one of them lacks (money, a
    member that is left) does not stop the others.
    `keep_prompts`: requests are stored as they are sent, so that they can be shown later.
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
