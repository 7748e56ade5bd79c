"""What follows from an item's own text before anybody is asked: how long it is, and in which language."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_WORD = re.compile(r"[^\W\d_]+")
_READ = 4_000  # letters that a language is guessed from
_COMMON = {
    "en": "the of and to in is that for it was on are with as be this have from or not what which",
    "de": "der die und das ist nicht ein eine zu den mit von für auf sich dem auch wie als des",
    "fr": "le la les et des est un une que dans pour qui pas sur au ce il avec ne du",
    "es": "el los las que y una por con para es se no del lo como más pero su al está",
    "it": "il che di e un una per non con sono del della è si le gli come più nel questo",
    "pt": "o os que e uma para com não por mais do da em se na no como mas ao foi",
    "nl": "het een van en is dat niet op te voor met zijn er aan ook als maar om dit hij",
}
_WORDS = {language: frozenset(words.split()) for language, words in _COMMON.items()}


def length(view: Any) -> int:
    """Letters in all of its texts."""
    if isinstance(view, str):
        return len(view)
    if isinstance(view, dict):
        return sum(length(value) for name, value in view.items() if name not in ("id", "steps"))
    return sum(map(length, view)) if isinstance(view, list | tuple) else 0


def language(view: Any) -> str:
    """The one most of whose usual words occur; `other` where none does."""
    words = [word.lower() for word in _WORD.findall(_text(view)[:_READ])]
    found = {name: sum(word in own for word in words) for name, own in _WORDS.items()}
    best = max(found, key=lambda name: found[name])
    return best if found[best] > max(1, len(words) // 20) else "other"


def _text(view: Any) -> str:
    if isinstance(view, str):
        return view
    if isinstance(view, dict):
        return " ".join(_text(value) for name, value in view.items() if name not in ("id", "steps"))
    return " ".join(map(_text, view)) if isinstance(view, list | tuple) else ""


DERIVED: dict[str, Callable[[Any], Any]] = {"length": length, "language": language}
