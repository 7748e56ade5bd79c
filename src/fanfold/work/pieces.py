"""Pieces of a whole: when one fits, the tree they make, what each holds, and where a text is cut."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import msgspec

from fanfold.errors import BadInput, FanfoldError
from fanfold.work.arguments import Checked, refuse_async
from fanfold.work.item import Item
from fanfold.work.neighbours import context_of, with_context

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
        refuse_async("fits: `test`", self.test)


def is_count(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 1


class Leaf(msgspec.Struct, frozen=True, gc=False):
    """A piece that is asked about: the items from `start` to before `stop`, or a part of one.

    A part belongs to the item `origin`, and is the stretch `cut` of its text or what a splitter
    made, `data`. `flaw`: why nothing can be asked. `unsplit`: a member is to split it first.
    `ends` are the ids of its first and last item, when it has several. `around`: where the context
    begins and ends that goes with it, in the item's text and the context that it has; for what was
    not cut there is none.
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
    around: tuple[int, int] | None = None


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
    """The name of a range, from the first leaf of one tree to the last leaf of another."""
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
        return own if leaf.around is None else tuple((n, with_context(one)) for n, one in own)
    position, item = own[0]
    start, end = leaf.cut
    piece = Item(leaf.id, with_text(item.data, text_of(item)[start:end]))
    if leaf.around is None:
        return ((position, piece),)
    whole, at = surrounded(item)
    first, last = leaf.around
    return ((position, with_context(piece, whole[first : at + start], whole[at + end : last])),)


def surrounded(item: Item) -> tuple[str, int]:
    """The text with the context that it has, and where in that it begins."""
    before, after = context_of(item.data)
    return f"{before}{text_of(item)}{after}", len(before)


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


# ── cutting one text ─────────────────────────────────────────────────────────────────────────


_BREAKS = (
    re.compile(r"\n[^\S\n]*\n\s*"),
    re.compile(r"\n"),
    re.compile(r"[.!?…][\"'”’)\]]*\s+|[。！？]+"),
    re.compile(r"\s+"),
)


class NoSplit(FanfoldError):
    """Why one piece cannot be split. It fails with that, and only it."""


def stretches(text: str, fits: Callable[[str], bool]) -> Iterator[tuple[int, int]]:
    """The text as stretches that fit, from the first character to the last, each as long as can be.

    Cut at blank lines; where that is not enough at lines, then sentences, then words, then
    anywhere. Raises NoSplit when not even one character fits.
    """
    if not fits(text[:1]):
        raise NoSplit("not even one character of it fits beside the prompt; let more fit")
    return _stretches(text, fits, 0, len(text), 0)


def _stretches(
    text: str, fits: Callable[[str], bool], start: int, end: int, level: int
) -> Iterator[tuple[int, int]]:
    ends = _ends(text, start, end, level)
    at, usual = 0, 1
    while at < len(ends):
        if not fits(text[start : ends[at]]):
            if level == len(_BREAKS):
                raise NoSplit(f"the character at {start} does not fit by itself")
            yield from _stretches(text, fits, start, ends[at], level + 1)
            start, at = ends[at], at + 1
            continue
        first, begin = at, start

        def many_fit(many: int, first: int = first, begin: int = begin) -> bool:
            return first + many <= len(ends) and fits(text[begin : ends[first + many - 1]])

        usual = longest(many_fit, usual)
        at += usual
        yield start, ends[at - 1]
        start = ends[at - 1]


def _ends(text: str, start: int, end: int, level: int) -> Sequence[int]:
    """Where units of this level end, white space with the unit before it; the last is the end."""
    if level == len(_BREAKS):
        return range(start + 1, end + 1)
    found, before = [], start
    for sign in _BREAKS[level].finditer(text, start, end):
        at = sign.end()
        if at < end and not text[before:at].isspace():
            found.append(at)
            before = at
    return [*found, end]


def longest(fits: Callable[[int], bool], usual: int = 1) -> int:
    """The largest number that fits, when 1 does; few questions when it is about as usual."""
    good, bad, step = 1, 0, 1
    probe = max(usual, 2)
    while not bad or bad - good > 1:
        if fits(probe):
            good, probe = probe, probe + step
            if bad and probe >= bad:
                probe = (good + bad) // 2
        else:
            bad, probe = probe, probe - step
            if probe <= good:
                probe = (good + bad) // 2
        step *= 2
    return good
