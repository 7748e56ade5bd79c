"""Keys: references to them (`env:NAME`, `file:PATH`, `none`), and taking them out of texts.

A key itself is never written down, kept or repeated. Servers echo what they were sent: the whole key,
its beginning or end, or a form of it (Base64 of a header, percent signs, hex); each is as good as it.
"""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote

from fanfold.errors import Terminal
from fanfold.work.document import Node
from fanfold.work.files import expanded
from fanfold.work.reader import Misfit

Key: TypeAlias = Callable[[], str | None]
"""Fetches a key at the last moment; None when the member needs none."""

_KEY = re.compile(r"none|env:[A-Za-z_][A-Za-z0-9_]*|file:.+")
_PASTED = re.compile(
    r"(?<![A-Za-z0-9_-])(sk-[A-Za-z]{0,8}-?|gsk_|xai-|hf_|ghp_|github_pat_|AIza)[A-Za-z0-9_-]{16,}"
)


def check_reference(value: object, name: str = "key") -> str:
    """A reference as it is written. What is written instead may be the key itself: it is not
    repeated."""
    if isinstance(value, str) and _KEY.fullmatch(value):
        return value
    raise Misfit(
        f"`{name}` must be env:NAME, file:PATH or none, never the key itself; "
        "put the key into a variable and write env: and its name"
    )


if TYPE_CHECKING:
    KeyReference: TypeAlias = str
else:

    class KeyReference(str):
        """The type of a field `key`."""

        @classmethod
        def from_value(cls, value):
            return cls(check_reference(value))


def looks_like_key(text: str) -> bool:
    return _PASTED.search(text) is not None


def refuse_pasted_keys(top: Node) -> None:
    """Before anything else is said about a roster: nothing in it looks like a key in clear.

    So no later error can repeat one. It is refused, since there is nothing that it could be for.
    """
    for node in _texts(top):
        if looks_like_key(node.value):
            if node.name in ("key", "key_ref"):
                try:
                    check_reference(node.value, node.name)
                except Misfit as misfit:
                    raise node.bad(misfit.what) from None
            raise node.bad(
                f"`{node.name}` holds what looks like a key in clear; take it out (and replace the"
                " key, it may be known), and write `key: env:NAME` or `key: file:PATH`"
            )


def _texts(node: Node) -> Iterator[Node]:
    match node.value:
        case str():
            yield node
        case dict():
            for key in node.value:
                yield from _texts(node.child(key))
        case list():
            for position in range(len(node.value)):
                yield from _texts(node.child(position))


def fetcher(id: str, reference: str, roster: Path) -> Key:
    """Resolves a reference whenever it is called, so that a key is never kept."""

    def fetch() -> str | None:
        if reference == "none":
            return None
        key = value_of(reference, roster, os.environ)
        if not key:
            raise Terminal(f"{id}: its key is no longer set", scope="pool")
        return key

    return fetch


def value_of(reference: str, roster: Path, environ: Mapping[str, str]) -> str:
    """ "" when it is not set, missing or not readable. Files are looked for beside the roster; nothing
    but a regular one is opened, since a pipe may never answer."""
    how, _, name = reference.partition(":")
    if how == "env":
        return environ.get(name, "").strip()
    file = roster / expanded(name)
    try:
        return file.read_text(encoding="utf-8").strip() if file.is_file() else ""
    except (OSError, UnicodeDecodeError):
        return ""


MASK = "[key]"
SHORTEST = 8  # characters of a key that may not be seen in a row
_LEAST = 3  # of a key that is shown masked, as `sk-…a1b2`
_MOST = 4000  # characters of a text that are looked at; what is shown of it is far shorter
_masked = re.compile(r"([\w-]*)(?:[*•·…]+|\.{2,}|[xX]{4,}|\[\w+\])([\w-]*)")


def scrubbed(text: str, key: str) -> str:
    """The text, or the beginning of a very long one, without the key in any of its forms."""
    text = text[:_MOST]
    if len(key) < 4:
        return text
    plain, size = _lower(text), min(SHORTEST, len(key))
    seen = bytearray(len(text))
    for grams, width in _forms(key, size):
        for start in range(len(text) - width + 1):
            if plain[start : start + width] in grams:
                seen[start : start + width] = b"x" * width
    made, at = [], 0
    for found in re.finditer(rb"x+", seen):
        made += [text[at : found.start()], MASK]
        at = found.end()
    return _without_ends("".join([*made, text[at:]]), key)


@lru_cache(8)
def _forms(key: str, size: int) -> tuple[tuple[frozenset[str], int], ...]:
    """For each form all its pieces that represent so many characters of the key.

    Base64 takes three bytes at a time, so what a piece looks like depends on where in its threes
    it begins; what the neighbours have a part in is left out.
    """
    raw = key.encode()
    percent = "".join(f"%{byte:02x}" for byte in raw)
    found = [(key, size), (percent, 3 * size), (raw.hex(), 2 * size), (quote(key, safe=""), size)]
    for place in range(3):
        form = b64encode(b"\0" * place + raw).decode().rstrip("=")
        inner = form[(0, 2, 3)[place] : len(form) - 1]
        width = min(size * 4 // 3, len(inner))
        found += [(inner, width), (inner.replace("+", "-").replace("/", "_"), width)]
    return tuple((_pieces(_lower(form), width), width) for form, width in found if width > 2)


def _pieces(form: str, width: int) -> frozenset[str]:
    return frozenset(form[at : at + width] for at in range(len(form) - width + 1))


def _without_ends(text: str, key: str) -> str:
    """A key that a server has masked itself still shows where it begins and ends."""
    plain = _lower(key)

    def shorter(found: re.Match[str]) -> str:
        first, last = _lower(found[1]), _lower(found[2])
        begins = len(first) >= _LEAST and plain.startswith(first)
        ends = len(last) >= _LEAST and plain.endswith(last)
        return MASK if begins or ends else found[0]

    return _masked.sub(shorter, text)


def _lower(text: str) -> str:
    """As long as it was: not every letter is."""
    return (
        text.lower() if text.isascii() else "".join(c.lower() if c.isascii() else c for c in text)
    )
