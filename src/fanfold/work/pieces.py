"""Pieces of a whole: when one fits, the tree they make, and what each of them holds."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import msgspec

from fanfold.errors import BadInput
from fanfold.work.arguments import Checked
from fanfold.work.item import Item
from fanfold.work.stretch import NoSplit

Held: TypeAlias = tuple[tuple[int, Item], ...]
"""Items with their positions in the plan, in planned order."""


class Piece(msgspec.Struct, frozen=True):
    """Some of the items, or a part of one. `id` is the item's, `first..last`, or `item/2`."""

    id: str
    items: tuple[Item, ...]


class Fits(msgspec.Struct, frozen=True, metaclass=Checked):
    """When a piece is small enough: all that is stated must hold.

    `tokens`: about so many in its whole prompt; without it, what the context of those who may
    answer leaves. `items`: at most so many of them. `test`: a function of the Piece; what passes it
    must still pass when it is shorter.
    """

    tokens: int | None = None
    items: int | None = None
    test: Callable[[Piece], bool] | None = None

    def __post_init__(self) -> None:
        for name, limit in (("tokens", self.tokens), ("items", self.items)):
            if limit is not None and not is_count(limit):
                raise BadInput(f"fits: `{name}` is a whole number from 1 on, not {limit!r}")
        if self.test is not None and not callable(self.test):
            raise BadInput(f"fits: `test` is a function of a piece, not {self.test!r}")


def is_count(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 1


class Leaf(msgspec.Struct, frozen=True, gc=False):
    """A piece that is asked about: the items from `start` to before `stop`, or a part of one.

    A part belongs to the item `origin`, and is the stretch `cut` of its text or what a splitter
    made, `data`. `flaw`: why nothing can be asked. `unsplit`: a member is to split it first.
    `ends` are the ids of its first and last item, when it has several.
    """

    id: str
    start: int
    stop: int
    depth: int
    origin: str | None = None
    cut: tuple[int, int] | None = None
    data: Any = msgspec.UNSET
    flaw: str | None = None
    unsplit: bool = False
    ends: tuple[str, str] | None = None


class Branch(msgspec.Struct, frozen=True):
    """A piece that was split. `settles`: it is one whole item, whose outcome is decided here."""

    id: str
    start: int
    parts: tuple[Tree, ...]
    settles: bool = False


Tree: TypeAlias = Leaf | Branch


def leaves_of(tree: Tree) -> Iterator[Leaf]:
    if isinstance(tree, Leaf):
        yield tree
    else:
        for part in tree.parts:
            yield from leaves_of(part)


def grouped(tree: Tree, fan_in: int) -> Tree:
    """The same leaves, no branch with more than `fan_in` parts.

    Groups are full from the left, so parts that are added at the end leave the others as they were.
    """
    if isinstance(tree, Leaf):
        return tree
    parts = [grouped(part, fan_in) for part in tree.parts]
    while len(parts) > fan_in:
        parts = [_joined(parts[at : at + fan_in]) for at in range(0, len(parts), fan_in)]
    return Branch(tree.id, tree.start, tuple(parts), tree.settles)


def _joined(parts: list[Tree]) -> Tree:
    if len(parts) == 1:
        return parts[0]
    return Branch(name_of(parts[0], parts[-1]), parts[0].start, tuple(parts))


def name_of(first: Tree, last: Tree) -> str:
    """What lies between two trees, by the first leaf of one and the last leaf of the other."""
    while isinstance(first, Branch):
        first = first.parts[0]
    while isinstance(last, Branch):
        last = last.parts[-1]
    return f"{first.ends[0] if first.ends else first.id}..{last.ends[1] if last.ends else last.id}"


# ── from leaves back to their content ────────────────────────────────────────────────────────


def contents(leaves: Iterable[Leaf], items: Iterator[tuple[int, Item]]) -> Iterator[Held]:
    """What each leaf holds, in one pass over the items: no more than one leaf's items are held."""
    ahead: deque[tuple[int, Item]] = deque()
    for leaf in leaves:
        while ahead and ahead[0][0] < leaf.start:
            ahead.popleft()
        while not ahead or ahead[-1][0] < leaf.stop - 1:
            one = next(items, None)
            if one is None:
                break
            ahead.append(one)
        yield content(leaf, ahead)


def content(leaf: Leaf, held: Iterable[tuple[int, Item]]) -> Held:
    """The leaf's own part of the items it was made of."""
    if leaf.data is not msgspec.UNSET:
        return ((leaf.start, Item(leaf.id, leaf.data)),)
    own = tuple(one for one in held if leaf.start <= one[0] < leaf.stop)
    if leaf.cut is None:
        return own
    position, item = own[0]
    start, end = leaf.cut
    return ((position, Item(leaf.id, with_text(item.data, text_of(item)[start:end]))),)


def text_of(item: Item) -> str:
    """What is split at paragraphs: the item itself, or its field `text`."""
    text = item.data.get("text") if isinstance(item.data, dict) else item.data
    if not isinstance(text, str):
        raise NoSplit(
            f"`{item.id}` does not fit and has no `text` to split; give `split` a function"
        )
    return text


def with_text(data: Any, text: str) -> Any:
    """Another text in the place of the one that was there."""
    return {**data, "text": text} if isinstance(data, dict) else text
