"""Where the boxes of a picture stand and how its arrows run, in pixels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec

from fanfold.observe.table import cells_wide
from fanfold.observe.wrapped import wrapped
from fanfold.work.picture import Arrow, ArrowKind, Box, Picture, Ranks, Slot, levels, ranked, way

CELL = 8.0
"""A letter at 13 pixels is at most so wide in any usual font of fixed width."""
LINE = 18.0
PAD = 10.0
GAP = 22.0
_BETWEEN = 44.0
_LEAST = 28.0
_TRUNK = 12.0
_SIDE = 18.0
_MOST_CELLS = 44
_SWEEPS = 8

Point = tuple[float, float]


class Spot(msgspec.Struct, frozen=True):
    """A box with its place, its title and text in lines that fit, how deep it stands in others."""

    box: Box
    title: tuple[str, ...]
    text: tuple[str, ...]
    x: float
    y: float
    width: float
    height: float
    depth: int = 0

    def moved(self, x: float, y: float, deeper: int = 0) -> Spot:
        return msgspec.structs.replace(self, x=self.x + x, y=self.y + y, depth=self.depth + deeper)


class Route(msgspec.Struct, frozen=True):
    """An arrow's corners. Between the rows it may bend; `label` stands at the right of its middle."""

    kind: ArrowKind
    points: tuple[Point, ...]
    label: str = ""

    def moved(self, x: float, y: float) -> Route:
        points = tuple((a + x, b + y) for a, b in self.points)
        return msgspec.structs.replace(self, points=points)


class Arranged(msgspec.Struct, frozen=True):
    """Frames come before what stands in them."""

    width: float
    height: float
    spots: tuple[Spot, ...] = ()
    routes: tuple[Route, ...] = ()


def arrange(picture: Picture) -> Arranged:
    """Rows from the top down. No two boxes overlap unless one is inside the other, and no arrow
    that goes down runs behind a box."""
    inner = {box.id: _measured(box) for box in picture.boxes}
    ranks = ranked(picture)
    wide = {slot: _TRUNK for row in ranks.rows for slot in row}
    level = levels(picture.parents())
    wide |= {Slot(level[id], id): one.width for id, one in inner.items()}
    middles, tops = _middles(ranks, wide), _tops(ranks, level, inner)
    spots, places = [], {}
    for id, one in inner.items():
        x, y = middles[Slot(level[id], id)] - one.width / 2, tops[level[id]]
        places[id] = one.spots[0].moved(x, y)
        spots += [spot.moved(x, y) for spot in one.spots]
    nested = [
        route.moved(places[id].x, places[id].y) for id, one in inner.items() for route in one.routes
    ]
    width = max((spot.x + spot.width for spot in places.values()), default=0.0)
    width = max([width, *(middles[slot] + _TRUNK / 2 for slot in middles)])
    down = [_down(arrow, level, middles, tops, places) for arrow in picture.forward]
    back = [arrow for arrow in picture.arrows if arrow.kind == "back"]
    sides = [_back(arrow, places, width + _SIDE * (n + 1)) for n, arrow in enumerate(back)]
    if sides:
        longest = max(cells_wide(route.label) for route in sides)
        width += _SIDE * (len(sides) + 1) + longest * CELL
    height = max((spot.y + spot.height for spot in places.values()), default=0.0)
    return Arranged(width, height, tuple(spots), (*nested, *down, *sides))


def _measured(box: Box) -> Arranged:
    """A box by itself, at 0, 0: its own spot first, then what is inside."""
    inside = Arranged(0, 0) if box.inside is None else arrange(box.inside)
    cells = max(_MOST_CELLS, int(inside.width // CELL))
    title = tuple(wrapped(box.title, cells))
    text = tuple(line for one in box.lines for line in wrapped(one, cells))
    head = (len(title) + len(text)) * LINE + 2 * PAD
    wide = max(map(cells_wide, (*title, *text))) * CELL
    width = max(wide, inside.width, _LEAST - 2 * PAD) + 2 * PAD
    height = head + inside.height + (PAD if inside.height else 0)
    left = (width - inside.width) / 2
    own = Spot(box, title, text, 0, 0, width, height)
    below = (spot.moved(left, head, 1) for spot in inside.spots)
    routes = tuple(route.moved(left, head) for route in inside.routes)
    return Arranged(width, height, (own, *below), routes)


def _tops(ranks: Ranks, level: Mapping[str, int], inner: Mapping[str, Arranged]) -> list[float]:
    """Where each row begins, and at last where the next one would."""
    high = [0.0] * len(ranks.rows)
    for id, one in inner.items():
        high[level[id]] = max(high[level[id]], one.height)
    tops = [0.0]
    for height in high:
        tops.append(tops[-1] + height + _BETWEEN)
    return tops


# ── across ───────────────────────────────────────────────────────────────────────────────────


def _middles(ranks: Ranks, wide: Mapping[Slot, float]) -> dict[Slot, float]:
    """The middle of each slot: near those it is joined to, in the order of its row, apart."""
    joined: dict[Slot, list[Slot]] = {slot: [] for slot in wide}
    for upper, lower in ranks.links:
        joined[upper].append(lower)
        joined[lower].append(upper)
    found: dict[Slot, float] = {}
    for row in ranks.rows:
        _settle(row, wide, dict.fromkeys(row, 0.0), found)
    for sweep in range(_SWEEPS):
        for row in ranks.rows if sweep % 2 == 0 else reversed(ranks.rows):
            wish = {
                slot: sum(found[other] for other in joined[slot]) / len(joined[slot])
                if joined[slot]
                else found[slot]
                for slot in row
            }
            _settle(row, wide, wish, found)
    left = min((found[slot] - wide[slot] / 2 for slot in found), default=0.0)
    return {slot: middle - left for slot, middle in found.items()}


def _settle(
    row: Sequence[Slot],
    wide: Mapping[Slot, float],
    wish: Mapping[Slot, float],
    found: dict[Slot, float],
) -> None:
    """As near to the wishes as the widths allow: those in each other's way share their middle."""
    offsets = [0.0]
    for left, right in pairwise(row):
        offsets.append(offsets[-1] + (wide[left] + wide[right]) / 2 + GAP)
    pools: list[tuple[float, int]] = []
    for slot, offset in zip(row, offsets, strict=True):
        pools.append((wish[slot] - offset, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (a, m), (b, n) = pools[-2:]
            pools[-2:] = [((a * m + b * n) / (m + n), m + n)]
    starts = [start for start, many in pools for _ in range(many)]
    for slot, offset, start in zip(row, offsets, starts, strict=True):
        found[slot] = start + offset


# ── arrows ───────────────────────────────────────────────────────────────────────────────────


def _down(
    arrow: Arrow,
    level: Mapping[str, int],
    middles: Mapping[Slot, float],
    tops: Sequence[float],
    places: Mapping[str, Spot],
) -> Route:
    """From the bottom of one box through the slots of the rows between to the top of the other."""
    start, end = places[arrow.start], places[arrow.end]
    slots = way(level, arrow.start, arrow.end)
    points: list[Point] = [(middles[slots[0]], start.y + start.height)]
    points.append((middles[slots[0]], tops[level[arrow.start] + 1] - _BETWEEN))
    for slot in slots[1:-1]:
        points += [(middles[slot], tops[slot.row]), (middles[slot], tops[slot.row + 1] - _BETWEEN)]
    points.append((middles[slots[-1]], end.y))
    return Route(arrow.kind, tuple(points), arrow.label)


def _back(arrow: Arrow, places: Mapping[str, Spot], x: float) -> Route:
    start, end = places[arrow.start], places[arrow.end]
    low, high = start.y + start.height / 2, end.y + end.height / 2
    corners = ((start.x + start.width, low), (x, low), (x, high), (end.x + end.width, high))
    return Route(arrow.kind, corners, arrow.label)
