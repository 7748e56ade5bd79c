"""Values as text, and texts shortened to a size."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode
_MARK = 64  # bytes of the note in the middle, at most


def excerpt(text: str, most: int) -> str:
    """At most so many bytes, as JSON writes them. The beginning and the end stay, and the middle says
    how much was left out."""
    text = str(text)  # msgspec encodes no subclass of it
    if len(text) <= most and _size(text) <= most:
        return text
    room = max(0, most - _MARK) // 2
    head = text[: _fitting(text[:room], room)]
    tail = text[len(text) - _fitting(reversed(text[len(text) - room :]), room) :] if room else ""
    left_out = len(text) - len(head) - len(tail)
    return f"{head}\n[... {left_out:,} characters left out ...]\n{tail}"


def _fitting(letters: Iterable[str], room: int) -> int:
    """How many of these letters go into so many bytes."""
    used = many = 0
    for letter in letters:
        used += _size(letter)
        if used > room:
            break
        many += 1
    return many


def _size(text: str) -> int:
    try:
        return len(_encode(text)) - 2
    except UnicodeEncodeError:  # half a surrogate pair; whoever sends it reports the error
        return 6 * len(text)


def as_text(value: Any) -> str:
    """A text as it is, anything else as JSON."""
    return value if isinstance(value, str) else _encode(value).decode()
