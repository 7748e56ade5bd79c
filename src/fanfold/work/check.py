"""Checks for what users write: a Node in, a Python value out, or BadInput with file and line.

Checks combine: `many(text)`, `one_of("a", "b")`, `fields(node, {"id": text, ...}, "a member")`.
A boolean is never a number, and neither are NaN and the infinities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

from fanfold.errors import BadInput
from fanfold.work.document import Node
from fanfold.work.nearest import quoted, remedy

T = TypeVar("T")
Check: TypeAlias = Callable[[Node], Any]


def fields(
    node: Node, known: Mapping[str, Check], what: str, *, required: Iterable[str] = ()
) -> dict[str, Any]:
    """The checked fields that are there. An unknown one is named, with the nearest known name."""
    found = {}
    for name, child in entries(node, what):
        check = known.get(name)
        if check is None:
            raise child.bad(f"unknown field {quoted(name)} in {what}: {remedy(name, known)}")
        found[name] = check(child)
    for name in required:
        if name not in found:
            raise node.bad(f"{what} needs the field `{name}`")
    return found


def entries(node: Node, what: str | None = None) -> Iterator[tuple[str, Node]]:
    if not isinstance(node.value, dict):
        raise _wrong(node, "a mapping", what)
    return ((key, node.child(key)) for key in node.value)


def elements(node: Node, what: str | None = None) -> Iterator[Node]:
    if not isinstance(node.value, list):
        raise _wrong(node, "a list", what)
    return (node.child(number) for number in range(len(node.value)))


def text(node: Node) -> str:
    """A text that says something."""
    if not isinstance(node.value, str):
        raise _wrong(node, "a text")
    if not node.value.strip():
        raise node.bad(f"`{node.name}` is empty")
    return node.value


def flag(node: Node) -> bool:
    if not isinstance(node.value, bool):
        raise _wrong(node, "true or false")
    return node.value


def mapping(node: Node) -> dict[str, Any]:
    if not isinstance(node.value, dict):
        raise _wrong(node, "a mapping")
    return node.value


def anything(node: Node) -> Any:
    return node.value


def number(*, least: float | None = None, above: float | None = None) -> Check:
    """A finite number, `least` or more, or more than `above`."""

    def check(node: Node) -> float:
        value = node.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _wrong(node, "a number")
        if not math.isfinite(value):
            raise _wrong(node, "a finite number")
        _in_bounds(node, value, least, above)
        return float(value)

    return check


def whole(*, least: int | None = None) -> Check:
    """A whole number; `2e6` is one."""

    def check(node: Node) -> int:
        value = node.value
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise _wrong(node, "a whole number")
        _in_bounds(node, value, least, None)
        return value

    return check


def _in_bounds(node: Node, value: float, least: float | None, above: float | None) -> None:
    if least is not None and value < least:
        raise node.bad(f"`{node.name}` must be {least} or more, not {value}")
    if above is not None and value <= above:
        raise node.bad(f"`{node.name}` must be more than {above}, not {value}")


def one_of(*words: str) -> Check:
    def check(node: Node) -> str:
        if not isinstance(node.value, str):
            raise _wrong(node, f"one of {', '.join(words)}")
        if node.value not in words:
            raise node.bad(f"unknown {node.name} {quoted(node.value)}: {remedy(node.value, words)}")
        return node.value

    return check


def many(check: Check, *, least: int = 0) -> Check:
    """A list, each element checked."""

    def check_all(node: Node) -> tuple[Any, ...]:
        found = tuple(check(child) for child in elements(node))
        if len(found) < least:
            raise node.bad(f"`{node.name}` is empty")
        return found

    return check_all


def one_or_many(check: Check) -> Check:
    """`good_at: legal` is the same as `good_at: [legal]`."""
    listed = many(check)

    def check_either(node: Node) -> tuple[Any, ...]:
        return listed(node) if isinstance(node.value, list) else (check(node),)

    return check_either


def at(node: Node, make: Callable[[], T]) -> T:
    """Run a check that knows no place; what it refuses is refused at this node's line."""
    try:
        return make()
    except BadInput as error:
        raise node.bad(error.what) from None


def _wrong(node: Node, expected: str, what: str | None = None) -> BadInput:
    name = what or (f"`{node.name}`" if node.place else node.name)
    return node.bad(f"{name} must be {expected}, not {described(node.value)}")


def described(value: object) -> str:
    """What was given instead, for an error text."""
    match value:
        case None:
            return "empty"
        case bool():
            return str(value).lower()
        case int() | float():
            return f"the number {value}"
        case str():
            return f"the text {value[:40] + '…' if len(value) > 40 else value!r}"
        case dict():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case _ if callable(value):
            return f"the function {getattr(value, '__name__', type(value).__name__)}"
        case _:
            return f"a {type(value).__name__}"
