"""One text into stretches that fit: cut at blank lines, lines, sentences, words, or anywhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from fanfold.errors import FanfoldError

_BREAKS = (
    re.compile(r"\n[^\S\n]*\n\s*"),
    re.compile(r"\n"),
    re.compile(r"[.!?…][\"'”’)\]]*\s+|[。！？]+"),
    re.compile(r"\s+"),
)


class NoSplit(FanfoldError):
    """Why one piece cannot be split. It fails with that, and only it."""


def stretches(text: str, fits: Callable[[str], bool]) -> Iterator[tuple[int, int]]:
    """The text as stretches that fit, from the first character to the last, each as long as can be.

    Cut at blank lines; where that is not enough at lines, then sentences, then words, then
    anywhere. Raises NoSplit when not even one character fits.
    """
    if not fits(text[:1]):
        raise NoSplit("not even one character of it fits beside the prompt; let more fit")
    return _stretches(text, fits, 0, len(text), 0)


def _stretches(
    text: str, fits: Callable[[str], bool], start: int, end: int, level: int
) -> Iterator[tuple[int, int]]:
    ends = _ends(text, start, end, level)
    at, usual = 0, 1
    while at < len(ends):
        if not fits(text[start : ends[at]]):
            if level == len(_BREAKS):
                raise NoSplit(f"the character at {start} does not fit by itself")
            yield from _stretches(text, fits, start, ends[at], level + 1)
            start, at = ends[at], at + 1
            continue
        first, begin = at, start

        def many_fit(many: int, first: int = first, begin: int = begin) -> bool:
            return first + many <= len(ends) and fits(text[begin : ends[first + many - 1]])

        usual = longest(many_fit, usual)
        at += usual
        yield start, ends[at - 1]
        start = ends[at - 1]


def _ends(text: str, start: int, end: int, level: int) -> Sequence[int]:
    """Where units of this level end, white space with the unit before it; the last is the end."""
    if level == len(_BREAKS):
        return range(start + 1, end + 1)
    found, before = [], start
    for sign in _BREAKS[level].finditer(text, start, end):
        at = sign.end()
        if at < end and not text[before:at].isspace():
            found.append(at)
            before = at
    return [*found, end]


def longest(fits: Callable[[int], bool], usual: int = 1) -> int:
    """The largest number that fits, when 1 does; few questions when it is about as usual."""
    good, bad, step = 1, 0, 1
    probe = max(usual, 2)
    while not bad or bad - good > 1:
        if fits(probe):
            good, probe = probe, probe + step
            if bad and probe >= bad:
                probe = (good + bad) // 2
        else:
            bad, probe = probe, probe - step
            if probe <= good:
                probe = (good + bad) // 2
        step *= 2
    return good
