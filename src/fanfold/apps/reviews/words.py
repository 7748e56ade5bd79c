"""A text as words and clauses."""

from __future__ import annotations

import re
from collections.abc import Iterator

_WORD = re.compile(r"[a-z0-9]+(?:['-][a-z0-9]+)*|[.,!?;:()]")
_ENDS = frozenset(".!?;")
_TURNS = frozenset(("but", "however", "although", "though", "except"))
_ES = ("ses", "xes", "ches", "shes")
_NO_PLURAL = ("ss", "us", "is")


def words(text: str) -> list[str]:
    """In small letters, with the signs that end something."""
    return _WORD.findall(text.lower().replace("’", "'"))


def singular(word: str) -> str:
    """By its ending alone, so now and then wrong, but always the same."""
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(_ES):
        return word[:-2]
    if word.endswith("s") and len(word) > 3 and not word.endswith(_NO_PLURAL):
        return word[:-1]
    return word


def clauses(said: list[str]) -> Iterator[list[str]]:
    """Cut where a sentence ends or turns: praise and blame often share a sentence."""
    clause: list[str] = []
    for word in said:
        if word in _ENDS or word in _TURNS:
            if clause:
                yield clause
            clause = []
        if word not in _ENDS:
            clause.append(word)
    if clause:
        yield clause
