"""Values from data in a Markdown page: they are shown, never obeyed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from fanfold.observe.table import one_line

_SIGNS = re.compile(r"[\\`|*\[\]<>~]|(?<!\w)_|_(?!\w)|&(?=#?\w+;)")
_encode = msgspec.json.Encoder().encode


def cell(value: Any, most: int = 120) -> str:
    """A value for a table or a sentence: one line, cut to `most`, its signs made plain text."""
    text = value if isinstance(value, str) else "" if value is None else _encode(value).decode()
    return _SIGNS.sub(lambda sign: "\\" + sign[0], one_line(text, most))


def table(titles: Sequence[str], rows: Sequence[Sequence[str]], right: int = 0) -> list[str]:
    """The cells must be safe already (see `cell`). The last `right` columns hold numbers."""
    left = len(titles) - right
    rule = ["---"] * left + ["---:"] * right
    return [f"| {' | '.join(row)} |" for row in (titles, rule, *rows)]


def json_block(value: Any, most: int = 6000) -> list[str]:
    """JSON between fences; cut after `most` characters, and then it says so."""
    text = msgspec.json.format(_encode(value), indent=2).decode()
    lines = ["```json", text[:most], "```"]
    if len(text) > most:
        lines += ["", f"… and {len(text) - most:,} more characters; `--json` has all of it"]
    return lines
