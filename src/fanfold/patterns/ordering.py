"""Records in the order of a field, for the reducers that sort or choose by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from fanfold.errors import FanfoldError
from fanfold.patterns.piecewise import Piecewise, misfit, values
from fanfold.work.excerpt import as_text
from fanfold.work.fields import MISSING, Path, leaves, number, path_of
from fanfold.work.nearest import remedy
from fanfold.work.outcome import Part

_SEVERITY = {"low": 0, "medium": 1, "high": 2, "critical": 3}

RankedRecord: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]
"""What to compare, and the record; () is nothing to compare."""


class _Ranking(NamedTuple):
    """Records to be ordered. `found`: one has the field. `seen`: of the first, the name that was looked
    for and those that there are."""

    records: list[RankedRecord]
    found: bool
    seen: tuple[str, list[str]] | None


def ordered(
    field: str,
    keep: Callable[[Iterable[RankedRecord]], Iterable[RankedRecord]],
    order: Callable[[list[RankedRecord]], list[RankedRecord]],
) -> Piecewise:
    """Records by a field: those that `keep` takes of some, in the order of `order`. That there are
    records and none has the field is a mistake in its name, and an error."""
    path = path_of(field)

    def gather(parts: Iterable[Part]) -> _Ranking:
        found, seen = False, None

        def ranked() -> Iterator[RankedRecord]:
            nonlocal found, seen
            for part, record, rest in _records(parts, path):
                key = next((leaf for _, leaf in leaves(record, rest)), MISSING)
                found = found or key is not MISSING or _ends_in_null(record, rest)
                seen = seen or (rest[0], list(record))
                yield _rank(key), record if "item" in record else {**record, "item": part.id}

        return _Ranking(list(keep(ranked())), found, seen)

    def join(parts: Iterable[Part]) -> _Ranking:
        rankings: list[_Ranking] = list(values(parts))
        records = list(keep(chain.from_iterable(one.records for one in rankings)))
        seen = next((one.seen for one in rankings if one.seen is not None), None)
        return _Ranking(records, any(one.found for one in rankings), seen)

    def close(ranking: _Ranking) -> list[dict[str, Any]]:
        return [record for _, record in order(ranking.records)]

    def check(ranking: _Ranking) -> None:
        if ranking.seen is not None and not ranking.found:
            raise _no_such_field(field, *ranking.seen)

    return Piecewise(gather, join, close, check)


def _no_such_field(field: str, name: str, names: list[str]) -> FanfoldError:
    if name in names:
        what = f"`{name}` has no such field"
    else:
        what = remedy(name, names) if names else "they have none"
    return FanfoldError(f"reduce: no reply has the field `{field}`: {what}")


def _records(parts: Iterable[Part], path: Path) -> Iterator[tuple[Part, dict[str, Any], Path]]:
    """Each record, with the part it is of and the rest of the path that is within it."""
    for part in parts:
        for record, rest in _opened(part.value, path):
            if not isinstance(record, dict):
                raise misfit(part.id, "not a record with fields", record)
            yield part, record, rest


def _ends_in_null(value: Any, path: Path) -> bool:
    """A null on the way to a field is no mistake in its name."""
    for name in path:
        if not isinstance(value, dict):
            break
        value = value.get(name, MISSING)
    return value is None


def _opened(value: Any, path: Path) -> Iterator[tuple[Any, Path]]:
    """The records in a reply: those of the first list on the way, or the reply itself."""
    rest, inner = path, value
    while rest:
        if isinstance(inner, list):
            for one in inner:
                yield from _opened(one, rest)
            return
        if not isinstance(inner, dict):
            break
        inner, rest = inner.get(rest[0]), rest[1:]
    yield value, path


def _rank(key: Any) -> tuple[Any, ...]:
    """What to compare: numbers before severities before text; () when there is nothing."""
    if key is None or key is MISSING:
        return ()
    if isinstance(key, bool):
        return (0, int(key))
    amount = number(key)
    if amount is not None:
        return (0, amount)
    text = as_text(key).strip().casefold()
    return (1, _SEVERITY[text]) if text in _SEVERITY else (2, text)
