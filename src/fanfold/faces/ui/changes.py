"""What differs between two texts, word by word, and between the plans of two runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any

import msgspec

from fanfold.journal.facts import RunRecord
from fanfold.observe.html.page import esc
from fanfold.observe.html.tables import Html
from fanfold.observe.shown import inline

MOST_COMPARED = 4_000  # characters of two texts together
_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_NOT_OF_THE_PLAN = ("line", "lines", "folder", "file", "digest", "why")


def in_one(before: str, after: str) -> str | None:
    """What is gone and what is new, in one text; None where they are too long to compare."""
    if len(before) + len(after) > MOST_COMPARED:
        return None
    return "".join(
        (f"<del>{esc(gone)}</del>" if gone else "") + (f"<ins>{esc(come)}</ins>" if come else "")
        if differs else esc(gone)
        for differs, gone, come in _pieces(before, after)
    )  # fmt: skip


def side_by_side(before: str, after: str) -> tuple[Html, Html]:
    """Both texts, each with what the other does not have marked."""
    if len(before) + len(after) > MOST_COMPARED:
        return Html(esc(before)), Html(esc(after))
    left, right = [], []
    for differs, gone, come in _pieces(before, after):
        left.append(f"<del>{esc(gone)}</del>" if differs and gone else esc(gone))
        right.append(f"<ins>{esc(come)}</ins>" if differs and come else esc(come))
    return Html("".join(left)), Html("".join(right))


def _pieces(before: str, after: str) -> Iterator[tuple[bool, str, str]]:
    old, new = _WORD.findall(before), _WORD.findall(after)
    for how, i, j, start, end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        yield how != "equal", "".join(old[i:j]), "".join(new[start:end])


# ── two plans ────────────────────────────────────────────────────────────────────────────────


def plan_changes(a: RunRecord, b: RunRecord) -> list[tuple[str, str, str]]:
    """Each field that differs, with both values: a step's by its name. Of scripts nothing is known."""
    before, after = (dict(_fields(_plan(one))) for one in (a, b))
    names = [*before, *(name for name in after if name not in before)]
    return [
        (name, before.get(name, ""), after.get(name, ""))
        for name in names
        if before.get(name) != after.get(name)
    ]


def _plan(record: RunRecord) -> Any:
    try:
        return msgspec.json.decode(record.plan or b"{}").get("plan", {})
    except (msgspec.DecodeError, AttributeError):
        return {}


def _fields(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, one in value.items():
            if name not in _NOT_OF_THE_PLAN:
                yield from _fields(one, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and any(isinstance(one, dict) for one in value):
        for n, one in enumerate(value):
            called = one.get("name") or one.get("type") if isinstance(one, dict) else None
            yield from _fields(one, str(called or f"{path}[{n}]"))
    elif value not in (None, [], ""):
        yield path, value if isinstance(value, str) else inline(value)
