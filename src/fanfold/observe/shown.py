"""A result as people read it: texts, tables, names with values, and counts of its kinds. What to show,
not how it looks.

Pages in Markdown and HTML are made of this, so that they say the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeAlias

import msgspec

MOST_COLUMNS = 12
DEEPEST = 3
AROUND = 4
SAMPLE = 1000
LONG = 160
"""A text of more characters than this is no cell of a table of names."""

_NOTHING: tuple[Any, ...] = (None, "", [], {})
_encode = msgspec.json.Encoder().encode


class Prose(msgspec.Struct, frozen=True):
    text: str


class Pairs(msgspec.Struct, frozen=True):
    """Names with plain values."""

    rows: tuple[tuple[str, Any], ...]


class Grid(msgspec.Struct, frozen=True):
    """A table. `whole`: so many rows there are; `dropped`: columns that are not here, `blank` those
    that hold nothing; `empty`: records that have no row, since the list `of` in them is empty."""

    titles: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    whole: int
    dropped: tuple[str, ...] = ()
    empty: int = 0
    of: str = ""
    blank: tuple[str, ...] = ()

    @property
    def notes(self) -> list[str]:
        """What is not in the table beside rows, in words."""
        notes = []
        if self.empty:
            notes.append(f"{self.empty:,} more records hold nothing in `{self.of}`.")
        if self.dropped:
            names = ", ".join(self.dropped[:12])
            notes.append(f"{len(self.dropped):,} more columns are not shown here: {names}.")
        if self.blank:
            notes.append(f"Nothing in: {', '.join(self.blank[:12])}.")
        return notes


class Values(msgspec.Struct, frozen=True):
    """Plain values, one after the other."""

    values: tuple[Any, ...]
    whole: int


class Parts(msgspec.Struct, frozen=True):
    parts: tuple[tuple[str, Shown], ...]


class RawJson(msgspec.Struct, frozen=True):
    """Nothing but JSON says it."""

    value: Any


Shown: TypeAlias = Prose | Pairs | Grid | Values | Parts | RawJson


def shown(value: Any, most: int, depth: int = 0) -> Shown:
    """`most`: so many rows of a table, so many values of a list."""
    if isinstance(value, str):
        return Prose(value)
    if isinstance(value, dict) and value and depth < DEEPEST:
        return _mapping(value, most, depth)
    if isinstance(value, list) and value:
        if is_records(value):
            return grid(value, most)
        if all(map(plain, value)):
            return Values(tuple(value[:most]), len(value))
    return RawJson(value)


def plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)


def is_records(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, dict) and v for v in value)


def _mapping(value: dict[str, Any], most: int, depth: int) -> Shown:
    """A table of names when the values are alike, else the short ones first and then the others."""
    inner = list(value.values())
    if len(value) > 1 and is_records(inner) and _alike(inner):
        return grid([{"": name, **record} for name, record in value.items()], most)
    short = {name: v for name, v in value.items() if plain(v) and len(str(v)) <= LONG}
    long = {name: v for name, v in value.items() if name not in short}
    if not long:
        return Pairs(tuple(islice(short.items(), most)))
    parts: list[tuple[str, Shown]] = [("", Pairs(tuple(short.items())))] if short else []
    parts += [(name, shown(v, most, depth + 1)) for name, v in islice(long.items(), most)]
    return Parts(tuple(parts))


def _alike(records: list[dict[str, Any]]) -> bool:
    """They have most of their fields in common, and these hold plain values."""
    every = {name for record in records for name in record}
    there = sum(len(record) for record in records)
    return there >= 0.6 * len(every) * len(records) and all(
        plain(v) for record in records for v in record.values()
    )


# ── tables ───────────────────────────────────────────────────────────────────────────────────


def grid(records: Sequence[dict[str, Any]], most: int) -> Grid:
    """Records as rows. A record inside gives columns `outer.inner`; if there is little beside one
    field that holds lists of records, these are the rows, each with the fields around it."""
    inner = opened(records)
    head, whole = [], 0
    titles: dict[str, None] = {}
    for row in rows_of(records, inner):
        whole += 1
        if whole <= most:
            head.append(row)
            titles.update(dict.fromkeys(row))
    blank = [name for name in titles if all(row.get(name) in _NOTHING for row in head)]
    names = [name for name in titles if name not in blank] or list(titles)
    columns, dropped = names[:MOST_COLUMNS], names[MOST_COLUMNS:]
    rows = tuple(tuple(row.get(name) for name in columns) for row in head)
    empty = sum(not record.get(inner) for record in records) if inner else 0
    left = () if len(names) == len(titles) else tuple(blank)
    return Grid(tuple(columns), rows, whole, tuple(dropped), empty, inner, left)


def opened(records: Sequence[dict[str, Any]]) -> str:
    """The field with lists of records that is what the records are about, or ""."""
    names = dict.fromkeys(name for record in records for name in record)
    lists = [name for name in names if _holds_lists(records, name)]
    return lists[0] if len(lists) == 1 and len(names) <= AROUND + 1 else ""


def _holds_lists(records: Sequence[dict[str, Any]], name: str) -> bool:
    values = [record.get(name) or [] for record in records]
    return any(values) and all(value == [] or is_records(value) for value in values)


def rows_of(records: Sequence[dict[str, Any]], inner: str = "") -> Iterator[dict[str, Any]]:
    """One flat record after the other."""
    if not inner:
        wide = _spread(records)
        yield from (flat(record, wide) for record in records)
        return
    own = _spread([one for record in islice(records, SAMPLE) for one in record.get(inner) or ()])
    for record in records:
        outer = {name: value for name, value in record.items() if name != inner}
        for one in record.get(inner) or ():
            row = flat(one, own)
            yield {**{n: v for n, v in outer.items() if n not in row}, **row}


def _spread(records: Sequence[dict[str, Any]]) -> frozenset[str]:
    """The fields that hold records with the same few names in them: these become columns."""
    inside: dict[str, Counter[str]] = {}
    for record in islice(records, SAMPLE):
        for name, value in record.items():
            if isinstance(value, dict):
                inside.setdefault(name, Counter())["" if not value else name] += 1
                inside[name].update(f".{key}" for key in value)
    return frozenset(
        name for name, keys in inside.items()
        if len(keys) <= AROUND + 4 and min(keys.values()) * 2 >= keys[name]
    )  # fmt: skip


def flat(record: dict[str, Any], wide: frozenset[str]) -> dict[str, Any]:
    """The fields of a record in one of the `wide` ones are named `outer.inner`."""
    found: dict[str, Any] = {}
    for name, value in record.items():
        if name in wide and isinstance(value, dict):
            found |= {f"{name}.{inner}": v for inner, v in value.items()}
        else:
            found[str(name)] = value
    return found


# ── values ───────────────────────────────────────────────────────────────────────────────────


def lines_of(value: Any) -> list[str]:
    """A value of any kind as a few lines: one for a plain value, one for each part of another."""
    match value:
        case list() if value and all(map(plain, value)):
            return [", ".join(map(inline, value))]
        case list() if value:
            return [inline(one) for one in value]
        case dict() if value:
            return [f"{name}: {inline(one)}" for name, one in value.items()]
        case _:
            return [inline(value)]


def inline(value: Any, depth: int = 0) -> str:
    """In one line: names with values for a record, JSON for what is deep."""
    match value:
        case None:
            return ""
        case list() | dict() if not value:
            return ""
        case str():
            return value
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.6g}" if abs(value) < 1e6 else f"{value:,.0f}"
        case list() if all(map(plain, value)):
            return ", ".join(map(inline, value))
        case dict() if depth < DEEPEST:
            notes = ", ".join(f"{name}: {inline(one, depth + 1)}" for name, one in value.items())
            return f"({notes})" if depth else notes
        case _:
            return _encode(value).decode()


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


class KindCounts(msgspec.Struct, frozen=True):
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


def categories(result: Any) -> list[KindCounts]:
    """Of the result itself when it is a list of records, else of the lists in it."""
    found = [counts(value, where) for where, value in _lists(result)]
    return [one for one in found if one is not None]


def _lists(result: Any) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    if is_records(result):
        yield "", result
    elif isinstance(result, dict):
        yield from ((str(name), value) for name, value in result.items() if is_records(value))


def counts(records: list[dict[str, Any]], where: str = "") -> KindCounts | None:
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
    return KindCounts(by, split, tuple(there[:MOST_BARS]), shown, where, len(there[MOST_BARS:]))


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
