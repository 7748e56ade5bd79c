"""Why items did not pass: the same reason counts once, however its ids and numbers differ."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

import msgspec

MOST_GROUPS = 1000  # different reasons that are told apart
_LONGEST = 400  # characters of a reason that are kept
_KEEP = re.compile(
    r"^[\w.@/-]+: "  # who says it
    r"|(?:HTTP|status|code|exit|errno|signal)[ :]+\d+|\(\d{3}\)"
    r"|[\w./-]+\.py:\d+"
)
_QUOTED = re.compile(r"""(?<!\w)(["'])(?=[^"']*\s|[^"']{25,})[^"']*\1(?!\w)""")
_NUMBER = re.compile(r"[+-]?\b[\w-]*\d[\w.,:-]*")


class ReasonCount(msgspec.Struct, frozen=True):
    """A reason why items did not pass: how many, one of them, and the reason as that one has it."""

    reason: str
    items: int
    example: str


def grouped(ended: Iterable[tuple[str, tuple[str, ...]]]) -> tuple[ReasonCount, ...]:
    """The most frequent first, of ids with the reasons of each. Reasons that differ only in the id,
    in numbers or in what they quote are one."""
    first: dict[str, tuple[str, str]] = {}
    items: Counter[str] = Counter()
    for id, reasons in ended:
        for kind, reason in {_kind(id, one): one for one in reversed(reasons)}.items():
            if kind in first or len(first) < MOST_GROUPS:
                first.setdefault(kind, (reason[:_LONGEST], id))
                items[kind] += 1
    return tuple(ReasonCount(first[kind][0], n, first[kind][1]) for kind, n in items.most_common())


def _kind(id: str, reason: str) -> str:
    text = " ".join(reason[:_LONGEST].split())
    if id in text and (len(id) > 1 or id.isdigit()):
        text = _without(id, text)
    kept: list[str] = []

    def keep(found: re.Match[str]) -> str:
        kept.append(found[0])
        return "\0"

    text = _NUMBER.sub("#", _QUOTED.sub('"#"', _KEEP.sub(keep, text)))
    return text + "\n" + "\n".join(kept)


def _without(id: str, text: str) -> str:
    """The text with `#` where the id stands as a word; not as a line of code (`:7`) or a code (`(7`).
    Not by a pattern: one for each id would be compiled for each item."""
    parts, at = [], 0
    while (found := text.find(id, at)) >= 0:
        end = found + len(id)
        before, after = text[found - 1 : found], text[end : end + 1]
        alone = not (before.isalnum() or before in ("_", ":", "(")) and not after.isalnum()
        parts.append(text[at:found] + ("#" if alone and after != "_" else id))
        at = end
    return "".join([*parts, text[at:]])
