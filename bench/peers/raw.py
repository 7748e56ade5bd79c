"""No tool at all: the openai client, a semaphore and `gather`. What the overhead is measured against."""

from __future__ import annotations

import asyncio

from job import given, shout, tell
from openai import AsyncOpenAI

NEEDS = ["openai"]
SETTINGS = "the client of openai, a semaphore and `asyncio.gather`; its own 2 retries"
NOT_OFFERED = {
    "kills": "nothing is kept",
    "cap": "no budget",
    "edit": "nothing is kept",
    "local": "it is the call of a function",
}


async def main() -> None:
    job = given()
    client = AsyncOpenAI(base_url=job.url, api_key=job.key)
    at_once = asyncio.Semaphore(job.concurrency)

    async def ask(item: dict[str, str]) -> str | None:
        async with at_once:
            if job.local:
                return shout(item["text"])
            reply = await client.chat.completions.create(
                model=job.model, max_tokens=job.max_tokens,
                messages=[{"role": "user", "content": item["text"]}],
            )  # fmt: skip
            return reply.choices[0].message.content

    items = job.items
    found = await asyncio.gather(*map(ask, items), return_exceptions=True)
    tell({
        item["id"]: None if isinstance(said, BaseException) else said
        for item, said in zip(items, found, strict=True)
    })  # fmt: skip


asyncio.run(main())
