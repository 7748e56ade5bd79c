"""A contract's sentences, as places in its text: nothing is changed, so every quote is verbatim."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

_ABBREVIATED = re.compile(
    r"(?:\b(?:inc|corp|co|ltd|llc|no|nos|sec|art|par|para|st|mr|ms|mrs|dr|vs|etc|approx|ex|dept"
    r"|e\.g|i\.e|u\.s|u\.k|p\.m|a\.m)|(?<![a-z0-9])[a-z])\.$"
)
_END = re.compile(r"[.!?][\"')\]]*(?= )|\n[ \n]*\n")
_LEVELLED = str.maketrans({"\t": " ", "\r": " ", "\f": " ", "\v": " ", "\xa0": " ", "\u200b": " ",
                           "“": '"', "”": '"', "‘": "'", "’": "'", "–": "-", "—": "-"})  # fmt: skip
CONTENTS = "....."  # dotted lines lead to a page number: a table of contents


class Sentence(NamedTuple):
    """From `start` to `end` of the text; the sub-clauses of a list belong to their sentence."""

    start: int
    end: int


def levelled(text: str) -> str:
    """The text in small letters, one kind of quotes and spaces, letter for letter in its place."""
    small = text.lower()
    if len(small) != len(text):  # a few letters of other scripts become two
        small = "".join(one if len(one.lower()) != 1 else one.lower() for one in text)
    return small.translate(_LEVELLED)


def sentences(text: str, level: str) -> list[Sentence]:
    """All sentences in their order. `level` is the text as `levelled` gives it.

    A blank line ends one only when what follows does not go on with a small letter: contracts are
    full of page breaks in the middle of a sentence.
    """
    cuts = [0, *_cuts(text, level), len(text)]
    return [Sentence(start, end) for start, end in pairwise(cuts) if level[start:end].strip()]


def _cuts(text: str, level: str) -> Iterator[int]:
    for found in _END.finditer(level):
        after = _next_sign(text, found.end())
        if level[found.start()] == "\n":
            if not after.islower():
                yield found.end()
        elif not after.islower() and not _ABBREVIATED.search(
            level, found.start() - 8, found.start() + 1
        ):
            yield found.end()


def _next_sign(text: str, at: int) -> str:
    """The first letter or digit from there on, within a few signs."""
    return next((one for one in text[at : at + 12] if one.isalnum()), "")
