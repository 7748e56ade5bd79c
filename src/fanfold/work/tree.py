"""A reduce tree: which parts belong together, and when they are all there. No I/O.

Groups are fixed by planned positions, so an item that failed or was filtered out leaves its slot
empty and moves no other: on resume the same nodes have the same parts.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from fanfold.errors import BadInput

T = TypeVar("T")


class ReduceNode(msgspec.Struct, Generic[T], frozen=True):
    """Parts that are to be reduced to one, in planned order. `name` is level and index, such as `2.3`."""

    level: int
    index: int
    parts: tuple[T, ...]

    @property
    def name(self) -> str:
        return f"{self.level}.{self.index}"

    def span(self, fan_in: int) -> tuple[int, int]:
        """The first planned position below it, and the one behind the last."""
        covers = fan_in**self.level
        return self.index * covers, (self.index + 1) * covers


def check_fan_in(fan_in: Any) -> int:
    if not isinstance(fan_in, int) or isinstance(fan_in, bool) or fan_in < 2:
        raise BadInput(f"`fan_in` is a whole number from 2 on, not {fan_in!r}")
    return fan_in


def widths(size: int, fan_in: int) -> tuple[int, ...]:
    """How many there are at each level: the items first, then the nodes, up to the one root."""
    found = [size]
    while found[-1] > 1 or (len(found) == 1 and size):
        found.append(-(-found[-1] // fan_in))
    return tuple(found)


class ReduceTree(Generic[T]):
    """`land` each position once, in any order, and hand back each node that comes out, `reduced`.

    ReduceNode g of level 1 covers the positions from g * fan_in on, node g of level 2 as many nodes of
    level 1, and so on. A node of level 1 with any part at all comes out; higher up a single part
    passes to the next level as it is, since there is nothing to reduce. A node without parts
    is an empty slot above. Held is only what waits for its neighbours: with items that land about
    in order that is at most `fan_in` for each level.
    """

    def __init__(self, size: int, fan_in: int) -> None:
        self.fan_in = check_fan_in(fan_in)
        self.widths = widths(size, fan_in)
        self.result: T | None = None
        self.done = size == 0
        self._open: dict[tuple[int, int], dict[int, T | None]] = {}

    def land(self, position: int, part: T | None) -> ReduceNode[T] | None:
        """None is an item that left no part. What comes out is complete and is to be reduced."""
        if not 0 <= position < self.widths[0]:
            raise ValueError(f"position {position} is not planned: {self!r}")
        return self._land(0, position, part)

    def reduced(self, node: ReduceNode[T], part: T | None) -> ReduceNode[T] | None:
        """The node's parts have become this one."""
        return self._land(node.level, node.index, part)

    def _land(self, level: int, index: int, part: T | None) -> ReduceNode[T] | None:
        """Cases: the node above still waits for others; it is to be reduced; it has no part, or
        just one to pass on; there is none above, this is the result."""
        while level + 1 < len(self.widths):
            above, at = level + 1, index // self.fan_in
            slots = self._open.setdefault((above, at), {})
            if index in slots:
                raise ValueError(f"{level}.{index} has landed before: {self!r}")
            slots[index] = part
            if len(slots) < min(self.fan_in, self.widths[level] - at * self.fan_in):
                return None
            del self._open[above, at]
            parts = tuple([one for slot in sorted(slots) if (one := slots[slot]) is not None])
            if len(parts) > 1 or (parts and above == 1):
                return ReduceNode(above, at, parts)
            level, index, part = above, at, parts[0] if parts else None
        self.result, self.done = part, True
        return None

    @property
    def held(self) -> int:
        """How many parts wait for their neighbours."""
        return sum(part is not None for slots in self._open.values() for part in slots.values())

    def __repr__(self) -> str:
        shape = "-".join(map(str, self.widths))
        return f"<ReduceTree {shape}, {len(self._open)} nodes open, {'done' if self.done else 'not done'}>"
