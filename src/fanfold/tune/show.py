"""A tuning for people: the frontier as a table and as a plot, and the recommendation in two sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from math import log10
from typing import TypeAlias

from fanfold.observe.table import Column, aligned, one_line
from fanfold.tune.choose import Goal, ReportedWay, Tuning
from fanfold.tune.sample import AskedSample
from fanfold.work.rewrite import rendered

_Scale: TypeAlias = Callable[[float], float]
_WIDE, _HIGH, _EDGE = 760, 420, 64
_CHOSEN, _LABEL = "#0b5c73", 100


def tuning_text(found: Tuning, goal: Goal, width: int) -> str:
    ways = found.ways
    timed = [f"{one.seconds_1000:,.0f}" for one in ways]
    columns = [
        Column("", ["*" if n == found.recommended else "" for n in range(len(ways))]),
        Column("right", [f"{one.share:.1%}" for one in ways], right=True),
        Column("interval", [f"{one.low:.1%} to {one.high:.1%}" for one in ways]),
        Column("$ per 1,000", [f"{one.usd_1000:.2f}" for one in ways], right=True),
        *(
            [Column("s per 1,000", timed, right=True)]
            if any(one.seconds_1000 for one in ways)
            else []
        ),
        Column("calls", [f"{one.calls:.2f}" for one in ways], right=True),
        Column("who is asked", [one.way.text() for one in ways], least=30),
    ]
    head = (
        f"{found.tried:,} ways were tried on {found.chosen_on} items; these are the best by price, as "
        f"they did on {found.reported_on} others."
    )
    note = f"All intervals together hold with a probability of {found.surely:.0%}."
    kind, fields = found.step()
    stated = (f"    {name}: {rendered(value)}" for name, value in fields.items())
    tail = [advice(found, goal), "", "In a plan:", f"  {kind}:", *stated]
    return "\n".join([head, "", *aligned(columns, width), "", note, "", *tail])


def asked_text(asked: AskedSample) -> list[str]:
    """What was asked to learn this."""
    if asked.sample is None:
        return []
    sizes = "" if asked.sample.sizes == (1,) else f", {_listed(asked.sample.sizes)} at once"
    told = (
        f"{len(asked.sample.members)} members were asked about {len(asked.items)} items{sizes}: "
        f"{asked.calls:,} calls, ${asked.usd:.4f}. A reply is right if {asked.sample.truth.describe()}."
    )
    after = (f"{id} (after {many} items)" for id, many in asked.left_out.items())
    surely = "Surely worse than somebody no dearer, and not asked any more: "
    variants = [_variants_text(asked)] if asked.variants else []
    return [told, *variants, *([f"{surely}{', '.join(after)}."] if asked.left_out else []), ""]


def _listed(sizes: Sequence[int]) -> str:
    *some, last = map(str, sizes)
    return f"{', '.join(some)} and {last}" if some else last


def _variants_text(asked: AskedSample) -> str:
    assert asked.sample is not None
    each = ", ".join(one.describe() for one in asked.variants)
    many = asked.variants[0].items
    return (
        f"By all members on {many} items, right and for 1,000 asks: {each}."
        f" Tuned with {asked.sample.chosen.name}."
    )


def advice(found: Tuning, goal: Goal) -> str:
    """Two sentences."""
    best = found.ways[found.recommended]
    unsure = ""
    if goal.target is not None and found.reached and found.promised < goal.target:
        unsure = f"; more labels would tell whether it reaches {goal.target:.1%}"
    return (
        f"{_wanted(found, goal)} {best.way.text()}. It was right in {best.share:.1%} of the reporting half, "
        f"at ${best.usd_1000:.2f} for 1,000 items; with a probability of {found.surely:.0%} it is right in "
        f"at least {found.promised:.1%}{unsure}."
    )


def _wanted(found: Tuning, goal: Goal) -> str:
    match goal:
        case Goal(target=float(share)):
            wanted = f"to be right in {share:.1%}"
        case Goal(as_good_as=str(member)):
            wanted = f"to be as good as {member}"
        case Goal(max_usd=float(usd)):
            wanted = f"at most ${usd:.2f} for 1,000 items"
        case _:
            return "The best:"
    return (
        f"Wanted: {wanted}. Ask"
        if found.reached
        else f"Nothing reaches what is wanted ({wanted}). Nearest:"
    )


# ── the plot ─────────────────────────────────────────────────────────────────────────────────


def plot(found: Tuning) -> str:
    """Quality over price, as an SVG: the further up and left, the better. What is recommended is named;
    the others say their name under the mouse."""
    priced = [max(one.usd_1000, 0.001) for one in found.ways]
    low, high = log10(min(priced)) - 0.1, log10(max(priced)) + 0.1
    bottom = min(one.low for one in found.ways)

    def x(usd: float) -> float:
        return _EDGE + (log10(max(usd, 0.001)) - low) / (high - low) * (_WIDE - 2 * _EDGE)

    def y(share: float) -> float:
        return _EDGE + (1 - share) / (1 - bottom or 1) * (_HIGH - 2 * _EDGE)

    marks = [_mark(one, n == found.recommended, x, y) for n, one in enumerate(found.ways)]
    line = " ".join(f"{x(one.usd_1000):.0f},{y(one.share):.0f}" for one in found.ways)
    ticks = [_tick(round(share, 2), y) for share in _steps(bottom)]
    prices = "".join(
        f'<text x="{x(usd):.0f}" y="{_HIGH - _EDGE + 22}" text-anchor="middle">${usd:g}</text>'
        for power in range(-3, 5)
        for times in ((1, 2, 5) if high - low < 4 else (1,))
        if low <= log10(usd := times * 10.0**power) <= high
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {_HIGH}" font-family="sans-serif"'
        f' font-size="12"><rect width="{_WIDE}" height="{_HIGH}" fill="white"/>{"".join(ticks)}{prices}'
        f'<text x="{_WIDE / 2:.0f}" y="{_HIGH - 14}" text-anchor="middle">dollars for 1,000 items</text>'
        f'<text x="{_EDGE}" y="24">right on the reporting half, with intervals</text>'
        f'<circle cx="{_EDGE + 7}" cy="40" r="7" fill="{_CHOSEN}"/><text x="{_EDGE + 20}" y="44">'
        f"{escape(one_line(found.ways[found.recommended].way.text(), _LABEL))}</text>"
        f'<polyline points="{line}" fill="none" stroke="#9db4c0"/>{"".join(marks)}</svg>\n'
    )


def _steps(bottom: float) -> list[float]:
    step = 0.1 if bottom < 0.7 else 0.05 if bottom < 0.85 else 0.02
    return [1 - n * step for n in range(int((1 - bottom) / step) + 1)]


def _tick(share: float, y: _Scale) -> str:
    at = y(share)
    return (
        f'<line x1="{_EDGE}" x2="{_WIDE - _EDGE}" y1="{at:.0f}" y2="{at:.0f}" stroke="#e6e6e6"/>'
        f'<text x="{_EDGE - 8}" y="{at + 4:.0f}" text-anchor="end">{share:.0%}</text>'
    )


def _mark(one: ReportedWay, chosen: bool, x: _Scale, y: _Scale) -> str:
    at, colour = x(one.usd_1000), _CHOSEN if chosen else "#6d9aab"
    return (
        f'<line x1="{at:.0f}" x2="{at:.0f}" y1="{y(one.low):.0f}" y2="{y(one.high):.0f}" stroke="{colour}"/>'
        f'<circle cx="{at:.0f}" cy="{y(one.share):.0f}" r="{7 if chosen else 4}" fill="{colour}">'
        f"<title>{escape(one.way.text())}</title></circle>"
    )
