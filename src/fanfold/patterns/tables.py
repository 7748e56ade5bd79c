"""Tables as files: CSV, TSV, Markdown, Excel and Parquet, written a row at a time."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from io import StringIO
from itertools import islice
from typing import IO, Any, NamedTuple, TypeAlias
from unicodedata import normalize

import msgspec

from fanfold.errors import FanfoldError
from fanfold.work.fields import number

Record: TypeAlias = dict[str, Any]
Rows: TypeAlias = Callable[[], Iterator[Record]]
"""The rows, from the first one on each time it is called."""

EXTRAS = {".parquet": ("parquet", "pyarrow"), ".xlsx": ("xlsx", "openpyxl")}
"""By the ending of a file: the extra that writes it, and the package that comes with that."""

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
TABLES = frozenset({*_DELIMITERS, *EXTRAS})

_RUN_BY_SPREADSHEETS = "=+-@\t\r\n"
_ENDS = "\r\n"
_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
_XLSX_ROWS, _XLSX_CHARACTERS, _XLSX_EXACT = 1_048_576, 32_767, 10**15
_AT_ONCE = 10_000  # rows of a Parquet file that are in memory together
_encode = msgspec.json.Encoder().encode


def missing_extra(ending: str) -> str | None:
    """The extra that is needed to write such a file, when it is not installed. Nothing is imported."""
    extra, package = EXTRAS.get(ending, ("", ""))
    return extra if package and find_spec(package) is None else None


def columns_of(rows: Iterable[Record]) -> list[str]:
    """In the order in which they first appear."""
    return list(dict.fromkeys(name for record in rows for name in record))


class Table(NamedTuple):
    """Rows are walked when they are written, so a million of them never sit in memory."""

    columns: list[str]
    rows: Rows

    @classmethod
    def of(cls, rows: Rows) -> Table:
        return cls(columns_of(rows()), rows)

    def cells(self) -> Iterator[list[Any]]:
        """None where a row has nothing in a column."""
        return ([record.get(column) for column in self.columns] for record in self.rows())


def write_table(out: IO[bytes], text: IO[str], ending: str, table: Table) -> None:
    """Into `out`, or into `text`, which writes there too."""
    match ending:
        case ".xlsx":
            _write_xlsx(out, table)
        case ".parquet":
            _write_parquet(out, table)
        case _:
            _write_csv(text, table, _DELIMITERS[ending])


# ── text ─────────────────────────────────────────────────────────────────────────────────────


class _Lines:
    """Where rows go, each of which a csv writer hands over whole: they end with a line feed."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out

    def write(self, row: str) -> int:
        return self._out.write(f"{row.removesuffix(_ENDS)}\n")


class CellWriter:
    """Rows of texts as a table, none of them a formula. A cell with any kind of line break is quoted:
    csv quotes what is in the end of a row alone, which would let a return through."""

    def __init__(self, out: IO[str], delimiter: str = ",") -> None:
        self._rows = csv.writer(_Lines(out), delimiter=delimiter, lineterminator=_ENDS)

    def row(self, texts: Iterable[str]) -> None:
        self._rows.writerow(map(plain_cell, texts))


def _write_csv(out: IO[str], table: Table, delimiter: str) -> None:
    writer = CellWriter(out, delimiter)
    if table.columns:
        writer.row(table.columns)
    for row in table.cells():
        writer.row(map(cell, row))


def write_lines_as_cells(out: IO[str], said: str, ending: str) -> None:
    """A text that is a table already: the same cells, none of which is a formula."""
    delimiter = _DELIMITERS[ending]
    writer = CellWriter(out, delimiter)
    csv.field_size_limit(sys.maxsize)  # as in rows: the limit holds for the whole process
    for row in csv.reader(StringIO(said, newline=""), delimiter=delimiter):
        writer.row(row)


def plain_cell(text: str) -> str:
    """A text that a spreadsheet would run as a formula is shown instead: it gets an apostrophe.

    Numbers stay what they are, also negative ones. `＝` and the like count as the signs that they are
    other forms of.
    """
    first = text[:1] if text.isascii() else normalize("NFKC", text[:1])
    if first not in _RUN_BY_SPREADSHEETS or not text or number(text) is not None:
        return text
    return f"'{text}"


def markdown_table(table: Table) -> Iterator[str]:
    if table.columns:
        yield "| " + " | ".join(_escaped(name) for name in table.columns) + " |\n"
        yield "|" + "---|" * len(table.columns) + "\n"
    for row in table.cells():
        yield "| " + " | ".join(_escaped(cell(one)) for one in row) + " |\n"


def cell(value: Any) -> str:
    """Nothing is an empty cell; lists and objects are JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else _encode(value).decode()


def _escaped(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


# ── Excel ────────────────────────────────────────────────────────────────────────────────────


def _write_xlsx(out: IO[bytes], table: Table) -> None:
    """All texts are cells of type text: none of them is a formula."""
    from openpyxl import Workbook
    from openpyxl.cell import WriteOnlyCell

    book = Workbook(write_only=True)
    sheet = book.create_sheet("results")

    def put(values: Iterable[Any]) -> None:
        cells = []
        for value in values:
            made = WriteOnlyCell(sheet, value)
            if isinstance(value, str):
                made.data_type = "s"
            cells.append(made)
        sheet.append(cells)

    try:
        put(map(_xlsx_value, table.columns))
        for many, row in enumerate(table.cells(), 2):
            if many > _XLSX_ROWS:
                what = f"a sheet has at most {_XLSX_ROWS:,} rows"
                raise FanfoldError(f"{what}; write a .parquet or .csv")
            put(map(_xlsx_value, row))
        book.save(out)
    except BaseException:
        with suppress(Exception):
            sheet.close()  # else it complains when it is collected
        raise


def _xlsx_value(value: Any) -> Any:
    """Whole numbers beyond 15 digits are texts: a spreadsheet would round them."""
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int) and abs(value) < _XLSX_EXACT:
        return value
    said = _NOT_IN_XML.sub("\ufffd", cell(value))
    if len(said) > _XLSX_CHARACTERS:
        raise FanfoldError(
            f"a cell of {len(said):,} characters: a sheet takes {_XLSX_CHARACTERS:,};"
            " write a .parquet or .csv"
        )
    return said


# ── Parquet ──────────────────────────────────────────────────────────────────────────────────


def _write_parquet(out: IO[bytes], table: Table) -> None:
    """A column of one kind of value has that type; all others are texts, JSON where need be."""
    import pyarrow
    from pyarrow import parquet

    kinds = _kinds(table)
    types = {bool: pyarrow.bool_(), int: pyarrow.int64(), float: pyarrow.float64()}
    typed = [types.get(kind, pyarrow.string()) for kind in kinds]
    schema = pyarrow.schema(list(zip(table.columns, typed, strict=True)))
    with parquet.ParquetWriter(out, schema) as writer:
        walk = table.cells()
        while chunk := list(islice(walk, _AT_ONCE)):
            arrays = [
                pyarrow.array([_typed(row[n], kind) for row in chunk], typed[n])
                for n, kind in enumerate(kinds)
            ]
            writer.write_batch(pyarrow.record_batch(arrays, schema=schema))


def _kinds(table: Table) -> list[type]:
    found: list[set[type]] = [set() for _ in table.columns]
    for row in table.cells():
        for kinds, value in zip(found, row, strict=True):
            if value is not None:
                kinds.add(_kind(value))
    return [_common(kinds) for kinds in found]


def _kind(value: Any) -> type:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return str
    return next((kind for kind in (bool, int, float) if isinstance(value, kind)), str)


def _common(kinds: set[type]) -> type:
    if kinds == {int, float}:
        return float
    return kinds.pop() if len(kinds) == 1 else str


def _typed(value: Any, kind: type) -> Any:
    if value is None:
        return None
    return cell(value).encode(errors="replace").decode() if kind is str else kind(value)
