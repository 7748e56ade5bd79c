"""Children that are measured: each sample runs in a process of its own, baseline and ours in turn."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent


class Sample(NamedTuple):
    """Seconds. `cpu` is user and system time of one process with its threads; `found` is what the
    job itself reports.
    """

    cpu: float
    wall: float
    found: dict[str, Any]


class Pair(NamedTuple):
    """What was measured in turn."""

    raw: list[Sample]
    ours: list[Sample]


Job = Callable[[], Sample]


def in_turn(raw: Job, ours: Job, runs: int) -> Pair:
    """Raw, ours, raw, ours, ...: what slows the machine down for a while slows both down."""
    pair = Pair([], [])
    for _ in range(runs):
        pair.raw.append(raw())
        pair.ours.append(ours())
    return pair


def median(samples: Sequence[Sample], value: Callable[[Sample], float]) -> float:
    return statistics.median(value(sample) for sample in samples)


def job(target: str, **arguments: Any) -> Job:
    """`module:function` of this folder, measured from inside its process, imports left out.

    It gets an empty `folder` of its own if it has no other, and its keyword arguments.
    """

    def run() -> Sample:
        with tempfile.TemporaryDirectory(prefix="fanfold-bench-") as folder:
            given = {"folder": folder, **arguments}
            command = [sys.executable, str(HERE / "child.py"), target, json.dumps(given)]
            begun = time.monotonic()
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        told = json.loads(done.stdout)
        return Sample(told["cpu"], told["wall"], {**told["found"], "begun": begun})

    return run


def program(command: Sequence[str], given: bytes = b"", folder: Path | None = None) -> Job:
    """Any program, measured from outside: its whole life, from its start on."""

    def run() -> Sample:
        with tempfile.TemporaryFile() as told:
            begun = time.monotonic()
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=told,
                cwd=folder,
                env={**os.environ, "PYTHONPATH": _import_path()},
            )
            assert process.stdin is not None
            process.stdin.write(given)
            process.stdin.close()
            _, status, used = os.wait4(process.pid, 0)
            wall = time.monotonic() - begun
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode != 0:
                told.seek(0)
                raise RuntimeError(f"{command} ended with {process.returncode}: {told.read()!r}")
        return Sample(used.ru_utime + used.ru_stime, wall, {})

    return run


def _import_path() -> str:
    """As it is here, also from another folder."""
    stated = os.environ.get("PYTHONPATH", "")
    return os.pathsep.join(os.path.abspath(part) for part in stated.split(os.pathsep) if part)
