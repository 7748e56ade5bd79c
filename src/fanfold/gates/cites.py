"""A gate on sources: what a reply cites must have been given to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from fanfold.work.arguments import public
from fanfold.work.ask import Reply
from fanfold.work.fields import MISSING, leaves, path_of
from fanfold.work.outcome import PASS, Verdict, fail
from fanfold.work.task import AskPower, Gate, Task, known_as

_SHOWN = 10
_IN_BRACKETS = re.compile(r"\[([^\[\]]+)\](?!\()")  # [c-17], but not the text of a [link](url)
_APART = re.compile(r"[,;]")


@public
def cites(field: str | None = None) -> Gate:
    """Every id that the reply cites is one of those it was told: the items behind an asked reduce's
    parts, else the ask's own items.

    `field` holds an id, a list of ids, or records with `id` or `ids`; a missing field fails.
    Without one, ids are what stands in square brackets in the reply's texts, such as [c-17] or
    [c-17, c-18]: any other word in brackets fails too. Nothing cited at all passes: `require` the
    field, or use `regex`, when there must be something.
    """
    path = path_of(field)

    def check(task: Task, reply: Reply, ask: AskPower) -> Verdict:
        known = _known_ids(task)
        if field is None:
            return _verdict(_in_brackets(reply.value, known), known)
        cited: list[str] = []
        for at, leaf in leaves(reply.value, path):
            if leaf is MISSING:
                return fail(f"`{at}` is missing; it must name the ids that the answer rests on")
            for id in _ids(leaf):
                if id is None:
                    return fail(f"`{at}` must hold ids, or records with an `id` or `ids`")
                cited.append(id)
        return _verdict(cited, known)

    return known_as("pure", check)


def _known_ids(task: Task) -> frozenset[str]:
    """The ids behind the parts, when the ask is made of parts; else those of its items."""
    items = task.ask.items
    data = items[0].data if len(items) == 1 else None
    if isinstance(data, dict) and data.keys() >= {"parts", "missing"}:
        parts = data["parts"] if isinstance(data["parts"], list) else []
        if parts and all(isinstance(part, dict) and "ids" in part for part in parts):
            return frozenset(id for part in parts for id in part["ids"] or [part["id"]])
    return frozenset(item.id for item in items)


def _verdict(cited: list[str], known: frozenset[str]) -> Verdict:
    unknown = list(dict.fromkeys(id for id in cited if id not in known))
    if not unknown:
        return PASS
    more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
    named = ", ".join(unknown[:_SHOWN])
    return fail(f"cites what was not given: {named}{more}; cite only ids that are in the request")


def _ids(value: Any) -> Iterator[str | None]:
    """The ids in a field; None for what is none."""
    match value:
        case str():
            yield value.strip() or None
        case bool() | None:
            yield None
        case int():
            yield str(value)
        case list() | tuple():
            for one in value:
                yield from _ids(one)
        case {"ids": ids}:
            yield from _ids(ids)
        case {"id": id}:
            yield from _ids(id)
        case _:
            yield None


def _in_brackets(value: Any, known: frozenset[str]) -> list[str]:
    """An id may hold commas or brackets itself, so the known ones are looked for whole first."""
    cited: list[str] = []
    for text in _texts(value):
        for id in known:
            if "[" in id or "]" in id:
                text = text.replace(f"[{id}]", "")
        for inside in _IN_BRACKETS.findall(text):
            whole = inside.strip()
            pieces = [whole] if whole in known else [one.strip() for one in _APART.split(whole)]
            cited += [piece for piece in pieces if piece]
    return cited


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)
