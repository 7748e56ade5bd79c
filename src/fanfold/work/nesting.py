"""JSON of others. How deeply lists and objects may be nested: what goes deeper is refused before any
recursive code (schemas, keys, encoders) has to handle it."""

from __future__ import annotations

from typing import Any

import msgspec

from fanfold.work.surrogates import half_surrogate

DEEPEST = 100
_decode = msgspec.json.Decoder().decode


class TooDeep(ValueError):
    """JSON that is nested more deeply than is allowed here."""

    def __init__(self) -> None:
        super().__init__(f"it is nested deeper than {DEEPEST} levels")


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
