"""Money: exact, rounded up, never under-counted; and list prices that are known or None."""

from __future__ import annotations

import math
from datetime import date
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from fanfold.price import FREE, Price, Tier, _table, cost, dollars, lookup, nanos, worst

HAIKU = Price(input=1.0, output=5.0, cache_read=0.1, cache_write=1.25)
TIERED = Price(
    input=3.0, output=15.0, tiers=(Tier(start=200_000, input=6.0, output=22.5, cache_read=0.6),)
)

amounts = st.decimals(min_value=0, max_value=200, places=7, allow_nan=False).map(float)
tokens = st.integers(min_value=0, max_value=2_000_000)
tiers = st.builds(
    Tier,
    start=st.integers(min_value=0, max_value=1_000_000),
    input=amounts,
    output=amounts,
    cache_read=st.none() | amounts,
    cache_write=st.none() | amounts,
)
prices = st.builds(
    Price,
    input=amounts,
    output=amounts,
    cache_read=st.none() | amounts,
    cache_write=st.none() | amounts,
    call=amounts,
    tiers=st.lists(tiers, max_size=3, unique_by=lambda tier: tier.start).map(tuple),
)


def exact(price: Price, input: int, output: int, cache_read: int, cache_write: int) -> Fraction:
    """The cost in nano-dollars as a rational number, from the prices as they are written."""
    size = input + cache_read + cache_write
    above = [tier for tier in price.tiers if size > tier.start]
    rate = max(above, key=lambda tier: tier.start) if above else price
    read = rate.input if rate.cache_read is None else rate.cache_read
    write = rate.input if rate.cache_write is None else rate.cache_write
    counted = ((input, rate.input), (output, rate.output), (cache_read, read), (cache_write, write))
    per_million = sum((n * Fraction(repr(dollars_per)) for n, dollars_per in counted), Fraction(0))
    return per_million * 1000 + Fraction(repr(price.call)) * 1_000_000_000


def test_a_cost_adds_up_each_kind_of_token_at_its_own_price() -> None:
    assert cost(HAIKU, 1000, 200, 3000, 40) == 1_000_000 + 1_000_000 + 300_000 + 50_000


def test_unstated_cache_prices_are_the_input_price() -> None:
    assert cost(Price(input=2.0), 0, 0, cache_read=10, cache_write=5) == 30_000


def test_a_flat_price_per_call_is_added() -> None:
    assert cost(Price(call=0.004), 0, 0) == 4_000_000
    assert worst(Price(call=0.004), 10, 10) == 4_000_000


def test_a_fraction_of_a_nano_dollar_is_rounded_up() -> None:
    assert cost(Price(input=0.0028), 1, 0) == 3


def test_free_costs_nothing() -> None:
    assert (cost(FREE, 10**6, 10**6), worst(FREE, 10**6, 10**6)) == (0, 0)


def test_dollars_and_nanos_are_one_another() -> None:
    assert nanos(1.234567) == 1_234_567_000
    assert dollars(1_234_567_000) == 1.234567


def test_a_tier_prices_the_whole_call_once_its_input_is_larger_than_the_start() -> None:
    assert cost(TIERED, 200_000, 100) == 600_000_000 + 1_500_000
    assert cost(TIERED, 200_001, 100) == 1_200_006_000 + 2_250_000


def test_cached_tokens_count_towards_the_size_of_the_input() -> None:
    assert cost(TIERED, 100_000, 0, cache_read=100_001) == 600_000_000 + 60_000_600


def test_the_worst_case_takes_the_dearest_tier_within_reach() -> None:
    assert worst(TIERED, 200_000, 1000) == 600_000_000 + 15_000_000
    assert worst(TIERED, 200_001, 1000) == 1_200_006_000 + 22_500_000


def test_the_worst_case_remembers_that_a_cheaper_tier_may_not_be_reached() -> None:
    """A discount for large calls: a call of less than the worst size pays the base price."""
    price = Price(input=3.0, output=15.0, tiers=(Tier(start=1000, input=1.0, output=5.0),))
    assert worst(price, 1001, 100) == 1001 * 3000 + 100 * 15_000


@given(prices, tokens, tokens, tokens, tokens)
def test_a_cost_is_the_exact_cost_rounded_up(
    price: Price, input: int, output: int, read: int, write: int
) -> None:
    counted = cost(price, input, output, read, write)
    assert 0 <= counted - exact(price, input, output, read, write) < 2  # the flat price rounds too


@given(prices, st.lists(st.tuples(tokens, tokens, tokens, tokens), max_size=20))
def test_the_sum_of_costs_is_never_below_the_exact_sum(
    price: Price, calls: list[tuple[int, int, int, int]]
) -> None:
    assert sum(cost(price, *call) for call in calls) >= sum(exact(price, *call) for call in calls)


@given(prices, tokens, tokens, st.data())
def test_no_call_within_its_bounds_costs_more_than_the_worst_case(
    price: Price, most_in: int, most_out: int, data: st.DataObject
) -> None:
    read = data.draw(st.integers(0, most_in))
    write = data.draw(st.integers(0, most_in - read))
    input = data.draw(st.integers(0, most_in - read - write))
    output = data.draw(st.integers(0, most_out))
    assert cost(price, input, output, read, write) <= worst(price, most_in, most_out)


@given(prices, tokens, tokens)
def test_the_worst_case_is_reached_by_some_call(price: Price, most_in: int, most_out: int) -> None:
    """It is a bound, not a scare: without a tier, all input in the dearest way costs just that."""
    plain = Price(price.input, price.output, price.cache_read, price.cache_write, price.call)
    ways = ((most_in, most_out), (0, most_out, most_in), (0, most_out, 0, most_in))
    assert max(cost(plain, *way) for way in ways) == worst(plain, most_in, most_out)


# ── the price table ──────────────────────────────────────────────────────────────────────────


def test_a_known_model_has_its_list_price() -> None:
    assert lookup("claude-haiku-4-5", "anthropic") == HAIKU
    assert lookup("gpt-4o-mini", "openai") == Price(0.15, 0.6, 0.075)


def test_the_case_of_a_model_name_does_not_matter() -> None:
    assert lookup("Claude-Haiku-4-5", "anthropic") == HAIKU


def test_a_dated_name_finds_its_model() -> None:
    assert lookup("claude-haiku-4-5-20251001", "anthropic") == HAIKU


def test_a_price_with_tiers_comes_with_them() -> None:
    found = lookup("claude-sonnet-4-5", "anthropic")
    assert found == Price(3.0, 15.0, 0.3, 3.75, tiers=(Tier(200_000, 6.0, 22.5, 0.6, 7.5),))


def test_unknown_is_none() -> None:
    assert lookup("no-such-model", "openai") is None
    assert lookup("no-such-model", "anthropic") is None
    assert lookup("claude-haiku-4-5", "command") is None


def test_the_anthropic_kind_knows_only_models_of_anthropic() -> None:
    assert lookup("gpt-4o-mini", "anthropic") is None


def test_the_openai_kind_takes_another_provider_s_model_by_its_exact_id() -> None:
    assert lookup("deepseek-chat", "openai") == Price(0.27, 1.1, 0.07)
    assert lookup("deepseek-chat-and-more", "openai") is None


def test_providers_that_disagree_give_no_price_unless_the_address_decides() -> None:
    assert lookup("command-r", "openai") is None
    assert lookup("command-r", "openai", "https://api.cohere.ai/v1") == Price(0.15, 0.6)


def test_at_a_known_address_only_that_provider_counts() -> None:
    assert lookup("gpt-4o-mini", "openai", "https://api.deepseek.com/v1") is None


def test_a_reseller_s_models_cost_what_they_cost_at_home() -> None:
    azure = lookup("gpt-4o-mini", "openai", "https://mine.openai.azure.com/openai/v1")
    assert azure == lookup("gpt-4o-mini", "openai")


def test_a_model_billed_in_ways_that_are_not_counted_is_unknown() -> None:
    assert lookup("sonar-deep-research", "openai", "https://api.perplexity.ai") is None


def test_an_announced_price_counts_from_its_day_on() -> None:
    google = "https://generativelanguage.googleapis.com/v1beta/openai"
    before = lookup("gemini-3.6-flash", "openai", google, on=date(2026, 12, 31))
    after = lookup("gemini-3.6-flash", "openai", google, on=date(2027, 1, 1))
    assert (before, after) == (Price(0.75, 3.75, 0.075), Price(1.5, 7.5, 0.15))


def test_every_price_of_the_table_is_finite_and_not_negative() -> None:
    listed = [m.price for place in _table().providers for m in place.models if m.price]
    amounts = [n for p in listed for n in (p.input, p.output, p.cache_read or 0, p.call)]
    assert len(listed) > 1500
    assert [n for n in amounts if not (math.isfinite(n) and n >= 0)] == []
