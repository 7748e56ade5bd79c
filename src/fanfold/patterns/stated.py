"""The pure reduces that a plan file states, by their names there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from fanfold.errors import BadInput
from fanfold.patterns import fold
from fanfold.work.nearest import remedy
from fanfold.work.task import Reducer

Resolve: TypeAlias = Callable[[str], Any]
"""From `module:attribute` to what it names; raises BadInput when there is no such thing."""


class _Kind(msgspec.Struct, frozen=True):
    build: Callable[..., Reducer]
    needs: tuple[str, ...] = ()
    may: tuple[str, ...] = ()


def _sorted(by: str, order: str = "ascending") -> Reducer:
    if order not in ("ascending", "descending"):
        raise BadInput(f"reduce `sort`: order is ascending or descending, not {order!r}")
    return fold.sort_by(by, descending=order == "descending")


_KINDS: dict[str, _Kind] = {
    "concat": _Kind(fold.concat, may=("sep",)),
    "collect": _Kind(fold.collect),
    "sum": _Kind(fold.total, may=("field",)),
    "count": _Kind(fold.count, may=("by",)),
    "union": _Kind(fold.union, may=("field",)),
    "merge": _Kind(fold.merge),
    "sort": _Kind(_sorted, needs=("by",), may=("order",)),
    "top": _Kind(fold.top, needs=("n", "by")),
    "best": _Kind(fold.best, needs=("by",)),
    "vote": _Kind(fold.vote, may=("field",)),
    "python": _Kind(fold.python, needs=("target",)),
}
KINDS = tuple(_KINDS)


def from_plan(kind: str, options: Mapping[str, Any], resolve: Resolve) -> Reducer:
    """The reducer of a plan's `reduce: {kind: …}`; `options` are its other fields."""
    if kind not in _KINDS:
        raise BadInput(f"unknown reduce kind `{kind}`: {remedy(str(kind), KINDS)}")
    chosen = _KINDS[kind]
    known = chosen.needs + chosen.may
    for name, given in options.items():
        if name not in known:
            what = remedy(str(name), known) if known else "it takes no other field"
            raise BadInput(f"reduce `{kind}` has no field `{name}`: {what}")
        if name != "n" and not isinstance(given, str):
            raise BadInput(f"reduce `{kind}`: `{name}` is a text, not {given!r}")
    for name in chosen.needs:
        if name not in options:
            raise BadInput(f"reduce `{kind}` lacks its `{name}`")
    if kind == "python":
        return fold.python(resolve(options["target"]))
    return chosen.build(**options)
