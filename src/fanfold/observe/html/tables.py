"""Tables and values on a page. Cells that are given as `Html` are markup; all else is text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from fanfold.observe.html.page import PageCapacity, esc, note, paged
from fanfold.observe.html.plots import bar
from fanfold.observe.html.prose import MOST as MOST_PROSE
from fanfold.observe.html.prose import link, prose
from fanfold.observe.shown import (
    Grid,
    Pairs,
    Parts,
    Prose,
    RawJson,
    Shown,
    Values,
    inline,
    lines_of,
    plain,
)

MOST_CHARACTERS = 360
MOST_LINES = 12
MOST_JSON = 50_000
PAGE = 50
BROADEST = 62  # rem that columns may take beside each other
MANY = " many"
_WIDTHS = {"mid": 9.5, "long": 17.0}
FIRST = 60_000  # characters of the first rows of one table
MOST_PARTS = 100
LONG = 60
_URL = re.compile(r"https?://[^\s<>\"']{1,500}")
_encode = msgspec.json.Encoder().encode


class Html(str):
    """Markup: made of text that was escaped."""


class HtmlColumn(msgspec.Struct, frozen=True):
    """`kind`: num (aligned right), head (names its row), plot, long, short, or text."""

    title: str
    kind: str = ""


def table(
    columns: Sequence[HtmlColumn],
    rows: Sequence[Sequence[str] | Html],
    styles: str = "",
    caption: str = "",
) -> str:
    """A column of kind `head` has the headers of the rows. On narrow screens cells are stacked, each with
    its column's title, so every cell carries it."""
    head = "".join(
        f'<th scope="col"{_style(c.kind)}>{esc(c.title)}</th>' for c in columns
    )  # fmt: skip
    body = "\n".join(row if isinstance(row, Html) else row_html(columns, row) for row in rows)
    named = f"<caption>{esc(caption)}</caption>" if caption else ""
    top = f"<thead><tr>{head}</tr></thead>" if any(c.title for c in columns) else ""
    styles = " ".join(filter(None, (styles, "stack" if top else "")))
    of = f' class="{styles}"' if styles else ""
    broad = " broad" if MANY in styles else ""
    return f'<div class="wide{broad}"><table{of}>{named}{top}\n<tbody>{body}</tbody></table></div>'


def row_html(columns: Sequence[HtmlColumn], row: Sequence[str]) -> Html:
    cells = []
    for column, cell in zip(columns, row, strict=True):
        inside = cell if isinstance(cell, Html) else esc(cell)
        if column.kind.startswith("head"):
            style = column.kind.removeprefix("head").strip()
            cells.append(f'<th scope="row"{_style(style)}>{inside}</th>')
        else:
            titled = f' data-title="{esc(column.title)}"' if column.title else ""
            cells.append(f"<td{_style(column.kind)}{titled}>{inside}</td>")
    style = _style("zero") if len(row) == 2 and row[1] in ("0", "$0.00") else ""
    return Html(f"<tr{style}>{''.join(cells)}</tr>")


def _style(kind: str) -> str:
    return f' class="{kind}"' if kind not in ("", "head") else ""


def pairs(rows: Sequence[tuple[str, str]]) -> str:
    """Names with values, which are aligned right: an account."""
    return table([HtmlColumn("", "head"), HtmlColumn("", "num")], rows, "narrow")


def naming(values: Sequence[str]) -> str:
    """The kind of a column that names its rows: short names are not broken."""
    return "head short" if all(len(value) <= 28 for value in values) else "head mid"


# ── a result ─────────────────────────────────────────────────────────────────────────────────


def result(found: Shown, level: int = 3, capacity: PageCapacity | None = None) -> str:
    """`level` is that of the headings in it."""
    capacity = capacity or PageCapacity(200_000)
    match found:
        case Prose(text):
            return _prose(text, level, capacity)
        case Pairs(rows) if len(rows) > PAGE:
            return _grid(Grid(("name", "value"), rows, len(rows)), capacity)
        case Pairs():
            return _pairs(found)
        case Grid():
            return _grid(found, capacity)
        case Values(values, whole) if whole > PAGE:
            return _grid(Grid(("value",), tuple((one,) for one in values), whole), capacity)
        case Values():
            return f"<ul>{''.join(f'<li>{value_html(value)}</li>' for value in found.values)}</ul>"
        case Parts(parts):
            made = [_part(title, one, level, capacity) for title, one in parts[:MOST_PARTS]]
            left = len(parts) - MOST_PARTS
            return "\n".join(made) + (note(f"… and {left:,} more parts") if left > 0 else "")
        case RawJson(value):
            return f"<pre>{esc(json_text(value, 6000))}</pre>"


def _prose(text: str, level: int, capacity: PageCapacity) -> str:
    made = prose(text, level, max(0, min(capacity.remaining // 2, MOST_PROSE)))
    capacity.remaining -= len(made)
    return made


def _part(title: str, found: Shown, level: int, capacity: PageCapacity) -> str:
    head = f"<h{level}>{esc(title)}</h{level}>\n" if title else ""
    return head + result(found, min(level + 1, 6), capacity)


def _pairs(found: Pairs) -> str:
    """Numbers with their bars, when there are several to compare."""
    values = [value for _, value in found.rows]
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    most = max(numbers, default=0)
    if len(numbers) < 3 or len(numbers) < len(values) or min(numbers) < 0 or not most:
        columns = [HtmlColumn("", "head"), HtmlColumn("")]
        return table(columns, [(name, Html(value_html(v))) for name, v in found.rows], "narrow")
    columns = [HtmlColumn("", "head"), HtmlColumn("", "plot"), HtmlColumn("", "num")]
    rows = [
        (name, Html(bar([value / most], f"{name}: {inline(value)}")), number(value))
        for name, value in found.rows
    ]
    return table(columns, rows, "chart")


def _grid(found: Grid, capacity: PageCapacity) -> str:
    columns = [HtmlColumn(title, _kind(found, n)) for n, title in enumerate(found.titles)]
    made = [
        row_html(columns, [Html(value_html(value)) for value in row]) for row in found.rows[:PAGE]
    ]
    first = capacity.first(made, PAGE, FIRST)
    texts = [["\n".join(cell_lines(value)) for value in row] for row in found.rows]
    styles = "sorts" + (MANY if _breadth(columns, found) > BROADEST else "")
    box = table(columns, [Html(row) for row in first], styles)
    whole = paged(box, texts, len(first), found.whole, PAGE, capacity)
    return whole + "".join(map(note, found.notes))


def _breadth(columns: Sequence[HtmlColumn], found: Grid) -> float:
    """About how many rem the columns take at least, beside each other."""
    whole = 0.0
    for n, column in enumerate(columns):
        longest = max(
            (len(line) for row in found.rows[:PAGE] for line in cell_lines(row[n])), default=0
        )
        whole += _WIDTHS.get(column.kind) or 1.2 + 0.5 * max(len(column.title), longest)
    return whole


def _kind(found: Grid, n: int) -> str:
    """How a column is set: numbers to the right, long texts with capacity."""
    values = [row[n] for row in found.rows if row[n] is not None]
    if values and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        return "num"
    lengths = [len(line) for value in values for line in lines_of(value)] or [0]
    if sum(lengths) > LONG * len(lengths):
        return "long"
    return "short" if max(lengths) < 16 else "mid"


def value_html(value: Any) -> str:
    """A value in a cell: numbers in groups, a link where it is one, not too long."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return esc(number(value))
    if isinstance(value, str) and _URL.fullmatch(value):
        return link(value)
    return "<br>".join(map(esc, cell_lines(value)))


def cell_lines(value: Any) -> list[str]:
    """The lines of a cell."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return [number(value)]
    lines = lines_of(value)
    shown = [_cut(line) for line in lines[:MOST_LINES]]
    if len(lines) > MOST_LINES:
        shown.append(f"… and {len(lines) - MOST_LINES:,} more")
    return shown


def number(value: float) -> str:
    """`12,000`, `0.25`; a year or a house number is left as it is."""
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    return inline(value)


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1].rstrip() + "…"


def json_text(value: Any, most: int = MOST_JSON) -> str:
    """Indented, and cut when it is very long, which it says."""
    text = msgspec.json.format(_encode(value), indent=2).decode()
    if len(text) <= most:
        return text
    return f"{text[:most]}\n… and {len(text) - most:,} more characters"


def whole_json(value: Any) -> str:
    """All of it, collapsed, unless it is long; nothing for plain values, which the page has."""
    if plain(value):
        return ""
    if len(_encode(value)) > MOST_JSON or len(text := json_text(value)) > MOST_JSON:
        return note("The result as JSON is too long for this page: `fanfold status RUN --json`.")
    return f"<details><summary>The result as JSON</summary><pre>{esc(text)}</pre></details>"
