"""async-batch-llm as its README's section on production runs has it."""

from __future__ import annotations

import asyncio
from typing import Any

from async_batch_llm import (
    ArtifactIdentity,
    CallableStrategy,
    CallOutcome,
    ErrorCategory,
    GuardrailConfig,
    ProcessorConfig,
    ResumePolicy,
    SqliteArtifactStore,
    llm,
    process_prompts,
)
from job import Job, given, shout, tell

NEEDS = ["async-batch-llm[openai]"]
SETTINGS = (
    "`process_prompts` with `SqliteArtifactStore`, `REUSE_SUCCESSES`, `max_total_cost` with a cost function,"
    " `abort_on_error_categories` of authentication"
)
NOT_OFFERED: dict[str, str] = {}


def strategy_of(job: Job) -> Any:
    if not job.local:
        return llm(
            f"openai-compatible:{job.model}", base_url=job.url, api_key=job.key,
            generation_config={"max_tokens": job.max_tokens},
        )  # fmt: skip

    async def local(prompt: str, **_: Any) -> CallOutcome:
        return CallOutcome(shout(prompt))

    return CallableStrategy(local, identity=ArtifactIdentity(provider="local", model="shout"))


async def main() -> None:
    job = given()

    def cost(attempt: Any) -> float:
        used = attempt.usage
        return float(
            used["input_tokens"] * job.price_in / 1e6 + used["output_tokens"] * job.price_out / 1e6
        )

    guard = GuardrailConfig(
        abort_on_error_categories=frozenset({ErrorCategory.AUTHENTICATION}),
        max_total_cost=job.budget, cost_function=None if job.budget is None else cost,
    )  # fmt: skip
    store = SqliteArtifactStore(
        "run.sqlite", identity=ArtifactIdentity(provider="openai", model=job.model)
    )
    batch = await process_prompts(
        strategy_of(job), [(item["id"], item["text"]) for item in job.items],
        config=ProcessorConfig(concurrency=job.concurrency, guardrails=guard),
        artifact_store=store, resume=ResumePolicy.REUSE_SUCCESSES,
    )  # fmt: skip
    tell({one.item_id: one.output if one.success else None for one in batch.results})


asyncio.run(main())
