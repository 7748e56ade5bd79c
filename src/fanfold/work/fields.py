"""Dotted paths into JSON values: `findings.clause` is the clause of each finding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from fanfold.errors import BadInput

Path: TypeAlias = tuple[str, ...]

MISSING: Any = object()
"""Stands where a path leads nowhere; a JSON null is None, not this."""


def path_of(field: str | None) -> Path:
    """`a.b` as ("a", "b"); None is the whole value."""
    if field is None:
        return ()
    parts = tuple(field.split(".")) if isinstance(field, str) else ("",)
    if not all(part.strip() for part in parts):
        raise BadInput(f"`{field}` is not a field: write a name, or names joined by dots")
    return parts


def leaves(value: Any, path: Path, where: str = "") -> Iterator[tuple[str, Any]]:
    """Each value at `path` with its place, such as `findings[2].clause`.

    Lists on the way are walked through, so an empty list yields nothing. Where the path leads
    nowhere the value is MISSING. A list at the end is one value; `spread` opens that one too.
    """
    if not path:
        yield where, value
    elif isinstance(value, (list, tuple)):
        for n, part in enumerate(value):
            yield from leaves(part, path, f"{where}[{n}]")
    elif isinstance(value, dict) and path[0] in value:
        yield from leaves(value[path[0]], path[1:], f"{where}.{path[0]}".lstrip("."))
    else:
        yield f"{where}.{'.'.join(path)}".lstrip("."), MISSING


def spread(value: Any, path: Path) -> Iterator[tuple[str, Any]]:
    """Like `leaves`, but a list at the end of the path yields its elements."""
    inner = value
    for name in path:
        if type(inner) is not dict or name not in inner:
            break
        inner = inner[name]
    else:  # the usual way: no lists, nothing missing
        if not isinstance(inner, (list, tuple)):
            yield ".".join(path), inner
            return
    for where, leaf in leaves(value, path):
        if isinstance(leaf, (list, tuple)):
            for n, part in enumerate(leaf):
                yield f"{where}[{n}]", part
        else:
            yield where, leaf


def number(value: Any) -> int | float | None:
    """The finite number that a value is, also when it is written as text; None when it is none.

    Truth values are not numbers here, although Python counts them as such.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        return _number_in(value)
    return value if isinstance(value, float) and value - value == 0.0 else None


def _number_in(text: str) -> int | float | None:
    text = text.strip()
    if not text or text[-1] not in "0123456789." or "_" in text:
        return None
    for kind in (int, float):
        try:
            return number(kind(text))
        except ValueError:
            continue
    return None
