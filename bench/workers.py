"""Asks through the queue: a run, two workers and PostgreSQL on this machine, with members of 50 ms."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from measure import Sample, median

CODE = """\
import asyncio

async def rate(review):
    await asyncio.sleep(0.05)
    return {"rating": review["rating"]}
"""
MEMBER = """\
members:
  - {{id: rules, kind: function, target: 'slow:rate', effects: true, concurrency: {}{}}}
"""
TICKS = os.sysconf("SC_CLK_TCK")


def used(pid: int) -> float:
    """Seconds of CPU of a process, with those of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) / TICKS


def used_below(pid: int) -> float:
    below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return used(pid) + sum(used_below(int(child)) for child in below)


@contextmanager
def worker(folder: Path, place: str) -> Iterator[int]:
    words = ["worker", "--queue", place, "--roster", "workers.yaml", "--slots", "32"]
    process = subprocess.Popen(
        [sys.executable, "-m", "fanfold", *words], cwd=folder, stderr=subprocess.PIPE
    )
    try:
        assert process.stderr is not None
        process.stderr.readline()
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


class Parties:
    """What one ask takes, in each of them."""

    def __init__(self, way: Any, server: Any) -> None:
        self._way, self._server = way, server

    def measured(self, items: int, at_once: int, workers: int) -> dict[str, float]:
        """Without workers the run asks by itself. Milliseconds, but for `rate`."""
        with tempfile.TemporaryDirectory(prefix="fanfold-bench-") as made, ExitStack() as stack:
            folder, place = Path(made), self._server.place()
            (folder / "slow.py").write_text(CODE)
            (folder / "workers.yaml").write_text(MEMBER.format(64, ""))
            roster = folder / "roster.yaml"
            roster.write_text(MEMBER.format(64, ", at: workers" if workers else ""))
            pids = [stack.enter_context(worker(folder, place)) for _ in range(workers)]
            before = sum(map(used, pids)), used_below(self._server.pid)
            work = self._way.job(
                "ours:rostered_map",
                folder=place,
                items=items,
                concurrency=at_once,
                roster=str(roster),
            )
            sample: Sample = work()
            after = sum(map(used, pids)), used_below(self._server.pid)
        each = 1e3 / items
        return {
            "rate": items / sample.found["took"], "run": sample.cpu * each,
            "workers": (after[0] - before[0]) * each, "server": (after[1] - before[1]) * each,
            "latency": sample.found["median"] * 1e3,
        }  # fmt: skip


def middle(found: list[dict[str, float]]) -> dict[str, float]:
    samples = [Sample(0.0, 0.0, one) for one in found]
    return {name: median(samples, lambda sample, n=name: sample.found[n]) for name in found[0]}  # type: ignore[misc]
