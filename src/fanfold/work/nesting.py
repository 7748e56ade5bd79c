"""JSON of others. How deeply lists and objects may be nested: what goes deeper is refused before any
recursive code (schemas, keys, encoders) has to handle it. Escapes that are no text are named as such."""

from __future__ import annotations

import re
from typing import Any

import msgspec

DEEPEST = 100
_decode = msgspec.json.Decoder().decode
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}"  # a pair
    rb"|(u[dD][89a-fA-F][\da-fA-F]{2})|.)",  # half of one; any other
    re.DOTALL,
)


class TooDeep(ValueError):
    """JSON that is nested more deeply than is allowed here."""

    def __init__(self) -> None:
        super().__init__(f"it is nested deeper than {DEEPEST} levels")


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


def decode_json(raw: bytes | str) -> Any:
    """A value from JSON of others. Anything wrong with it is a ValueError."""
    try:
        value = _decode(raw)
    except RecursionError:
        raise TooDeep from None
    except msgspec.DecodeError as error:
        raise (half_surrogate(raw) or error) from None
    if len(raw) > DEEPEST and _brackets(raw) > DEEPEST and too_deep(value):
        raise TooDeep
    return value


def _brackets(raw: bytes | str) -> int:
    if isinstance(raw, str):
        return raw.count("[") + raw.count("{")
    whole = bytes(raw)
    return whole.count(b"[") + whole.count(b"{")


def too_deep(value: Any, most: int = DEEPEST) -> bool:
    """Level by level, without recursion."""
    level = [value]
    for _ in range(most + 1):
        level = [inner for one in level for inner in _inside(one)]
        if not level:
            return False
    return True


def _inside(value: Any) -> list[Any]:
    """What a list or an object holds that can itself hold something."""
    if isinstance(value, dict):
        found = list(value.values())
    elif isinstance(value, list | tuple):
        found = list(value)
    else:
        return []
    return [one for one in found if isinstance(one, dict | list | tuple)]
