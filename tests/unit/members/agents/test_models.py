"""Short names of models, where their price is looked up."""

from __future__ import annotations

import pytest

from fanfold import price
from fanfold.members.agents.program_settings import pricing_model


@pytest.mark.parametrize(
    ("model", "meant"),
    [
        ("sonnet", "claude-sonnet-5-5"),
        ("sonnet[1m]", "claude-sonnet-5-5"),
        ("haiku", "claude-haiku-5-5"),
        ("opus", "claude-opus-5-5"),
        ("opusplan", "claude-opus-5-5"),
        (None, "claude-opus-5-5"),
        ("claude-sonnet-4-5", "claude-sonnet-4-5"),
    ],
)
def test_a_short_name_of_claude_has_a_price(model: str | None, meant: str) -> None:
    assert pricing_model("claude", model) == meant
    assert price.lookup(meant, "anthropic") is not None


@pytest.mark.parametrize("model", ["gpt-5.4", "gpt-5.4-mini", "gpt-5.3-codex", "gpt-5.5"])
def test_the_models_of_codex_stand_in_the_table_by_their_own_name(model: str) -> None:
    assert pricing_model("codex", model) == model
    assert price.lookup(model, "openai") is not None


def test_a_model_that_nobody_named_has_no_price_guessed_for_it() -> None:
    assert price.lookup(pricing_model("codex", None), "openai") is None
    assert price.lookup(pricing_model("claude", "my-own"), "anthropic") is None
