"""What stand-ins say: as steps replied before, or of the form that is asked for, of the usual length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from fanfold.run.forecast import BYTES_PER_TOKEN
from fanfold.work.ask import Ask
from fanfold.work.example import example

PROSE = 40  # characters from which on a text is no label: each reply has one of its own
FREE_TEXT = "text"  # in an example: a schema says nothing more of it
_WORDS = "as it might be said at some length by a member that was asked about it "


def said(ask: Ask, tokens: int, values: Sequence[Any], chance: Random) -> Any:
    """The same for the same ask and `chance`. `values`: replies of this step on record."""
    data = ask.items[0].data if len(ask.items) == 1 else None
    if isinstance(data, dict):
        if "choices" in data:
            labels = [one["label"] for one in data["choices"]]
            return {"order": chance.sample(labels, len(labels))}
        if data.keys() in ({"a", "b"}, {"left", "right"}):
            return {"same": chance.random() < 0.1}
    form = ask.schema.definition if ask.schema else None
    if form and len(ask.items) > 1 and "answers" in form.get("properties", {}):
        each = form["properties"]["answers"]["items"]["properties"]["answer"]
        tokens //= len(ask.items)
        answers = [
            {"id": one.id, "answer": _one(each, tokens, values, chance)} for one in ask.items
        ]
        return {"answers": answers}
    return _one(form, tokens, values, chance)


def _one(form: Any, tokens: int, values: Sequence[Any], chance: Random) -> Any:
    if values:
        return _own(chance.choice(values), chance)
    if form is None:
        return text(tokens, chance)
    made = example(form)
    return _filled(made, tokens // max(1, str(made).count(FREE_TEXT)), chance)


def _own(value: Any, chance: Random) -> Any:
    """A recorded reply as if it were another one: so no two asks that show it are the same."""
    return _each(
        value, lambda one: f"{one} {chance.getrandbits(40):x}" if len(one) >= PROSE else one
    )


def _filled(value: Any, tokens: int, chance: Random) -> Any:
    return _each(value, lambda one: text(tokens, chance) if one == FREE_TEXT else one)


def _each(value: Any, change: Callable[[str], str]) -> Any:
    """With each text in it changed."""
    if isinstance(value, list):
        return [_each(one, change) for one in value]
    if isinstance(value, dict):
        return {name: _each(one, change) for name, one in value.items()}
    return change(value) if isinstance(value, str) else value


def text(tokens: int, chance: Random) -> str:
    size = max(1, tokens) * BYTES_PER_TOKEN
    head = f"{chance.getrandbits(40):x} "
    return (head + _WORDS * (size // len(_WORDS) + 1))[: max(size, len(head))]
