"""Text to be shown: shortened to a size, made safe for a terminal; paths relative to the current folder."""

from __future__ import annotations

import os
import re
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


# Control characters but tab and line feed; marks that turn the direction of text; separators of
# lines; tags that cannot be seen.
_STEERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    r"""The same text, with `\u001b` for an escape and so on: the way JSON has it, so that JSON stays
    what it is. A line break of two characters becomes one."""
    if text.isascii() and text.isprintable():
        return text
    return _STEERS.sub(_shown, text.replace("\r\n", "\n"))


def from_here(path: str) -> str:
    """A path, also one with a line behind it, as it is named from the current folder if it is below."""
    try:
        return path.removeprefix(os.path.join(os.getcwd(), ""))
    except OSError:  # the folder is gone
        return path


def _shown(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[n]:02x}{units[n + 1]:02x}" for n in range(0, len(units), 2))


def as_text(value: Any) -> str:
    """A text as it is, anything else as JSON."""
    return value if isinstance(value, str) else _encode(value).decode()
