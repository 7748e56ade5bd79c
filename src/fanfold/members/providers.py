"""Services that speak OpenAI chat completions: where they are, whose key they take, what they do
otherwise."""

from __future__ import annotations

import re
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from fanfold.work.media import MediaKind

ProviderName = Literal[
    "", "azure", "bedrock", "cerebras", "deepseek", "fireworks", "gemini", "groq", "lmstudio", "mistral",
    "nvidia", "ollama", "openai", "openrouter", "together", "vertex", "vllm", "xai",
]  # fmt: skip


class Provider(msgspec.Struct, frozen=True):
    """`host`: its key goes only there and to what is below it; `hosts`: a pattern of them. `newest`: it wants
    `max_completion_tokens`. `schemas` False: a schema goes into the prompt. `seed`: what it calls
    that. `usage`: a stream must be told to report usage. `header`: where its key goes, if not into
    the usual one. `media`: the files that its usual models take. `batch`: the part of the price that its
    batch service asks, if it has one as OpenAI has. `listed_at`: the address by which price lists know it,
    `prefix`: what its names of models begin with and theirs do not."""

    base_url: str = ""
    key: str = "none"
    host: str = ""
    hosts: str = ""
    newest: bool = False
    schemas: bool = True
    seed: str = "seed"
    usage: bool = True
    header: str = ""
    media: tuple[MediaKind, ...] = ()
    batch: float | None = None
    listed_at: str = ""
    prefix: str = ""

    def is_at(self, url: str) -> bool:
        """Whether an address is its own."""
        if self.hosts:
            return re.fullmatch(self.hosts, urlsplit(url).hostname or "") is not None
        found, own = (
            urlsplit(url).hostname or "",
            self.host or urlsplit(self.base_url).hostname or "",
        )
        return bool(own) and (found == own or found.endswith(f".{own}"))


_SEEN: tuple[MediaKind, ...] = ("image", "document")
PROVIDERS: dict[str, Provider] = {
    "": Provider(),
    "azure": Provider(
        "",
        "env:AZURE_OPENAI_API_KEY",
        "azure.com",
        newest=True,
        header="api-key",
        media=_SEEN,
        batch=0.5,
    ),
    "bedrock": Provider(
        "",
        "env:AWS_BEARER_TOKEN_BEDROCK",
        newest=True,
        hosts=r"bedrock-(runtime|mantle)\.[a-z0-9-]+\.(amazonaws\.com|api\.aws)",
    ),
    "cerebras": Provider("https://api.cerebras.ai/v1", "env:CEREBRAS_API_KEY", newest=True),
    "deepseek": Provider("https://api.deepseek.com/v1", "env:DEEPSEEK_API_KEY", schemas=False),
    "fireworks": Provider("https://api.fireworks.ai/inference/v1", "env:FIREWORKS_API_KEY"),
    "gemini": Provider(
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "env:GEMINI_API_KEY",
        media=("image", "audio"),
    ),
    "groq": Provider("https://api.groq.com/openai/v1", "env:GROQ_API_KEY", newest=True, batch=0.5),
    "lmstudio": Provider("http://127.0.0.1:1234/v1"),
    "mistral": Provider(
        "https://api.mistral.ai/v1", "env:MISTRAL_API_KEY", seed="random_seed", usage=False
    ),
    "nvidia": Provider("https://integrate.api.nvidia.com/v1", "env:NVIDIA_API_KEY"),
    "ollama": Provider("http://127.0.0.1:11434/v1"),
    "openai": Provider(
        "https://api.openai.com/v1", "env:OPENAI_API_KEY", newest=True, media=_SEEN, batch=0.5
    ),
    "openrouter": Provider("https://openrouter.ai/api/v1", "env:OPENROUTER_API_KEY", media=_SEEN),
    "together": Provider(
        "https://api.together.ai/v1",
        "env:TOGETHER_API_KEY",
        hosts=r"api\.together\.(ai|xyz)",
        listed_at="https://api.together.xyz/v1",
    ),
    "vertex": Provider(
        "",
        "env:VERTEX_ACCESS_TOKEN",
        hosts=r"([a-z0-9-]+-)?aiplatform\.googleapis\.com",
        media=("image",),
        prefix="google/",
    ),
    "vllm": Provider("http://127.0.0.1:8000/v1"),
    "xai": Provider("https://api.x.ai/v1", "env:XAI_API_KEY"),
}
