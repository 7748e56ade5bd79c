"""Label probabilities: which of a few words goes on best from a prompt. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fanfold.work.ask import Schema

PROBABILITIES = "probabilities"

Tokens = tuple[int, ...]


class Choice(NamedTuple):
    """What a schema leaves to be chosen: one of `values`, in `field` or as the whole reply.

    `shown`: the schema has room for the probabilities.
    """

    values: tuple[str | int, ...]
    field: str | None
    shown: bool

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(str(value) for value in self.values)

    def data(self, shares: Mapping[str, float]) -> Any:
        """The most probable one as the schema wants it; of several alike the first."""
        label = best(shares)
        value = self.values[self.labels.index(label)]
        if self.field is None:
            return value
        rounded = {name: round(share, 6) for name, share in shares.items()}
        return {self.field: value, **({PROBABILITIES: rounded} if self.shown else {})}


def weighted(shares: Mapping[str, float], weights: Mapping[str, float]) -> dict[str, float]:
    """Each times its weight; they add up to one again."""
    lifted = {label: share * weights.get(label, 1.0) for label, share in shares.items()}
    whole = sum(lifted.values())
    return {label: one / whole for label, one in lifted.items()} if whole else dict(shares)


def best(shares: Mapping[str, float]) -> str:
    return max(shares, key=lambda label: shares[label])


def choice(schema: Schema | None) -> Choice | None:
    """A schema with labels: `{enum: [...]}`, or an object with one such field. None for others."""
    definition = schema.definition if schema else {}
    values = _values(definition)
    if values:
        return Choice(values, None, shown=False)
    found = [
        (name, values)
        for name, field in definition.get("properties", {}).items()
        if (values := _values(field))
    ]
    if len(found) != 1:
        return None
    (field, values), = found  # fmt: skip
    if set(definition.get("required", ())) - {field, PROBABILITIES}:
        return None
    stated = PROBABILITIES in definition["properties"]
    return Choice(values, field, stated or definition.get("additionalProperties") is not False)


def _values(definition: Any) -> tuple[str | int, ...]:
    """At least two, different as texts, each a word or a whole number."""
    values = definition.get("enum", ()) if isinstance(definition, dict) else ()
    usable = all(_is_label(value) for value in values)
    differ = len({str(value) for value in values}) == len(values)
    return tuple(values) if len(values) > 1 and usable and differ else ()


def _is_label(value: Any) -> bool:
    if isinstance(value, str):
        return bool(value.strip())
    return isinstance(value, int) and not isinstance(value, bool)


# ── the way through the labels' tokens ───────────────────────────────────────────────────────


class Fork(NamedTuple):
    """Labels that begin alike, and by which token they go on. Asked for only where they part."""

    prefix: Tokens
    ways: dict[int, tuple[str, ...]]


def ended(tokens: Mapping[str, Tokens], end: int) -> dict[str, Tokens]:
    """Where one label is the beginning of another, it gets the token that ends a line behind it."""

    def begins_another(mine: Tokens) -> bool:
        return any(other != mine and other[: len(mine)] == mine for other in tokens.values())

    return {label: (*mine, end) if begins_another(mine) else mine for label, mine in tokens.items()}


def fork(tokens: Mapping[str, Tokens], among: tuple[str, ...]) -> Fork | None:
    """The first place where these labels part; None for a single one, or if they never do."""
    shortest = min(len(tokens[label]) for label in among)
    for at in range(shortest if len(among) > 1 else 0):
        ways: dict[int, tuple[str, ...]] = {}
        for label in among:
            token = tokens[label][at]
            ways[token] = (*ways.get(token, ()), label)
        if len(ways) > 1:
            return Fork(tokens[among[0]][:at], ways)
    return None
