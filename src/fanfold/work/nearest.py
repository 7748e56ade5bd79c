"""The nearest known name, for error texts that answer a typing mistake."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches


def nearest(name: str, known: Collection[str]) -> str | None:
    """The known name most like `name`, or None when nothing comes close."""
    folded = {one.casefold(): one for one in sorted(known)}
    found = get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
    return folded[found[0]] if found else None


def remedy(name: str, known: Collection[str]) -> str:
    """The end of an error text: the nearest name, or all of them when nothing comes close."""
    if like := nearest(name, known):
        return f"did you mean `{like}`?"
    return f"known: {', '.join(sorted(known))}"
