"""Prefect: a task for each item, its result kept by its inputs; the openai client within."""

from __future__ import annotations

import os
from pathlib import Path

os.environ |= {
    "PREFECT_HOME": str(Path("prefect").absolute()),
    "PREFECT_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
}

from job import given, shout, tell
from openai import OpenAI
from prefect import flow, task
from prefect.cache_policies import INPUTS
from prefect.task_runners import ThreadPoolTaskRunner

NEEDS = ["prefect", "openai", "fastapi<0.150"]  # it does not start with the newest fastapi
SETTINGS = (
    "`@task(persist_result=True, cache_policy=INPUTS, retries=3, retry_delay_seconds=1)` around the openai"
    " client, `task.map` with `ThreadPoolTaskRunner(max_workers=…)`, its own server in the process"
)
NOT_OFFERED = {"cap": "no budget"}
job = given()
client = OpenAI(base_url=job.url, api_key=job.key)


@task(persist_result=True, cache_policy=INPUTS, retries=3, retry_delay_seconds=1)
def ask(text: str) -> str | None:
    if job.local:
        return shout(text)
    reply = client.chat.completions.create(
        model=job.model, max_tokens=job.max_tokens, messages=[{"role": "user", "content": text}]
    )
    return reply.choices[0].message.content


@flow(task_runner=ThreadPoolTaskRunner(max_workers=job.concurrency))
def bench() -> dict[str, str | None]:
    items = job.items
    found = ask.map([item["text"] for item in items])
    said = [one.result(raise_on_failure=False) for one in found]
    return {
        item["id"]: None if isinstance(one, Exception) else one
        for item, one in zip(items, said, strict=True)
    }


if __name__ == "__main__":
    tell(bench())
