"""The parts of a reply: its lines, or the elements of its list; also while it is still coming."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias, get_args

from fanfold.work.nesting import decode_json, too_deep

PartKind: TypeAlias = Literal["lines", "items"]
PART_KINDS: tuple[PartKind, ...] = get_args(PartKind)

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[\s,]*")
_AFTER = re.compile(r"\s*[,\]]")


def parts_of(value: Any, kind: PartKind) -> Any:
    """The parts of a whole reply; for `items` whatever it is, if it is no list."""
    if kind == "items":
        return list_in(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return [line.strip() for line in text.split("\n") if line.strip()]


def list_in(value: Any) -> Any:
    """The list that a reply is, or that is its only field, or whose JSON is in its text; else the
    reply."""
    if isinstance(value, str):
        try:
            value = decode_json(value[value.find("[") : value.rfind("]") + 1])
        except ValueError:
            return value
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    return value


class PartReader:
    """Takes a reply as it comes, and gives each part of it as soon as that is complete. What comes
    last may be cut off, so it waits for the end of the reply: see `parts_of`."""

    def __init__(self, kind: PartKind) -> None:
        self._kind, self._rest, self._open = kind, "", False

    def take(self, delta: str) -> Iterator[Any]:
        self._rest += delta
        return self._lines() if self._kind == "lines" else self._elements()

    def _lines(self) -> Iterator[str]:
        *whole, self._rest = self._rest.split("\n")
        yield from (line.strip() for line in whole if line.strip())

    def _elements(self) -> Iterator[Any]:
        """An element counts when a comma or the end of the list has come after it: `12` may become
        `123`."""
        if not self._open:
            _, self._open, self._rest = _parted(self._rest)
        at = 0
        while self._open:
            space = _SPACE.match(self._rest, at)
            try:
                one, end = _DECODER.raw_decode(self._rest, space.end() if space else at)
            except (ValueError, RecursionError):
                break
            if _AFTER.match(self._rest, end) is None:
                break
            at = end
            if not too_deep(one):
                yield one
        self._rest = self._rest[at:]


def _parted(text: str) -> tuple[str, bool, str]:
    """What is behind the first bracket, if there is one."""
    before, bracket, behind = text.partition("[")
    return before, bool(bracket), behind
