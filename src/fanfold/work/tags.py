"""Tags of a run: the operator's own words for what it is paid, such as a customer or a project."""

from __future__ import annotations

from collections.abc import Iterable

from fanfold.errors import BadInput
from fanfold.work.check import described

LONGEST, MOST = 60, 20


def check_tags(given: object, where: str) -> tuple[str, ...]:
    """Each once, in their order. One alone need not be a list."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        given = (given,)
    tags = tuple(dict.fromkeys(_tag(one, where) for one in given))
    if len(tags) > MOST:
        raise BadInput(f"{where}: at most {MOST} tags, not {len(tags)}")
    return tags


def _tag(one: object, where: str) -> str:
    if not isinstance(one, str) or not one.strip():
        raise BadInput(f"{where}: a tag is a word, not {described(one)}")
    tag = one.strip()
    if len(tag) > LONGEST or not tag.isprintable():
        raise BadInput(f"{where}: a tag has at most {LONGEST} printable characters: {one[:80]!r}")
    return tag
