"""Reducers that a tree carries out piece by piece, with the same result as all at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any

import msgspec

from fanfold.errors import FanfoldError
from fanfold.work.excerpt import as_text
from fanfold.work.fields import MISSING
from fanfold.work.item import canonical
from fanfold.work.options import takes_missing
from fanfold.work.outcome import Missing, Part
from fanfold.work.task import Reducer

UNIT = 1 << 1074  # every float is a whole number of these parts of 1


def _as_it_is(made: Any) -> Any:
    return made


def _anything(made: Any) -> None:
    """No objection."""


class Piecewise(msgspec.Struct, frozen=True):
    """A reducer that a tree carries out piece by piece: `gather` makes something of the items'
    parts, `join` one of several such things (as the values of parts), `close` the result of it. `check`
    raises FanfoldError where that of all parts is none."""

    gather: Reducer
    join: Reducer
    close: Callable[[Any], Any] = _as_it_is
    check: Callable[[Any], None] = _anything

    def __call__(self, parts: Iterable[Part]) -> Any:
        return self.result(self.gather(parts))

    def result(self, made: Any) -> Any:
        self.check(made)
        return self.close(made)


def of_some(reduce: Reducer) -> Reducer:
    """For some of the parts, whose result is reduced again with others: what these lack they may have."""
    if not isinstance(reduce, Piecewise):
        return reduce
    return msgspec.structs.replace(reduce, check=_anything)


def piecewise(reduce: Reducer) -> Piecewise:
    """Any other function is applied to its own results higher up: it must be made for that."""
    return reduce if isinstance(reduce, Piecewise) else Piecewise(reduce, reduce)


def knowing(reduce: Reducer, missing: Callable[[], Iterable[Missing]]) -> Reducer:
    """A function with a parameter `missing` gets the items that have no part, as a list."""
    informed: Callable[..., Any] = reduce
    return partial(informed, missing=list(missing())) if takes_missing(reduce) else reduce


def misfit(item: str, what: str, value: Any) -> FanfoldError:
    """Why the value of an item cannot be reduced."""
    shown = "" if value is MISSING else f": {as_text(value)[:80]}"
    return FanfoldError(f"reduce: item `{item}`: {what}{shown}")


# ── joining ──────────────────────────────────────────────────────────────────────────────────


def values(parts: Iterable[Part]) -> Iterator[Any]:
    return (part.value for part in parts)


def chained(parts: Iterable[Part]) -> list[Any]:
    return list(chain.from_iterable(values(parts)))


def different(values: Iterable[Any]) -> list[Any]:
    seen: dict[bytes, Any] = {}
    for value in values:
        seen.setdefault(canonical(value), value)
    return list(seen.values())


def added(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    whole: dict[str, int] = {}
    for count in counts:
        for label, many in count.items():
            whole[label] = whole.get(label, 0) + many
    return whole


def in_units(amount: float) -> int:
    """A float, exactly."""
    above, below = amount.as_integer_ratio()
    return above * (UNIT // below)
