"""The example of DocETL's README, with a summary of each category after it, by DocETL and as a plan.

    python bench/peers/readme_example.py

Prints the lines of the table in docs/operators.md: calls and dollars by the books of the model server, of
a run that is left alone, of the same once more, and of one that is killed (-9) and started again. DocETL
must be installed: `python bench/peers/run.py --only docetl --tasks bad_key --rounds 1` does it.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from run import alone
from scene import ENVIRONMENTS, PRICE, TOP, end, wait_for

from fanfold.price import dollars
from fanfold.testing.running import RunningServer, running_server
from fanfold.testing.script import Asked, Says

TICKETS, AT_ONCE, KILL_AT = 40, 4, 12
LATENCY_MS = 1000.0  # long, so that a kill meets as many calls as may be under way

PIPELINE = """\
datasets:
  tickets:
    type: file
    path: tickets.json
default_model: openai/test-model
operations:
  - name: classify
    type: map
    prompt: "Classify this support ticket: {{ input.text }}"
    output:
      schema:
        category: str
        priority: str
  - name: summarize
    type: reduce
    reduce_key: category
    prompt: "Summarize these tickets: {{ inputs }}"
    output:
      schema:
        summary: str
pipeline:
  steps:
    - name: triage
      input: tickets
      operations: [classify, summarize]
  output:
    type: file
    path: output.json
"""
ROSTER = """\
members:
  - {{id: model, kind: openai, model: test-model, base_url: "{url}/v1",
     price: {{input: 1, output: 5}}, max_tokens: 400}}
"""


def says(asked: Asked) -> Says:
    """One of three categories, by the text; a summary of one length. By a call of the tool that the
    client offers, where it does."""
    tools = asked.body.get("tools") or [{"function": {"name": None}}]
    tool = tools[0]["function"]["name"]
    if "Classify" in asked.prompt:
        kind = sha256(asked.prompt.encode()).digest()[0] % 3
        said = {"category": ("size", "fabric", "other")[kind], "priority": "low"}
        return Says(data=said, tool=tool)
    return Says(data={"summary": "Most of these are about one thing. " * 4}, tool=tool)


def plan() -> str:
    """As docs/operators.md shows it."""
    page = (TOP / "docs" / "operators.md").read_text()
    found = re.search(r"^## Beside DocETL.*?```yaml\n(.*?)```", page, re.S | re.M)
    assert found is not None
    return found[1]


def tickets() -> list[dict[str, str]]:
    """Texts of the reviews."""
    file = TOP / "src" / "fanfold" / "apps" / "reviews" / "data" / "reviews.csv.gz"
    with gzip.open(file, "rt", encoding="utf-8", newline="") as lines:
        rows = list(islice(csv.DictReader(lines), TICKETS))
    return [{"id": f"t{n}", "text": row["text"]} for n, row in enumerate(rows)]


class Side(NamedTuple):
    """One of the two, in a folder: how it is started first, how after a kill, and what it says of cost."""

    name: str
    first: list[str]
    again: list[str]
    cost: str


FANFOLD = [sys.executable, "-c", "from fanfold.faces.cli.main import main; main()"]
SIDES = [
    Side(
        "DocETL", [str(ENVIRONMENTS / "docetl/bin/docetl"), "run", "pipeline.yaml"],
        [str(ENVIRONMENTS / "docetl/bin/docetl"), "run", "pipeline.yaml"],
        r"[Cc]ost:? *\$?[\d.]+",
    ),
    Side(
        "fanfold", [*FANFOLD, "run", "plan.yaml"], [*FANFOLD, "resume", "plan"],
        r"(?:cost|maybe paid twice:).*",
    ),
]  # fmt: skip


def prepare(folder: Path, server: RunningServer) -> None:
    rows = tickets()
    (folder / "tickets.json").write_text(json.dumps(rows))
    (folder / "tickets.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "pipeline.yaml").write_text(PIPELINE)
    (folder / "plan.yaml").write_text(plan())
    (folder / "roster.yaml").write_text(ROSTER.format(url=server.url))


def start(folder: Path, server: RunningServer, words: list[str]) -> subprocess.Popen[str]:
    packages = next((ENVIRONMENTS / "docetl/lib").glob("python*")) / "site-packages"
    env = {
        "PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": "", "OPENAI_API_KEY": "none",
        "OPENAI_API_BASE": f"{server.url}/v1", "OPENAI_BASE_URL": f"{server.url}/v1",
        "DOCETL_HOME_DIR": str(folder / "home"), "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "TIKTOKEN_CACHE_DIR": str(packages / "litellm/litellm_core_utils/tokenizers"),
    }  # fmt: skip
    if words[0] == sys.executable:
        env["PYTHONPATH"] = str(TOP / "src")
    else:
        words = [*words, "--max-threads", str(AT_ONCE)]
    return subprocess.Popen(
        words, cwd=folder, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip


def counted(server: RunningServer) -> str:
    server.wait_idle()
    books = server.books()
    return f"{len(books.asked)} calls, ${dollars(books.bill):.6f}"


def left_alone(side: Side) -> None:
    with tempfile.TemporaryDirectory() as name, served(Path(name)) as server:
        folder = Path(name) / "work"
        folder.mkdir()
        prepare(folder, server)
        for what in ("undisturbed", "run again"):
            out, _ = start(folder, server, side.first).communicate(timeout=900)
            said = re.findall(side.cost, out)[-2:] or out.strip().splitlines()[-3:]
            print(f"{side.name}, {what}: {counted(server)} in all; it says {said}", flush=True)


def killed(side: Side) -> None:
    with tempfile.TemporaryDirectory() as name, served(Path(name)) as server:
        folder = Path(name) / "work"
        folder.mkdir()
        prepare(folder, server)
        process = start(folder, server, side.first)
        wait_for(process, lambda: sum(e.answered for e in server.books().asked) >= KILL_AT)
        end(process)
        before = counted(server)
        out, _ = start(folder, server, side.again).communicate(timeout=900)
        said = re.findall(side.cost, out)[-2:] or out.strip().splitlines()[-3:]
        print(
            f"{side.name}, killed: {before}; resumed: {counted(server)} in all; it says {said}",
            flush=True,
        )


def served(folder: Path):  # type: ignore[no-untyped-def]
    books = folder / "books.jsonl"
    return running_server(books, script="readme_example:says", price=PRICE, latency_ms=LATENCY_MS)


def main() -> None:
    alone()
    for side in SIDES:
        left_alone(side)
        killed(side)


if __name__ == "__main__":
    main()
