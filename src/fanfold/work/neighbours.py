"""What stands around a piece of a text: so much of it goes with the piece, as context."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import msgspec

from fanfold.errors import BadInput
from fanfold.work.arguments import Checked
from fanfold.work.check import whole
from fanfold.work.item import Item
from fanfold.work.options import option
from fanfold.work.split import estimate_tokens

BEFORE, AFTER = "context_before", "context_after"
_PARAGRAPH = re.compile(r"\n[^\S\n]*\n\s*")
_BYTES_PER_TOKEN = 4


class Neighbours(msgspec.Struct, frozen=True, metaclass=Checked):
    """How much of the text beside a piece goes with it: so many tokens or paragraphs."""

    tokens: int | None = None
    paragraphs: int | None = None

    def __post_init__(self) -> None:
        if (self.tokens is None) == (self.paragraphs is None):
            raise BadInput("state `tokens` or `paragraphs` of the context, one of the two")
        option("tokens", self.tokens, whole(least=1))
        option("paragraphs", self.paragraphs, whole(least=1))

    def begin(self, text: str, start: int) -> int:
        """Where what goes with the piece begins that starts there."""
        if self.paragraphs is not None:
            ends = [0, *(one.end() for one in _PARAGRAPH.finditer(text, 0, start))]
            ends = [at for at in ends if at < start]
            return ends[-self.paragraphs] if len(ends) >= self.paragraphs else 0
        at = max(0, start - self.longest(text))
        while at < start and estimate_tokens(text[at:start]) > (self.tokens or 0):
            at += max(1, (start - at) // 8)
        return at if at == 0 else _after_space(text, at, start)

    def end(self, text: str, stop: int) -> int:
        """Where it ends, for a piece that stops there."""
        if self.paragraphs is not None:
            ends = [one.end() for one in _PARAGRAPH.finditer(text, stop)]
            return [*ends, *[len(text)] * self.paragraphs][self.paragraphs - 1]
        at = min(len(text), stop + self.longest(text))
        while at > stop and estimate_tokens(text[stop:at]) > (self.tokens or 0):
            at -= max(1, (at - stop) // 8)
        return at if at == len(text) else _before_space(text, stop, at)

    def longest(self, text: str) -> int:
        """Characters of it at most, whichever piece of the text it stands beside."""
        if self.tokens is not None:
            return self.tokens * _BYTES_PER_TOKEN
        ends = [0, *(one.end() for one in _PARAGRAPH.finditer(text)), len(text)]
        sizes = sorted((b - a for a, b in pairwise(ends)), reverse=True)
        return sum(sizes[: self.paragraphs])


class Around(msgspec.Struct, frozen=True):
    """What goes with a piece of what is before it and after it."""

    before: Neighbours | None = None
    after: Neighbours | None = None

    def __bool__(self) -> bool:
        return self.before is not None or self.after is not None

    def span(self, text: str, start: int, stop: int) -> tuple[int, int]:
        begin = start if self.before is None else self.before.begin(text, start)
        return begin, stop if self.after is None else self.after.end(text, stop)

    def longest(self, text: str) -> tuple[str, str]:
        """As much as there may be, to see whether a piece fits with it."""
        before, after = (one.longest(text) if one else 0 for one in (self.before, self.after))
        return "x" * before, "x" * after


def with_context(item: Item, before: str = "", after: str = "") -> Item:
    """The context in fields of its own: it is no part of the item's `text`."""
    data = item.data if isinstance(item.data, dict) else {"text": item.data}
    return Item(item.id, {**data, BEFORE: before, AFTER: after})


def context_of(data: Any) -> tuple[str, str]:
    """What a piece has already, which is now cut again."""
    if not isinstance(data, dict):
        return "", ""
    return str(data.get(BEFORE) or ""), str(data.get(AFTER) or "")


def _after_space(text: str, at: int, stop: int) -> int:
    """At the beginning of a word, if there is one."""
    found = re.compile(r"\s+").search(text, at, stop)
    return found.end() if found and found.end() < stop else at


def _before_space(text: str, start: int, at: int) -> int:
    cut = max(text.rfind(" ", start, at), text.rfind("\n", start, at))
    return cut if cut > start else at
