"""A whole into pieces that fit: between its items, or inside one of them. No member is asked here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Literal, TypeAlias

import msgspec

from fanfold.errors import BadInput, FanfoldError
from fanfold.work.arguments import at_once
from fanfold.work.item import Item, canonical
from fanfold.work.neighbours import BEFORE, Around, with_context
from fanfold.work.pieces import (
    Branch,
    Held,
    Leaf,
    NoSplit,
    Piece,
    Tree,
    longest,
    name_of,
    stretches,
    surrounded,
    text_of,
    with_text,
)
from fanfold.work.raised import error_text

Splitter: TypeAlias = Callable[[Any], Iterable[Any]]
"""A user's function that splits one item: its data in, the data of two or more pieces out."""

SplitMethod: TypeAlias = Literal["items", "paragraphs", "asked"] | Splitter
"""How one item is split: not at all, at its paragraphs, by a member later on, by a function."""


class Cutter:
    """Splits until every piece fits, and counts the pieces.

    `fits` may raise a FanfoldError: nothing can be asked about that piece, whatever its size.
    `around`: the context that goes with a stretch of a text.
    """

    def __init__(
        self,
        fits: Callable[[Piece], bool],
        method: SplitMethod,
        max_depth: int,
        max_pieces: int,
        around: Around = Around(),
    ) -> None:
        self._fits, self._method, self._around = fits, method, around
        if around:
            self._fits = lambda piece: fits(_in_context(piece))
        self._max_depth, self._max_pieces = max_depth, max_pieces
        self.pieces = 0

    def whole(self, items: Iterable[tuple[int, Item]]) -> Tree | None:
        """All items: one leaf when they fit together, else groups as long as they fit, in order.

        None when there are no items. What is too deep or too many raises BadInput.
        """
        groups = self._groups(iter(items))
        first, second = next(groups, None), next(groups, None)
        if first is None or second is None:
            return None if first is None else self._tree(first, 0)
        parts = tuple(self._tree(group, 1) for group in chain((first, second), groups))
        return Branch(name_of(parts[0], parts[-1]), parts[0].start, parts)

    def smaller(self, leaf: Leaf, held: Held) -> Tree:
        """A leaf that was too long for the one who was asked: pieces of at most about half of it.

        Raises NoSplit or BadInput when there are none; then nothing was counted.
        """
        return self._instead(lambda: self._smaller(leaf, held))

    def given(self, leaf: Leaf, held: Held, parts: Any) -> Tree:
        """A leaf that a member split into the data of these parts. Raises like `smaller`."""
        item = held[0][1]
        return self._instead(lambda: self._made_of(leaf, _progress(item, parts)))

    def _instead(self, make: Callable[[], Tree]) -> Tree:
        before = self.pieces
        self.pieces -= 1
        try:
            return make()
        except FanfoldError:
            self.pieces = before
            raise

    # ── between items ──

    def _groups(self, items: Iterator[tuple[int, Item]]) -> Iterator[Held]:
        """Contiguous and as long as they fit; an item that does not fit alone is a group too."""
        window: list[tuple[int, Item]] = []
        usual = 1

        def there(many: int) -> bool:
            window.extend(islice(items, max(0, many - len(window))))
            return len(window) >= many

        def fits(many: int) -> bool:
            return there(many) and self._fit(_piece(tuple(window[:many])))

        while there(1):
            usual = longest(fits, usual) if fits(1) else 1
            yield tuple(window[:usual])
            del window[:usual]

    def _fit(self, piece: Piece) -> bool:
        try:
            return self._fits(piece)
        except FanfoldError:
            return False

    def _tree(self, held: Held, depth: int) -> Tree:
        if len(held) == 1:
            position, item = held[0]
            return self._one(Leaf(item.id, position, position + 1, depth), item)
        (start, first), (end, last) = held[0], held[-1]
        ends = (first.id, last.id)
        return self._leaf(Leaf(_piece(held).id, start, end + 1, depth, ends=ends))

    def _leaf(self, leaf: Leaf) -> Leaf:
        if self._around and leaf.around is None:
            leaf = msgspec.structs.replace(leaf, around=(0, 0))
        self.pieces += 1
        if self.pieces > self._max_pieces:
            raise BadInput(
                f"more than {self._max_pieces} pieces: let more fit into one (a prompt that shows"
                " `items` takes several), or raise `max_pieces`"
            )
        return leaf

    # ── inside one item ──

    def _one(self, leaf: Leaf, item: Item) -> Tree:
        """One item, or a part of one: as it is when it fits, else split."""
        try:
            if self._fits(Piece(leaf.id, (item,))):
                return self._leaf(leaf)
        except FanfoldError as error:
            return self._leaf(_flawed(leaf, error))
        try:
            return self._split(leaf, item)
        except NoSplit as error:
            return self._leaf(_flawed(leaf, error))

    def _split(self, leaf: Leaf, item: Item, halve: bool = False) -> Tree:
        """`halve`: a stretch of its text has at most half of it, even if more would fit."""
        if self._method == "items":
            raise NoSplit(
                f"`{leaf.id}` does not fit, and one item is not split: use split paragraphs or a"
                " function, or let more fit"
            )
        self._check_depth(leaf)
        match self._method:
            case "asked":
                return self._leaf(msgspec.structs.replace(leaf, unsplit=True))
            case "paragraphs":
                return self._stretches(leaf, item, halve)
            case split:
                return self._made_of(leaf, _progress(item, self._called(split, item)))

    def _check_depth(self, leaf: Leaf) -> None:
        if leaf.depth >= self._max_depth:
            raise BadInput(
                f"`{leaf.id}` still does not fit after {leaf.depth} splits: let more fit, or raise"
                " `max_depth`"
            )

    def _stretches(self, leaf: Leaf, item: Item, halve: bool) -> Branch:
        text = text_of(item)
        most = len(text) // 2 + len(text) % 2 if halve else len(text)
        longest_id = f"{leaf.id}/{self._max_pieces}"
        around = self._around
        beside, at = surrounded(item) if around else (text, 0)
        filler = around.longest(beside) if around else ("", "")

        def fits(part: str) -> bool:
            made = Item(longest_id, with_text(item.data, part))
            made = with_context(made, *filler) if around else made
            return len(part) <= most and self._fit(Piece(longest_id, (made,)))

        try:
            spans = list(islice(stretches(text, fits), self._max_pieces + 1))
        except NoSplit as error:
            raise NoSplit(f"`{leaf.id}`: {error}") from None
        if len(spans) < 2:
            raise NoSplit(f"`{leaf.id}`: its text cannot be made shorter")
        parts = [
            self._leaf(
                msgspec.structs.replace(
                    _part(leaf, n), cut=(start, end),
                    around=around.span(beside, at + start, at + end) if around else None,
                )
            )
            for n, (start, end) in enumerate(spans, 1)
        ]  # fmt: skip
        return Branch(leaf.id, leaf.start, tuple(parts), leaf.origin is None)

    def _called(self, split: Splitter, item: Item) -> Any:
        """What the user's function gives, as a list; no more of it than there may be pieces."""
        try:
            given = at_once(split(item.data))
            if isinstance(given, str | bytes | dict) or not isinstance(given, Iterable):
                return given
            return list(islice(given, self._max_pieces + 1))
        except Exception as error:
            what = f"its splitter raised {error_text(error)}"
            raise NoSplit(f"`{item.id}` does not fit, and {what}") from None

    def _made_of(self, leaf: Leaf, made: list[Any]) -> Branch:
        parts = []
        for n, data in enumerate(made, 1):
            part = msgspec.structs.replace(_part(leaf, n), data=data)
            parts.append(self._one(part, Item(part.id, data)))
        return Branch(leaf.id, leaf.start, tuple(parts), leaf.origin is None)

    def _smaller(self, leaf: Leaf, held: Held) -> Tree:
        if len(held) == 1:
            return self._split(leaf, held[0][1], halve=True)
        self._check_depth(leaf)
        at = _middle([len(canonical(item.data)) for _, item in held])
        groups = chain(self._groups(iter(held[:at])), self._groups(iter(held[at:])))
        parts = tuple(self._tree(group, leaf.depth + 1) for group in groups)
        return Branch(leaf.id, leaf.start, parts)


def _in_context(piece: Piece) -> Piece:
    """What is not cut has no context; a prompt may show it all the same."""
    items = tuple([one if _has_context(one) else with_context(one) for one in piece.items])
    return Piece(piece.id, items)


def _has_context(item: Item) -> bool:
    return isinstance(item.data, dict) and BEFORE in item.data


def _piece(held: Held) -> Piece:
    items = tuple(item for _, item in held)
    name = items[0].id if len(items) == 1 else f"{items[0].id}..{items[-1].id}"
    return Piece(name, items)


def _part(leaf: Leaf, n: int) -> Leaf:
    """The n-th part of a piece, still without its content."""
    origin = leaf.id if leaf.origin is None else leaf.origin
    return Leaf(f"{leaf.id}/{n}", leaf.start, leaf.stop, leaf.depth + 1, origin)


def _flawed(leaf: Leaf, error: FanfoldError) -> Leaf:
    return msgspec.structs.replace(leaf, flaw=str(error))


def _middle(sizes: Sequence[int]) -> int:
    """Where to cut, so that both sides have something and are about as long."""
    left, half = 0, sum(sizes) / 2
    for at, size in enumerate(sizes[:-1]):
        if left + size / 2 > half:
            return max(1, at)
        left += size
    return len(sizes) - 1


def _progress(item: Item, parts: Any) -> list[Any]:
    """The parts, if they are two or more and none of them is the whole again."""
    if not isinstance(parts, list) or len(parts) < 2:
        made = f"{len(parts)} pieces" if isinstance(parts, list) else "no list of pieces"
        raise NoSplit(f"`{item.id}` does not fit, and its splitter gave {made}: it takes two")
    try:
        whole = canonical(item.data)
        if any(canonical(part) == whole for part in parts):
            raise NoSplit(f"`{item.id}` does not fit, and its splitter gave it back whole")
    except (TypeError, UnicodeError, OverflowError) as error:
        raise NoSplit(f"`{item.id}`: its splitter gave what is not plain JSON: {error}") from None
    return parts
