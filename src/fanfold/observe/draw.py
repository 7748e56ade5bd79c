"""A picture as text: boxes of lines for the terminal, never wider than asked, and a Mermaid flowchart for
pages that draw these."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from fanfold.observe.canvas import Canvas, framed, listed, width_of
from fanfold.observe.table import one_line, wrapped
from fanfold.work.picture import Arrow, ArrowKind, Box, Look, Picture, layers

WIDTH = 100
_GAP = 2
_FRAME = 4
_LEAST = 14
_LEAST_FRAME = 36
_CONNECTOR = 2
_MOST_LABEL = 40
_MOST_SIDE = 6
"""So many arrows are drawn at the side, those that go back first; what a box reads it says itself."""


def draw(picture: Picture, width: int = WIDTH) -> str:
    """The picture as lines of text. Rows that would be too wide become lists with lanes."""
    title = [*wrapped(picture.title, width), ""] if picture.title else []
    return "\n".join([*title, *_body(picture, width)])


def _body(picture: Picture, width: int, least: int = 0) -> list[str]:
    """In the middle of what is at least so wide, when it is a stack of boxes."""
    rows = _rows(picture)
    stack = None if rows is None else _Stack.of(picture, rows, width)
    if stack is None:
        return listed(picture, width)
    lines = stack.drawn()
    indent = " " * max(0, (least - width_of(lines)) // 2)
    return [indent + line for line in lines]


def _rows(picture: Picture) -> list[list[str]] | None:
    """The rows, when every box leads to every one of the next row and to no other."""
    rows = layers(picture)
    flow = {(arrow.start, arrow.end) for arrow in picture.arrows if arrow.kind == "flow"}
    whole = {(a, b) for upper, lower in pairwise(rows) for a in upper for b in lower}
    last = {row[-1] for row in rows}
    sides = [arrow for arrow in picture.arrows if arrow.kind != "flow"]
    beside = all(arrow.start in last and arrow.end in last for arrow in sides)
    return rows if flow == whole and beside else None


def _block(box: Box, width: int) -> list[str]:
    room = width - _FRAME
    head = [line for text in (box.title, *box.lines) for line in wrapped(text, room)]
    if box.inside is None:
        return framed(head)
    body = _body(box.inside, room, width_of(head))
    return framed([*head, "", *body] if body else head)


def _beside(boxes: Sequence[Box], width: int) -> list[list[str]] | None:
    """The boxes of a row, narrowed if need be; None when they cannot stand side by side."""
    blocks = [_block(box, width) for box in boxes]
    if _wide(blocks) <= width:
        return blocks
    if len(boxes) == 1:
        return None
    share = (width - _GAP * (len(boxes) - 1)) // len(boxes)
    least = _LEAST_FRAME if any(box.inside for box in boxes) else _LEAST
    return [_block(box, share) for box in boxes] if share >= least else None


def _wide(blocks: Sequence[Sequence[str]]) -> int:
    return sum(map(width_of, blocks)) + _GAP * (len(blocks) - 1)


class _Spot(msgspec.Struct, frozen=True):
    """The position of a block."""

    row: int
    column: int
    block: list[str]

    @property
    def middle(self) -> int:
        return self.column + width_of(self.block) // 2

    @property
    def right(self) -> int:
        return self.column + width_of(self.block)

    @property
    def bottom(self) -> int:
        return self.row + len(self.block)


class _Stack(msgspec.Struct, frozen=True):
    """Rows of blocks, centred, with lines from each row to the next, and arrows at the side."""

    ids: list[list[str]]
    blocks: list[list[list[str]]]
    sides: list[Arrow]

    @classmethod
    def of(cls, picture: Picture, rows: list[list[str]], width: int) -> _Stack | None:
        boxes = {box.id: box for box in picture.boxes}
        sides = [_cleaned(arrow) for arrow in picture.arrows if arrow.kind != "flow"]
        sides = sorted(sides, key=lambda arrow: arrow.kind != "back")[:_MOST_SIDE]
        room = width - _margin(sides)
        blocks = [_beside([boxes[id] for id in row], room) for row in rows]
        fit = [row for row in blocks if row is not None]
        return cls(rows, fit, sides) if len(fit) == len(blocks) else None

    def drawn(self) -> list[str]:
        canvas, spots = Canvas(), self._spots()
        for row in spots:
            for spot in row:
                canvas.block(spot.row, spot.column, spot.block)
        for upper, lower in pairwise(spots):
            _connect(canvas, upper, lower)
        self._draw_sides(canvas, spots)
        return canvas.lines()

    def _spots(self) -> list[list[_Spot]]:
        axis, top = max(map(_wide, self.blocks), default=0) // 2, 0
        found = []
        for row in self.blocks:
            column, spots = axis - _wide(row) // 2, []
            for block in row:
                spots.append(_Spot(top, column, block))
                column += width_of(block) + _GAP
            found.append(spots)
            top += max(map(len, row)) + _CONNECTOR
        return found

    def _draw_sides(self, canvas: Canvas, spots: list[list[_Spot]]) -> None:
        """From the last line of one box to the first of another, the shorter the nearer."""
        at = {
            id: spot
            for row, ids in zip(spots, self.ids, strict=True)
            for spot, id in zip(row, ids, strict=True)
        }
        edge = max((row[-1].right for row in spots), default=0)

        def length(arrow: Arrow) -> int:
            return abs(at[arrow.start].row - at[arrow.end].row)

        for n, arrow in enumerate(sorted(self.sides, key=length)):
            start, end, lane = at[arrow.start], at[arrow.end], edge + 2 + 2 * n
            begins, ends = start.bottom - 2, end.row + 1
            canvas.across(begins, start.right, lane)
            canvas.across(ends, end.right, lane)
            canvas.down(lane, min(begins, ends), max(begins, ends))
            canvas.text(ends, end.right, "◀")
            canvas.text((begins + ends) // 2, edge + 2 * len(self.sides) + 2, arrow.label)


def _cleaned(arrow: Arrow) -> Arrow:
    return msgspec.structs.replace(arrow, label=one_line(arrow.label, _MOST_LABEL))


def _margin(sides: list[Arrow]) -> int:
    if not sides:
        return 0
    return 2 * len(sides) + 3 + max(width_of([arrow.label]) for arrow in sides)


def _connect(canvas: Canvas, upper: list[_Spot], lower: list[_Spot]) -> None:
    """One line across, which all of the upper row lead to and all of the lower come from."""
    bottom = lower[0].row
    bus, heads = bottom - _CONNECTOR, bottom - 1
    middles = [spot.middle for spot in (*upper, *lower)]
    canvas.across(bus, min(middles), max(middles))
    for spot in upper:
        canvas.text(spot.bottom - 1, spot.middle, "┬")
        canvas.down(spot.middle, spot.bottom - 1, bus)
    for spot in lower:
        canvas.down(spot.middle, bus, heads)
        canvas.text(heads, spot.middle, "▼")


_MOST_LABEL_TEXT = 120
_MERMAID_PLAIN = re.compile(r"[^\w ,.:;/()+=%…·-]")
_LIST = re.compile(r"^(\d+[.)]|[-+]) ")
_SHAPES: dict[Look, tuple[str, str]] = {
    "input": ("[/", "/]"),
    "ask": ("[", "]"),
    "gate": ("{{", "}}"),
    "fold": ("(", ")"),
    "file": ("[[", "]]"),
    "more": ("[", "]"),
}
_LINES: dict[ArrowKind, str] = {"flow": "-->", "reads": "-.->", "back": "-.->"}


def mermaid(picture: Picture) -> str:
    """`flowchart TD` with a subgraph for each box that has an inside.

    Any text is safe in it: what could mean something to Mermaid is written as a character code.
    """
    title = [f"%% {_comment(picture.title)}"] if picture.title else []
    return "\n".join(
        ["flowchart TD", *(f"  {line}" for line in [*title, *_chart_lines(picture, "b")])]
    )


def _chart_lines(picture: Picture, prefix: str) -> Iterator[str]:
    ids = {box.id: f"{prefix}{n}" for n, box in enumerate(picture.boxes)}
    for box in picture.boxes:
        yield from _box(box, ids[box.id])
    for arrow in picture.arrows:
        label = f'|"{_escaped(arrow.label)}"|' if arrow.label else ""
        yield f"{ids[arrow.start]} {_LINES[arrow.kind]}{label} {ids[arrow.end]}"


def _box(box: Box, id: str) -> Iterator[str]:
    if box.inside is None or not box.inside.boxes:
        before, after = _SHAPES[box.look]
        yield f'{id}{before}"{_label(box)}"{after}'
        return
    yield f'subgraph {id}["{_label(box)}"]'
    for line in _chart_lines(box.inside, f"{id}_"):
        yield f"  {line}"
    yield "end"


def _label(box: Box) -> str:
    return "<br/>".join(_escaped(line) for line in (box.title, *box.lines))


def _escaped(text: str) -> str:
    """A line that begins like a list would be taken for one, so its blank is one that holds."""
    line = _MERMAID_PLAIN.sub(lambda found: f"#{ord(found[0])};", one_line(text, _MOST_LABEL_TEXT))
    return _LIST.sub(r"\1#160;", line) or " "


def _comment(text: str) -> str:
    return one_line(text, _MOST_LABEL_TEXT).replace("{", "(").replace("}", ")")
