"""Replies that do not exist yet, in prompts that are made only to be measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from fanfold.work.ask import Ask

_FIRST = 0xF0000  # private to us: no text means anything by these signs
_ASKED_BY_JINJA = ("alters_data", "unsafe_callable")


class Size(msgspec.Struct, frozen=True):
    """Bytes that a reply will take in a prompt: as expected, and at most."""

    typical: int
    most: int

    def times(self, many: int) -> Size:
        return Size(self.typical * many, self.most * many)


class StandIn(str):
    """Stands for a reply in a template: a single sign, whatever is read of it.

    Each field of it, each element and each call is the sign again, so a prompt that shows two
    fields of a reply is measured as if it showed the whole reply twice: too much, never too little.
    """

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__"):
            return super().__getattribute__(name)
        return False if name in _ASKED_BY_JINJA else self

    def __getitem__(self, key: Any) -> StandIn:
        return self

    def __call__(self, *given: Any, **named: Any) -> StandIn:
        return self

    def __iter__(self) -> Iterator[StandIn]:
        yield self


class StandIns:
    """Gives out stand-ins, each with a sign of its own, and finds them again in asks."""

    def __init__(self) -> None:
        self._sizes: dict[str, Size] = {}

    def make(self, size: Size) -> StandIn:
        sign = chr(_FIRST + len(self._sizes))
        self._sizes[sign] = size
        return StandIn(sign)

    def grown(self, ask: Ask) -> Size:
        """How much longer the ask will be with the replies in it; nothing if none is missing."""
        text = "".join([message.content for message in ask.messages])
        if text.isascii():
            return NOTHING
        found = [(size, text.count(sign)) for sign, size in self._sizes.items() if sign in text]
        return Size(
            sum(size.typical * many for size, many in found),
            sum(size.most * many for size, many in found),
        )

    def of(self, values: Iterable[Any]) -> Size:
        """Of all stand-ins among these values, each once."""
        sizes = [self._sizes[str(one)] for one in values if isinstance(one, StandIn)]
        return Size(sum(one.typical for one in sizes), sum(one.most for one in sizes))


NOTHING = Size(0, 0)


def holds_stand_in(value: Any) -> bool:
    """Whether a stand-in is in the value, however deep."""
    if isinstance(value, dict):
        return any(holds_stand_in(one) for one in value.values())
    if isinstance(value, list | tuple):
        return any(holds_stand_in(one) for one in list(value))
    return isinstance(value, StandIn)
