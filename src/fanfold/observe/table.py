"""Text for terminals: one clean line out of anything, wrapped lines, and aligned columns that fit a
width."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from unicodedata import combining, east_asian_width

import msgspec

GAP = "  "


class Column(msgspec.Struct, frozen=True):
    """`rank` 0 always stays; of the others those with the highest rank are left out first.

    `least` is how far a column of long texts may be cut; 0 means that it is never cut. `names`: they
    are cut in the middle, so that those that begin alike stay apart.
    """

    title: str
    cells: Sequence[str]
    right: bool = False
    rank: int = 0
    least: int = 0
    names: bool = False

    @property
    def width(self) -> int:
        return max(map(cells_wide, (self.title, *self.cells)))


def one_line(text: str, most: int = 200) -> str:
    """White space as single blanks, nothing that could steer a terminal, and not too long."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else " " for c in text)
    return cut(" ".join(text.split()), most)


def cut(text: str, most: int) -> str:
    """At most so many columns wide, with `…` where something is missing."""
    if cells_wide(text) <= most:
        return text
    room = most - 1
    for n, char in enumerate(text):
        room -= _wide(char)
        if room < 0:
            return text[:n].rstrip() + "…"
    return text


def cut_name(text: str, most: int) -> str:
    """The same, with its middle left out: names that begin alike often end differently."""
    if cells_wide(text) <= most:
        return text
    head = cut(text, (most + 2) // 2)
    return head + cut(text[::-1], most + 1 - cells_wide(head))[-2::-1]


def cells_wide(text: str) -> int:
    """Columns of a terminal that a text takes; East Asian characters take two."""
    return len(text) if text.isascii() else sum(map(_wide, text))


@lru_cache(1024)
def _wide(char: str) -> int:
    if combining(char):
        return 0
    return 2 if east_asian_width(char) in "WF" else 1


def aligned(columns: Sequence[Column], width: int, indent: str = "") -> list[str]:
    """Lines of a table. What does not fit the width loses columns, then has its texts cut."""
    room = width - len(indent)
    shown = _fitting(list(columns), room)
    widths = _shrunk(shown, room)
    rows = [[c.title for c in shown], *map(list, zip(*(c.cells for c in shown), strict=True))]
    return [indent + _joined(shown, widths, row) for row in rows]


def _fitting(columns: list[Column], room: int) -> list[Column]:
    while _least_wide(columns) > room and any(c.rank for c in columns):
        last = max(columns, key=lambda c: c.rank)
        columns = [c for c in columns if c is not last]
    return columns


def _least_wide(columns: list[Column]) -> int:
    least = (min(c.width, c.least or c.width) for c in columns)
    return sum(least) + len(GAP) * (len(columns) - 1)


def _shrunk(columns: list[Column], room: int) -> list[int]:
    widths = [c.width for c in columns]
    over = sum(widths) + len(GAP) * (len(columns) - 1) - room
    while over > 0:
        spare = [n for n, c in enumerate(columns) if c.least and widths[n] > c.least]
        if not spare:
            break
        widths[max(spare, key=lambda n: widths[n])] -= 1
        over -= 1
    return widths


def _joined(columns: list[Column], widths: list[int], row: list[str]) -> str:
    cells = []
    for column, width, text in zip(columns, widths, row, strict=True):
        text = cut_name(text, width) if column.names else cut(text, width)
        blank = " " * (width - cells_wide(text))
        cells.append(blank + text if column.right else text + blank)
    return GAP.join(cells).rstrip()


_MOST_LINES = 6


def wrapped(text: str, most: int, lines: int = _MOST_LINES) -> list[str]:
    """The text in lines at most so many columns wide, and at most so many lines.

    It breaks between words, inside one only where it is too long by itself. `…` ends what is cut.
    """
    words = [piece for word in one_line(text, 10_000).split() for piece in _pieces(word, most)]
    found: list[str] = []
    for word in words:
        if found and cells_wide(found[-1]) + 1 + cells_wide(word) <= most:
            found[-1] += f" {word}"
        else:
            found.append(word)
    if len(found) > lines:
        found[lines - 1 :] = [cut(" ".join(found[lines - 1 :]), most)]
    return found or [""]


def _pieces(word: str, most: int) -> list[str]:
    found, wide = [""], 0
    for char in word:
        needs = cells_wide(char)
        if wide + needs > most and found[-1]:
            found.append("")
            wide = 0
        found[-1] += char
        wide += needs
    return found
