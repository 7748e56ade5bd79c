"""Inspect: a task with a sample for each item, run as an eval set, which resumes; its cache of replies."""

from __future__ import annotations

import os

from inspect_ai import Task, eval_set
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import list_eval_logs, read_eval_log
from inspect_ai.model import GenerateConfig, ModelOutput, get_model
from inspect_ai.solver import generate
from job import given, tell

NEEDS = ["inspect-ai", "openai"]
SETTINGS = (
    "`eval_set` over one task with `generate(cache=True)`, `max_connections` and `max_samples`,"
    " `log_buffer=1`, `fail_on_error=False`, `retry_attempts=0`; the model as `openai-api/…`"
)
NOT_OFFERED = {
    "cap": "`cost_limit` is for each sample, not for a run",
    "local": "an item is answered by a model; a mock one is still called",
}


def main() -> None:
    job = given()
    os.environ["INSPECT_CACHE_DIR"] = os.path.abspath("cache")
    os.environ["BENCH_BASE_URL"], os.environ["BENCH_API_KEY"] = job.url, job.key
    model = get_model(
        f"openai-api/bench/{job.model}",
        config=GenerateConfig(max_tokens=job.max_tokens, max_connections=job.concurrency),
    )
    samples = [Sample(id=item["id"], input=item["text"]) for item in job.items]
    task = Task(dataset=MemoryDataset(samples), solver=generate(cache=True), name="bench")
    # the logs of an eval set belong to its input: an edited one is another set
    logs = f"logs-{job.version}"
    eval_set(
        task, log_dir=logs, model=model, max_samples=job.concurrency, retry_attempts=0,
        fail_on_error=False, log_buffer=1, display="none",
    )  # fmt: skip
    answers: dict[str, str | None] = {}
    for info in list_eval_logs(logs):
        for sample in read_eval_log(info).samples or []:
            said = None if sample.error else ModelOutput.model_validate(sample.output).completion
            answers[str(sample.id)] = said or answers.get(str(sample.id))
    tell(answers)


main()
