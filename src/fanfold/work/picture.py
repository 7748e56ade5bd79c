"""A picture of work: boxes and arrows as records, and the row and order of the boxes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Literal

import msgspec

from fanfold.work import dag

Look = Literal["input", "ask", "gate", "fold", "file", "more"]
"""What a box shows; `more` replaces those that are not shown."""

ArrowKind = Literal["flow", "reads", "back"]
"""`flow`: what comes after what; `reads`: a later one looks at an earlier; `back`: kicked back."""


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
        """The arrows that decide the rows: all but those that go back."""
        return tuple(arrow for arrow in self.arrows if arrow.kind != "back")

    def parents(self) -> dict[str, list[str]]:
        """For each box those that lead to it, in the order of the arrows."""
        found: dict[str, list[str]] = {box.id: [] for box in self.boxes}
        for arrow in self.forward:
            if arrow.start not in found[arrow.end]:
                found[arrow.end].append(arrow.start)
        return found


# ── rows ─────────────────────────────────────────────────────────────────────────────────────


class _PlacedBox(msgspec.Struct, frozen=True):
    id: str
    depends_on: tuple[str, ...]
    weight: float = 1.0


def levels(parents: Mapping[str, Iterable[str]]) -> dict[str, int]:
    """How many steps the longest path to each has; 0 for those with no parent.

    BadInput with `CYCLE:a,b` when some lead to one another.
    """
    placed = [_PlacedBox(id, tuple(above)) for id, above in parents.items()]
    dag.check(placed)
    return dag.layers(placed)


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
