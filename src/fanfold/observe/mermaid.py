"""A picture as a Mermaid flowchart, for pages that draw these."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fanfold.observe.table import one_line
from fanfold.work.picture import Arrow, ArrowKind, Box, Look, Picture

_MOST = 120
_PLAIN = re.compile(r"[^\w ,.:;/()+=%…·-]")
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
    return "\n".join(["flowchart TD", *(f"  {line}" for line in [*title, *_body(picture, "b")])])


def _body(picture: Picture, prefix: str) -> Iterator[str]:
    ids = {box.id: f"{prefix}{n}" for n, box in enumerate(picture.boxes)}
    for box in picture.boxes:
        yield from _box(box, ids[box.id])
    for arrow in picture.arrows:
        yield _arrow(arrow, ids)


def _box(box: Box, id: str) -> Iterator[str]:
    if box.inside is None or not box.inside.boxes:
        before, after = _SHAPES[box.look]
        yield f'{id}{before}"{_label(box)}"{after}'
        return
    yield f'subgraph {id}["{_label(box)}"]'
    for line in _body(box.inside, f"{id}_"):
        yield f"  {line}"
    yield "end"


def _arrow(arrow: Arrow, ids: dict[str, str]) -> str:
    label = f'|"{_escaped(arrow.label)}"|' if arrow.label else ""
    return f"{ids[arrow.start]} {_LINES[arrow.kind]}{label} {ids[arrow.end]}"


def _label(box: Box) -> str:
    return "<br/>".join(_escaped(line) for line in (box.title, *box.lines))


def _escaped(text: str) -> str:
    """A line that begins like a list would be taken for one, so its blank is one that holds."""
    line = _PLAIN.sub(lambda found: f"#{ord(found[0])};", one_line(text, _MOST))
    return _LIST.sub(r"\1#160;", line) or " "


def _comment(text: str) -> str:
    return one_line(text, _MOST).replace("{", "(").replace("}", ")")
