"""A fleet in a table: each worker, its cost, its last message; for people and for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from fanfold.fleet.runs import Liveness, liveness, process_id
from fanfold.fleet.worker_view import Cost, WorkerState, WorkerView
from fanfold.journal.facts import RunRecord
from fanfold.observe.amounts import duration, money, usd, utc_time
from fanfold.observe.closing import again_command, headline, resume_command
from fanfold.observe.status import RunSummary
from fanfold.observe.table import Column, aligned, cells_wide, cut, cut_name, one_line
from fanfold.price import dollars

WIDE = 100
LEAST_MESSAGE, LONGEST_MESSAGE = 22, 120
RULE = "─"
ESTIMATED = "~ estimated: by list prices, or no bill by the dollar"
AT_MOST = "≤ at most: the cost of its last call is not known"
MOST_NAME = 60
_OTHERS: tuple[WorkerState, ...] = ("PENDING", "KILLED", "IN DOUBT", "UNFUNDED", "SKIPPED")
_DROP_FIRST: tuple[WorkerState, ...] = ("DONE", "SKIPPED", "PENDING", "UNFUNDED")
_BAD: tuple[WorkerState, ...] = ("FAILED", "IN DOUBT", "KILLED")
Sort = Literal["planned", "cost", "attention", "name"]
SORTS: tuple[Sort, ...] = get_args(Sort)


class Supervisor(msgspec.Struct, frozen=True):
    """The process of a run. `finished`: the run has ended, so it needs none. `unknown`: whether it is alive
    is not known."""

    state: Liveness | Literal["finished"]
    pid: int | None = None

    def __str__(self) -> str:
        return f"{self.state} (pid {self.pid})" if self.pid else self.state


def supervisor_of(store: str | Path, record: RunRecord) -> Supervisor:
    if record.status != "running":
        return Supervisor("finished")
    return Supervisor(liveness(store, record.session), process_id(store, record.session))


class FleetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """All that is shown. `root` is the folder of the fleet or the plan, `store` as the operator named it,
    for the commands that are shown."""

    summary: RunSummary
    workers: Sequence[WorkerView]
    supervisor: Supervisor
    root: str
    now: float
    store: str = ""

    @property
    def elapsed(self) -> float:
        """From the first start to the last end, or until now."""
        began = [one.began for one in self.workers if one.began is not None]
        ended = [one.ended for one in self.workers if one.ended is not None]
        if not began:
            return 0.0
        return max(0.0, (self.now if not self.over else max(ended, default=self.now)) - min(began))

    @property
    def over(self) -> bool:
        """Nothing runs any more, and nothing will be started."""
        return self.supervisor.state in ("dead", "finished") and not any(
            one.state == "RUNNING" for one in self.workers
        )

    @property
    def total(self) -> Cost:
        known = [one.cost for one in self.workers if one.cost.usd is not None]
        return Cost(
            sum(cost.usd or 0 for cost in known),
            any(cost.estimated for cost in known),
            any(cost.at_most for cost in known),
            sum(cost.over for cost in known),
        )


def ordered(workers: Sequence[WorkerView], by: Sort) -> list[WorkerView]:
    """By cost, the highest first; those that need attention first; by name; or as planned."""
    match by:
        case "cost":
            return sorted(workers, key=lambda one: -(one.cost.usd or 0))
        case "attention":
            return sorted(workers, key=_urgency)
        case "name":
            return sorted(workers, key=lambda one: one.id)
        case "planned":
            return list(workers)


def _urgency(one: WorkerView) -> int:
    """Stuck, failed, over its budget, waiting for budget; then what runs, waits, is done."""
    budget = one.state == "UNFUNDED" or one.waits_for_budget
    signs = (one.stuck, one.state in _BAD, one.over, budget, one.state == "RUNNING",
             one.state == "PENDING")  # fmt: skip
    return next((n for n, sign in enumerate(signs) if sign), len(signs))


# ── for people ───────────────────────────────────────────────────────────────────────────────


def fleet_status(
    status: FleetStatus, *, verbose: bool = False, width: int = 80, height: int | None = None
) -> str:
    """`height`: so many lines at most; then workers that need no attention are left out first."""
    head, foot = _head(status, width), _foot(status, width)
    room = None if height is None else height - len(head) - len(foot) - 4
    title, *rows = worker_lines(status, verbose=verbose, width=width, room=room)
    rule = RULE * min(width, max(map(cells_wide, (title, *rows))))
    return "\n".join([*head, "", title, rule, *rows, rule, *foot])


def worker_lines(
    status: FleetStatus, *, verbose: bool = False, width: int = 80, room: int | None = None
) -> list[str]:
    """The table alone: its titles, then a line for each worker, and below it why it failed, if that line
    shows its last message. With `verbose` all that is known of it."""
    more = {one.id: _below(one, verbose, width) for one in status.workers}
    shown = _fitting(status.workers, room, more, width)
    title, *rows = aligned(_columns(shown, status.now, width), width)
    lines = [title]
    for one, row in zip(shown, rows, strict=True):
        lines += [row, *more[one.id]]
    hidden = len(status.workers) - len(shown)
    return [*lines, f"… and {hidden:,} more"] if hidden else lines


def _below(one: WorkerView, verbose: bool, width: int) -> list[str]:
    """Lines below that of a worker. Commands and errors are not cut."""
    why = f"    ✗ {one_line(one.error, 1000)}" if one.error and one.state != "PENDING" else ""
    if not verbose:
        return [cut(why, width)] if why and one.said not in ("", one.error) else []
    waits = f"    ↳ {one_line(one.waits, 1000)}" if len(one.waits) > LEAST_MESSAGE else ""
    lines = [line for line in (why, waits) if line]
    lines.append(cut(f"    ↳ {_details(one)}", width))
    if one.command:
        return [*lines, f"    ↳ to continue it: {one_line(one.command, 4000)}"]
    session = one_line(one.session, 200)
    return [*lines, f"    ↳ session {session}"] if session else lines


def _head(s: FleetStatus, width: int) -> list[str]:
    stamp = datetime.fromtimestamp(s.now, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    name = one_line(s.summary.run.name, 60)
    lines = [
        f"Fleet Status — {stamp}",
        f"Fleet: {name} (run {s.summary.run.id})",
        f"Fleet root: {one_line(s.root, 400)}",
        f"Elapsed: {duration(s.elapsed)}",
    ]
    return [cut(line, width) for line in lines]


def _foot(s: FleetStatus, width: int) -> list[str]:
    lines = [_summary(s), _state_line(s), _budget_line(s), f"supervisor: {s.supervisor}"]
    lines += [ESTIMATED] if any(one.cost.estimated for one in s.workers) else []
    lines += [AT_MOST] if any(one.cost.at_most for one in s.workers) else []
    lines += [f"over: {_over(s)}"] if s.total.over else []
    folded = [part for line in lines if line for part in _folded(line, width)]
    if s.summary.status == "flagged":
        folded.append(f"to start one of them again: {again_command(s.summary.receipt, s.store)}")
    elif s.summary.resumable:
        folded.append(f"to continue: {resume_command(s.summary.receipt, s.store)}")
    return folded


def _over(s: FleetStatus) -> str:
    """Which workers cost more than was reserved, and how much."""
    found = [one for one in s.workers if one.cost.over]
    costs = (money(one.cost.over, at_most=one.cost.at_most) for one in found)
    texts = (f"{one_line(one.id, 60)} {cost}" for one, cost in zip(found, costs, strict=True))
    return f"{', '.join(texts)} more than was reserved"


def _folded(line: str, width: int) -> list[str]:
    """A line of parts, broken between them where it does not fit."""
    found = [""]
    for part in line.split("  "):
        longer = f"{found[-1]}  {part}" if found[-1] else part
        if len(longer) <= width or not found[-1]:
            found[-1] = longer
        else:
            found.append(f"  {part}")
    return [cut(part, width) for part in found]


def _summary(s: FleetStatus) -> str:
    count = state_counts(s.workers)
    stuck = sum(one.stuck for one in s.workers)
    shown = [("Total", len(s.workers)), ("Running", count["RUNNING"] - stuck),
             ("Done", count["DONE"]), ("Failed", count["FAILED"]), ("Stuck", stuck)]  # fmt: skip
    shown += [(state.capitalize(), count[state]) for state in _OTHERS if count[state]]
    parts = [f"{name}: {n:,}" for name, n in shown]
    return "  ".join([f"Fleet Summary: {parts[0]}", *parts[1:], f"Total Cost: {amount(s.total)}"])


def _state_line(s: FleetStatus) -> str:
    """Why the run is in its state; that it runs, or is complete, the table shows."""
    if s.summary.status == "crashed":
        living = sum(one.state == "RUNNING" for one in s.workers)
        still = f"; {living:,} of its workers live on" if living else ""
        return f"run: crashed: its process died{still}"
    if s.summary.status in ("running", "complete"):
        return ""
    return f"run: {headline(s.summary.status, s.summary.receipt)}"


def _budget_line(s: FleetStatus) -> str:
    receipt, reserved = s.summary.receipt, s.summary.under_way.at_most
    spent = max(0.0, receipt.cost_usd + receipt.below_usd - dollars(reserved))
    bound = receipt.cost_at_most or s.summary.in_doubt.at_most > 0
    parts = [f"budget: {usd(spent, at_most=bound)} spent"]
    parts += [f"{money(reserved)} reserved"] if reserved else []
    parts += [f"of {usd(receipt.budget_usd)}" if receipt.budget_usd is not None else "no limit"]
    over = receipt.overrun_usd
    parts += [f"{usd(over, at_most=receipt.cost_at_most)} over"] if over else []
    lanes = sorted({one.lane for one in s.workers if one.lane})
    parts += [f"billing: {', '.join(lanes)}"] if lanes else []
    return "  ".join(parts)


def amount(cost: Cost) -> str:
    """`$0.41`; `~` before an estimate, `≤` before an upper bound, `-` where it is not known."""
    if cost.usd is None:
        return "-"
    return ("≤" if cost.at_most else "~" if cost.estimated else "") + money(cost.usd)


def cost_of_cap(one: WorkerView) -> str:
    """`$0.19 / $0.50`: what it cost, of what it may cost; `each`: that is for each of its attempts."""
    cost = amount(one.cost)
    each = " each" if one.tries > 1 else ""
    return cost if one.cap is None else f"{cost} / {money(one.cap)}{each}"


def _columns(workers: Sequence[WorkerView], now: float, width: int) -> list[Column]:
    wide = width >= WIDE
    ago = [_ago(one.heard, now, wide) for one in workers]
    return [
        Column(
            "ID",
            [cut_name(one_line(one.id, 200), MOST_NAME) for one in workers],
            least=24 if width >= 80 else 12,
            names=True,
        ),
        Column("STATUS", [status_word(one) for one in workers]),
        Column("MODEL", [one_line(one.model, 40) for one in workers], rank=2, least=8),
        Column("ELAPSED", [_elapsed(one, now) for one in workers], rank=1),
        Column("LAST ACTIVITY" if wide else "ACTIVITY", ago, rank=3),
        Column("COST", [cost_of_cap(one) for one in workers], right=True),
        Column("RETRIES", [str(one.retries) for one in workers], right=True, rank=4),
        Column(
            "LAST MSG",
            [one_line(one.last, LONGEST_MESSAGE) for one in workers],
            least=LEAST_MESSAGE,
        ),
    ]


def status_word(one: WorkerView) -> str:
    """`stuck? 4m 10s`: it runs, but without output for so long. Nothing is done about it."""
    return f"stuck? {duration(one.silent)}" if one.stuck else one.state


def elapsed_of(one: WorkerView, now: float) -> float | None:
    if one.began is None:
        return None
    return max(0.0, (one.ended if one.ended is not None else now) - one.began)


def _elapsed(one: WorkerView, now: float) -> str:
    seconds = elapsed_of(one, now)
    return "-" if seconds is None else duration(seconds)


def _ago(heard: float | None, now: float, wide: bool) -> str:
    if heard is None:
        return "-"
    text = duration(max(0.0, now - heard))
    return f"{text} ago" if wide else f"{text.split()[0]} ago"


def _details(one: WorkerView) -> str:
    files = ", ".join(one.outputs[:4]) + (
        f" +{len(one.outputs) - 4}" if len(one.outputs) > 4 else ""
    )
    parts = [f"lines={one.lines}", f"tail={one.tail or '-'}", f"outputs={files or '-'}"]
    parts += [f"turns={one.turns}"] if one.turns else []
    parts += [f"tokens={one.usage.total:,}"] if one.usage.total else []
    parts += [f"exit={one.code}"] if one.code is not None else []
    parts += [f"attempts={one.tries}"] if one.tries > 1 else []
    parts += [f"denied={len(one.denied)}"] if one.denied else []
    parts += [one.lane] if one.lane else []
    return "  ".join(one_line(part, 200) for part in parts)


def _fitting(
    workers: Sequence[WorkerView], room: int | None, more: Mapping[str, Sequence[str]], width: int
) -> list[WorkerView]:
    """The workers that fit, in their order. `more`: the lines below each."""
    lines = [1 + sum(-(-cells_wide(line) // width) for line in more[one.id]) for one in workers]
    if room is None or sum(lines) <= room:
        return list(workers)
    order = {state: n for n, state in enumerate(reversed(_DROP_FIRST), 1)}
    kept: list[int] = []
    for n in sorted(range(len(workers)), key=lambda n: order.get(workers[n].state, 0)):
        if kept and sum(lines[k] for k in kept) + lines[n] > room - 1:
            break
        kept.append(n)
    return [workers[n] for n in sorted(kept)]


def state_counts(workers: Sequence[WorkerView]) -> Counter[WorkerState]:
    return Counter(one.state for one in workers)


# ── for programs ─────────────────────────────────────────────────────────────────────────────


def fleet_json(s: FleetStatus) -> dict[str, Any]:
    """The names of dag-fleet, and ours beside them; to go with the fields of the receipt."""
    count, stuck = state_counts(s.workers), sum(one.stuck for one in s.workers)
    receipt, reserved = s.summary.receipt, dollars(s.summary.under_way.at_most)
    return {
        "fleet_root": s.root, "timestamp": utc_time(s.now), "elapsed_seconds": round(s.elapsed),
        "workers": [worker_json(one, s.now) for one in s.workers],
        "summary": {
            "total": len(s.workers), "running": count["RUNNING"] - stuck, "done": count["DONE"],
            "failed": count["FAILED"], "stuck": stuck, "total_cost": _dollars(s.total),
            **{state.lower().replace(" ", "_"): count[state] for state in _OTHERS},
            "estimated": s.total.estimated, "at_most": s.total.at_most,
            "overrun_usd": dollars(s.total.over),
        },
        "budget": {"spent_usd": round(max(0.0, receipt.cost_usd + receipt.below_usd - reserved), 9),
                   "reserved_usd": reserved, "limit_usd": receipt.budget_usd,
                   "overrun_usd": receipt.overrun_usd},
        "liveness": {"launcher_pid": s.supervisor.pid,
                     "launcher_alive": s.supervisor.state in ("alive", "unknown"),
                     "supervisor": s.supervisor.state},
    }  # fmt: skip


def worker_json(one: WorkerView, now: float) -> dict[str, Any]:
    seconds = elapsed_of(one, now)
    return {
        "id": one.id, "status": "STUCK" if one.stuck else one.state, "model": one.model,
        "elapsed": _elapsed(one, now), "last_activity": _ago(one.heard, now, True),
        "cost": _dollars(one.cost), "max_budget_usd": None if one.cap is None else dollars(one.cap),
        "retries": one.retries, "last_msg": one_line(one.last, 400),
        "member": one.member, "lane": one.lane, "estimated": one.cost.estimated,
        "at_most": one.cost.at_most, "overrun_usd": dollars(one.cost.over),
        "elapsed_seconds": None if seconds is None else round(seconds, 3),
        "silent_seconds": round(one.silent, 3), "lines": one.lines, "tail": one.tail,
        "outputs": list(one.outputs), "session": one.session, "continue": one.command,
        "waits": one.waits, "turns": one.turns,
        "tokens": msgspec.structs.asdict(one.usage), "exit_code": one.code, "error": one.error,
        "attempt": one.attempt, "attempts": one.tries, "depends_on": list(one.depends_on),
        "denied": list(one.denied), "place": None if one.place is None else str(one.place),
    }  # fmt: skip


def _dollars(cost: Cost) -> float | None:
    return None if cost.usd is None else dollars(cost.usd)
