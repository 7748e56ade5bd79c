"""What Jinja says of a mistake in a template, in the words of those who write prompts."""

from __future__ import annotations

import re

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
