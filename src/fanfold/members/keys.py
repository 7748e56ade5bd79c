"""References to keys: `env:NAME`, `file:PATH` or `none`. A key itself is never written down, kept or
repeated."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from fanfold.errors import Terminal
from fanfold.work.document import Node
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
                _refuse_as_reference(node)
            raise node.bad(
                f"`{node.name}` holds what looks like a key in clear; take it out (and replace the"
                " key, it may be known), and write `key: env:NAME` or `key: file:PATH`"
            )


def _refuse_as_reference(node: Node) -> None:
    try:
        check_reference(node.value, node.name)
    except Misfit as misfit:
        raise node.bad(misfit.what) from None


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
    """ "" when it is not set, missing or not readable. Files are looked for beside the roster."""
    how, _, name = reference.partition(":")
    if how == "env":
        return environ.get(name, "").strip()
    try:
        return (roster / Path(name).expanduser()).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
