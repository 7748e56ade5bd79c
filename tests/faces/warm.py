"""`fanfold` without the time that imports take: forked from a Python that has done them already.

For what is run to its end, many times. Commands that are watched, signalled or killed are started
as their users start them; see `cli`.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple

CHILD = Path(__file__).with_name("warm_child.py")


class Call(NamedTuple):
    """`out` and `err` are files that are there."""

    folder: Path
    words: tuple[str, ...]
    env: dict[str, str]
    out: Path
    err: Path

    def encode(self) -> bytes:
        return json.dumps(self._asdict(), default=str).encode() + b"\n"


class Warm:
    """One at a time; whoever comes meanwhile is turned away."""

    def __init__(self, env: dict[str, str]) -> None:
        self._env = env
        self._process: subprocess.Popen[bytes] | None = None
        self._busy = threading.Lock()

    def run(self, call: Call, seconds: float) -> int | None:
        """The exit code; None if another one is under way. It is killed when the time is over."""
        if not self._busy.acquire(blocking=False):
            return None
        try:
            return self._carry_out(call, seconds)
        finally:
            self._busy.release()

    def _carry_out(self, call: Call, seconds: float) -> int:
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(call.encode())
        number = int(process.stdout.readline())
        in_time, _, _ = select.select([process.stdout], [], [], seconds)
        if not in_time:
            os.kill(number, signal.SIGKILL)
        code = int(process.stdout.readline())
        assert in_time, f"{call.words} took more than {seconds} s"
        return code

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, str(CHILD)], env=self._env, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, bufsize=0,
            )  # fmt: skip
            atexit.register(self._process.communicate)  # it ends when nobody can ask any more
        return self._process
