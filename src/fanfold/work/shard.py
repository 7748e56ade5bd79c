"""Shards: which items go into one ask together."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from fanfold.errors import BadInput, FanfoldError
from fanfold.work.ask import Ask
from fanfold.work.blocking import item_path
from fanfold.work.fields import MISSING, leaves, number, path_of
from fanfold.work.item import canonical, digest
from fanfold.work.reader import Count, Misfit, Number, Text, Word
from fanfold.work.split import estimate_tokens
from fanfold.work.task import Task

T = TypeVar("T")


class ShardNumber(NamedTuple):
    """The shard that an item belongs into. `items`: so many do, where that is known."""

    number: int = 0
    items: int | None = None


class ShardSize(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Which items go into one ask: so many, or as many as have so many tokens or bytes; those of one
    of `count` shards, even ones or by the `hash` of a field; those in a `range` of a field."""

    called = "a shard"
    items: Count | None = None
    tokens: Count | None = None
    bytes: Count | None = None
    count: Count | None = None
    hash: Text | None = None
    range: Text | None = None
    bounds: tuple[Number | Word, ...] = ()

    def __post_init__(self) -> None:
        if self.items is None and self.limit is None and not (self.divides or self.hash):
            raise Misfit("`shard` needs `items`, `tokens`, `bytes`, `count`, `hash` or `range`")
        if self.tokens is not None and self.bytes is not None:
            raise Misfit("state `tokens` or `bytes` of a shard, not both", "bytes")
        if self.hash is not None and self.count is None:
            raise Misfit("`hash` needs `count`: the number of shards", "hash")
        if self.range is not None and self.count is not None:
            raise Misfit("state `range` or `count` of a shard, not both", "count")
        if (self.range is None) != (not self.bounds):
            has, lacks = ("bounds", "range") if self.range is None else ("range", "bounds")
            example = "`range: item.year` with `bounds: [1990, 2000]`"
            raise Misfit(f"`{has}` needs `{lacks}`, such as {example}", has)
        if not _ascend(self.bounds):
            raise Misfit("`bounds` are numbers, or texts, from the lowest to the highest", "bounds")
        for name in ("hash", "range"):
            try:
                path_of(getattr(self, name))
            except BadInput as error:
                raise Misfit(error.what, name) from None

    @property
    def divides(self) -> bool:
        """Whether each item belongs into a certain shard."""
        return self.count is not None or self.range is not None

    @property
    def limit(self) -> int | None:
        return self.tokens or self.bytes

    @property
    def most(self) -> int | None:
        """The number of shards, where it does not grow with the items."""
        if self.items is not None or self.limit is not None:
            return None
        return self.count or len(self.bounds) + 1

    def measure(self, ask: Ask) -> int:
        """What counts towards the limit: of the prompt, or of what a function receives."""
        said = [one.content for one in ask.messages[-1:]]
        texts = said or [canonical(item.data).decode() for item in ask.items]
        if self.bytes is None:
            files = sum(one.estimate for one in ask.attachments())
            return files + sum(map(estimate_tokens, texts))
        return sum(one.size for one in ask.attachments()) + sum(map(_bytes, texts))

    def place(self, task: Task, of: int) -> ShardNumber:
        """Where a task of `of` belongs. Raises where its item lacks the field."""
        view = task.ask.items[0].view()
        if self.hash is not None and self.count is not None:
            value = canonical(_value(view, self.hash))
            return ShardNumber(int.from_bytes(digest(value)[:8], "big") % self.count)
        if self.range is not None:
            return ShardNumber(bisect_right(self.bounds, self._comparable(view, self.range)))
        if self.count is not None:
            assert task.place is not None
            at = task.place.position * self.count // of
            first, end = (-(-one * of // self.count) for one in (at, at + 1))
            return ShardNumber(at, end - first)
        return ShardNumber()

    def _comparable(self, view: dict[str, Any], field: str) -> Any:
        value, is_text = _value(view, field), isinstance(self.bounds[0], str)
        found = (value if isinstance(value, str) else None) if is_text else number(value)
        if found is None:
            raise FanfoldError(f"its `{field}` is not a {'text' if is_text else 'number'}")
        return found

    def describe(self) -> str:
        if self.range is not None:
            said = [one if isinstance(one, str) else f"{one:g}" for one in self.bounds]
            return f"shards by {self.range}: below {', '.join(said)}, and from there on"
        if self.count is not None:
            of = f" by the hash of {self.hash}" if self.hash else ""
            return f"{self.count:,} {'shard' if self.count == 1 else 'shards'}{of}"
        if self.items is not None:
            return f"{self.items:,} {'item' if self.items == 1 else 'items'} in one ask"
        return f"{self.limit or 0:,} {'tokens' if self.bytes is None else 'bytes'} in one ask"


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _ascend(bounds: tuple[float | str, ...]) -> bool:
    return all(type(a) is type(b) and a < b for a, b in pairwise(bounds))  # type: ignore[operator]


def _value(view: dict[str, Any], field: str) -> Any:
    found = [leaf for _, leaf in leaves(view, item_path(field))]
    if not found or any(leaf is MISSING or leaf is None for leaf in found):
        raise FanfoldError(f"it has no field `{field}` to shard by")
    return found[0] if len(found) == 1 else found


class Filling(Generic[T]):
    """Shards that are being filled: items go in one by one, and full ones come out.

    An item above the limit gets a shard of its own. A shard of which nobody knows when it is
    complete comes out when all items have come.
    """

    def __init__(self, size: ShardSize, of: int, task: Callable[[T], Task]) -> None:
        self._size, self._of, self._task = size, of, task
        self._open: defaultdict[int, list[T]] = defaultdict(list)
        self._filled: defaultdict[int, int] = defaultdict(int)

    def add(self, item: T) -> list[tuple[T, ...]]:
        """The shards that are full now: this item no longer fits into it, or is its last."""
        size, task = self._size, self._task(item)
        at, whole = size.place(task, self._of)
        more = 0 if size.limit is None else size.measure(task.ask)
        over = size.limit is not None and self._filled[at] + more > size.limit
        full: list[tuple[T, ...]] = []
        if self._open[at] and (over or len(self._open[at]) == size.items):
            full.append(self._taken(at))
        self._open[at].append(item)
        self._filled[at] += more
        if len(self._open[at]) == whole:
            full.append(self._taken(at))
        return full

    def rest(self) -> list[tuple[T, ...]]:
        return [self._taken(at) for at in tuple(self._open)]

    def _taken(self, at: int) -> tuple[T, ...]:
        self._filled[at] = 0
        return tuple(self._open.pop(at))
