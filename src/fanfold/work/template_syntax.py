"""What Jinja says of a mistake in a template, in the words of those who write prompts."""

from __future__ import annotations

import re
from collections.abc import Collection

_END = r"'end of (?:statement block|print statement)'"
_WORDS = [
    (re.compile(rf"expected token {_END}, got '='"), "one `=` compares nothing; write `==`"),
    (re.compile(rf"expected token {_END}, got '(.*)'"), r"unexpected `\1` after the expression"),
    (re.compile(rf"unexpected end of template, expected {_END}."), "a `{{` or `{%` is never closed"),
    (re.compile(rf"unexpected {_END}|Expected an expression, got {_END}"), "an expression is incomplete"),
    (re.compile(r"unexpected '\}'"), "unexpected `}`; a value ends with `}}`, a tag with `%}`"),
]  # fmt: skip


def plain_words(message: str) -> str:
    for said, words in _WORDS:
        if found := said.fullmatch(message):
            return found.expand(words)
    return message


_ONE_BRACE = re.compile(r"\{\s*((\w+)(?:\.\w+|\[[^\[\]{}]+\])*)\s*\}")
_MARKS = ("{{", "{%", "{#")


def single_braces(source: str, known: Collection[str]) -> tuple[str, int] | None:
    """What stands in single braces, as in an f-string, where a value was meant: the field, and its line.
    Only in a text that is no template otherwise; within `{% raw %}` it is as it stands."""
    if not any(mark in source for mark in _MARKS):
        for found in _ONE_BRACE.finditer(source):
            if found[2] in known:
                return found[1], source.count("\n", 0, found.start()) + 1
    return None
