"""Drawing in terminal cells: a sheet of texts and lines that join where they meet, and lists with lanes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fanfold.observe.table import cells_wide, one_line, wrapped
from fanfold.work.picture import Box, Picture, in_order, levels

UP, DOWN, LEFT, RIGHT = 1, 2, 4, 8
_SIGNS = " │││─┘┐┤─└┌├─┴┬┼"
"""By the sum of the directions in which a line leaves the cell."""


def sign(directions: int) -> str:
    return _SIGNS[directions]


def framed(lines: Sequence[str]) -> list[str]:
    """The lines in a frame, all of one width."""
    wide = max(map(cells_wide, lines))
    body = [f"│ {line}{' ' * (wide - cells_wide(line))} │" for line in lines]
    return [f"┌{'─' * (wide + 2)}┐", *body, f"└{'─' * (wide + 2)}┘"]


def width_of(block: Sequence[str]) -> int:
    return max(map(cells_wide, block), default=0)


class Canvas:
    """Cells by row and column. A wide character fills two; a line is a set of directions per cell."""

    def __init__(self) -> None:
        self._cells: dict[tuple[int, int], str] = {}
        self._lines: dict[tuple[int, int], int] = {}

    def text(self, row: int, column: int, text: str) -> None:
        for char in text:
            wide = cells_wide(char)
            if wide:
                self._cells[row, column] = char
            else:
                self._cells[row, column - 1] = self._cells.get((row, column - 1), " ") + char
            if wide > 1:
                self._cells[row, column + 1] = ""
            column += wide

    def block(self, row: int, column: int, lines: Sequence[str]) -> None:
        for n, line in enumerate(lines):
            self.text(row + n, column, line)

    def across(self, row: int, left: int, right: int) -> None:
        """A line from the middle of one cell to the middle of another."""
        for column in range(left, right):
            self._join(row, column, RIGHT)
            self._join(row, column + 1, LEFT)

    def down(self, column: int, top: int, bottom: int) -> None:
        for row in range(top, bottom):
            self._join(row, column, DOWN)
            self._join(row + 1, column, UP)

    def _join(self, row: int, column: int, direction: int) -> None:
        self._lines[row, column] = self._lines.get((row, column), 0) | direction

    def lines(self) -> list[str]:
        """All rows; a text covers a line."""
        drawn = {place: sign(directions) for place, directions in self._lines.items()}
        drawn |= self._cells
        if not drawn:
            return []
        height = max(row for row, _ in drawn) + 1
        width = max(column for _, column in drawn) + 1
        return [
            "".join(drawn.get((row, column), " ") for column in range(width)).rstrip()
            for row in range(height)
        ]


_MARK = "●"
_MOST_LANES = 20
_LEAST_TEXT = 24
_MOST_INDENT = 12
_MOST_TITLE = 80


class _Line(msgspec.Struct, frozen=True):
    """A box with the lanes at its left, and below that when its text takes more lines."""

    box: Box
    left: str
    below: str


def listed(picture: Picture, width: int) -> list[str]:
    """The boxes one below the other, each after those that lead to it, with lanes if they fit."""
    lines = _Lanes(picture).lines()
    wide = max((len(line.left) for line in lines), default=0)
    if wide > 2 * _MOST_LANES or width - wide - 2 < _LEAST_TEXT:
        # For so many lanes that they would say nothing: the deeper in the graph, the further in
        level = levels(picture.parents())
        boxes = {box.id: box for box in picture.boxes}
        deep = {id: " " * min(_MOST_INDENT, 2 * level[id]) for id in boxes}
        lines = [_Line(boxes[id], f"{deep[id]}{_MARK}", "") for id in in_order(picture)]
        wide = max(len(line.left) for line in lines)
    titles = {box.id: one_line(box.title, _MOST_TITLE) for box in picture.boxes}
    parents = picture.parents()
    found: list[str] = []
    for line in lines:
        above = [titles[id] for id in parents[line.box.id]]
        for n, text in enumerate(
            wrapped(_description(picture, line.box, above), width - wide - 2, 100)
        ):
            found.append(f"{line.below if n else line.left:{wide}}  {text}")
    return found


def _description(picture: Picture, box: Box, above: list[str]) -> str:
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
        cells = []
        for lane, holder in enumerate(self._lanes):
            inside = low <= lane <= high
            if lane == own:
                cells.append(_MARK)
            elif holder in above:
                downward = DOWN if self._waiting[str(holder)] else 0
                sides = (LEFT if lane > low else 0) | (RIGHT if lane < high else 0)
                cells.append(sign(UP | downward | sides))
            else:
                cells.append("│" if holder is not None else "─" if inside else " ")
            cells.append("─" if low <= lane < high else " ")
        return "".join(cells).rstrip()
