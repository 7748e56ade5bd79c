"""Text to be shown: made safe for a terminal; paths relative to the current folder.

It is loaded for shell completion, so it imports next to nothing."""

from __future__ import annotations

import os
import re

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
