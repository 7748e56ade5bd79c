"""The rows of input files, one at a time, each with its line: JSON Lines, JSON, CSV, text, globs."""

from __future__ import annotations

import csv
import glob
import gzip
import hashlib
import io
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast

import msgspec

from fanfold.errors import BadInput
from fanfold.plans.header import InputKind
from fanfold.work.arguments import public
from fanfold.work.document import read_text, why_unreadable
from fanfold.work.media_files import describe
from fanfold.work.nesting import TooDeep, decode_json
from fanfold.work.surrogates import HalfSurrogate, half_surrogate

Row: TypeAlias = tuple[int, Any]
Walk: TypeAlias = Callable[[Path], Iterator[Row]]
Read: TypeAlias = Callable[[Any, int, Path], Any]

_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
NOT_UTF8 = "is not UTF-8 text; save it as UTF-8"
_BUFFER = 1 << 20
_MAX_TEXT = 1_000_000_000
_AT_BYTE = re.compile(r" \(byte (\d+)\)$")

ENDINGS: dict[str, InputKind] = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".csv": "csv", ".tsv": "tsv",
    ".txt": "lines",
}  # fmt: skip

_decode_array = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_table = msgspec.json.Decoder(list[dict[str, msgspec.Raw]]).decode


@contextmanager
def _open(path: Path) -> Iterator[BinaryIO]:
    """At its beginning, behind a byte order mark if there is one. What ends in `.gz` is unpacked."""
    try:
        with path.open("rb", buffering=_BUFFER) as file, _unpacked(file, path) as stream:
            begins = stream.read(len(_BOM))
            if begins.startswith(_UTF16):
                raise BadInput(NOT_UTF8, file=str(path), line=1)
            if begins != _BOM:
                stream.seek(0)
            yield stream
    except (gzip.BadGzipFile, EOFError, zlib.error):
        what = "cannot be unpacked: it is no gzip file, or not all of it is there"
        raise BadInput(what, file=str(path)) from None
    except OSError as error:
        raise BadInput(why_unreadable(error), file=str(path)) from None


def _unpacked(file: BinaryIO, path: Path) -> BinaryIO:
    if path.suffix != ".gz":
        return file
    return cast(BinaryIO, io.BufferedReader(gzip.GzipFile(fileobj=file), _BUFFER))


def _filled_lines(path: Path) -> Iterator[Row]:
    with _open(path) as stream:
        for number, line in enumerate(stream, 1):
            if not line.isspace():
                yield number, line


def _json_lines(path: Path) -> Iterator[Row]:
    """An array of objects that is all of a file would be one item, and was never meant to be."""
    lines = _filled_lines(path)
    begins = list(islice(lines, 2))
    for number, line in begins:
        if len(begins) == 1 and _is_table(line):
            what = "is one JSON array; read it as `json`, or name it .json"
            raise BadInput(what, file=str(path), line=number)
        yield number, line
    yield from lines


def _is_table(line: bytes) -> bool:
    if not line.lstrip().startswith(b"["):
        return False
    try:
        return len(_decode_table(line)) > 0
    except (ValueError, RecursionError):  # whoever reads the line says what is wrong with it
        return False


def _read_json(raw: Any, line: int, path: Path) -> Any:
    try:
        return decode_json(raw)
    except ValueError as error:
        raise _broken(error, path, line) from None


def _read_text(raw: bytes, line: int, path: Path) -> str:
    try:
        return raw.rstrip(b"\r\n").decode()
    except UnicodeDecodeError:
        raise BadInput(NOT_UTF8, file=str(path), line=line) from None


def _broken(error: Exception, path: Path, line: int) -> BadInput:
    if isinstance(error, UnicodeDecodeError):
        return BadInput(NOT_UTF8, file=str(path), line=line)
    problem = _AT_BYTE.sub("", str(error)).removeprefix("JSON is malformed: ")
    what = f"broken JSON: {problem[:1].lower()}{problem[1:]}"
    return BadInput(what, file=str(path), line=line)


def _elements(path: Path) -> Iterator[Row]:
    """Of a JSON array. The file is held in memory while it is walked; JSON Lines are lighter."""
    with _open(path) as stream:
        whole = stream.read()
    if not whole.strip():
        raise BadInput("is empty", file=str(path))
    try:
        found = _decode_array(whole)
    except msgspec.ValidationError:
        what = "must be a JSON array; for one object per line use `jsonl`"
        raise BadInput(what, file=str(path), line=1) from None
    except (ValueError, RecursionError) as error:
        error = TooDeep() if isinstance(error, RecursionError) else half_surrogate(whole) or error
        line = whole.count(b"\n", 0, _position(error, whole)) + 1
        raise _broken(error, path, line) from None
    line, seen = 1, 0
    for raw in found:
        start = whole.index(raw, seen)
        line += whole.count(b"\n", seen, start)
        seen = start
        yield line, raw


def _position(error: Exception, whole: bytes) -> int:
    if isinstance(error, HalfSurrogate):
        return error.position
    at = _AT_BYTE.search(str(error))
    return int(at[1]) if at else len(whole)


def _csv_rows(path: Path, delimiter: str = ",") -> Iterator[Row]:
    csv.field_size_limit(sys.maxsize)  # one field may hold a whole contract
    with _open(path) as raw, io.TextIOWrapper(raw, encoding="utf-8", newline="") as stream:
        reader = csv.reader(stream, strict=True, delimiter=delimiter)
        line = 1
        try:
            header = _header(next(reader, []), path)
            if delimiter == ",":
                _refuse_other_separator(header, path)
            line = reader.line_num + 1
            for values in reader:
                if values:
                    yield line, _record(header, values, path, line)
                line = reader.line_num + 1
        except csv.Error as error:
            open_quote = str(error) == "unexpected end of data"
            problem = "a double quote in this row is never closed" if open_quote else str(error)
            raise BadInput(f"broken CSV: {problem}", file=str(path), line=line) from None
        except UnicodeDecodeError:
            raise BadInput(NOT_UTF8, file=str(path), line=_foreign_line(path)) from None


def _foreign_line(path: Path) -> int | None:
    """The first line that is not UTF-8: what is decoded in blocks cannot tell."""
    with _open(path) as stream:
        for number, line in enumerate(stream, 1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
    return None


def _tsv_rows(path: Path) -> Iterator[Row]:
    return _csv_rows(path, "\t")


def _header(names: list[str], path: Path) -> list[str]:
    for name in names:
        if not name.strip() or names.count(name) > 1:
            what = f"duplicate column `{name}`" if name.strip() else "a column has no name"
            raise BadInput(what, file=str(path), line=1)
    if not names:
        raise BadInput("needs a first line with the names of the columns", file=str(path), line=1)
    return names


def _refuse_other_separator(header: list[str], path: Path) -> None:
    """What spreadsheets save as CSV where the comma is in numbers: it would be one column."""
    if len(header) > 1:
        return
    if ";" in header[0]:
        what = "the columns are separated by semicolons; save it with commas"
    elif "\t" in header[0]:
        what = "the columns are separated by tabs; read it as `tsv`, or save it with commas"
    else:
        return
    raise BadInput(what, file=str(path), line=1)


def _record(header: list[str], values: list[str], path: Path, line: int) -> dict[str, str]:
    if len(values) != len(header):
        many = f"{len(values)} value{'s' if len(values) > 1 else ''}"
        what = f"{many} for {len(header)} columns"
        if len(values) > len(header):
            what += "; a value that holds the separator needs double quotes around it"
        raise BadInput(what, file=str(path), line=line)
    return dict(zip(header, values, strict=True))


def _given(raw: Any, line: int, path: Path) -> Any:
    return raw


READERS: dict[str, tuple[Walk, Read]] = {
    "jsonl": (_json_lines, _read_json),
    "json": (_elements, _read_json),
    "csv": (_csv_rows, _given),
    "tsv": (_tsv_rows, _given),
    "lines": (_filled_lines, _read_text),
}


def kind_of(path: Path) -> InputKind | None:
    """By the ending of its name, or the one before `.gz`."""
    return ENDINGS.get(Path(path.stem if path.suffix == ".gz" else path.name).suffix.lower())


@public
def read_items(file: str | Path, *fields: str) -> Iterator[dict[str, Any]]:
    """The records of a file as a plan's `input` reads them: JSON Lines, JSON, CSV or TSV, by its ending;
    where it is not there, NAME.gz. Each has at least these fields. What is wrong is a BadInput that
    names the file and the line."""
    path = Path(file)
    if not path.exists() and (packed := path.with_name(f"{path.name}.gz")).exists():
        path = packed
    kind = kind_of(path)
    if kind is None or kind == "lines":
        known = ", ".join(ending for ending, one in ENDINGS.items() if one != "lines")
        what = f"its ending does not say what it is; known: {known}, each also with .gz"
        raise BadInput(what, file=str(file))
    return _records(path, *READERS[kind], fields)


def _records(
    path: Path, walk: Walk, read: Read, fields: tuple[str, ...]
) -> Iterator[dict[str, Any]]:
    for line, raw in walk(path):
        row = read(raw, line, path)
        if not isinstance(row, dict):
            raise BadInput("must be an object", file=str(path), line=line)
        if lacking := [name for name in fields if name not in row]:
            raise BadInput(f"there is no field {', '.join(lacking)}", file=str(path), line=line)
        yield row


def is_array(path: Path) -> bool:
    with _open(path) as stream:
        return stream.read(4096).lstrip().startswith(b"[")


def file_digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


# ── whole files by a glob ────────────────────────────────────────────────────────────────────


def matching(folder: Path, pattern: str) -> list[str]:
    """The files that match, sorted, as paths relative to the folder. Hidden ones must be named."""
    found = glob.glob(pattern, root_dir=folder, recursive=True)
    files = (name for name in found if (folder / name).is_file())
    return sorted({Path(os.path.normpath(name)).as_posix() for name in files})


def read_whole(folder: Path, name: str) -> dict[str, Any]:
    """A text with its text; an image, a PDF or audio with what is known of it: `hash` says what is in it."""
    found = describe(folder / name, name)
    if found is None:
        return {"path": name, "text": read_text(folder / name, limit=_MAX_TEXT)}
    facts = ("width", "height", "pages", "seconds")
    known = {fact: getattr(found, fact) for fact in facts if getattr(found, fact)}
    return {"path": name, "type": found.type, "size": found.size, "hash": found.hash, **known}


def files_digest(folder: Path, names: list[str]) -> str:
    whole = hashlib.blake2b(digest_size=16)
    for name in names:
        whole.update(f"{name}\0{file_digest(folder / name)}\0".encode())
    return whole.hexdigest()
