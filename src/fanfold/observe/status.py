"""All runs of a store in one table: where each stands, what it cost, which can be resumed."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fanfold.observe.amounts import duration, local_time, short_time, usd, utc_time
from fanfold.observe.standing import Shown, Standing
from fanfold.observe.table import Column, aligned, one_line
from fanfold.run.inherited import USUAL, store_words
from fanfold.work.outcome import Receipt

WIDE = 120
SHORTEST_ID = 10
NOTHING = "no runs in this store yet; start one with: fanfold run PLAN"
_encode = msgspec.json.Encoder().encode


def overview(standings: Sequence[Standing], *, now: float, width: int = 80, store: str = "") -> str:
    """One line per run. In a wide terminal ids and times are written in full. `store` is for the
    command to continue one with."""
    if not standings:
        return NOTHING
    lines = aligned(_columns(standings, now, width >= WIDE), width)
    if any(s.resumable and s.run.plan for s in standings):
        lines += ["", f"to continue one: fanfold resume RUN{store_words(store or USUAL)}"]
    if any(s.status == "crashed" for s in standings):
        lines.append("crashed: the process died; what was recorded is safe")
    return "\n".join(lines)


def _columns(standings: Sequence[Standing], now: float, wide: bool) -> list[Column]:
    ids = [s.run.id for s in standings]
    short = _distinct(ids)
    times = [s.run.created for s in standings]
    budgets = [s.receipt.budget_usd for s in standings]
    return [
        Column("NAME", [one_line(s.run.name, 60) for s in standings], least=12),
        Column("ID", ids if wide else [id[:short] for id in ids]),
        Column("STATUS", [s.status for s in standings]),
        Column("DONE", [f"{s.done:,}/{s.receipt.planned:,}" for s in standings], right=True),
        Column("PASSED", [f"{s.receipt.passed:,}" for s in standings], right=True, rank=2),
        Column("COST", [_cost(s.receipt) for s in standings], right=True),
        Column("BUDGET", ["-" if b is None else usd(b) for b in budgets], right=True, rank=1),
        Column("STARTED", [local_time(t) if wide else short_time(t, now) for t in times], rank=3),
        Column("ACTIVE", [duration(s.seconds) for s in standings], right=True, rank=4),
    ]


def _cost(receipt: Receipt) -> str:
    return usd(receipt.cost_usd + receipt.below_usd, at_most=receipt.cost_at_most)


def _distinct(ids: list[str]) -> int:
    """How many letters tell these ids apart; the commands take the beginning of an id."""
    longest = max(map(len, ids))
    enough = (n for n in range(SHORTEST_ID, longest) if len({id[:n] for id in ids}) == len(ids))
    return next(enough, longest)


class Row(msgspec.Struct, frozen=True):
    """One run of the overview, for programs. `started` is UTC, `seconds` are active ones."""

    run: str
    name: str
    status: Shown
    reason: str | None
    planned: int
    done: int
    passed: int
    cost_usd: float
    cost_at_most: bool
    budget_usd: float | None
    started: str
    seconds: float
    resumable: bool


def overview_json(standings: Sequence[Standing]) -> bytes:
    return _encode([_row(standing) for standing in standings])


def _row(s: Standing) -> Row:
    r = s.receipt
    return Row(
        r.run, r.name, s.status, r.reason, r.planned, s.done, r.passed, r.cost_usd,
        r.cost_at_most, r.budget_usd,
        utc_time(s.run.created), round(s.seconds, 3), s.resumable,
    )  # fmt: skip
