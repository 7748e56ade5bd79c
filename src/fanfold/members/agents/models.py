"""Which model an agent's short name stands for, where a price is looked up."""

from __future__ import annotations

_CLAUDE = {
    "": "claude-opus-5-5",
    "default": "claude-opus-5-5",
    "best": "claude-opus-5-5",
    "sonnet": "claude-sonnet-5-5",
    "haiku": "claude-haiku-5-5",
    "opus": "claude-opus-5-5",
    "opusplan": "claude-opus-5-5",  # plans with opus, works with sonnet: the dearer of the two
}
"""As claude 2.1.325 takes them with an API key; other versions and logins may differ. What a call
cost is told by the model that its events name."""


def pricing_model(provider: str, model: str | None) -> str:
    """The model's name in the price table. The program itself gets the name as it was written."""
    name = model or ""
    if provider == "claude":
        return _CLAUDE.get(name.removesuffix("[1m]"), name.removesuffix("[1m]"))
    return name
