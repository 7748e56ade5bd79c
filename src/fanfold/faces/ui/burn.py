"""The budget of a run over time."""

from __future__ import annotations

from collections.abc import Iterator

from fanfold.faces.ui.seen import SeenRun
from fanfold.faces.ui.shell import chart
from fanfold.observe.amounts import count, usd
from fanfold.observe.html.page import esc, note
from fanfold.price import dollars

BINS = 160
FAR = 5  # a budget so many times as high as what it is for would flatten the curve


def burn_html(seen: SeenRun) -> Iterator[str]:
    """Spent over time, what is reserved on top now, and the budget."""
    r, record = seen.summary.receipt, seen.record
    reserved = dollars(seen.summary.under_way.at_most)
    spent = max(0.0, r.cost_usd + r.below_usd - reserved)
    until = seen.now if seen.runs_now else record.ended or seen.now
    width = max(0.25, (until - record.created) / BINS)
    cost, x, y = 0, [0.0], [0.0]
    for at, more, _ in seen.view.read.costs_over_time(record.no, record.created, width):
        cost += more
        x.append(round((max(at, 0) + 1) * width, 2))
        y.append(dollars(cost))
    parts = [f"{usd(spent, at_most=r.cost_at_most)} spent"]
    if reserved:
        calls = count(seen.summary.under_way.attempts, "call")
        parts.append(f"{usd(reserved)} reserved for {calls}")
    if r.budget_usd is not None:
        left = max(0.0, r.budget_usd - spent - reserved)
        parts.append(f"{usd(left)} left of {usd(r.budget_usd)}")
    text = ", ".join(parts)
    yield f'<p class="sum">{esc(text)}</p>'
    if not cost:
        yield note("Nothing has cost anything so far.")
        return
    x.append(max(round(until - record.created, 2), x[-1] + 0.01))
    y.append(y[-1])
    lines: list[tuple[str, str, list[float | None]]] = [("spent", "spent", list(y))]
    worst: list[float | None] = [None] * (len(x) - 1)
    lines.append(("with reserved", "reserved", [*worst[:-1], y[-1], y[-1] + reserved]))
    if r.budget_usd is not None and r.budget_usd <= FAR * (y[-1] + reserved):
        lines.append(("budget", "budget", [r.budget_usd] * len(x)))
    yield chart(text, x, lines)
    if r.budget_usd is not None and len(lines) == 2:
        yield note(f"The budget of {usd(r.budget_usd)} is far above this.")
