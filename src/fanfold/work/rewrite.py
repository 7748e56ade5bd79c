"""One field of a YAML mapping changed, added or taken away within its line; the rest untouched.

Whoever changes a text this way reads it again and compares: these are edits of lines, and they do
not know all of YAML.
"""

from __future__ import annotations

import json
import re
from typing import Any

from fanfold.work.written import YamlPart

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./@+-]*(:[A-Za-z0-9_./@+~-]+)*")
_SAID_OTHERWISE = re.compile(r"(?i:true|false|null|yes|no|on|off|y|n)")
_GAP = re.compile(r"[ \t]*,[ \t]*")
_REST = re.compile(r"[ \t]*(#.*)?")


class CannotEdit(Exception):
    """Why a change cannot be made within one line."""


def with_field(text: str, mapping: YamlPart, name: str, value: Any) -> str:
    """The text with that field of the mapping set: in its place, or in a new one at the end."""
    pair = mapping.named(name)
    new = rendered(value)
    if pair is None:
        return _added(text, mapping, f"{rendered(name)}: {new}")
    _, old = _on_one_line(text, *pair)
    space = " " if old.start == old.end else ""
    return text[: old.start] + space + new + text[old.end :]


def without(text: str, mapping: YamlPart, name: str) -> str:
    """The text without that field; a comment in its line stays."""
    pair = mapping.named(name)
    if pair is None:
        raise CannotEdit("it comes from another place by `<<`")
    return _removed(text, mapping, *_on_one_line(text, *pair))


def _on_one_line(text: str, key: YamlPart, value: YamlPart) -> tuple[YamlPart, YamlPart]:
    if "\n" in text[key.start : value.end]:
        raise CannotEdit("its value goes over several lines")
    if value.bound:
        raise CannotEdit("its value has an anchor or a tag")
    return key, value


def _added(text: str, spot: YamlPart, field: str) -> str:
    if spot.flow:
        at = spot.inner[-1].end if spot.inner else spot.start + 1
        return text[:at] + (", " if spot.inner else "") + field + text[at:]
    first = spot.inner[0]
    indent = " " * (first.start - _line_start(text, first.start))
    for _, value in reversed(list(spot.pairs())):
        at = _line_end(text, value.end)
        if not _ends_in_block_text(text, value) and _REST.fullmatch(text, value.end, at):
            newline = "\r\n" if "\r\n" in text else "\n"
            return text[:at] + newline + indent + field + text[at:]
    raise CannotEdit("there is no line to put it after")


def _removed(text: str, spot: YamlPart, key: YamlPart, value: YamlPart) -> str:
    if spot.flow:
        return _removed_from_flow(text, spot, key, value)
    start, end = _line_start(text, key.start), _line_end(text, value.end)
    if text[start : key.start].strip():
        raise CannotEdit("it is in the first line of the member")
    rest = text[value.end : end].strip()
    if rest:  # a comment stays
        return text[: key.start] + rest + text[end:]
    after = text.find("\n", end)
    return text[:start] + ("" if after < 0 else text[after + 1 :])


def _removed_from_flow(text: str, spot: YamlPart, key: YamlPart, value: YamlPart) -> str:
    """With the comma before it, or, for the first, the one after it."""
    n = spot.inner.index(key)
    if n:
        start, end, gap = spot.inner[n - 1].end, value.end, (spot.inner[n - 1].end, key.start)
    elif len(spot.inner) > 2:
        start, end, gap = key.start, spot.inner[2].start, (value.end, spot.inner[2].start)
    else:
        return text[: key.start] + text[value.end :]
    if not _GAP.fullmatch(text, *gap):
        raise CannotEdit("its neighbours are on other lines")
    return text[:start] + text[end:]


def _ends_in_block_text(text: str, part: YamlPart) -> bool:
    """A text after `|` or `>`: how far it goes is not plain to see, so nothing is put after it."""
    if part.inner and not part.flow:
        return _ends_in_block_text(text, part.inner[-1])
    return part.shape == "scalar" and text[part.start : part.start + 1] in ("|", ">")


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _line_end(text: str, at: int) -> int:
    """Before the line break."""
    end = text.find("\n", at)
    if end < 0:
        return len(text)
    return end - 1 if text[end - 1] == "\r" and end > at else end


def rendered(value: Any) -> str:
    """A value in one line of YAML, as it can stand inside brackets too."""
    match value:
        case str() if _PLAIN.fullmatch(value) and not _SAID_OTHERWISE.fullmatch(value):
            return value
        case list():
            return f"[{', '.join(rendered(one) for one in value)}]"
        case dict():
            inner = (f"{rendered(key)}: {rendered(one)}" for key, one in value.items())
            return f"{{{', '.join(inner)}}}"
        case _:
            return json.dumps(value, ensure_ascii=False)
