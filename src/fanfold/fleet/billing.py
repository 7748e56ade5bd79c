"""Who pays for a fleet's workers: the login of the program, or the account of a key."""

from __future__ import annotations

from collections.abc import Mapping

from fanfold.fleet.records import Fleet, Provider

KEYS: dict[Provider, tuple[str, ...]] = {
    "claude": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "codex": ("CODEX_API_KEY", "OPENAI_API_KEY"),
}
Accounts = Mapping[Provider, str]
"""The variable with the key that is billed, by provider; who has none uses its login."""


def accounts(fleet: Fleet, environ: Mapping[str, str]) -> Accounts:
    """As the fleet says; else a key that is set is used, which is what the programs do themselves."""
    if fleet.config.billing == "subscription":
        return {}
    found: dict[Provider, str] = {}
    for provider in dict.fromkeys(worker.provider for worker in fleet.workers):
        set_ones = [name for name in KEYS[provider] if environ.get(name)]
        if set_ones or fleet.config.billing == "api":
            found[provider] = (set_ones or KEYS[provider])[0]
    return found


def told(fleet: Fleet, billed: Accounts) -> list[str]:
    """Said at launch, since it is easily overlooked; not where the fleet says so itself."""
    if fleet.config.billing is not None:
        return []
    return [
        f"{name} is set, so {provider} workers are billed to that account; for the login write"
        ' "billing": "subscription" into `config`'
        for provider, name in billed.items()
    ]
