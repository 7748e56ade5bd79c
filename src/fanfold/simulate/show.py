"""A simulation for people: as text, and as a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from fanfold.observe.amounts import count, duration, usd
from fanfold.observe.table import Column, aligned, one_line, wrapped
from fanfold.simulate.report import PlanSimulation, SimulatedPart, SimulatedTotal, Spread

Shown = Callable[[float], str]
_WIDE, _ROW, _LEFT, _RIGHT, _TOP = 760, 26, 190, 90, 66
_BLUE, _DARK, _PALE = "#6d9aab", "#0b5c73", "#e6e6e6"


def number(amount: float) -> str:
    return f"{round(amount):,}"


def simulation_text(found: PlanSimulation, width: int) -> str:
    parts = [
        [_head(found)],
        aligned(_totals(found.total), width),
        aligned(_parts("step", found.steps), width) if found.steps else [],
        aligned(_parts("member", found.members), width) if found.members else [],
        _times(found),
        aligned(_rows([found.total, *found.what_if]), width),
        wrapped(found.advice, width) if found.advice else [],
        _ended(found, width),
        ["how members behave:", *(f"  {line}" for one in found.known for line in wrapped(one, width - 2))],
    ]  # fmt: skip
    return "\n\n".join("\n".join(part) for part in parts if part)


def _head(found: PlanSimulation) -> str:
    """`reviews: 20 simulated runs of 10,000 items, from 400 of them; nothing was asked or paid`."""
    of = "" if found.items is None else f" of {count(found.items, 'item')}"
    sample = ""
    if found.simulated is not None and found.simulated < (found.items or 0):
        sample = f", extrapolated from {found.simulated:,}"
    return (
        f"{one_line(found.plan)}: {count(found.runs, 'simulated run')}{of}{sample} (seed {found.seed});"
        " nothing was asked, paid or written"
    )


def _totals(total: SimulatedTotal) -> list[Column]:
    rows: list[tuple[str, Spread, Shown]] = [
        ("cost", total.usd, usd), ("time", total.seconds, duration), ("calls", total.calls, number),
        ("tokens", total.tokens, number),
        *((state.replace("_", " "), many, number) for state, many in total.outcomes.items()),
    ]  # fmt: skip
    return [
        Column("", [name for name, _, _ in rows]),
        Column("p10", [shown(one.p10) for _, one, shown in rows], right=True),
        Column("p50", [shown(one.p50) for _, one, shown in rows], right=True),
        Column("p90", [shown(one.p90) for _, one, shown in rows], right=True),
    ]


def _parts(title: str, parts: Sequence[SimulatedPart]) -> list[Column]:
    columns = [
        Column(title, [one_line(one.name, 40) for one in parts], least=10),
        Column("calls", [number(one.calls.p50) for one in parts], right=True),
        Column("cost p50", [usd(one.usd.p50) for one in parts], right=True),
        Column("p90", [usd(one.usd.p90) for one in parts], right=True),
    ]
    if all(one.seconds for one in parts):
        times = [duration(one.seconds.p50) for one in parts if one.seconds]
        columns.append(Column("time", times, right=True))
    if all(one.errors for one in parts):
        wrong = [number(one.errors.p50) for one in parts if one.errors]
        columns.append(Column("without a reply", wrong, right=True))
    return columns


def _times(found: PlanSimulation) -> list[str]:
    shown = [f"  {one.share:>4.0%}  {one.what}" for one in found.time if one.share >= 0.005]
    return ["where the time of calls goes:", *shown] if shown else []


def _rows(rows: Sequence[SimulatedTotal]) -> list[Column]:
    states = list(dict.fromkeys(state for one in rows for state in one.outcomes))
    return [
        Column("what if", [one_line(one.name, 40) for one in rows], least=12),
        Column("mean cost", [usd(one.usd.mean) for one in rows], right=True),
        Column("time p50", [duration(one.seconds.p50) for one in rows], right=True),
        Column("p90", [duration(one.seconds.p90) for one in rows], right=True),
        Column("mean calls", [number(one.calls.mean) for one in rows], right=True),
        *(
            Column(
                state.replace("_", " "),
                [number(one.outcomes.get(state, Spread()).mean) for one in rows],
                right=True,
            )
            for state in states
        ),
    ]


def _ended(found: PlanSimulation, width: int) -> list[str]:
    if not found.ended:
        return []
    lines = (
        f"  {one_line(why, width - 14)} ({count(many, 'run')})" for why, many in found.ended.items()
    )
    return ["why runs stopped, or items did not pass:", *lines]


# ── the picture ──────────────────────────────────────────────────────────────────────────────


def picture(found: PlanSimulation) -> str:
    """Time and cost of each row as an SVG: from p10 to p90, with the median, and who passes."""
    rows = [found.total, *found.what_if]
    panels = [
        _panel("time", rows, [one.seconds for one in rows], duration, 0),
        _panel("cost", rows, [one.usd for one in rows], usd, 1),
    ]
    high = 2 * (_TOP + _ROW * len(rows)) + 20
    title = escape(f"{found.plan}: {found.runs} simulated runs")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {high}" font-family="sans-serif"'
        f' font-size="12" role="img"><title>{title}</title>'
        f'<rect width="{_WIDE}" height="{high}" fill="white"/>{"".join(panels)}</svg>\n'
    )


def _panel(
    name: str, rows: Sequence[SimulatedTotal], spreads: Sequence[Spread], shown: Shown, n: int
) -> str:
    top, most = n * (_TOP + _ROW * len(rows)), max(one.p90 for one in spreads) or 1.0

    def x(amount: float) -> float:
        return _LEFT + amount / most * (_WIDE - _LEFT - _RIGHT)

    drawn = [f'<text x="{_LEFT}" y="{top + 34}" font-weight="bold">{name}, p10 to p90</text>']
    for at, (row, one) in enumerate(zip(rows, spreads, strict=True)):
        y = top + _TOP + at * _ROW
        drawn.append(
            f'<text x="{_LEFT - 10}" y="{y + 4}" text-anchor="end">{escape(one_line(row.name, 28))}</text>'
            f'<line x1="{_LEFT}" x2="{_WIDE - _RIGHT}" y1="{y}" y2="{y}" stroke="{_PALE}"/>'
            f'<rect x="{x(one.p10):.1f}" y="{y - 6}" width="{max(2.0, x(one.p90) - x(one.p10)):.1f}"'
            f' height="12" fill="{_BLUE}"/>'
            f'<rect x="{x(one.p50) - 1.5:.1f}" y="{y - 9}" width="3" height="18" fill="{_DARK}"/>'
            f'<text x="{max(x(one.p90), x(one.p50)) + 8:.1f}" y="{y + 4}">{escape(shown(one.p50))}</text>'
        )
    return "".join(drawn)
