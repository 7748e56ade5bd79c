"""Bespoke Curator: an LLM over a dataset; it keeps what was answered by the fingerprint of the dataset."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from job import bundled_tokens, given, tell

os.environ |= {
    "CURATOR_CACHE_DIR": str(Path("cache").absolute()),
    "TELEMETRY_ENABLED": "false",
    "CURATOR_DISABLE_RICH_DISPLAY": "1",
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "TIKTOKEN_CACHE_DIR": bundled_tokens(),  # else its counter of tokens fetches a table
}

from bespokelabs import curator

NEEDS = ["bespokelabs-curator"]
SETTINGS = (
    "`curator.LLM` with `backend='openai'`, `base_url`, `max_concurrent_requests`, limits by the minute out"
    " of the way, `require_all_responses=False`; its cache of runs"
)
NOT_OFFERED = {"cap": "no budget", "local": "an item is answered by a model"}


class Ask(curator.LLM):
    def prompt(self, input: dict[str, str]) -> str:
        return input["text"]

    def parse(self, input: dict[str, str], response: str) -> dict[str, Any]:
        return {"id": input["id"], "answer": response}


def main() -> None:
    job = given()
    ask = Ask(
        model_name=job.model, backend="openai", generation_params={"max_tokens": job.max_tokens},
        backend_params={
            "base_url": job.url, "api_key": job.key, "max_concurrent_requests": job.concurrency,
            "max_requests_per_minute": 1_000_000, "max_tokens_per_minute": 1_000_000_000,
            "require_all_responses": False,
        },
    )  # fmt: skip
    found = ask(job.items)
    tell({row["id"]: row["answer"] for row in found.dataset})


main()
