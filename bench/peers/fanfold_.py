"""fanfold, by its command line. Its environment is the one that runs this benchmark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from job import given, tell

from fanfold.journal import opening

NEEDS: list[str] = []
SETTINGS = (
    "a plan of one `map` and `collect`; `fanfold run`, after a kill `fanfold resume`; `--budget`"
)
NOT_OFFERED: dict[str, str] = {}

ROSTER = """\
members:
  - id: model
    kind: openai
    model: {model}
    base_url: {url}
    key: env:BENCH_KEY
    price: {{input: {price_in}, output: {price_out}}}
    max_tokens: {max_tokens}
    limits: {{concurrency: {concurrency}}}
  - {{id: local, kind: function, target: "code:shout"}}
"""
PLAN = """\
name: bench
input: {{jsonl: items.jsonl}}
steps:
  - map: {{member: {member}, prompt: "{{{{ item.text }}}}", concurrency: {concurrency}}}
  - reduce: collect
"""
PROGRAM = [sys.executable, "-c", "from fanfold.faces.cli.main import main; main()"]


def main() -> None:
    job = given()
    Path("roster.yaml").write_text(ROSTER.format(**job._asdict()))
    member = "local" if job.local else "model"
    Path("plan.yaml").write_text(PLAN.format(member=member, concurrency=job.concurrency))
    Path("code.py").write_text("def shout(item):\n    return item['text'].upper()\n")
    words = ["run", "plan.yaml", *(["--budget", str(job.budget)] if job.budget else [])]
    if job.task == "kills" and Path("begun").exists():
        words = ["resume", "bench"]
    Path("begun").touch()
    env = {**os.environ, "BENCH_KEY": job.key}
    subprocess.run([*PROGRAM, *words, "--quiet", "--json"], env=env, stdout=subprocess.DEVNULL)
    tell(recorded())


def recorded() -> dict[str, str]:
    """What the last run holds, also when it paused."""
    archive = opening.look(".fanfold")
    record = archive.read.find("bench")
    endings = [] if record is None else archive.read.endings(record.no, ["passed"])
    return {ending.id: str(ending.value) for ending in endings}


main()
