"""Pages read back: which elements stand in them, and which text."""

from __future__ import annotations

from base64 import b64decode
from html.parser import HTMLParser
from typing import NamedTuple
from zlib import decompress

import msgspec

VOID = {"meta", "br", "hr"}
ATTRIBUTES = {
    "class", "scope", "id", "href", "rel", "role", "lang", "charset", "content", "name",
    "http-equiv", "aria-label", "aria-labelledby", "aria-hidden", "x", "y", "width", "height",
    "viewbox", "preserveaspectratio", "d", "x1", "x2", "y1", "y2", "text-anchor", "data-title",
    "data-size", "start",
}  # fmt: skip


class Element(NamedTuple):
    tag: str
    attributes: dict[str, str]


class Parsed(HTMLParser):
    """`elements` in their order; `text` is what a reader sees, without style and script; `packed` is
    what a script turns to, column by column."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self.texts: list[str] = []
        self.packed: list[list[list[str]]] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == [], f"left open: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        assert found.keys() <= ATTRIBUTES, (tag, found)
        self.elements.append(Element(tag, found))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open and self._open[-1] == tag, (tag, self._open)
        self._open.pop()

    def handle_data(self, data: str) -> None:
        if "template" in self._open:
            self.packed.append(msgspec.json.decode(decompress(b64decode(data))))
        elif not {"style", "script"} & {*self._open}:
            self.texts.append(data)

    @property
    def tags(self) -> set[str]:
        return {element.tag for element in self.elements}

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def all(self, tag: str) -> list[dict[str, str]]:
        return [element.attributes for element in self.elements if element.tag == tag]
