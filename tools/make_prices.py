"""Make `src/fanfold/price_table.json` from the genai-prices package.

    pip install genai-prices && python tools/make_prices.py

A model without a price per input and per output token, or one that bills something fanfold cannot
count (reasoning or citations apart from the output), gets the price null: unknown, not a guess.
Prices that change with the time of day enter at their dearest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any

from genai_prices import types
from genai_prices.data import providers

TABLE = Path(__file__).parents[1] / "src" / "fanfold" / "price_table.json"
UNITS = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
}
UNCOUNTED = ("output_reasoning_mtok", "output_citation_mtok")
ORIGIN = {
    "origin": "https://github.com/pydantic/genai-prices",
    "package": f"genai-prices {version('genai-prices')}",
    "licence": "MIT; Copyright (c) Pydantic Services Inc. 2025 to present; full text in NOTICE",
    "unit": "dollars per million tokens; call: dollars per call",
}


def main() -> None:
    today = datetime.now(UTC).date()
    listed = [provider(known, today) for known in providers]
    lines = ",\n".join(json.dumps(place, separators=(",", ":")) for place in listed)
    head = json.dumps({**ORIGIN, "built": today.isoformat()}, indent=0)[1:-2]
    TABLE.write_text(f'{{{head},\n"providers": [\n{lines}\n]}}\n', encoding="utf-8")
    print(f"{sum(len(place['models']) for place in listed)} models, {TABLE.stat().st_size} bytes")


def provider(known: types.Provider, today: date) -> dict[str, Any]:
    listed = [model(info, today) for info in known.models]
    resells = known.fallback_model_providers or []
    whole = {"id": known.id, "api": known.api_pattern, "models": listed}
    return {**whole, "resells": resells} if resells else whole


def model(info: types.ModelInfo, today: date) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": info.id.lower(), "price": price(valid(info, today))}
    match = rule(info.match)
    if match != {"equals": entry["id"]}:
        entry["match"] = match
    coming = [day for day in days(info) if day > today]
    later = [{"start": day.isoformat(), "price": price(valid(info, day))} for day in coming]
    return {**entry, "later": later} if later else entry


def days(info: types.ModelInfo) -> list[date]:
    """The days on which a price of this model begins."""
    dated = info.prices if isinstance(info.prices, list) else []
    limits = (conditional.constraint for conditional in dated)
    return sorted(c.start_date for c in limits if isinstance(c, types.StartDateConstraint))


def valid(info: types.ModelInfo, day: date) -> list[types.ModelPrice]:
    """The prices that can apply on a day: one, or several when the time of day decides."""
    if isinstance(info.prices, types.ModelPrice):
        return [info.prices]
    return list(_valid(info.prices, day)) or [info.prices[0].prices]


def _valid(listed: list[types.ConditionalPrice], day: date) -> Iterator[types.ModelPrice]:
    for conditional in reversed(listed):  # the last one that applies counts
        match conditional.constraint:
            case types.TimeOfDateConstraint():
                yield conditional.prices
            case types.StartDateConstraint(start_date=start) if start > day:
                continue
            case _:
                yield conditional.prices
                return


def price(choices: list[types.ModelPrice]) -> dict[str, Any] | None:
    """The dearest of the choices, unit by unit; None when it cannot be counted in tokens."""
    if any(not countable(choice) for choice in choices):
        return None
    values = [getattr(choice, unit) for choice in choices for unit in UNITS.values()]
    starts = {t.start for v in values if isinstance(v, types.TieredPrices) for t in v.tiers}
    whole = at_size(choices, lambda value: value.base)
    per_thousand = max(choice.requests_kcount or Decimal(0) for choice in choices)
    if per_thousand:
        whole["call"] = float(per_thousand / 1000)
    if starts:
        whole["tiers"] = [{"start": s, **at_size(choices, above(s))} for s in sorted(starts)]
    return whole


def countable(choice: types.ModelPrice) -> bool:
    complete = choice.input_mtok is not None and choice.output_mtok is not None
    return complete and all(getattr(choice, unit) is None for unit in UNCOUNTED)


def above(start: int) -> Callable[[types.TieredPrices], Decimal]:
    """The price of a call with more than `start` input tokens."""

    def pick(value: types.TieredPrices) -> Decimal:
        return next((t.price for t in reversed(value.tiers) if t.start <= start), value.base)

    return pick


def at_size(
    choices: list[types.ModelPrice], pick: Callable[[types.TieredPrices], Decimal]
) -> dict[str, Any]:
    whole = {}
    for name, unit in UNITS.items():
        values = [value for choice in choices if (value := getattr(choice, unit)) is not None]
        if values:
            dearest = max(pick(v) if isinstance(v, types.TieredPrices) else v for v in values)
            whole[name] = float(dearest)
    return whole


def rule(match: Any) -> dict[str, Any]:
    """A match rule as data. Model ids are compared in lower case, so the texts are lowered here."""
    ((word, value),) = vars(match).items()
    word = word.rstrip("_")
    if word in ("or", "and"):
        return {word: [rule(part) for part in value]}
    return {word: value if word == "regex" else value.lower()}


if __name__ == "__main__":
    main()
