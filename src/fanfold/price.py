"""Tokens to money. Money is counted in whole nano-dollars, rounded up, so sums never drift."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import ROUND_CEILING, Decimal
from functools import cache, lru_cache
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

NANO = 1_000_000_000
_FINE = 1_000_000  # rates are whole millionths of a nano-dollar per token, so no float ever rounds
_TABLE = Path(__file__).with_name("price_table.json")


class Tier(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The price of a whole call that has more than `start` input tokens, cached ones included."""

    start: int
    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


class Price(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, cache_hash=True
):
    """Dollars per million tokens; `call` is a flat price per call.

    A cache price that is not stated is the input price. `tiers` are for models that cost more (or
    less) above some input size; they stand in rising order of `start`.
    """

    input: float = 0.0
    output: float = 0.0
    cache_read: float | None = None
    cache_write: float | None = None
    call: float = 0.0
    tiers: tuple[Tier, ...] = ()

    @property
    def flat(self) -> bool:
        """A call costs the same, however long it is."""
        return self == Price(call=self.call)


FREE = Price()


@lru_cache(maxsize=256)
def scaled(price: Price, factor: float) -> Price:
    """All of it times a factor: what a service asks for answers that may take a day, say."""
    return Price(
        **{name: _times(getattr(price, name), factor) for name in (*_RATES, "call")},
        tiers=tuple(
            Tier(tier.start, **{name: _times(getattr(tier, name), factor) for name in _RATES})
            for tier in price.tiers
        ),
    )


_RATES = ("input", "output", "cache_read", "cache_write")


def _times(amount: float | None, factor: float) -> Any:
    """In decimals, so that nothing is added by floating point."""
    return None if amount is None else float(Decimal(repr(amount)) * Decimal(repr(factor)))


def nanos(usd: float) -> int:
    """Dollars as nano-dollars, rounded up (but not by what floating point adds)."""
    return ceil(usd * NANO - 1e-3)


def dollars(amount: int) -> float:
    return amount / NANO


def reading_pays(price: Price | None) -> bool:
    """Whether what a service has kept costs less to read than to send."""
    return price is not None and price.cache_read is not None and price.cache_read < price.input


def cost(price: Price, input: int, output: int, cache_read: int = 0, cache_write: int = 0) -> int:
    """What a call cost, in nano-dollars, from the tokens it reported. Never less than exact."""
    call, rates = _rates(price)
    rate = rates[0]
    if len(rates) > 1:
        whole = input + cache_read + cache_write
        rate = next(rate for rate in reversed(rates) if whole > rate.start)
    fine = input * rate.input + output * rate.output
    if cache_read or cache_write:
        fine += cache_read * rate.cache_read + cache_write * rate.cache_write
    return call - (-fine // _FINE)


def worst(price: Price, input: int, output: int) -> int:
    """The most a call can cost: all input at the dearest input price, all of the output allowed.

    With tiers, the dearest of those that so much input can reach.
    """
    call, rates = _rates(price)
    rate = rates[0]
    fine = input * rate.dearest + output * rate.output
    for rate in rates[1:]:
        if input > rate.start:
            fine = max(fine, input * rate.dearest + output * rate.output)
    return call - (-fine // _FINE)


class _Rate(NamedTuple):
    """A price in whole numbers. `dearest` is the highest that one input token can cost."""

    start: int
    input: int
    output: int
    cache_read: int
    cache_write: int
    dearest: int


@lru_cache(maxsize=1024)
def _rates(price: Price) -> tuple[int, tuple[_Rate, ...]]:
    """The flat price per call in nano-dollars, then the rates: the base, and each tier above it."""
    tiers = sorted(price.tiers, key=lambda tier: tier.start)
    return _whole(price.call, NANO), (_rate(-1, price), *(_rate(t.start, t) for t in tiers))


def _rate(start: int, price: Price | Tier) -> _Rate:
    asked, out = _per_token(price.input), _per_token(price.output)
    read = asked if price.cache_read is None else _per_token(price.cache_read)
    write = asked if price.cache_write is None else _per_token(price.cache_write)
    return _Rate(start, asked, out, read, write, max(asked, read, write))


def _per_token(per_million: float) -> int:
    return _whole(per_million, 1000 * _FINE)


def _whole(amount: float, times: int) -> int:
    """`amount` as it was written in decimals, times `times`, rounded up to a whole number."""
    return int((Decimal(repr(amount)) * times).to_integral_value(ROUND_CEILING))


# ── the price table ──────────────────────────────────────────────────────────────────────────


class _Later(msgspec.Struct, frozen=True):
    """A price that was announced when the table was made."""

    start: date
    price: Price | None


class _Model(msgspec.Struct, frozen=True):
    """`price` None: known by name, but billed in a way that cannot be counted here."""

    id: str
    price: Price | None
    match: dict[str, Any] | None = None
    later: tuple[_Later, ...] = ()

    def fits(self, model: str) -> bool:
        return model == self.id if self.match is None else _fits(self.match, model)

    def on(self, day: date) -> Price | None:
        return next((n.price for n in reversed(self.later) if n.start <= day), self.price)


class _Provider(msgspec.Struct, frozen=True):
    """`api` is a pattern of the addresses that this provider answers at.

    `resells`: providers whose models it offers at their prices, unless it lists its own.
    """

    id: str
    api: str
    models: tuple[_Model, ...]
    resells: tuple[str, ...] = ()

    def find(self, model: str) -> _Model | None:
        return next((known for known in self.models if known.fits(model)), None)


class _Table(msgspec.Struct, frozen=True):
    providers: tuple[_Provider, ...]

    def named(self, provider: str) -> _Provider:
        return next(known for known in self.providers if known.id == provider)

    def at(self, base_url: str) -> _Provider | None:
        """The provider at this address; None for an address that the table does not know."""
        return next((known for known in self.providers if re.match(known.api, base_url)), None)

    def find(self, model: str, provider: _Provider) -> _Model | None:
        places = (provider, *(self.named(other) for other in provider.resells))
        return next((known for place in places if (known := place.find(model))), None)

    def listed(self, model: str) -> list[_Model]:
        """Every entry of exactly this id, whoever the provider is."""
        return [known for place in self.providers for known in place.models if known.id == model]


def lookup(
    model: str, kind: str, base_url: str | None = None, *, on: date | None = None
) -> Price | None:
    """The list price of a model, or None when it is not known; never a guess.

    Kind `anthropic` looks at Anthropic's own models only. Kind `openai` looks at the provider that
    `base_url` belongs to when the table knows that one. Otherwise at OpenAI's models, then at all
    providers that list exactly this model id; when those disagree, the answer is None. `on` is the
    day that counts (default today): some price changes are announced ahead.
    """
    if kind not in ("anthropic", "openai"):
        return None
    table, name, day = _table(), model.lower(), on or datetime.now(UTC).date()
    here = table.at(base_url) if base_url and kind == "openai" else None
    known = table.find(name, here or table.named(kind))
    if known:
        return known.on(day)
    if here or kind == "anthropic":
        return None
    prices = {other.on(day) for other in table.listed(name)}
    return prices.pop() if len(prices) == 1 else None


@cache
def _table() -> _Table:
    return msgspec.json.decode(_TABLE.read_bytes(), type=_Table)


def _fits(rule: dict[str, Any], model: str) -> bool:
    """One rule of the table: a word and what it is about. `model` is in lower case."""
    ((word, value),) = rule.items()
    match word:
        case "equals":
            return bool(model == value)
        case "starts_with":
            return model.startswith(value)
        case "ends_with":
            return model.endswith(value)
        case "contains":
            return value in model
        case "regex":
            return re.search(value, model) is not None
        case "or":
            return any(_fits(part, model) for part in value)
        case "and":
            return all(_fits(part, model) for part in value)
    raise ValueError(f"price table: unknown rule {word!r}")


def price_text(price: Price | None) -> str:
    """For people, and for models."""
    if price is None:
        return "unknown"
    parts = []
    if price.input or price.output:
        parts.append(f"${price.input:g} in, ${price.output:g} out per M")
    if price.call:
        parts.append(f"${price.call:g} per call")
    return " + ".join(parts) or "free"
