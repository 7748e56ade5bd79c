"""Which fields of a result sort its records into few kinds, and how many there are of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from fanfold.observe.shown import is_records, opened, rows_of

MOST_KINDS = 60
MOST_BARS = 30
MOST_SHADES = 5
LEAST_ROWS = 5
LONGEST = 40
_SCALES = (
    ("critical", "severe", "high", "major", "medium", "moderate", "minor", "low", "info", "none"),
    ("negative", "mixed", "neutral", "positive"),
    ("yes", "partly", "no", "unknown"),
)
Rows = Callable[[], Iterable[dict[str, Any]]]


class Counts(msgspec.Struct, frozen=True):
    """How many rows there are of each kind `by` one field, in parts by another, `split` ("" when
    there is none). `where`: the field of the result that holds the rows; `others`: so many kinds
    with fewer rows are not here."""

    by: str
    split: str
    kinds: tuple[tuple[str, tuple[int, ...]], ...]
    parts: tuple[str, ...]
    where: str = ""
    others: int = 0

    @property
    def most(self) -> int:
        return max(sum(numbers) for _, numbers in self.kinds)


def categories(result: Any) -> list[Counts]:
    """Of the result itself when it is a list of records, else of the lists in it."""
    found = [counts(value, where) for where, value in _lists(result)]
    return [one for one in found if one is not None]


def _lists(result: Any) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    if is_records(result):
        yield "", result
    elif isinstance(result, dict):
        yield from ((str(name), value) for name, value in result.items() if is_records(value))


def counts(records: list[dict[str, Any]], where: str = "") -> Counts | None:
    """By the field with the most kinds, in parts by the one with the fewest; None when no field has
    kinds that come again and again."""
    inner = opened(records)

    def rows() -> Iterable[dict[str, Any]]:
        return rows_of(records, inner)

    named = _naming(records, inner) if inner else set()
    kinds = {name: found for name, found in _kinds(rows).items() if name not in named}
    if not kinds:
        return None
    by = max(kinds, key=lambda name: len(kinds[name]))
    few = [name for name, found in kinds.items() if name != by and len(found) <= MOST_SHADES]
    split = min(few, key=lambda name: len(kinds[name])) if few else ""
    parts = _ordered(kinds[split]) if split else [""]
    cross = Counter((_kind(row.get(by)), _kind(row.get(split)) if split else "") for row in rows())
    parts += [""] if split and any(cross[kind, ""] for kind in kinds[by]) else []
    table = [(kind, tuple(cross[kind, part] for part in parts)) for kind in _ordered(kinds[by])]
    shown = tuple(part or ("not said" if split else "") for part in parts)
    there = [row for row in table if sum(row[1])]
    return Counts(by, split, tuple(there[:MOST_BARS]), shown, where, len(there[MOST_BARS:]))


def _naming(records: list[dict[str, Any]], inner: str) -> set[str]:
    """The fields around the rows that tell one record from another: an id is no kind."""
    names = {name for record in records for name in record if name != inner}
    kinds = {name: {_kind(record.get(name)) for record in records} for name in names}
    return {name for name in names if len(kinds[name]) == len(records)}


def _kinds(rows: Rows) -> dict[str, Counter[str]]:
    """The fields with few short values, most of which come more than once."""
    found: dict[str, Counter[str]] = {}
    never: set[str] = set()
    for row in rows():
        for name in row.keys() - never:
            kind = _kind(row[name])
            if kind is None or len(kind) > LONGEST or len(found.get(name, ())) > MOST_KINDS:
                never.add(name)
                found.pop(name, None)
            elif kind:
                found.setdefault(name, Counter())[kind] += 1
    return {name: kinds for name, kinds in found.items() if _telling(kinds)}


def _telling(kinds: Counter[str]) -> bool:
    return 2 <= len(kinds) <= MOST_KINDS and kinds.total() >= max(LEAST_ROWS, 2 * len(kinds))


def _kind(value: Any) -> str | None:
    """A name, or yes and no; "" for nothing at all, None for what is no name."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(value.split()) if isinstance(value, str) else "" if value is None else None


def _ordered(kinds: Counter[str]) -> list[str]:
    """By a scale that people know, else the most frequent first."""
    for scale in _SCALES:
        if all(kind.lower() in scale for kind in kinds):
            return sorted(kinds, key=lambda kind: scale.index(kind.lower()))
    return sorted(kinds, key=lambda kind: (-kinds[kind], kind))
