"""A picture as lines of text: a box per line, and at the left a lane for each that others wait for.

It can show any arrows: `├─●` comes from that lane, and `─│─` passes it.
"""

from __future__ import annotations

import msgspec

from fanfold.observe.canvas import DOWN, LEFT, RIGHT, UP, sign
from fanfold.observe.table import one_line
from fanfold.observe.wrapped import wrapped
from fanfold.work.picture import Box, Picture, in_order, levels

_MARK = "●"
_MOST_LANES = 20
_LEAST_TEXT = 24
_MOST_INDENT = 12
_MOST_TITLE = 80


class _Line(msgspec.Struct, frozen=True):
    """A box with what stands at the left of it, and below that when its text takes more lines."""

    box: Box
    left: str
    below: str


def listed(picture: Picture, width: int) -> list[str]:
    """The boxes one below the other, each after those that lead to it, with lanes if they fit."""
    lines = _Lanes(picture).lines()
    wide = max((len(line.left) for line in lines), default=0)
    if wide > 2 * _MOST_LANES or width - wide - 2 < _LEAST_TEXT:
        lines = _indented(picture)
        wide = max(len(line.left) for line in lines)
    titles = {box.id: one_line(box.title, _MOST_TITLE) for box in picture.boxes}
    parents = picture.parents()
    found: list[str] = []
    for line in lines:
        above = [titles[id] for id in parents[line.box.id]]
        for n, text in enumerate(wrapped(_told(picture, line.box, above), width - wide - 2, 100)):
            found.append(f"{line.below if n else line.left:{wide}}  {text}")
    return found


def _told(picture: Picture, box: Box, above: list[str]) -> str:
    """All that is known of a box, its inside too, then where it comes from and goes back to."""
    titles = {one.id: one.title for one in picture.boxes}
    backs = [arrow for arrow in picture.arrows if arrow.kind == "back" and arrow.start == box.id]
    parts = [_words(box), *(f"↩ {arrow.label} to {titles[arrow.end]}" for arrow in backs)]
    if above:
        parts.append(f"← {', '.join(above)}")
    return "  ".join(parts)


def _words(box: Box) -> str:
    words = " · ".join((box.title, *box.lines))
    if box.inside is None:
        return words
    return f"{words} [{'; '.join(map(_words, box.inside.boxes))}]"


def _indented(picture: Picture) -> list[_Line]:
    """For so many lanes that they would say nothing: the deeper in the graph, the further in."""
    level = levels(picture.parents())
    boxes = {box.id: box for box in picture.boxes}
    deep = {id: " " * min(_MOST_INDENT, 2 * level[id]) for id in boxes}
    return [_Line(boxes[id], f"{deep[id]}{_MARK}", "") for id in in_order(picture)]


class _Lanes:
    """Goes through the boxes in order; a lane is taken by a box until all its children are there."""

    def __init__(self, picture: Picture) -> None:
        self._boxes = {box.id: box for box in picture.boxes}
        self._order, self._parents = in_order(picture), picture.parents()
        self._waiting = dict.fromkeys(self._boxes, 0)
        for above in self._parents.values():
            for id in above:
                self._waiting[id] += 1
        self._lanes: list[str | None] = []
        self._ended: int | None = None

    def lines(self) -> list[_Line]:
        return [self._line(id) for id in self._order]

    def _line(self, id: str) -> _Line:
        above = self._parents[id]
        for parent in above:
            self._waiting[parent] -= 1
        own = self._own(above)
        left = self._drawn(own, above)
        for lane, holder in enumerate(self._lanes):
            if holder in above and not self._waiting[str(holder)]:
                self._lanes[lane] = None
        self._lanes[own] = id if self._waiting[id] else None
        self._ended = None if self._waiting[id] else own
        below = " ".join(" " if holder is None else "│" for holder in self._lanes)
        return _Line(self._boxes[id], left, below)

    def _own(self, above: list[str]) -> int:
        """The lane of a parent that ends here, or a free one: a mark below a mark means a line."""
        for lane, holder in enumerate(self._lanes):
            if holder in above and not self._waiting[str(holder)]:
                return lane
        for lane, holder in enumerate(self._lanes):
            if holder is None and lane != self._ended:
                return lane
        self._lanes.append(None)
        return len(self._lanes) - 1

    def _drawn(self, own: int, above: list[str]) -> str:
        ends = [lane for lane, holder in enumerate(self._lanes) if holder in above] + [own]
        low, high = min(ends), max(ends)
        signs = []
        for lane, holder in enumerate(self._lanes):
            inside = low <= lane <= high
            if lane == own:
                signs.append(_MARK)
            elif holder in above:
                goes_on = DOWN if self._waiting[str(holder)] else 0
                sides = (LEFT if lane > low else 0) | (RIGHT if lane < high else 0)
                signs.append(sign(UP | goes_on | sides))
            else:
                signs.append("│" if holder is not None else "─" if inside else " ")
            signs.append("─" if low <= lane < high else " ")
        return "".join(signs).rstrip()
