"""Escapes in JSON that are no text: half of a surrogate pair. Imports next to nothing: completion of the
command line reads plans and rosters too."""

from __future__ import annotations

import re

_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}"  # a pair
    rb"|(u[dD][89a-fA-F][\da-fA-F]{2})|.)",  # half of one; any other
    re.DOTALL,
)


class HalfSurrogate(ValueError):
    """JSON with half of a surrogate pair, which is no text. `position`: in bytes."""

    def __init__(self, escape: str, position: int) -> None:
        self.position = position
        super().__init__(
            f"\\{escape} is half of a surrogate pair, no character; write both halves, or leave it out"
        )


def half_surrogate(raw: bytes | str) -> HalfSurrogate | None:
    """The first in a text of JSON. The decoder itself may call it a truncated input."""
    whole = raw.encode() if isinstance(raw, str) else bytes(raw)
    found = next((one for one in _ESCAPE.finditer(whole) if one[1]), None)
    return None if found is None else HalfSurrogate(found[1].decode(), found.start())
