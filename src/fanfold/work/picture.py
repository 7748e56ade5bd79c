"""A picture of work as records, boxes and arrows, and in which row and order the boxes stand."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from typing import Literal, TypeAlias

import msgspec

from fanfold.work import dag

Look = Literal["input", "ask", "gate", "fold", "file", "more"]
"""What a box stands for; `more` is the one in place of those that are not shown."""

ArrowKind = Literal["flow", "reads", "back"]
"""`flow`: what comes after what; `reads`: a later one looks at an earlier; `back`: kicked back."""

_SWEEPS = 6


class Arrow(msgspec.Struct, frozen=True):
    """From one box to another of the same picture, both by id."""

    start: str
    end: str
    label: str = ""
    kind: ArrowKind = "flow"


class Box(msgspec.Struct, frozen=True):
    """`title` and `lines` are any text. `inside` makes a frame of it, with a picture of its own."""

    id: str
    title: str
    lines: tuple[str, ...] = ()
    look: Look = "ask"
    inside: Picture | None = None


class Picture(msgspec.Struct, frozen=True):
    """Boxes with ids of their own, in the order in which they were stated, and arrows."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...] = ()
    title: str = ""

    @property
    def forward(self) -> tuple[Arrow, ...]:
        """The arrows that say who stands below whom: all but those that go back."""
        return tuple(arrow for arrow in self.arrows if arrow.kind != "back")

    def parents(self) -> dict[str, list[str]]:
        """For each box those that lead to it, in the order of the arrows."""
        found: dict[str, list[str]] = {box.id: [] for box in self.boxes}
        for arrow in self.forward:
            if arrow.start not in found[arrow.end]:
                found[arrow.end].append(arrow.start)
        return found


# ── rows ─────────────────────────────────────────────────────────────────────────────────────


class _Standing(msgspec.Struct, frozen=True):
    id: str
    depends_on: tuple[str, ...]
    weight: float = 1.0


def levels(parents: Mapping[str, Iterable[str]]) -> dict[str, int]:
    """How many steps the longest path to each has; 0 for those with no parent.

    BadInput with `CYCLE:a,b` when some lead to one another.
    """
    standing = [_Standing(id, tuple(above)) for id, above in parents.items()]
    dag.check(standing)
    return dag.layers(standing)


def layers(picture: Picture) -> list[list[str]]:
    """The ids in rows, each below all that lead to it and as high as it can be."""
    level = levels(picture.parents())
    rows: list[list[str]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
    for box in picture.boxes:
        rows[level[box.id]].append(box.id)
    return rows


def in_order(picture: Picture) -> list[str]:
    """The ids one after the other, none before those that lead to it, else as they were stated."""
    parents = picture.parents()
    levels(parents)  # refuses a cycle
    children = _children(parents)
    rank = {box.id: n for n, box in enumerate(picture.boxes)}
    waiting = {id: len(above) for id, above in parents.items()}
    ready = [rank[id] for id, many in waiting.items() if not many]
    found: list[str] = []
    while ready:
        id = picture.boxes[heappop(ready)].id
        found.append(id)
        for child in children[id]:
            waiting[child] -= 1
            if not waiting[child]:
                heappush(ready, rank[child])
    return found


def _children(parents: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {id: [] for id in parents}
    for id, above in parents.items():
        for parent in above:
            found[parent].append(id)
    return found


# ── the order in a row ───────────────────────────────────────────────────────────────────────


class Slot(msgspec.Struct, frozen=True, order=True):
    """A place in a row: of the box itself, or for its arrows to pass through a lower row."""

    row: int
    id: str


Links: TypeAlias = tuple[tuple[Slot, Slot], ...]


class Ranks(msgspec.Struct, frozen=True):
    """Rows of slots, and which slot is joined to which in the next row.

    A long arrow has a slot in every row it passes, so it never runs behind a box. Long arrows of
    one box share their slots.
    """

    rows: tuple[tuple[Slot, ...], ...]
    links: Links

    def crossings(self) -> int:
        place = _places(self.rows)
        return sum(_crossings(pairs) for pairs in _pairs(self.links, place, len(self.rows)))


def way(level: Mapping[str, int], start: str, end: str) -> list[Slot]:
    """The slots of an arrow, from the one of its start to the one of its end."""
    return [*(Slot(row, start) for row in range(level[start], level[end])), Slot(level[end], end)]


def ranked(picture: Picture) -> Ranks:
    """Rows in an order with few crossings; what crosses nothing stays as it was stated."""
    parents = picture.parents()
    level = levels(parents)
    ways = [way(level, parent, id) for id, above in parents.items() for parent in above]
    links = tuple(sorted({pair for slots in ways for pair in pairwise(slots)}))
    rank = {box.id: n for n, box in enumerate(picture.boxes)}
    slots = {Slot(level[id], id) for id in level} | {slot for slots in ways for slot in slots}
    rows: list[list[Slot]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
    for slot in sorted(slots, key=lambda slot: (level[slot.id] < slot.row, rank[slot.id])):
        rows[slot.row].append(slot)
    return _untangled(Ranks(tuple(map(tuple, rows)), links))


def _untangled(ranks: Ranks) -> Ranks:
    """Each slot goes near the middle of those it is joined to, down and up; the best is kept."""
    best, least = ranks, ranks.crossings()
    rows = [list(row) for row in ranks.rows]
    for sweep in range(_SWEEPS):
        if not least:
            break
        downward = sweep % 2 == 0
        _sweep(rows, ranks.links, downward)
        tried = Ranks(tuple(map(tuple, rows)), ranks.links)
        if (many := tried.crossings()) < least:
            best, least = tried, many
    return best


def _sweep(rows: list[list[Slot]], links: Links, downward: bool) -> None:
    joined: dict[Slot, list[Slot]] = {}
    for upper, lower in links:
        here, there = (lower, upper) if downward else (upper, lower)
        joined.setdefault(here, []).append(there)
    for n in range(len(rows)) if downward else reversed(range(len(rows))):
        place = _places(rows)
        middle = {
            slot: sum(place[other] for other in joined[slot]) / len(joined[slot])
            if slot in joined
            else float(place[slot])
            for slot in rows[n]
        }
        rows[n].sort(key=lambda slot: middle[slot])


def _places(rows: Iterable[Sequence[Slot]]) -> dict[Slot, int]:
    return {slot: n for row in rows for n, slot in enumerate(row)}


def _pairs(links: Links, place: Mapping[Slot, int], rows: int) -> list[list[tuple[int, int]]]:
    found: list[list[tuple[int, int]]] = [[] for _ in range(rows)]
    for upper, lower in links:
        found[upper.row].append((place[upper], place[lower]))
    return found


def _crossings(pairs: list[tuple[int, int]]) -> int:
    """Two lines cross when one begins left of the other and ends right of it."""
    seen: list[int] = []
    many = 0
    for _, end in sorted(pairs):
        many += len(seen) - bisect_right(seen, end)
        insort(seen, end)
    return many
