"""Tables and values on a page. Cells that are given as `Html` are markup; all else is text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from fanfold.observe.html.page import esc
from fanfold.observe.html.plots import bar
from fanfold.observe.html.prose import link, prose
from fanfold.observe.shown import (
    Grid,
    Pairs,
    Parts,
    Prose,
    Raw,
    Shown,
    Values,
    inline,
    lines_of,
    plain,
)

MOST_LETTERS = 360
MOST_LINES = 12
MOST_JSON = 1_000_000
LONG = 60
_URL = re.compile(r"https?://[^\s<>\"']{1,500}")
_encode = msgspec.json.Encoder().encode


class Html(str):
    """Markup: made of text that was escaped."""


class Column(msgspec.Struct, frozen=True):
    """`kind`: num (stands to the right), head (names its row), plot, long, short, or text."""

    title: str
    kind: str = ""


def table(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], styles: str = "", caption: str = ""
) -> str:
    """A column of kind `head` has the headers of the rows."""
    head = "".join(
        f'<th scope="col"{_style(c.kind)}>{esc(c.title)}</th>' for c in columns
    )  # fmt: skip
    body = "\n".join(_row(columns, row) for row in rows)
    named = f"<caption>{esc(caption)}</caption>" if caption else ""
    of = f' class="{styles}"' if styles else ""
    top = f"<thead><tr>{head}</tr></thead>" if any(c.title for c in columns) else ""
    return f'<div class="wide"><table{of}>{named}{top}\n<tbody>{body}</tbody></table></div>'


def _row(columns: Sequence[Column], row: Sequence[str]) -> str:
    cells = []
    for column, cell in zip(columns, row, strict=True):
        inside = cell if isinstance(cell, Html) else esc(cell)
        if column.kind.startswith("head"):
            style = column.kind.removeprefix("head").strip()
            cells.append(f'<th scope="row"{_style(style)}>{inside}</th>')
        else:
            cells.append(f"<td{_style(column.kind)}>{inside}</td>")
    style = _style("zero") if len(row) == 2 and row[1] in ("0", "$0.00") else ""
    return f"<tr{style}>{''.join(cells)}</tr>"


def _style(kind: str) -> str:
    return f' class="{kind}"' if kind not in ("", "head") else ""


def pairs(rows: Sequence[tuple[str, str]]) -> str:
    """Names with values, which stand to the right: an account."""
    return table([Column("", "head"), Column("", "num")], rows, "narrow")


def naming(values: Sequence[str]) -> str:
    """The kind of a column that names its rows: short names are not broken."""
    return "head short" if all(len(value) <= 28 for value in values) else "head mid"


def note(text: str) -> str:
    return f'<p class="note">{esc(text)}</p>'


# ── a result ─────────────────────────────────────────────────────────────────────────────────


def result(found: Shown, level: int = 3) -> str:
    """`level` is that of the headings in it."""
    match found:
        case Prose(text):
            return prose(text, level)
        case Pairs():
            return _pairs(found)
        case Grid():
            return _grid(found)
        case Values():
            inside = "".join(f"<li>{value_html(value)}</li>" for value in found.values)
            return f"<ul>{inside}</ul>{_more(found.whole - len(found.values), 'value')}"
        case Parts(parts):
            return "\n".join(_part(title, one, level) for title, one in parts)
        case Raw(value):
            return f"<pre>{esc(json_text(value, 6000))}</pre>"


def _part(title: str, found: Shown, level: int) -> str:
    head = f"<h{level}>{esc(title)}</h{level}>\n" if title else ""
    return head + result(found, min(level + 1, 6))


def _pairs(found: Pairs) -> str:
    """Numbers with their bars, when there are several to compare."""
    values = [value for _, value in found.rows]
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    most = max(numbers, default=0)
    if len(numbers) < 3 or len(numbers) < len(values) or min(numbers) < 0 or not most:
        columns = [Column("", "head"), Column("")]
        return table(columns, [(name, Html(value_html(v))) for name, v in found.rows], "narrow")
    columns = [Column("", "head"), Column("", "plot"), Column("", "num")]
    rows = [
        (name, Html(bar([value / most], f"{name}: {inline(value)}")), number(value))
        for name, value in found.rows
    ]
    return table(columns, rows, "chart")


def _grid(found: Grid) -> str:
    columns = [Column(title, _kind(found, n)) for n, title in enumerate(found.titles)]
    rows = [[Html(value_html(value)) for value in row] for row in found.rows]
    return table(columns, rows, "sorts") + "".join(map(note, found.notes))


def _kind(found: Grid, n: int) -> str:
    """How a column is set: numbers to the right, long texts with room."""
    values = [row[n] for row in found.rows if row[n] is not None]
    if values and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        return "num"
    lengths = [len(line) for value in values for line in lines_of(value)] or [0]
    if sum(lengths) > LONG * len(lengths):
        return "long"
    return "short" if max(lengths) < 16 else "mid"


def _more(many: int, what: str) -> str:
    if many <= 0:
        return ""
    return note(f"… and {many:,} more {what}{'' if many == 1 else 's'}; only these are shown.")


def value_html(value: Any) -> str:
    """A value in a cell: numbers in groups, a link where it is one, not too long."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return esc(number(value))
    if isinstance(value, str) and _URL.fullmatch(value):
        return link(value)
    lines = lines_of(value)
    shown = [esc(_cut(line)) for line in lines[:MOST_LINES]]
    if len(lines) > MOST_LINES:
        shown.append(esc(f"… and {len(lines) - MOST_LINES:,} more"))
    return "<br>".join(shown)


def number(value: float) -> str:
    """`12,000`, `0.25`; a year or a number of a house stays as it is written."""
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    return inline(value)


def _cut(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1].rstrip() + "…"


def json_text(value: Any, most: int = MOST_JSON) -> str:
    """Set out in lines, and cut when it is very long, which it says."""
    text = msgspec.json.format(_encode(value), indent=2).decode()
    if len(text) <= most:
        return text
    return f"{text[:most]}\n… and {len(text) - most:,} more letters"


def whole_json(value: Any) -> str:
    """All of it, folded away; nothing for plain values, which the page has in full."""
    if plain(value):
        return ""
    return f"<details><summary>The result as JSON</summary><pre>{esc(json_text(value))}</pre></details>"
