"""How deeply lists and objects may be nested in what others send: what goes deeper is refused before
any recursive code (schemas, keys, encoders) has to handle it."""

from __future__ import annotations

from typing import Any

DEEPEST = 100


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
