"""Regular expressions that cannot freeze a run.

Python's own engine tries ways again and again: `^(a+)+$` on forty letters takes hours, holds up
everything else and hears no signal. The engine behind JSON Schema's `pattern` needs time in
proportion to the text. It knows no look-around and no back-references, which such an engine cannot
have; patterns with these are refused when they are read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema_rs

from fanfold.errors import BadInput

LINEAR = jsonschema_rs.RegexOptions()

# What these mean in Python, where the other engine has another meaning or none: outside a set, and
# in one, which cannot hold another set.
_MEANINGS = {
    "w": r"[\p{L}\p{N}_]",
    "W": r"[^\p{L}\p{N}_]",
    "d": r"\p{Nd}",
    "D": r"\P{Nd}",
    "s": r"[\s\x1c-\x1f\x85]",
    "S": r"[^\s\x1c-\x1f\x85]",
    "Z": r"\z",
}
_OTHER_JOINERS = r"\u203f\u2040\u2054\ufe33\ufe34\ufe4d-\ufe4f\uff3f"  # all of Pc but `_`
_IN_SETS = {
    "w": r"\p{L}\p{N}_",
    "W": r"\p{M}\p{Pd}\p{Ps}\p{Pe}\p{Pi}\p{Pf}\p{Po}\p{S}\p{Z}\p{C}" + _OTHER_JOINERS,
    "d": r"\p{Nd}",
    "D": r"\P{Nd}",
    "s": r"\s\x1c-\x1f\x85",
}
_AT_THE_END = r"(?:$|\n\z)"  # `$` in Python is also before a last line break
# Look-around, a back-reference by name or number, an atomic group, a condition.
_NOT_LINEAR = re.compile(r"\(\?(?:<?[=!]|P=|>|\()|\\[1-9]")
_TOKENS = re.compile(r"\\(.)|(\[\^?\]?(?:\\.|[^\]\\])*\])|(\$)|(\{,(?=\d+\}))|.", re.DOTALL)
_IN_SET = re.compile(r"\\(.)|([\[\]&~])|.", re.DOTALL)


def linear(pattern: str) -> Callable[[str], bool]:
    """Whether a text holds the pattern (Python's syntax), in time in proportion to the text."""
    try:
        re.compile(pattern)
    except (re.error, TypeError, OverflowError, RecursionError) as wrong:
        raise BadInput(f"`regex` {pattern!r} is not a regular expression: {wrong}") from None
    try:
        made = jsonschema_rs.Draft202012Validator(
            {"pattern": "".join(_translated(pattern))}, pattern_options=LINEAR, offline=True
        )
    except ValueError:
        raise BadInput(f"`regex` {pattern!r} {_why_not(pattern)}") from None
    return made.is_valid


def _translated(pattern: str) -> Iterator[str]:
    """The same meaning in the words of the other engine."""
    for token in _TOKENS.finditer(pattern):
        escaped, whole_set, end, up_to = token.groups()
        if escaped is not None:
            yield _MEANINGS.get(escaped, token[0])
        elif whole_set is not None:
            yield _set(whole_set)
        elif end is not None:
            yield _AT_THE_END
        else:
            yield token[0] if up_to is None else "{0,"


def _set(written: str) -> str:
    head = "[^" if written.startswith("[^") else "["
    found = []
    for token in _IN_SET.finditer(written[len(head) : -1]):
        escaped, special = token.groups()
        if escaped is not None:
            found.append(_IN_SETS.get(escaped, token[0]))
        else:
            found.append(token[0] if special is None else "\\" + special)
    return f"{head}{''.join(found)}]"


def _looks_around(pattern: str) -> bool:
    return _NOT_LINEAR.search(pattern) is not None


def _why_not(pattern: str) -> str:
    if _looks_around(pattern):
        return (
            "uses look-around or a back-reference, which can take for ever on a long reply: write it"
            " without, or as a `python` check"
        )
    return r"cannot be used: escape `{` as `\{`, or write it more plainly (or as a `python` check)"


def check_patterns(definition: Any) -> None:
    """Name the `pattern` of a schema that only an engine which can freeze would understand."""
    for pattern in _patterns(definition):
        if _looks_around(pattern):
            raise BadInput(f"the schema's `pattern` {pattern!r} {_why_not(pattern)}")


def _patterns(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "pattern" and isinstance(inner, str):
                yield inner
            elif name == "patternProperties" and isinstance(inner, dict):
                yield from inner
            if name not in ("const", "enum", "default", "examples"):
                yield from _patterns(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _patterns(inner)
