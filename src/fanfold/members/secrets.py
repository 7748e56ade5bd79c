"""Takes a key, and what is left of one, out of a text that a server wrote. Pure.

Servers echo what they were sent: the whole key, its beginning or end, or a form of it (Base64 of a
header, percent signs, hex). Each of these is as good as the key, or a good part of it.
"""

from __future__ import annotations

import re
from base64 import b64encode
from functools import lru_cache
from urllib.parse import quote

MASK = "[key]"
SHORTEST = 8  # characters of a key that may not be seen in a row
_LEAST = 3  # of a key that is shown masked, as `sk-…a1b2`
_MOST = 4000  # characters of a text that are looked at; what is shown of it is far shorter
_masked = re.compile(r"([\w-]*)(?:[*•·…]+|\.{2,}|[xX]{4,}|\[\w+\])([\w-]*)")


def scrubbed(text: str, key: str) -> str:
    """The text, or the beginning of a very long one, without the key in any of its forms."""
    text = text[:_MOST]
    if len(key) < 4:
        return text
    return _without_ends(_without_parts(text, key), key)


def _without_parts(text: str, key: str) -> str:
    plain, size = _lower(text), min(SHORTEST, len(key))
    seen = bytearray(len(text))
    for grams, width in _forms(key, size):
        for start in range(len(text) - width + 1):
            if plain[start : start + width] in grams:
                seen[start : start + width] = b"x" * width
    made, at = [], 0
    for found in re.finditer(rb"x+", seen):
        made += [text[at : found.start()], MASK]
        at = found.end()
    return "".join([*made, text[at:]])


@lru_cache(8)
def _forms(key: str, size: int) -> tuple[tuple[frozenset[str], int], ...]:
    """For each form all its pieces that stand for so many characters of the key.

    Base64 takes three bytes at a time, so what a piece looks like depends on where in its threes
    it begins; what the neighbours have a part in is left out.
    """
    raw = key.encode()
    percent = "".join(f"%{byte:02x}" for byte in raw)
    found = [(key, size), (percent, 3 * size), (raw.hex(), 2 * size), (quote(key, safe=""), size)]
    for place in range(3):
        form = b64encode(b"\0" * place + raw).decode().rstrip("=")
        inner = form[(0, 2, 3)[place] : len(form) - 1]
        width = min(size * 4 // 3, len(inner))
        found += [(inner, width), (inner.replace("+", "-").replace("/", "_"), width)]
    return tuple((_pieces(_lower(form), width), width) for form, width in found if width > 2)


def _pieces(form: str, width: int) -> frozenset[str]:
    return frozenset(form[at : at + width] for at in range(len(form) - width + 1))


def _without_ends(text: str, key: str) -> str:
    """A key that a server has masked itself still shows where it begins and ends."""
    plain = _lower(key)

    def shorter(found: re.Match[str]) -> str:
        first, last = _lower(found[1]), _lower(found[2])
        begins = len(first) >= _LEAST and plain.startswith(first)
        ends = len(last) >= _LEAST and plain.endswith(last)
        return MASK if begins or ends else found[0]

    return _masked.sub(shorter, text)


def _lower(text: str) -> str:
    """As long as it was: not every letter is."""
    return (
        text.lower() if text.isascii() else "".join(c.lower() if c.isascii() else c for c in text)
    )
