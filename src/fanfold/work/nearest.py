"""The nearest known name, for error texts that answer a typing mistake."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

MOST_SHOWN = 20


def quoted(name: str, most: int = 80) -> str:
    """A name within an error text, whatever is in it: on one line, and not too long."""
    shown = name if name.isprintable() else repr(name)[1:-1]
    return f"`{shown if len(shown) <= most else shown[: most - 1] + '…'}`"


def alike(name: str, known: Collection[str], most: int = 3) -> list[str]:
    """The known names most like `name`, the nearest first; none when nothing comes close."""
    folded = {one.casefold(): one for one in sorted(known)}
    found = get_close_matches(name.casefold(), folded, n=most, cutoff=0.6)
    return [folded[one] for one in found]


def nearest(name: str, known: Collection[str]) -> str | None:
    return next(iter(alike(name, known, 1)), None)


def remedy(name: str, known: Collection[str]) -> str:
    """The end of an error text: the nearest name, or all of them when nothing comes close."""
    if like := nearest(name, known):
        return f"did you mean {quoted(like)}?"
    shown = [quoted(one)[1:-1] for one in sorted(known)[:MOST_SHOWN]]
    more = len(known) - len(shown)
    return f"known: {', '.join(shown)}{f' and {more} more' if more else ''}"
