"""A result as people read it: texts, tables, names with values. What to show, not how it looks.

Pages in Markdown and HTML are made of this, so that they say the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, TypeAlias

import msgspec

MOST_COLUMNS = 12
DEEPEST = 3
LONG = 160
"""A text of more letters than this is no cell of a table of names."""

_encode = msgspec.json.Encoder().encode


class Prose(msgspec.Struct, frozen=True):
    text: str


class Pairs(msgspec.Struct, frozen=True):
    """Names with plain values."""

    rows: tuple[tuple[str, Any], ...]


class Grid(msgspec.Struct, frozen=True):
    """A table. `whole`: so many rows there are; `dropped`: columns that are not here; `empty`:
    records that have no row, since the list `of` in them is empty."""

    titles: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    whole: int
    dropped: tuple[str, ...] = ()
    empty: int = 0
    of: str = ""


class Values(msgspec.Struct, frozen=True):
    """Plain values, one after the other."""

    values: tuple[Any, ...]
    whole: int


class Parts(msgspec.Struct, frozen=True):
    parts: tuple[tuple[str, Shown], ...]


class Raw(msgspec.Struct, frozen=True):
    """Nothing but JSON says it."""

    value: Any


Shown: TypeAlias = Prose | Pairs | Grid | Values | Parts | Raw


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
    return Raw(value)


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
    """Records as rows. A record inside gives columns `outer.inner`; if one field holds lists of
    records, these are the rows, each with the fields around it."""
    inner = opened(records)
    head, whole = [], 0
    titles: dict[str, None] = {}
    for row in rows_of(records, inner):
        whole += 1
        if whole <= most:
            head.append(row)
            titles.update(dict.fromkeys(row))
    names = list(titles)
    columns, dropped = names[:MOST_COLUMNS], names[MOST_COLUMNS:]
    rows = tuple(tuple(row.get(name) for name in columns) for row in head)
    empty = sum(not record.get(inner) for record in records) if inner else 0
    return Grid(tuple(columns), rows, whole, tuple(dropped), empty, inner)


def opened(records: Sequence[dict[str, Any]]) -> str:
    """The one field that holds lists of records in all of them, or ""; none is more than a table."""
    nested: dict[str, bool] = {}
    for record in records:
        for name, value in record.items():
            if isinstance(value, list) and (not value or is_records(value)):
                nested[name] = nested.get(name, False) or bool(value)
            elif isinstance(value, list | dict) or name in nested:
                nested[name] = False
    found = [name for name, good in nested.items() if good]
    whole = bool(found) and all(isinstance(record.get(found[0], []), list) for record in records)
    return found[0] if len(found) == 1 and whole else ""


def rows_of(records: Sequence[dict[str, Any]], inner: str = "") -> Iterator[dict[str, Any]]:
    """One flat record after the other."""
    for record in records:
        if not inner:
            yield flat(record)
            continue
        outer = flat({name: v for name, v in record.items() if name != inner})
        for one in record.get(inner) or ():
            own = flat(one)
            yield {**{n: v for n, v in outer.items() if n not in own}, **own}


def flat(record: dict[str, Any]) -> dict[str, Any]:
    """The fields of a record inside are named `outer.inner`; deeper ones stay as they are."""
    found: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, dict) and value:
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


def inline(value: Any) -> str:
    """In one line: names with values for a record, JSON for what is deeper."""
    match value:
        case None:
            return ""
        case str():
            return value
        case bool():
            return "yes" if value else "no"
        case dict() if value and all(map(plain, value.values())):
            return ", ".join(f"{name}: {inline(one)}" for name, one in value.items())
        case float():
            return f"{value:.6g}" if abs(value) < 1e6 else f"{value:,.0f}"
        case _:
            return _encode(value).decode()
