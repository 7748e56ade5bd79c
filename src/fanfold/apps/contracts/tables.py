"""Files of data, plain or packed (NAME.gz). What cannot be read is named with its place.

Several applications have this file, each its own copy, so that a copy of one needs no other.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO


class BadData(Exception):
    """What is wrong, where, and what is expected there."""


def packed(file: Path) -> Path:
    return file.with_name(f"{file.name}.gz")


def is_there(file: Path) -> bool:
    return file.exists() or packed(file).exists()


def rows(file: Path, *columns: str) -> list[dict[str, str]]:
    """The rows of a CSV file that has at least these columns."""
    try:
        with _opened(file) as stream:
            table = csv.DictReader(stream)
            there = table.fieldnames or ()
            if lacking := [name for name in columns if name not in there]:
                raise BadData(f"{file}:1: there is no column {', '.join(lacking)}")
            return list(table)
    except (csv.Error, OSError, UnicodeDecodeError) as error:
        raise BadData(f"{file}: {_told(error)}") from None


def records(file: Path, *fields: str) -> Iterator[dict[str, Any]]:
    """The objects of a file with one in each line; each has at least these fields."""
    try:
        with _opened(file) as stream:
            for number, line in enumerate(stream, start=1):
                if line.strip():
                    yield _record(line, f"{file}:{number}", fields)
    except (OSError, UnicodeDecodeError) as error:
        raise BadData(f"{file}: {_told(error)}") from None


def _record(line: str, place: str, fields: tuple[str, ...]) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise BadData(f"{place}: broken JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadData(f"{place}: this is not an object")
    if lacking := [one for one in fields if one not in found]:
        raise BadData(f"{place}: there is no field {', '.join(lacking)}")
    return found


def _opened(file: Path) -> TextIO:
    """As text, without the mark that some programs put before it."""
    if not file.exists() and packed(file).exists():
        return gzip.open(packed(file), "rt", encoding="utf-8-sig", newline="\n")
    return file.open(encoding="utf-8-sig", newline="\n")


def _told(error: Exception) -> str:
    match error:
        case FileNotFoundError():
            return "not there; a folder like the application's data is expected"
        case UnicodeDecodeError():
            return "this is not a text in UTF-8"
        case OSError():
            return error.strerror or str(error)
        case _:
            return str(error)
