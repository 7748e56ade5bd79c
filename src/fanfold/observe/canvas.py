"""A sheet of terminal cells: texts, blocks, and lines that join where they meet."""

from __future__ import annotations

from collections.abc import Sequence

from fanfold.observe.table import cells_wide

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
    """Cells by row and column. A wide letter fills two; a line is a set of directions per cell."""

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
