"""The supervisor of a fleet while twenty workers are at it: its share of a core, and its memory.

The workers are a stand-in for claude that speaks once a second, so what is measured is ours.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

WORKERS, SECONDS = 20, 20
TALKS = """\
#!{python}
import json, sys, time
sys.stdin.read()
usage = dict(input_tokens=100, output_tokens=20)
tell = lambda **event: print(json.dumps(dict(event, session_id="s")), flush=True)
tell(type="system", subtype="init", model="claude-sonnet-4-5", tools=[])
for n in range({seconds}):
    said = [dict(type="text", text=f"line {{n}} " + "word " * 50)]
    tell(type="assistant", message=dict(id=f"m{{n}}", model="claude-sonnet-4-5", content=said,
                                        usage=usage))
    time.sleep(1)
tell(type="result", subtype="success", is_error=False, result="done", num_turns=1,
     total_cost_usd=0.01, usage=usage, modelUsage=dict())
"""
TICKS = os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """`share` of a core in percent, `memory` in MB: of the supervisor, and of one worker's host."""

    share: float
    memory: float
    host_share: float
    host_memory: float


def measured(seconds: float = 10.0) -> Cost:
    with tempfile.TemporaryDirectory(prefix="fanfold-bench-") as folder:
        root = Path(folder, "fleet")
        program = _write(root)
        env = {**os.environ, "FANFOLD_CLAUDE": str(program), "XDG_STATE_HOME": folder}
        with _launched(root, env) as supervisor:
            hosts = _hosts(root)
            before, began = _cpu([supervisor, *hosts]), time.monotonic()
            time.sleep(seconds)
            after, passed = _cpu([supervisor, *hosts]), time.monotonic() - began
            used = {pid: 100 * (after[pid] - before[pid]) / passed for pid in after}
            spent = [used[pid] for pid in hosts]
            return Cost(used[supervisor], _megabytes(supervisor), sum(spent) / len(spent),
                        _megabytes(hosts[0]))  # fmt: skip


def _write(root: Path) -> Path:
    config = {"max_concurrent": WORKERS, "launch_delay_seconds": 0, "billing": "api"}
    workers = [{"id": f"w{n}", "type": "write", "task": "talk"} for n in range(WORKERS)]
    for worker in workers:
        home = root / "workers" / worker["id"]
        home.mkdir(parents=True)
        (home / "prompt.md").write_text(f"Talk, {worker['id']}.\n")
    made = {"fleet_name": "bench", "config": config, "workers": workers}
    (root / "fleet.json").write_text(json.dumps(made))
    program = root / "talks"
    program.write_text(TALKS.format(python=sys.executable, seconds=SECONDS + 10))
    program.chmod(0o755)
    return program


@contextmanager
def _launched(root: Path, env: dict[str, str]) -> Iterator[int]:
    """The supervisor's process, once all workers are at it. At the end nobody is left."""
    fanfold = [sys.executable, "-m", "fanfold"]
    words = ["launch", str(root), "--no-tmux", "--json"]
    told = subprocess.run([*fanfold, *words], env=env, check=True, capture_output=True).stdout
    try:
        deadline = time.monotonic() + 60
        while len(_hosts(root)) < WORKERS and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(2)
        yield int(json.loads(told)["pid"])
    finally:
        subprocess.run([*fanfold, "kill", str(root), "all", "--force"], env=env,
                       capture_output=True, check=True)  # fmt: skip


def _hosts(root: Path) -> list[int]:
    records = root.glob("workers/*/host.json")
    return [json.loads(record.read_text())["host"]["pid"] for record in records]


def _cpu(pids: list[int]) -> dict[int, float]:
    """Seconds of user and system time so far."""
    found = {}
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        found[pid] = (int(fields[11]) + int(fields[12])) / TICKS
    return found


def _megabytes(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1000


if __name__ == "__main__":
    print(measured())
