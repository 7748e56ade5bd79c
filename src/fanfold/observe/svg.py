"""A picture as SVG: one file that needs nothing else, for light and dark pages."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from xml.sax.saxutils import escape

from fanfold.observe.arrange import CELL, LINE, PAD, Arranged, Route, Spot, arrange
from fanfold.observe.table import cells_wide, one_line
from fanfold.work.picture import Picture

_MARGIN = 20.0
_BASELINE = 13.0
_HEAD = 5.0
"""So much before its end a line stops, for the head of the arrow."""

_STYLE = """\
text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#1f2328}
.name{font-weight:bold}
.page{fill:#ffffff}.box{fill:#f6f8fa;stroke:#57606a}.frame{fill:#ffffff;stroke:#8c959f}
.deep{fill:#f6f8fa}.input{fill:#ddf4ff;stroke:#0969da}.gate{fill:#fff8c5;stroke:#9a6700}
.fold{fill:#dafbe1;stroke:#1a7f37}.file{fill:#fbefff;stroke:#8250df}.more{stroke-dasharray:3 3}
.flow,.reads,.back{fill:none;stroke:#57606a;stroke-width:1.2}.reads,.back{stroke-dasharray:5 4}
.head{fill:#57606a}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}
.page{fill:#0d1117}.box{fill:#21262d;stroke:#8b949e}.frame{fill:#0d1117;stroke:#6e7681}
.deep{fill:#161b22}.input{fill:#0c2d6b;stroke:#58a6ff}.gate{fill:#4b2900;stroke:#d29922}
.fold{fill:#04260f;stroke:#3fb950}.file{fill:#271052;stroke:#bc8cff}
.flow,.reads,.back{stroke:#8b949e}.head{fill:#8b949e}}"""


def svg(picture: Picture) -> str:
    """The picture as a document of its own; its words are in `title` and `desc` for readers."""
    arranged, title = arrange(picture), one_line(picture.title) or "plan"
    top = _MARGIN + 2 * LINE
    width = max(arranged.width, cells_wide(title) * CELL) + 2 * _MARGIN
    height = top + arranged.height + _MARGIN
    told = "; ".join(one_line(box.title) for box in picture.boxes)
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_n(width)} {_n(height)}"'
        f' width="{_n(width)}" height="{_n(height)}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<desc>{escape(told)}</desc>",
        f"<style>{_STYLE}</style>",
        '<defs><marker id="to" viewBox="0 0 8 8" refX="3" refY="4" markerWidth="8" markerHeight="8"'
        ' orient="auto"><path class="head" d="M0 0L8 4L0 8z"/></marker></defs>',
        f'<rect class="page" width="{_n(width)}" height="{_n(height)}"/>',
        f'<text class="name" x="{_n(_MARGIN)}" y="{_n(_MARGIN + _BASELINE)}">{escape(title)}</text>',
        *_drawn(arranged, (width - arranged.width) / 2, top),
        "</svg>",
    ])  # fmt: skip


def _drawn(arranged: Arranged, x: float, y: float) -> Iterator[str]:
    """Frames and boxes first, then the arrows between them."""
    for spot in arranged.spots:
        yield from _box(spot.moved(x, y))
    for route in arranged.routes:
        yield from _arrow(route.moved(x, y))


def _box(spot: Spot) -> Iterator[str]:
    look = spot.box.look
    plain = "box" if spot.box.inside is None else "frame deep" if spot.depth % 2 else "frame"
    styles = f"{plain} {look}" if spot.box.inside is None and look != "ask" else plain
    yield (
        f'<rect class="{styles}" x="{_n(spot.x)}" y="{_n(spot.y)}" width="{_n(spot.width)}"'
        f' height="{_n(spot.height)}" rx="{16 if look == "gate" else 5}"/>'
    )
    for n, line in enumerate((*spot.title, *spot.text)):
        style = ' class="name"' if n < len(spot.title) else ""
        place = f'x="{_n(spot.x + PAD)}" y="{_n(spot.y + PAD + n * LINE + _BASELINE)}"'
        yield f"<text{style} {place}>{escape(line)}</text>"


def _arrow(route: Route) -> Iterator[str]:
    yield f'<path class="{route.kind}" d="{_path(route)}" marker-end="url(#to)"/>'
    if route.label:
        (x, low), (_, high) = route.points[1], route.points[2]
        place = f'x="{_n(x + 6)}" y="{_n((low + high) / 2 + 4)}"'
        yield f"<text {place}>{escape(one_line(route.label))}</text>"


def _path(route: Route) -> str:
    """Straight where it goes straight down or round a corner at the side, else a soft bend."""
    points = list(route.points)
    x, y = points[-1]
    points[-1] = (x + _HEAD, y) if route.kind == "back" else (x, y - _HEAD)
    parts = [f"M{_n(points[0][0])} {_n(points[0][1])}"]
    for (a, b), (c, d) in pairwise(points):
        if route.kind == "back" or a == c:
            parts.append(f"L{_n(c)} {_n(d)}")
        else:
            half = _n((b + d) / 2)
            parts.append(f"C{_n(a)} {half} {_n(c)} {half} {_n(c)} {_n(d)}")
    return "".join(parts)


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
