"""Pydantic AI with DBOS: a durable agent, a workflow for each item, in SQLite."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

from dbos import DBOS, SetWorkflowID
from genai_prices.data_snapshot import DataSnapshot, get_snapshot, set_custom_snapshot
from genai_prices.types import ClauseEquals, ModelInfo, ModelPrice, Provider
from job import Job, digest, given, shout, tell
from pydantic_ai import Agent
from pydantic_ai.durable_exec.dbos import DBOSAgent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import RunUsage, UsageLimits

NEEDS = ["pydantic-ai-slim[openai,dbos]"]
SETTINGS = (
    "`DBOSAgent` with SQLite, a workflow for each item whose id is a digest of it, a semaphore; for the cap"
    " a plain agent, one `RunUsage` for all and `UsageLimits(cost_limit=…)` with the model's price registered"
)
NOT_OFFERED: dict[str, str] = {}
Ask = Callable[[dict[str, str]], Awaitable[str]]


def agent_of(job: Job) -> Agent[None, str]:
    provider = OpenAIProvider(base_url=job.url, api_key=job.key)
    return Agent(
        OpenAIChatModel(job.model, provider=provider),
        name="bench",
        model_settings={"max_tokens": job.max_tokens},
    )


def capped(job: Job) -> Ask:
    """One usage for all runs: how much they have spent together is checked before and after each."""
    price = ModelPrice(input_mtok=Decimal(job.price_in), output_mtok=Decimal(job.price_out))
    model = ModelInfo(id=job.model, match=ClauseEquals(job.model), prices=price)
    here = Provider(id="bench", name="bench", api_pattern=r"http://127\.0\.0\.1", models=[model])
    set_custom_snapshot(DataSnapshot([here, *get_snapshot().providers], from_auto_update=False))
    agent, usage = agent_of(job), RunUsage()
    limits = UsageLimits(cost_limit=Decimal(str(job.budget)), request_limit=None)

    async def ask(item: dict[str, str]) -> str:
        return (await agent.run(item["text"], usage=usage, usage_limits=limits)).output

    return ask


def durable(job: Job) -> Ask:
    DBOS(
        config={
            "name": "bench",
            "system_database_url": "sqlite:///dbos.sqlite",
            "run_admin_server": False,
        }
    )
    agent = DBOSAgent(agent_of(job))

    @DBOS.workflow()
    async def local(text: str) -> str:
        return shout(text)

    async def ask(item: dict[str, str]) -> str:
        with SetWorkflowID(digest(item["id"] + item["text"])):
            if job.local:
                return await local(item["text"])
            return (await agent.run(item["text"])).output

    DBOS.launch()  # takes up what a dead process had begun
    return ask


async def main() -> None:
    job = given()
    at_once = asyncio.Semaphore(job.concurrency)
    ask = durable(job) if job.budget is None else capped(job)

    async def one(item: dict[str, str]) -> Any:
        async with at_once:
            return await ask(item)

    items = job.items
    found = await asyncio.gather(*map(one, items), return_exceptions=True)
    tell({
        item["id"]: None if isinstance(said, BaseException) else said
        for item, said in zip(items, found, strict=True)
    })  # fmt: skip


asyncio.run(main())
