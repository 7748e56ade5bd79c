"""The nearest known name, for error texts that answer a typing mistake."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches


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
        return f"did you mean `{like}`?"
    return f"known: {', '.join(sorted(known))}"
