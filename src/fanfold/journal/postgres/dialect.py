"""The statements that all stores share, in the words of PostgreSQL.

They are written in SQL that both databases understand, as far as there is such; what is left is here,
and is translated once for each statement.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from fanfold.journal.sqlite.read_runs import FINAL

_PHRASES = (
    (FINAL, FINAL.replace("select ", "select distinct on (batch, position) ", 1)
     .replace("max(step) as step", "step")
     .replace("group by batch, position", "order by batch, position, step desc")),
    ("select seq from sqlite_sequence where name = 'log'", "select position from store"),
    ("i.id like", "i.id ilike"),
    ("x''", r"'\x'::bytea"),
    (" as blob)", " as bytea)"),
    ("json_valid(cast(r.budget as text))", "true"),
    ("json_extract(cast(r.budget as text), '$.usd')",
     "cast(convert_from(r.budget, 'UTF8')::json ->> 'usd' as double precision)"),
    ("json_extract(cast(plan as text), '$.kind')", "convert_from(plan, 'UTF8')::json ->> 'kind'"),
    ("json_array_length(cast(a.ids as text))", "json_array_length(convert_from(a.ids, 'UTF8')::json)"),
    ("json_each(cast(a.ids as text)) e",
     "json_array_elements_text(convert_from(a.ids, 'UTF8')::json) e(value)"),
)  # fmt: skip
_WHOLE = re.compile(r"cast\(((?:(?! as ).)+) as integer\)")
_LISTED = re.compile(r"(not )?in \(select value from json_each\(([?:][a-z0-9]*)\)\)")
_CALL = re.compile(r"\b(max|min|iif)\(")
_GIVEN = re.compile(r"(@)?(?:\?(\d*)|(?<!:):([a-z_]+))")
_decode = msgspec.json.Decoder(list[Any]).decode


class Statement(NamedTuple):
    """Its text with numbered parameters; which value each of them is; which of them are lists."""

    text: str
    given: tuple[int | str, ...]
    lists: frozenset[int]

    def bind(self, values: Sequence[Any] | Mapping[str, Any]) -> Sequence[Any]:
        if isinstance(values, Mapping):
            values = [values[name] for name in self.given]  # type: ignore[index]
        if not self.lists:
            return values
        return [_decode(v) if n in self.lists else v for n, v in enumerate(values)]


@lru_cache(1024)
def translate(question: str) -> Statement:
    for words, ours in _PHRASES:
        question = question.replace(words, ours)
    question = _WHOLE.sub(r"cast(trunc(\1) as bigint)", question)
    question = _LISTED.sub(lambda m: f"{'<> all' if m[1] else '= any'}(@{m[2]})", question)
    return _numbered(_calls(question))


def _calls(text: str) -> str:
    """`max` and `min` of several values, and `iif`."""
    at = 0
    while found := _CALL.search(text, at):
        parts, end = _arguments(text, found.end())
        at = found.end()
        if found[1] == "iif":
            new = f"case when {parts[0]} then {parts[1]} else {parts[2]} end"
        elif len(parts) > 1:
            new = f"{'greatest' if found[1] == 'max' else 'least'}({', '.join(parts)})"
        else:
            continue
        text, at = text[: found.start()] + new + text[end:], found.start()
    return text


def _arguments(text: str, at: int) -> tuple[list[str], int]:
    """Those of a call whose bracket was opened before `at`, and where it ends."""
    depth, parts = 1, [""]
    while depth:
        sign = text[at]
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth == 1:
            parts.append("")
        elif depth:
            parts[-1] += sign
        at += 1
    return [part.strip() for part in parts], at


def _numbered(text: str) -> Statement:
    places: dict[int | str, int] = {}
    lists: set[int] = set()
    unnumbered = iter(range(1, 1 << 16))

    def number(found: re.Match[str]) -> str:
        name = found[3] or (int(found[2]) if found[2] else next(unnumbered))
        place = places.setdefault(name, name if isinstance(name, int) else len(places) + 1)
        if found[1]:
            lists.add(place - 1)
        return f"${place}"

    numbered = _GIVEN.sub(number, text)
    return Statement(numbered, tuple(places), frozenset(lists))
