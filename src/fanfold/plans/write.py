"""Results into files: in the form that the file's ending names, and all of it or nothing."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

import msgspec

from fanfold.members.structured import entire
from fanfold.patterns.tables import (
    TABLES,
    Record,
    Rows,
    Table,
    cell,
    markdown_table,
    write_lines_as_cells,
    write_table,
)
from fanfold.work.files import replacing
from fanfold.work.nesting import decode_json
from fanfold.work.outcome import Missing, Part

MOST_ON_A_PAGE = 1000
MOST_NAMED = 100  # items that are named at the end of a text
PARSED = frozenset({".json", ".jsonl", *TABLES})
"""Endings of files that hold data: a reply that is JSON goes into them as what it says."""
RECORDS = frozenset({*PARSED, ".md", ".html"})
"""Endings of files that can hold one record for each item."""

_HEADINGS = 6
_encode = msgspec.json.Encoder().encode

Page: TypeAlias = Callable[[Any, int], str]
"""A result as a page for a browser, in which nothing of it is markup, and how many more items than
these there are."""
Parts: TypeAlias = Callable[[], Iterator[Part]]
"""What passed a step, from the first one on each time it is called."""


class _Out(NamedTuple):
    """The same file as bytes and as text."""

    raw: IO[bytes]
    text: IO[str]


def write_value(path: Path, value: Any, page: Page | None = None, more: int = 0) -> None:
    """One result. Text that is no data goes into a file as it is.

    Trap: where nobody makes a page, text goes into an `.html` file as it is, and may be markup.
    """
    ending = path.suffix.lower()
    value = parsed(value, ending)
    with _whole(path) as out:
        match ending:
            case ".html" if page is not None:
                out.text.write(page(value, more))
            case ".json":
                out.text.write(_pretty(value))
            case ".jsonl":
                out.text.writelines(_line(one) for one in _lines_in(value))
            case ".csv" | ".tsv" if isinstance(value, str):
                write_lines_as_cells(out.text, value, ending)
            case _ if ending in TABLES:
                write_table(*out, ending, Table.of(lambda: _rows_in(value)))
            case ".md":
                out.text.writelines(_readable(value))
            case _:
                out.text.write(_plain(value))


def write_parts(path: Path, parts: Parts, page: Page | None = None) -> None:
    """Without a reduce: each passed item with its reply, as they come from the journal; on a page
    the first of them."""
    ending = path.suffix.lower()
    if ending == ".html" and page is not None:
        _write_page(path, _entries(parts(), ending), page)
        return
    with _whole(path) as out:
        match ending:
            case ".json":
                out.text.writelines(_array(_entries(parts(), ending)))
            case ".jsonl":
                out.text.writelines(map(_line, _entries(parts(), ending)))
            case _ if ending in TABLES:
                write_table(*out, ending, Table.of(lambda: map(_spread, _entries(parts(), ending))))
            case ".md":
                out.text.writelines(_readable_entries(lambda: _entries(parts(), ending)))
            case _:
                texts = (_plain(part.value) for part in parts())
                out.text.writelines(f"\n{one}" if n else one for n, one in enumerate(texts))


def write_records(path: Path, table: Table, page: Page | None = None) -> None:
    """A record for each item, in one of `RECORDS`."""
    ending = path.suffix.lower()
    if ending == ".html":
        _write_page(path, table.rows(), page)
        return
    with _whole(path) as out:
        match ending:
            case ".json":
                out.text.writelines(_array(table.rows()))
            case ".jsonl":
                out.text.writelines(map(_line, table.rows()))
            case ".md":
                out.text.writelines(markdown_table(table))
            case _:
                write_table(*out, ending, table)


def _write_page(path: Path, rows: Iterator[Any], page: Page | None) -> None:
    """The first of them; how many more there are is said."""
    first = list(islice(rows, MOST_ON_A_PAGE))
    write_value(path, first, page, sum(1 for _ in rows))


def write_missing(path: Path, missing: Iterable[Missing]) -> Path | None:
    """Which items are not in what was written there. A text says so at its end; for data, which has
    no place for it, and for pages there is a file beside it, whose path is given back. One of an
    earlier run that is no longer true is removed."""
    beside = path.with_name(f"{path.name}.missing.json")
    lost = list(missing)
    if not lost:
        beside.unlink(missing_ok=True)
        return None
    if path.suffix.lower() in PARSED | {".html"}:
        rows = [{"id": one.id, "state": one.state, "reasons": one.reasons} for one in lost]
        with _whole(beside) as out:
            out.text.write(_pretty(rows))
        return beside
    named = [f"{one.id} ({one.state or 'not reached'})" for one in lost[:MOST_NAMED]]
    more = f", and {len(lost) - MOST_NAMED} more" if len(lost) > MOST_NAMED else ""
    with path.open("a", encoding="utf-8", errors="replace") as file:
        file.write(f"\nNot in this result: {', '.join(named)}{more}.\n")
    return None


def parsed(value: Any, ending: str) -> Any:
    """What a text says, for a file that holds data."""
    if ending not in PARSED:
        return value
    if isinstance(value, str):
        found = entire(value)
        return value if found is None else found
    if _are_entries(value):
        return [{"id": one["id"], "value": parsed(one["value"], ending)} for one in value]
    return value


@contextmanager
def _whole(path: Path) -> Iterator[_Out]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        out = io.TextIOWrapper(file, encoding="utf-8", newline="", errors="replace")
        try:
            yield _Out(file, out)
        finally:
            out.detach()


# ── data ─────────────────────────────────────────────────────────────────────────────────────


def _line(value: Any) -> str:
    return _encode(value).decode() + "\n"


def _pretty(value: Any) -> str:
    return msgspec.json.format(_encode(value), indent=2).decode() + "\n"


def _array(values: Iterable[Any]) -> Iterator[str]:
    """A JSON array, one element at a time."""
    before = "[\n"
    for value in values:
        yield f"{before}  {_encode(value).decode()}"
        before = ",\n"
    yield "[]\n" if before == "[\n" else "\n]\n"


def _lines_in(value: Any) -> list[Any]:
    """A text of JSON lines is these; anything but a list is one line."""
    if isinstance(value, str):
        try:
            return [decode_json(line) for line in value.splitlines() if line.strip()]
        except ValueError:
            return [value]
    return value if isinstance(value, list) else [value]


def _rows_in(value: Any) -> Iterator[Record]:
    """An object is one row; of a list, each element."""
    listed = value if isinstance(value, list) else [value]
    if _are_entries(value):
        return map(_spread, listed)
    return (one if isinstance(one, dict) else {"value": one} for one in listed)


def _are_entries(value: Any) -> bool:
    """A list of `{id, value}`, as `collect` gives it."""
    return isinstance(value, list) and all(
        isinstance(one, dict) and one.keys() == {"id", "value"} for one in value
    )


def _entries(parts: Iterable[Part], ending: str) -> Iterator[Record]:
    return ({"id": part.id, "value": parsed(part.value, ending)} for part in parts)


def _spread(entry: Record) -> Record:
    """A reply that is an object has a column for each of its fields."""
    id, value = entry["id"], entry["value"]
    if not isinstance(value, dict):
        return entry
    rest = {f"result.{k}" if k == "id" else k: v for k, v in value.items() if (k, v) != ("id", id)}
    return {"id": id, **rest}


# ── for people ───────────────────────────────────────────────────────────────────────────────


def _plain(value: Any) -> str:
    if not isinstance(value, str):
        return _pretty(value)
    return value if value.endswith("\n") else value + "\n"


def _readable(value: Any, level: int = 2) -> Iterator[str]:
    """Markdown: tables of records, sections of what has names, lists."""
    if isinstance(value, str):
        yield _plain(value)
    elif _are_entries(value) and value:
        yield from _readable_entries(lambda: iter(value), level)
    elif isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        yield from markdown_table(Table.of(lambda: iter(value)))
    elif isinstance(value, list):
        yield from (f"- {_one_line(one)}\n" for one in value or ["nothing"])
    elif isinstance(value, dict):
        yield from _sections(value, level)
    else:
        yield f"{cell(value)}\n"


def _sections(value: Record, level: int) -> Iterator[str]:
    """Short values in a list; those that take more room below a heading each."""
    short = {name: one for name, one in value.items() if _is_short(one) or level > _HEADINGS}
    yield from (f"- **{_one_line(name)}**: {_one_line(one)}\n" for name, one in short.items())
    for n, (name, one) in enumerate((k, v) for k, v in value.items() if k not in short):
        yield "\n" if short or n else ""
        yield f"{'#' * level} {_one_line(name)}\n\n"
        yield from _readable(one, level + 1)


def _readable_entries(entries: Rows, level: int = 2) -> Iterator[str]:
    """A table when all replies are objects, else a section for each item."""
    if all(isinstance(one["value"], dict) for one in entries()):
        yield from markdown_table(Table.of(lambda: map(_spread, entries())))
        return
    for n, one in enumerate(entries()):
        yield f"{chr(10) if n else ''}{'#' * level} {_one_line(one['id'])}\n\n"
        yield from _readable(one["value"], level + 1)


def _is_short(value: Any) -> bool:
    return not isinstance(value, dict | list) and "\n" not in cell(value).strip()


def _one_line(value: Any) -> str:
    return " ".join(cell(value).split())
