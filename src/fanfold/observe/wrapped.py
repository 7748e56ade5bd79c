"""Text of any kind as lines of a certain width, for boxes."""

from __future__ import annotations

from fanfold.observe.table import cells_wide, cut, one_line

_MOST_LINES = 6


def wrapped(text: str, most: int, lines: int = _MOST_LINES) -> list[str]:
    """The text in lines at most so many columns wide, and at most so many lines.

    It breaks between words, inside one only where it is too long by itself. `…` ends what is cut.
    """
    words = [piece for word in one_line(text, 10_000).split() for piece in _pieces(word, most)]
    found: list[str] = []
    for word in words:
        if found and cells_wide(found[-1]) + 1 + cells_wide(word) <= most:
            found[-1] += f" {word}"
        else:
            found.append(word)
    if len(found) > lines:
        found[lines - 1 :] = [cut(" ".join(found[lines - 1 :]), most)]
    return found or [""]


def _pieces(word: str, most: int) -> list[str]:
    found, wide = [""], 0
    for char in word:
        needs = cells_wide(char)
        if wide + needs > most and found[-1]:
            found.append("")
            wide = 0
        found[-1] += char
        wide += needs
    return found
