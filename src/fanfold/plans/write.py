"""Results into files: by the file's ending, and all of it or nothing."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, TypeAlias

import msgspec

from fanfold.work.fields import number
from fanfold.work.files import replacing
from fanfold.work.outcome import Part

MOST_ON_A_PAGE = 1000
_RUN_BY_SPREADSHEETS = "=+-@\t\r\n"
_encode = msgspec.json.Encoder().encode

Page: TypeAlias = Callable[[Any, int], str]
"""A result as a page for a browser, in which nothing of it is markup, and how many more items than
these there are."""


def write_value(path: Path, value: Any, page: Page | None = None, more: int = 0) -> None:
    """`.json`, `.jsonl`, `.csv`, `.md` and `.html` in their form; text and anything else as it is.

    Trap: where nobody makes a page, text goes into an `.html` file as it is, and may be markup.
    """
    with _whole(path) as out:
        match path.suffix:
            case ".html" if page is not None:
                out.write(page(value, more))
            case ".jsonl" if isinstance(value, list):
                out.writelines(_encode(one).decode() + "\n" for one in value)
            case ".csv" if _records(value):
                _write_csv(out, value)
            case ".md" if _records(value):
                out.writelines(_markdown(value))
            case _ if isinstance(value, str) and path.suffix != ".json":
                out.write(value if value.endswith("\n") else value + "\n")
            case _:
                out.write(msgspec.json.format(_encode(value), indent=2).decode() + "\n")


def write_parts(path: Path, parts: Iterable[Part], page: Page | None = None) -> None:
    """Without a reduce: one line per passed item, as it comes from the journal; on a page the first
    of them."""
    if path.suffix == ".html" and page is not None:
        rest = iter(parts)
        first = [{"id": part.id, "value": part.value} for part in islice(rest, MOST_ON_A_PAGE)]
        write_value(path, first, page, sum(1 for _ in rest))
        return
    with _whole(path) as out:
        for part in parts:
            out.write(_encode({"id": part.id, "value": part.value}).decode() + "\n")


@contextmanager
def _whole(path: Path) -> Iterator[IO[str]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        out = io.TextIOWrapper(file, encoding="utf-8", newline="")
        try:
            yield out
        finally:
            out.detach()


def _records(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def _columns(records: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for record in records for name in record))


def _write_csv(out: IO[str], records: list[dict[str, Any]]) -> None:
    columns = _columns(records)
    table = csv.writer(out, lineterminator="\n")
    table.writerow(plain_cell(name) for name in columns)
    for one in records:
        table.writerow(plain_cell(_cell(one[c])) if c in one else "" for c in columns)


def plain_cell(text: str) -> str:
    """A text that a spreadsheet would run as a formula is shown instead: it gets an apostrophe.

    Numbers stay what they are, also negative ones.
    """
    if text[:1] not in _RUN_BY_SPREADSHEETS or not text or number(text) is not None:
        return text
    return f"'{text}"


def _markdown(records: list[dict[str, Any]]) -> Iterator[str]:
    columns = _columns(records)
    yield "| " + " | ".join(_escaped(name) for name in columns) + " |\n"
    yield "|" + "---|" * len(columns) + "\n"
    for record in records:
        yield "| " + " | ".join(_escaped(_cell(record.get(c, ""))) for c in columns) + " |\n"


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else _encode(value).decode()


def _escaped(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
