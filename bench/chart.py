"""Accuracy against cost as one SVG file that needs nothing else, for light and dark pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, floor
from typing import NamedTuple
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 300, 300  # of the area of one plot
LEFT, TOP, RIGHT, BELOW = 52, 70, 18, 88
_STYLE = """\
text{font:12px ui-sans-serif,system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;fill:#1f2328}
.title{font-weight:bold;font-size:14px}.faint{fill:#59636e}.page{fill:#ffffff}
.axis{stroke:#57606a}.grid{stroke:#d8dee4}.aim{fill:#dafbe1}.end{text-anchor:end}.mid{text-anchor:middle}
.mixing,.router,.tried{fill:none;stroke-width:2}.mixing{stroke:#8c959f;stroke-dasharray:5 4}
.router{stroke:#0969da}.tried{stroke:#bc4c00;stroke-width:1.2}
.one{fill:#1f2328}.chosen{fill:#bc4c00}.routed{fill:#0969da}.oracle{fill:#8250df}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.faint{fill:#9198a1}.page{fill:#0d1117}
.axis{stroke:#8b949e}.grid{stroke:#2b323b}.aim{fill:#0f2d1a}.mixing{stroke:#8b949e}
.router{stroke:#58a6ff}.tried{stroke:#f0883e}
.one{fill:#e6edf3}.chosen{fill:#f0883e}.routed{fill:#58a6ff}.oracle{fill:#bc8cff}}"""


class Point(NamedTuple):
    """Shares, from 0 to 1: of the strong member's cost, and of the questions answered right."""

    cost: float
    accuracy: float


class Mark(NamedTuple):
    look: str
    at: Point
    label: str = ""
    left: bool = False  # the label stands to the left and above, else to the right and below


class Plot(NamedTuple):
    """`aim`: cheap and accurate enough is what lies left of and above this point."""

    title: str
    note: str
    aim: Point
    lines: Sequence[tuple[str, Sequence[Point]]]
    rings: Sequence[Point]
    marks: Sequence[Mark]

    @property
    def low(self) -> float:
        return floor(min(point.accuracy for point in self._points()) * 20) / 20

    @property
    def high(self) -> float:
        return ceil(max(point.accuracy for point in self._points()) * 20) / 20

    def _points(self) -> Iterator[Point]:
        for _, points in self.lines:
            yield from points
        yield from self.rings
        yield from (mark.at for mark in self.marks)

    def x(self, share: float) -> float:
        return LEFT + share * WIDTH

    def y(self, accuracy: float) -> float:
        return TOP + (self.high - accuracy) / (self.high - self.low) * HEIGHT


def drawn(title: str, plots: Sequence[Plot], legend: Sequence[tuple[str, str]]) -> str:
    """The plots side by side. `legend`: a look and what it stands for."""
    step = LEFT + WIDTH + RIGHT
    width, height = step * len(plots) + 10, TOP + HEIGHT + BELOW
    moved = (f'<g transform="translate({n * step} 0)">' for n in range(len(plots)))
    parts = [line for plot, open in zip(plots, moved, strict=True)
             for line in (open, *_plot(plot), "</g>")]  # fmt: skip
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="page" width="{width}" height="{height}"/>',
        f'<text class="title" x="16" y="24">{escape(title)}</text>',
        *parts, *_legend(legend, height - 18),
        "</svg>\n",
    ])  # fmt: skip


def _plot(plot: Plot) -> Iterator[str]:
    """From back to front: what is aimed at, the grid, the lines, the marks."""
    aim = plot.y(plot.aim.accuracy) - TOP
    yield f'<rect class="aim" x="{LEFT}" y="{TOP}" width="{plot.aim.cost * WIDTH:.1f}" height="{aim:.1f}"/>'
    yield from _grid(plot)
    yield f'<text class="title" x="{LEFT}" y="{TOP - 24}">{escape(plot.title)}</text>'
    yield f'<text class="faint" x="{LEFT}" y="{TOP - 9}">{escape(plot.note)}</text>'
    for look, points in plot.lines:
        path = " ".join(f"{plot.x(one.cost):.1f},{plot.y(one.accuracy):.1f}" for one in points)
        yield f'<polyline class="{look}" points="{path}"/>'
    for one in plot.rings:
        yield f'<circle class="tried" cx="{plot.x(one.cost):.1f}" cy="{plot.y(one.accuracy):.1f}" r="3"/>'
    for mark in plot.marks:
        yield from _mark(plot, mark)


def _grid(plot: Plot) -> Iterator[str]:
    bottom, right = TOP + HEIGHT, LEFT + WIDTH
    for n in range(round((plot.high - plot.low) * 20) + 1):
        accuracy = plot.low + n / 20
        y = plot.y(accuracy)
        yield f'<path class="grid" d="M{LEFT} {y:.1f}H{right}"/>'
        yield f'<text class="faint end" x="{LEFT - 6}" y="{y + 4:.1f}">{accuracy:.0%}</text>'
    for quarter in range(5):
        x = plot.x(quarter / 4)
        yield f'<path class="grid" d="M{x:.1f} {TOP}V{bottom}"/>'
        yield f'<text class="faint mid" x="{x:.1f}" y="{bottom + 17}">{quarter / 4:.0%}</text>'
    yield f'<path class="axis" fill="none" d="M{LEFT} {TOP}V{bottom}H{right}"/>'
    said = "cost, as a share of always asking the strong member"
    yield f'<text class="faint mid" x="{plot.x(0.5):.1f}" y="{bottom + 36}">{said}</text>'


def _mark(plot: Plot, mark: Mark) -> Iterator[str]:
    x, y = plot.x(mark.at.cost), plot.y(mark.at.accuracy)
    yield f'<circle class="{mark.look}" cx="{x:.1f}" cy="{y:.1f}" r="5"/>'
    if not mark.label:
        return
    x, y, side = (x - 9, y - 9, "end") if mark.left else (x + 9, y + 15, "")
    yield f'<text class="{side}" x="{x:.1f}" y="{y:.1f}">{escape(mark.label)}</text>'


def _legend(legend: Sequence[tuple[str, str]], y: int) -> Iterator[str]:
    x = LEFT
    for look, said in legend:
        if look in ("mixing", "router"):
            yield f'<path class="{look}" d="M{x} {y - 4}h22"/>'
        elif look == "aim":
            yield f'<rect class="aim axis" x="{x + 4}" y="{y - 11}" width="14" height="14"/>'
        else:
            yield f'<circle class="{look}" cx="{x + 11}" cy="{y - 4}" r="{3 if look == "tried" else 5}"/>'
        yield f'<text x="{x + 28}" y="{y}">{escape(said)}</text>'
        x += 48 + round(6.2 * len(said))
