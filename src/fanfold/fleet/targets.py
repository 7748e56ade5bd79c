"""Which files a worker may claim, as patterns; and whether two patterns can name the same file.

It is decided from the patterns alone: the files need not be there yet.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

from fanfold.work.check import described
from fanfold.work.reader import Misfit

_T = TypeVar("_T")
_Letter: TypeAlias = frozenset[str] | None
"""The letters that fit at one place; None is any."""

_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_TOKEN = re.compile(r"\*+|\?|\[!?\]?[^\]]*\]|.", re.DOTALL)
_WILD = "*?["
_MOST_CHOICES = 256


class TargetPattern(str):
    """A pattern below the fleet's folder: `src/**/*.ts`, `docs/`, `{a,b}.md`."""

    __slots__ = ()

    @classmethod
    def from_value(cls, value: Any) -> TargetPattern:
        if not isinstance(value, str) or not value.strip():
            raise Misfit(f"a pattern in `target_files` must be a text, not {described(value)}")
        if value.startswith(("/", "~")) or ".." in value.split("/"):
            raise Misfit(f"`{value}` in `target_files` must be below the fleet's folder")
        if len(value) > 1000 or len(_expanded(value)) > _MOST_CHOICES:
            raise Misfit("a pattern in `target_files` is too long; use several short ones")
        return cls(value)


def overlap(one: str, other: str) -> bool:
    """Can there be a file that both name? A folder includes all that is below it."""
    paths = [list(_paths(pattern)) for pattern in (one, other)]
    return any(_meet(a, b, "**", _fits) for a in paths[0] for b in paths[1])


def _paths(pattern: str) -> Iterator[tuple[str, ...]]:
    """Its segments, for each choice in braces; a plain last one may be a folder."""
    for path in _expanded(pattern):
        parts = tuple(part for part in path.split("/") if part not in ("", "."))
        yield parts
        if not parts or not any(letter in parts[-1] for letter in _WILD):
            yield (*parts, "**")


def _expanded(pattern: str) -> list[str]:
    found, made = [pattern], list[str]()
    while found and len(found) + len(made) <= _MOST_CHOICES + 1:
        path = found.pop()
        match = _BRACES.search(path)
        if match is None:
            made.append(path)
        else:
            choices = match[1].split(",")
            found += [path[: match.start()] + one + path[match.end() :] for one in choices]
    return made + found


def _fits(one: str, other: str) -> bool:
    return one == other or _meet(_letters(one), _letters(other), _STAR, _common)


_STAR: frozenset[str] = frozenset()


def _letters(segment: str) -> list[_Letter]:
    return [_letter(token) for token in _TOKEN.findall(segment)]


def _letter(token: str) -> _Letter:
    if token.startswith("*"):
        return _STAR
    if token == "?" or token.startswith("[!"):
        return None
    if len(token) == 1:
        return frozenset(token)
    ranges = re.findall(r"(.)-(.)|(.)", token[1:-1], re.DOTALL)
    return frozenset(
        chr(code)
        for low, high, alone in ranges
        for code in range(ord(low or alone), ord(high or alone) + 1)
    )


def _common(one: _Letter, other: _Letter) -> bool:
    return one is None or other is None or bool(one & other)


def _meet(a: Sequence[_T], b: Sequence[_T], wild: _T, fits: Callable[[_T, _T], bool]) -> bool:
    """Do two patterns have a match in common? `wild` matches any number of any.

    From the end: `below` and `row` say whether the rests from there on do.
    """
    below = [False] * (len(b) + 1)
    for i in range(len(a), -1, -1):
        row = [False] * (len(b) + 1)
        for j in range(len(b), -1, -1):
            in_a, in_b = i < len(a), j < len(b)
            if not in_a and not in_b:
                row[j] = True
            elif (in_a and a[i] == wild) or (in_b and b[j] == wild):
                row[j] = (in_a and below[j]) or (in_b and row[j + 1])
            elif in_a and in_b:
                row[j] = below[j + 1] and fits(a[i], b[j])
        below = row
    return below[0]
