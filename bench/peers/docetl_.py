"""DocETL: a pipeline with one map, as `docetl run` would run it; it caches answers on disk."""

from __future__ import annotations

import json
import os
from pathlib import Path

from job import bundled_tokens, given, tell

os.environ |= {
    "DOCETL_HOME_DIR": str(Path("home").absolute()),
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "TIKTOKEN_CACHE_DIR": bundled_tokens(),  # else its counter of tokens fetches a table
}

from docetl.runner import DSLRunner

NEEDS = ["docetl"]
SETTINGS = (
    "a pipeline of one `map` with `output: {mode: structured_output}`, `max_threads`, its cache on disk and"
    " its retries as they are"
)
NOT_OFFERED = {"cap": "no budget"}


def main() -> None:
    job = given()
    Path("items.json").write_text(json.dumps(job.items))
    ask = {
        "name": "ask", "type": "map", "model": f"openai/{job.model}", "prompt": "{{ input.text }}",
        "output": {"schema": {"answer": "string"}, "mode": "structured_output"},
        "litellm_completion_kwargs": {
            "api_base": job.url, "api_key": job.key, "max_tokens": job.max_tokens,
        },
    }  # fmt: skip
    if job.local:
        ask = {
            "name": "ask", "type": "code_map",
            "code": "def transform(doc):\n    return {'answer': doc['text'].upper()}",
        }  # fmt: skip
    config = {
        "default_model": f"openai/{job.model}",
        "datasets": {"items": {"type": "file", "path": "items.json"}},
        "operations": [ask],
        "pipeline": {
            "steps": [{"name": "step", "input": "items", "operations": ["ask"]}],
            "output": {"type": "file", "path": "out.json"},
        },
    }
    DSLRunner(config, max_threads=job.concurrency).load_run_save()
    tell({row["id"]: row.get("answer") for row in json.loads(Path("out.json").read_text())})


main()
