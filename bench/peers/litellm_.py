"""LiteLLM's SDK: `acompletion`, its disk cache, `max_budget`."""

from __future__ import annotations

import asyncio
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it fetches a price list

import litellm
from job import Job, given, tell
from litellm.caching.caching import Cache

NEEDS = ["litellm[proxy]", "diskcache"]  # a hit of its cache imports what the proxy needs
SETTINGS = (
    "SDK: `acompletion(num_retries=3)` behind a semaphore, `Cache(type='disk')`, `litellm.max_budget` with"
    " the model's price registered; an item without HTTP by its `mock_response`"
)
NOT_OFFERED: dict[str, str] = {}


def settle(job: Job) -> None:
    litellm.suppress_debug_info = True
    price = {
        "input_cost_per_token": job.price_in / 1e6, "output_cost_per_token": job.price_out / 1e6,
        "litellm_provider": "openai", "mode": "chat",
    }  # fmt: skip
    litellm.register_model({job.model: price})
    if job.task in ("kills", "edit"):
        litellm.cache = Cache(type="disk", disk_cache_dir="cache")
    if job.budget is not None:
        litellm.max_budget = job.budget


async def main() -> None:
    job = given()
    settle(job)
    at_once = asyncio.Semaphore(job.concurrency)

    async def ask(item: dict[str, str]) -> str | None:
        async with at_once:
            reply = await litellm.acompletion(
                model=f"openai/{job.model}", api_base=job.url, api_key=job.key,
                max_tokens=job.max_tokens, messages=[{"role": "user", "content": item["text"]}],
                num_retries=3, mock_response="local" if job.local else None,
            )  # fmt: skip
            return reply.choices[0].message.content

    items = job.items
    found = await asyncio.gather(*map(ask, items), return_exceptions=True)
    tell({
        item["id"]: None if isinstance(said, BaseException) else said
        for item, said in zip(items, found, strict=True)
    })  # fmt: skip


asyncio.run(main())
