"""Plots as pieces of SVG: they take the available width, and every number is also in text."""

from __future__ import annotations

from collections.abc import Sequence

from fanfold.observe.account import Bar, Lane, Times
from fanfold.observe.amounts import count, duration
from fanfold.observe.html.page import esc
from fanfold.observe.shown import KindCounts

SHADES = 5
_WIDE = 1000.0
_ROW, _GAP = 9.0, 2.0
_TALL = 26.0
_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400)
_BAD = {
    "error": "no reply",
    "in_doubt": "in doubt",
    "late": "came too late",
    "started": "under way",
}


def bar(parts: Sequence[float], label: str, styles: Sequence[str] = ()) -> str:
    """Parts of a whole of 1, one after the other, each in its shade, or in its style."""
    x, drawn = 0.0, []
    for n, part in enumerate(parts):
        if part > 0:
            width = max(part * 100, 0.4)
            place = f'x="{_n(x)}%" width="{_n(width)}%" height="100%"'
            drawn.append(f'<rect class="{styles[n] if styles else _shade(n)}" {place}/>')
            x += part * 100
    return f'<svg class="bar" role="img"><title>{esc(label)}</title>{"".join(drawn)}</svg>'


def legend(names: Sequence[str]) -> str:
    """Of the shades of a chart; none where there is only one."""
    return color_key([(_shade(n), name) for n, name in enumerate(names)]) if len(names) > 1 else ""


def color_key(named: Sequence[tuple[str, str]]) -> str:
    """What each colour means: its style, and the words."""
    sign = '<svg aria-hidden="true"><rect class="{}" width="100%" height="100%"/></svg>'
    shown = "".join(f"<li>{sign.format(style)}{esc(name)}</li>" for style, name in named)
    return f'<ul class="legend">{shown}</ul>'


def _shade(n: int) -> str:
    return f"s{min(n, SHADES - 1)}"


def counts_chart(found: KindCounts) -> str:
    """How many of each kind, as bars; in shades where they are split by another field."""
    rows = [_count_row(found, kind, numbers) for kind, numbers in found.kinds]
    by = f"{found.where}: {found.by}" if found.where else found.by
    title = f"{found.split} by {by}" if found.split else f"number by {by}"
    more = f"; without {count(found.others, 'kind')} with fewer" if found.others else ""
    label = esc(title[:1].upper() + title[1:] + more) + legend(found.parts)
    return (
        f'<table class="chart"><caption>{label}</caption><tbody>\n'
        + "\n".join(rows)
        + "\n</tbody></table>"
    )


def _count_row(found: KindCounts, kind: str, numbers: tuple[int, ...]) -> str:
    whole = sum(numbers)
    parts = [f"{n:,} {name}" for n, name in zip(numbers, found.parts, strict=True) if n and name]
    label = f"{kind}: {', '.join(parts) or f'{whole:,}'}"
    drawn = bar([n / found.most for n in numbers], label)
    return (
        f'<tr><th scope="row">{esc(kind)}</th><td class="plot">{drawn}</td>'
        f'<td class="num">{whole:,}</td></tr>'
    )


# ── when each member worked ─────────────────────────────────────────────────────────────────────


def timeline(times: Times) -> str:
    """A lane for each member. A call is a bar; of many calls the height says how many were under
    way at once."""
    peak = max((level for lane in times.lanes for level in lane.levels), default=0.0)
    rows = [_lane_row(lane, times.seconds, peak) for lane in times.lanes]
    axis = f'<tr><th scope="row"></th><td class="plot">{_axis(times)}</td><td></td></tr>'
    return (
        '<table class="chart"><thead><tr><th scope="col">member</th><th scope="col" class="plot">'
        'when it worked</th><th scope="col" class="num">calls</th></tr></thead><tbody>\n'
        + "\n".join([*rows, axis])
        + "\n</tbody></table>"
    )


def _lane_row(lane: Lane, seconds: float, peak: float) -> str:
    one = lane.worker
    bad = f", {count(one.bad, 'of them', 'of them')} without a reply that counts" if one.bad else ""
    label = f"{one.member}: {count(one.calls, 'call')}{bad}, {duration(one.seconds)} together"
    if lane.levels:
        label += f", at most about {max(lane.levels):,.0f} at once"
        height, drawn = _TALL, _area(lane.levels, peak)
    else:
        height = lane.rows * (_ROW + _GAP) - _GAP
        drawn = "".join(_drawn(bar, seconds) for bar in lane.bars)
    return (
        f'<tr><th scope="row">{esc(one.member)}</th><td class="plot"><svg role="img"'
        f' viewBox="0 0 {_n(_WIDE)} {_n(height)}" height="{_n(height)}" preserveAspectRatio="none">'
        f'<title>{esc(label)}</title><rect class="rail" width="100%" height="100%"/>{drawn}</svg></td>'
        f'<td class="num">{one.calls:,}</td></tr>'
    )


def _drawn(bar: Bar, seconds: float) -> str:
    x, width = bar.start / seconds * _WIDE, (bar.end - bar.start) / seconds * _WIDE
    word = _BAD.get(bar.state, "replied")
    style = "s0" if bar.state == "ok" else "s2" if bar.state == "started" else "bad"
    return (
        f'<rect class="{style}" x="{_n(x)}" y="{_n(bar.row * (_ROW + _GAP))}"'
        f' width="{_n(max(width - 0.6, 1.6))}" height="{_n(_ROW)}">'
        f"<title>#{bar.no} {word}, {duration(bar.end - bar.start)}</title></rect>"
    )


def _area(levels: Sequence[float], peak: float) -> str:
    """One column for each bin, as a single path."""
    wide, tall = _WIDE / len(levels), _TALL / peak if peak else 0.0
    steps = [
        f"M{_n(n * wide)} {_n(_TALL)}V{_n(_TALL - max(level * tall, 0.6))}h{_n(wide)}V{_n(_TALL)}z"
        for n, level in enumerate(levels)
        if level > 0
    ]
    return f'<path class="s0" d="{"".join(steps)}"/>'


def _axis(times: Times) -> str:
    step = next((s for s in _STEPS if times.seconds / s <= 5), times.seconds / 5)
    marks, at = [], 0.0
    while at <= times.seconds * 1.0001:
        x, last = at / times.seconds * 100, at + step / 2 > times.seconds
        anchor = "end" if last and x > 90 else "start"
        marks.append(
            f'<line class="tick" x1="{_n(x)}%" x2="{_n(x)}%" y1="0" y2="5"/>'
            f'<text x="{_n(x)}%" y="17" text-anchor="{anchor}">{_clock(at)}</text>'
        )
        at += step
    gaps = [
        f'<line class="gap" x1="{_n(x / times.seconds * 100)}%" x2="{_n(x / times.seconds * 100)}%"'
        ' y1="-6" y2="20"/>'
        for x in times.breaks
    ]
    return (
        '<svg role="img" height="20"><title>Seconds of work since the start</title>'
        + "".join(marks + gaps)
        + "</svg>"
    )


def _clock(seconds: float) -> str:
    if seconds and seconds < 9.95:
        return f"{seconds:g}s"
    return duration(seconds) if seconds else "0"


def _n(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")
